package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parseLog reads lines "producer/epoch first-last"; each batch lies at the
// offset after the one before.
func parseLog(t *testing.T, text string) (marks []mark) {
	t.Helper()
	var offset int64
	for part := range strings.SplitSeq(text, ",") {
		var m mark
		if _, err := fmt.Sscanf(strings.TrimSpace(part), "%d/%d %d-%d", &m.producer, &m.epoch, &m.base, &m.last); err != nil {
			t.Fatalf("%q: %v", part, err)
		}
		m.offset = offset
		offset += m.records()
		marks = append(marks, m)
	}
	return marks
}

func checkSequences(t interface{ Fatal(...any) }, marks []mark, whole bool) *findings {
	found := newFindings(100)
	found.check(DuplicateBySequence, Gap, OrderBreak)
	s := &sequenceCheck{found: found, whole: map[int32]bool{0: whole}, newer: noOffset}
	sorter := newMarkSpill("", minMemory)
	for _, m := range marks {
		if err := sorter.add(m); err != nil {
			t.Fatal(err)
		}
	}
	for m, err := range sorter.sorted() {
		if err != nil {
			t.Fatal(err)
		}
		s.add(m)
	}
	s.finish()
	return found
}

func TestSequenceFindings(t *testing.T) {
	cases := []struct {
		name, log, want string
	}{
		{"clean", "1/0 0-4, 2/0 0-0, 1/0 5-9, 2/0 1-1", ""},
		{"the same batch again", "1/0 0-4, 1/0 0-4, 1/0 5-5", "duplicate by sequence: 0/5  first at 0/0  producer 1 epoch 0 sequence 0 to 4"},
		{"an older batch again", "1/0 0-0, 1/0 1-1, 1/0 2-2, 1/0 0-0", "duplicate by sequence: 0/3  first at 0/0  producer 1 epoch 0 sequence 0 to 0"},
		{"again, with new records behind", "1/0 0-4, 1/0 3-6, 1/0 7-7", "duplicate by sequence: 0/5  first at 0/0  producer 1 epoch 0 sequence 3 to 6  the batches overlap only in part"},
		{"a gap", "1/0 0-4, 1/0 8-9", "gap: 0/5  producer 1 epoch 0 sequence 5 to 7"},
		{"starts late", "1/0 2-4", "gap: 0/0  producer 1 epoch 0 sequence 0 to 1"},
		{"a batch comes late", "1/0 0-4, 1/0 8-9, 1/0 5-7", "order break: 0/7  producer 1 epoch 0 sequence 5 to 7  after later sequences"},
		{"half of a gap is filled late", "1/0 0-4, 1/0 8-9, 1/0 5-5",
			"gap: 0/5  producer 1 epoch 0 sequence 6 to 7; order break: 0/7  producer 1 epoch 0 sequence 5 to 5  after later sequences"},
		{"late, then twice", "1/0 0-0, 1/0 2-2, 1/0 1-1, 1/0 1-1",
			"duplicate by sequence: 0/3  first at 0/2  producer 1 epoch 0 sequence 1 to 1; order break: 0/2  producer 1 epoch 0 sequence 1 to 1  after later sequences"},
		{"the first batches change places", "1/0 1-1, 1/0 0-0", "order break: 0/1  producer 1 epoch 0 sequence 0 to 0  after later sequences"},
		{"a new epoch starts again", "1/0 0-4, 1/1 0-4, 1/1 5-5", ""},
		{"a new epoch, not from 0", "1/0 0-4, 1/1 5-5", "gap: 0/5  producer 1 epoch 1 sequence 0 to 4"},
		{"an old epoch after the new one", "1/0 0-4, 1/1 0-0, 1/0 5-5", "order break: 0/6  producer 1 epoch 0 sequence 5 to 5  after a newer epoch"},
		{"the same producer id after another", "1/0 0-0, 2/0 0-0, 1/0 1-1, 1/0 1-1", "duplicate by sequence: 0/3  first at 0/2  producer 1 epoch 0 sequence 1 to 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range checkSequences(t, parseLog(t, c.log), true).list() {
				got = append(got, fmt.Sprintf("%s: %v", f.Kind, f))
			}
			if got := strings.Join(got, "; "); got != c.want {
				t.Errorf("found\n%s\nnot\n%s", got, c.want)
			}
		})
	}
}

// 0 follows 2147483647 (KIP-98), also in the middle of a batch.
func TestSequencesWrap(t *testing.T) {
	cut := "1/0 2147483645-2147483647, 1/0 0-1, 1/0 2-2"
	if got := checkSequences(t, parseLog(t, cut), false).list(); len(got) > 0 {
		t.Errorf("found %v", got)
	}
	straddles := "1/0 2147483640-2147483645, 1/0 2147483646-3, 1/0 4-4, 1/0 2147483646-3"
	got := checkSequences(t, parseLog(t, straddles), false).list()
	if len(got) != 1 || got[0].Kind != DuplicateBySequence || got[0].Records != 6 || got[0].First.Offset != 6 {
		t.Errorf("found %v", got)
	}
	gap := "1/0 2147483640-2147483645, 1/0 2-2"
	got = checkSequences(t, parseLog(t, gap), false).list()
	if len(got) != 1 || got[0].Kind != Gap || got[0].Records != 4 || *got[0].Range != (Sequences{1, 0, 2147483646, 1}) {
		t.Errorf("found %v", got)
	}
}

// Where the log was cut off, a producer may start anywhere, but what came after
// is judged all the same.
func TestCutLogStartsAnywhere(t *testing.T) {
	got := checkSequences(t, parseLog(t, "1/0 7-9, 1/0 12-12, 1/0 3-3"), false)
	if got.counts[Gap].Records != 2 || got.counts[OrderBreak].Found != 1 || got.counts[DuplicateBySequence].Found != 0 {
		t.Errorf("found %v", got.list())
	}
}

// More open gaps than fit in memory are still counted.
func TestManyGaps(t *testing.T) {
	var marks []mark
	for i := range int32(maxUnseen + 100) {
		marks = append(marks, mark{base: 2 * i, last: 2 * i, offset: int64(i)})
	}
	if got := checkSequences(t, marks, true).counts[Gap].Found; got != maxUnseen+99 {
		t.Errorf("found %d gaps", got)
	}
}

// The check counts what a set of all sequences says, whatever the log.
func TestSequencesAgreeWithDumbTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var marks []mark
		for offset := range int64(rapid.IntRange(0, 20).Draw(t, "batches")) {
			base := rapid.Int32Range(0, 12).Draw(t, "base")
			marks = append(marks, mark{
				producer: rapid.Int64Range(1, 2).Draw(t, "producer"), epoch: rapid.Int16Range(0, 1).Draw(t, "epoch"),
				base: base, last: base + rapid.Int32Range(0, 3).Draw(t, "more"), offset: offset,
			})
		}
		found := checkSequences(t, marks, true)
		duplicates, late, missing, old := sequenceTwin(marks)
		got := []int64{found.counts[DuplicateBySequence].Records, found.counts[OrderBreak].Records, found.counts[Gap].Records}
		want := []int64{duplicates, late + old, missing}
		if !slices.Equal(got, want) {
			t.Fatalf("duplicates, order breaks and gaps are %v, the twin says %v", got, want)
		}
	})
}

func sequenceTwin(marks []mark) (duplicates, late, missing, old int64) {
	type session struct {
		producer int64
		epoch    int16
	}
	seen := map[session]map[int32]bool{}
	highest := map[session]int32{}
	for i, m := range marks {
		s := session{m.producer, m.epoch}
		if seen[s] == nil {
			seen[s] = map[int32]bool{}
			highest[s] = -1
		}
		high := highest[s]
		for q := m.base; q <= m.last; q++ {
			switch {
			case seen[s][q]:
				duplicates++
			case q < high:
				late++
			}
			seen[s][q] = true
			highest[s] = max(highest[s], q)
		}
		if slices.ContainsFunc(marks[:i], func(o mark) bool { return o.producer == m.producer && o.epoch > m.epoch }) {
			old += m.records()
		}
	}
	for s, high := range highest {
		for q := range high {
			if !seen[s][q] {
				missing++
			}
		}
	}
	return duplicates, late, missing, old
}
