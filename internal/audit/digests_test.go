package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func checkDigests(t interface{ Fatal(...any) }, es []Entry, window time.Duration) *findings {
	found := newFindings(100)
	found.check(DuplicateByContent)
	c := &digestCheck{kind: DuplicateByContent, window: window, found: found}
	sorter := newDigestSpill("", minMemory)
	h := newHasher()
	for i := range es {
		if err := sorter.add(h.content(&es[i])); err != nil {
			t.Fatal(err)
		}
	}
	for d, err := range sorter.sorted() {
		if err != nil {
			t.Fatal(err)
		}
		c.add(d)
	}
	return found
}

// Records are equal only if key, value and headers are, null and empty told
// apart, and no byte can move from one part to the next.
func TestContentTellsRecordsApart(t *testing.T) {
	different := []Entry{
		{}, {Key: []byte{}}, {Value: []byte{}}, {Key: []byte{}, Value: []byte{}},
		{Key: []byte("ab"), Value: []byte("c")}, {Key: []byte("a"), Value: []byte("bc")}, {Key: []byte("abc")}, {Value: []byte("abc")},
		{Headers: []Header{{"k", []byte("v")}}}, {Headers: []Header{{"kv", nil}}}, {Headers: []Header{{"kv", []byte{}}}},
		{Headers: []Header{{"a", []byte("1")}, {"b", []byte("2")}}}, {Headers: []Header{{"b", []byte("2")}, {"a", []byte("1")}}},
	}
	for i := range different {
		different[i].Offset = int64(i)
	}
	if got := checkDigests(t, different, 0).list(); len(got) > 0 {
		t.Errorf("different records count as duplicates: %v", got)
	}
	if got := checkDigests(t, append(slices.Clone(different), different...), 0).counts[DuplicateByContent].Found; got != int64(len(different)) {
		t.Errorf("%d of %d duplicates were found", got, len(different))
	}
}

func TestWindow(t *testing.T) {
	var es []Entry
	for i, second := range []int64{0, 3, 6, 20} {
		es = append(es, Entry{Offset: int64(i), Timestamp: second * 1000, Value: []byte("x")})
	}
	for window, want := range map[time.Duration]string{
		0:               "[0/1  first at 0/0 0/2  first at 0/0 0/3  first at 0/0]",
		2 * time.Second: "[]",
		3 * time.Second: "[0/1  first at 0/0 0/2  first at 0/1]", // each copy is near the one before it
		time.Hour:       "[0/1  first at 0/0 0/2  first at 0/1 0/3  first at 0/2]",
	} {
		if got := fmt.Sprint(checkDigests(t, es, window).list()); got != want {
			t.Errorf("within %v: found %s, not %s", window, got, want)
		}
	}
}

// A record counts as a duplicate as often as an earlier one is equal to it.
func TestContentAgreesWithDumbTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var es []Entry
		want := int64(0)
		for i, v := range rapid.SliceOfN(rapid.StringMatching(`[ab]{0,3}`), 0, 30).Draw(t, "values") {
			if slices.ContainsFunc(es, func(e Entry) bool { return string(e.Value) == v }) {
				want++
			}
			es = append(es, Entry{Offset: int64(i), Partition: int32(i % 3), Value: []byte(v)})
		}
		if got := checkDigests(t, es, 0).counts[DuplicateByContent].Found; got != want {
			t.Fatalf("%d duplicates, the twin counts %d", got, want)
		}
	})
}

func TestKeyHeader(t *testing.T) {
	h := newHasher()
	e := &Entry{Headers: []Header{{"id", []byte("1")}, {"id", []byte("2")}, {"other", nil}, {"idx", []byte("3")}}}
	two, _ := h.key(&Entry{Headers: []Header{{"id", []byte("2")}}}, "id")
	if d, ok := h.key(e, "id"); !ok || d != two {
		t.Error("the last header of the name should count")
	}
	for _, name := range []string{"ID", "i", "other", ""} {
		if _, ok := h.key(e, name); ok {
			t.Errorf("header %q was found", name)
		}
	}
}
