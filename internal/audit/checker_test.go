package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// log builds entries of one partition from "client:seq" words.
func entries(partition int32, words string) []Entry {
	var es []Entry
	for i, w := range strings.Fields(words) {
		es = append(es, Entry{Partition: partition, Offset: int64(i), Value: []byte(w)})
	}
	return es
}

func check(t interface{ Fatal(...any) }, h *History, log []Entry) *Report {
	c, err := NewChecker(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log {
		c.Add(e)
	}
	return c.Report()
}

// Each case is one thing that can go wrong, and what the checker says of it.
func TestCheckerSays(t *testing.T) {
	ack := func(seq int64, offset int64) Ack { return Ack{Client: "a", Seq: seq, Offset: offset} }
	cases := []struct {
		name  string
		acks  []Ack
		log   string
		fault string
	}{
		{"clean", []Ack{ack(0, 0), ack(1, 1)}, "a:0 a:1", ""},
		{"lost", []Ack{ack(0, 0), ack(1, 1)}, "a:0", "lost: a #1 acknowledged at 0/1"},
		{"twice", []Ack{ack(0, 0)}, "a:0 a:0", "duplicated: a #0 stored at 0/0 and 0/1"},
		{"three times", []Ack{ack(0, 1)}, "a:0 a:0 a:0",
			"duplicated: a #0 stored at 0/0 and 0/1; duplicated: a #0 stored at 0/0 and 0/2"},
		{"reordered", []Ack{ack(0, 1), ack(1, 0)}, "a:1 a:0", "reordered: a #0 stored at 0/1: stored after #1"},
		{"wrong offset", []Ack{ack(0, 1)}, "a:0 b:0", "wrong offset: a #0 acknowledged at 0/1 stored at 0/0"},
		{"wrong partition", []Ack{{Client: "a", Partition: 3}}, "a:0", "wrong offset: a #0 acknowledged at 3/0 stored at 0/0"},
		{"the retry's answer names another place", []Ack{ack(0, 0), ack(0, 7)}, "a:0", "wrong offset: a #0 acknowledged at 0/7 stored at 0/0"},
		{"answers out of order", []Ack{ack(1, 1), ack(0, 0)}, "a:0 a:1", "answer out of order: a #0 acknowledged at 0/0: answered after #1"},
		{"offset not told", []Ack{ack(0, -1)}, "a:0", ""},
		{"lost, offset not told", []Ack{ack(0, -1)}, "", "lost: a #0 acknowledged at 0/-1"},
		{"failed, and absent", []Ack{{Client: "a", Error: "timed out"}}, "", ""},
		{"failed, yet stored", []Ack{{Client: "a", Error: "timed out"}}, "a:0", ""},
		{"failed, then acknowledged, then lost", []Ack{{Client: "a", Error: "timed out"}, ack(0, 0)}, "", "lost: a #0 acknowledged at 0/0"},
		{"of another workload", []Ack{ack(0, 1)}, "x a:0", ""},
		{"padding from elsewhere", []Ack{ack(0, 0)}, "a:0:a:0:a:1", "corrupt: a #0 stored at 0/0: a #0: the padding at byte 8 is \"a:1\", not \"a:0:\" repeated"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := NewHistory()
			for _, a := range c.acks {
				h.Ack(a)
			}
			var got []string
			r := check(t, h, entries(0, c.log))
			for _, f := range r.Faults {
				got = append(got, fmt.Sprintf("%s: %v", f.Kind, f))
			}
			if got := strings.Join(got, "; "); got != c.fault {
				t.Errorf("the faults are\n%s\nnot\n%s", got, c.fault)
			}
			if r.OK() != (c.fault == "") {
				t.Errorf("OK is %v", r.OK())
			}
		})
	}
}

func TestCheckerKnowsSends(t *testing.T) {
	h := NewHistory()
	for seq := range int64(3) {
		h.Sent(Record{"a", seq})
	}
	h.Ack(Ack{Client: "a", Seq: 0, Offset: 0})
	h.Ack(Ack{Client: "a", Seq: 1, Error: "no"})
	r := check(t, h, entries(0, "a:0 a:1 a:9"))
	if r.Sent != 3 || r.Acked != 1 || r.Failed != 1 || r.Unanswered != 1 || r.NeverSent != 1 || r.UnackedStored != 2 {
		t.Error(r)
	}
}

func TestAbortedEntriesAreNotStored(t *testing.T) {
	h := NewHistory()
	h.Ack(Ack{Client: "a", Seq: 0, Offset: 1})
	log := entries(0, "a:0 a:0")
	log[0].Aborted = true
	if r := check(t, h, log); !r.OK() || r.Aborted != 1 || r.Stored != 1 {
		t.Error(r)
	}
}

// The checker counts what a slow and simple reading of the definitions counts,
// whatever the history and the log.
func TestCheckerAgreesWithDumbTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHistory()
		acks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Ack {
			return Ack{
				Client:    rapid.SampledFrom([]string{"a", "b"}).Draw(t, "client"),
				Seq:       rapid.SampledFrom([]int64{0, 1, 2, 3, 511, 512, 1 << 40}).Draw(t, "seq"),
				Partition: rapid.Int32Range(0, 1).Draw(t, "partition"),
				Offset:    rapid.Int64Range(-1, 6).Draw(t, "offset"),
				Error:     rapid.SampledFrom([]string{"", "", "no"}).Draw(t, "error"),
			}
		}), 0, 12).Draw(t, "acks")
		for _, a := range acks {
			h.Ack(a)
		}
		var log []Entry
		for p := range int32(2) {
			log = append(log, entries(p, strings.Join(rapid.SliceOfN(rapid.SampledFrom(
				[]string{"a:0", "a:1", "a:2", "a:511", "a:512", "b:0", "b:1", "c:0", "junk", "a:1:a:2"}), 0, 8).Draw(t, "log"), " "))...)
		}
		got, want := check(t, h, log), dumbTwin(acks, log)
		got.Faults = nil
		if gotS, wantS := got.String(), want.String(); gotS != wantS {
			t.Fatalf("the checker says\n%s\nthe twin says\n%s", gotS, wantS)
		}
	})
}

// dumbTwin judges by looping over everything again and again.
func dumbTwin(acks []Ack, log []Entry) *Report {
	r := &Report{}
	known := func(client string) bool {
		return slices.ContainsFunc(acks, func(a Ack) bool { return a.Client == client })
	}
	name := func(e Entry) Record {
		got, _ := ParseRecord(e.Value)
		return got
	}
	copies := func(x Record) (es []Entry) {
		for _, e := range log {
			if name(e) == x {
				es = append(es, e)
			}
		}
		return es
	}
	answers := func(x Record) (good, bad []Ack) {
		for _, a := range acks {
			if a.Record() == x && a.Error == "" {
				good = append(good, a)
			} else if a.Record() == x {
				bad = append(bad, a)
			}
		}
		return good, bad
	}
	var all []Record
	var clients []string
	for _, a := range acks {
		all = append(all, a.Record())
		clients = append(clients, a.Client)
	}
	for i, e := range log {
		x := name(e)
		if x.Client == "" || !known(x.Client) {
			r.Foreign++
			continue
		}
		all = append(all, x)
		r.Stored++
		if _, err := ParseRecord(e.Value); err != nil {
			r.Corrupt++
		}
		earlier := func(f func(Entry) bool) bool { return slices.ContainsFunc(log[:i], f) }
		if earlier(func(o Entry) bool { return name(o) == x }) {
			r.Duplicated++
		} else if earlier(func(o Entry) bool {
			return o.Partition == e.Partition && name(o).Client == x.Client && name(o).Seq > x.Seq &&
				copies(name(o))[0].Partition == e.Partition
		}) {
			r.Reordered++
		}
	}
	slices.Sort(clients)
	r.Clients = int64(len(slices.Compact(clients)))
	for i, x := range all {
		if slices.Contains(all[:i], x) {
			continue
		}
		good, bad := answers(x)
		stored := copies(x)
		if len(good) > 0 {
			r.Acked++
		} else if len(bad) > 0 {
			r.Failed++
		}
		if len(good)+len(bad) > 0 {
			r.Sent++
		}
		if len(stored) == 0 {
			if len(good) > 0 {
				r.Lost++
			}
			continue
		}
		r.Distinct++
		if len(good) == 0 {
			r.UnackedStored++
		}
		for _, a := range good {
			if a.Offset < 0 {
				r.UnknownOffset++
			} else if !slices.ContainsFunc(stored, func(e Entry) bool { return e.Place() == Place{a.Partition, a.Offset} }) {
				r.WrongOffset++
			}
		}
	}
	for i, a := range acks {
		first := func(j int) bool {
			return acks[j].Error == "" && !slices.ContainsFunc(acks[:j], func(o Ack) bool { return o.Record() == acks[j].Record() && o.Error == "" })
		}
		if !first(i) {
			continue
		}
		for j := range acks[:i] {
			if first(j) && acks[j].Client == a.Client && acks[j].Partition == a.Partition && acks[j].Seq > a.Seq {
				r.AnswersOutOfOrder++
				break
			}
		}
	}
	return r
}
