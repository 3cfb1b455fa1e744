package audit

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// workload is a clean run: what clients sent, what the log holds, what they
// were told.
type workload struct {
	log  []Entry
	acks []Ack
}

func cleanWorkload(t *rapid.T) *workload {
	w := &workload{}
	next := map[string]int64{}
	offsets := map[int32]int64{}
	for range rapid.IntRange(1, 60).Draw(t, "records") {
		client := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client")
		p := rapid.Int32Range(0, 2).Draw(t, "partition")
		r := Record{client, next[client]}
		next[client]++
		offset := int64(-1)
		outcome := rapid.SampledFrom([]string{"acked", "acked", "acked", "acked, offset not told", "failed, stored", "failed, absent", "unanswered, stored"}).Draw(t, "outcome")
		if outcome != "failed, absent" {
			offset = offsets[p] + int64(rapid.IntRange(0, 1).Draw(t, "gap")) // a marker or a compacted record lies between
			offsets[p] = offset + 1
			w.log = append(w.log, Entry{Partition: p, Offset: offset, Value: r.Value(rapid.IntRange(0, 40).Draw(t, "size"))})
		}
		ack := Ack{Client: client, Seq: r.Seq, Partition: p, Offset: offset}
		switch outcome {
		case "unanswered, stored":
			continue
		case "acked, offset not told":
			ack.Offset = -1
		case "failed, stored", "failed, absent":
			ack.Error = "timed out"
		}
		w.acks = append(w.acks, ack)
	}
	return w
}

func (w *workload) check(t *rapid.T) *Report {
	h := NewHistory()
	for _, a := range w.acks {
		h.Ack(a)
	}
	// A client that was never answered is unknown to the history.
	for _, e := range w.log {
		r, _ := ParseRecord(e.Value)
		h.Ack(Ack{Client: r.Client, Seq: 1 << 50, Error: "the client exists"})
	}
	slices.SortStableFunc(w.log, func(a, b Entry) int { return int(a.Offset - b.Offset) })
	r := check(t, h, w.log)
	return r
}

// stored finds the log's entries of acknowledged records.
func (w *workload) acknowledged() (at []int) {
	for i, e := range w.log {
		r, _ := ParseRecord(e.Value)
		if slices.ContainsFunc(w.acks, func(a Ack) bool { return a.Record() == r && a.Error == "" }) {
			at = append(at, i)
		}
	}
	return at
}

// plants are faults, each planted once. They return what must be found, or
// false where the workload has no place for the fault.
var plants = map[FaultKind]func(*rapid.T, *workload) (Record, bool){
	Lost: func(t *rapid.T, w *workload) (Record, bool) {
		at := w.acknowledged()
		if len(at) == 0 {
			return Record{}, false
		}
		i := rapid.SampledFrom(at).Draw(t, "loses")
		r, _ := ParseRecord(w.log[i].Value)
		w.log = slices.Delete(w.log, i, i+1)
		return r, true
	},
	Duplicated: func(t *rapid.T, w *workload) (Record, bool) {
		if len(w.log) == 0 {
			return Record{}, false
		}
		e := rapid.SampledFrom(w.log).Draw(t, "doubles")
		e.Partition = rapid.Int32Range(0, 2).Draw(t, "into")
		e.Offset = 1000 // behind all others
		w.log = append(w.log, e)
		r, _ := ParseRecord(e.Value)
		return r, true
	},
	Reordered: func(t *rapid.T, w *workload) (Record, bool) {
		// Two neighbours of one client and partition change places, answers
		// and all.
		for i := range w.log {
			a, _ := ParseRecord(w.log[i].Value)
			for j := i + 1; j < len(w.log); j++ {
				b, _ := ParseRecord(w.log[j].Value)
				if w.log[i].Partition != w.log[j].Partition || a.Client != b.Client {
					continue
				}
				for k := range w.acks {
					if ack := &w.acks[k]; ack.Offset >= 0 && ack.Record() == a {
						ack.Offset = w.log[j].Offset
					} else if ack.Offset >= 0 && ack.Record() == b {
						ack.Offset = w.log[i].Offset
					}
				}
				w.log[i].Value, w.log[j].Value = w.log[j].Value, w.log[i].Value
				return a, true
			}
		}
		return Record{}, false
	},
	WrongOffset: func(t *rapid.T, w *workload) (Record, bool) {
		for i := range w.acks {
			if a := &w.acks[i]; a.Offset >= 0 && a.Error == "" {
				a.Offset += rapid.Int64Range(1, 5).Draw(t, "off by")
				return a.Record(), true
			}
		}
		return Record{}, false
	},
	AnswerOutOfOrder: func(t *rapid.T, w *workload) (Record, bool) {
		for i, a := range w.acks {
			for j, b := range w.acks[i+1:] {
				if a.Error == "" && b.Error == "" && a.Client == b.Client && a.Partition == b.Partition {
					w.acks = slices.Insert(w.acks, i+j+2, a)
					w.acks = slices.Delete(w.acks, i, i+1)
					return a.Record(), true
				}
			}
		}
		return Record{}, false
	},
	Corrupt: func(t *rapid.T, w *workload) (Record, bool) {
		for i := range w.log {
			e := &w.log[i]
			r, _ := ParseRecord(e.Value)
			if head := len(r.unit()); len(e.Value) > head {
				e.Value = slices.Clone(e.Value)
				e.Value[rapid.IntRange(head, len(e.Value)-1).Draw(t, "at")] ^= 1
				return r, true
			}
		}
		return Record{}, false
	},
}

// A clean run has no fault; a run with one planted fault has that fault, of
// that record, and no other.
func TestPlantedFaultsAreFound(t *testing.T) {
	kinds := slices.Sorted(maps.Keys(plants))
	planted := map[FaultKind]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := cleanWorkload(t)
		if r := w.check(t); !r.OK() {
			t.Fatalf("a clean run has faults:\n%v", r)
		}
		kind := rapid.SampledFrom(kinds).Draw(t, "fault")
		record, ok := plants[kind](t, w)
		if !ok {
			return
		}
		planted[kind]++
		r := w.check(t)
		if len(r.Faults) != 1 || r.Faults[0].Kind != kind || r.Faults[0].Record != record {
			t.Fatalf("planted %s of %v, found\n%v", kind, record, r)
		}
	})
	if len(planted) != len(kinds) && !t.Failed() {
		t.Errorf("not every fault was planted: %v", planted)
	}
	t.Log(fmt.Sprint(planted))
}
