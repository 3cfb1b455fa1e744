package dedup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Long random walks through a larger world: several producers, more batches,
// cuts, errors, restarts of Oncegate and of the broker, and evictions. The
// invariants of world.fault hold in every state; and once the faults end every
// producer gets every batch acknowledged, but for those that are hopeless with
// Kafka itself.
func TestRandomWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.IntRange(1, 3).Draw(t, "clients"), rapid.IntRange(3, 12).Draw(t, "batches"), 1000, rapid.IntRange(1, 3).Draw(t, "records"), rapid.IntRange(1, MaxInFlight).Draw(t, "pipeline"))
		w.cuts, w.faults = rapid.IntRange(0, 12).Draw(t, "cuts"), rapid.IntRange(0, 12).Draw(t, "faults")
		w.restarts, w.evicts = rapid.IntRange(0, 3).Draw(t, "restarts"), rapid.IntRange(0, 5).Draw(t, "evictions")
		w.reboots = rapid.IntRange(0, 2).Draw(t, "reboots")
		if rapid.Bool().Draw(t, "cold") {
			w.useCold()
		}
		var story []string
		for step := 0; ; step++ {
			actions := w.actions()
			if len(actions) == 0 {
				break
			}
			if step == 600 { // from here on nothing goes wrong any more
				w.cuts, w.faults, w.restarts, w.evicts, w.reboots = 0, 0, 0, 0, 0
				continue
			}
			if step > 600 && w.onlyHopelessLeft() {
				break
			}
			a := actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")]
			story = append(story, a.name)
			a.do(w)
			if fault := w.fault(); fault != "" {
				t.Fatalf("%s after\n  %s", fault, strings.Join(story, "\n  "))
			}
			if step > 20_000 {
				t.Fatalf("no end after\n  %s", strings.Join(story, "\n  "))
			}
		}
		for ci, c := range w.clients {
			if w.blockedByHopeless(ci) {
				continue
			}
			for b := range c.batches {
				if c.batches[b].state != acked {
					t.Fatalf("batch %d of client %d is never acknowledged:\n  %s", b, ci, strings.Join(story, "\n  "))
				}
			}
		}
	})
}

// hopeless says that a batch is stored, unacknowledged, and further back than
// the five that a broker knows: after repeated time-outs that happens without
// a proxy, too, and the broker answers its retry OUT_OF_ORDER_SEQUENCE_NUMBER.
func (w *world) hopeless(ci, b int) bool {
	c := w.clients[ci]
	s := w.broker.producers[c.pid]
	return s != nil && len(s.batches) > 0 && c.batches[b].state != acked && c.batches[b].last < s.batches[0].first
}

// blockedByHopeless says that a client's first unacknowledged batch is hopeless.
func (w *world) blockedByHopeless(ci int) bool {
	for b := range w.clients[ci].batches {
		if w.clients[ci].batches[b].state != acked {
			return w.hopeless(ci, b)
		}
	}
	return false
}

// onlyHopelessLeft says that every client is done or blocked so.
func (w *world) onlyHopelessLeft() bool {
	for ci, c := range w.clients {
		done := !slices.ContainsFunc(c.batches, func(b clientBatch) bool { return b.state != acked })
		if !done && !w.blockedByHopeless(ci) {
			return false
		}
	}
	return true
}

// useCold keeps evicted windows' snapshots.
func (w *world) useCold() {
	w.cold = make(map[Key]Snapshot)
	w.table = NewTable(Options{
		Demote: func(s Snapshot) { w.cold[s.Key] = s },
		Recall: func(k Key) (Snapshot, bool) {
			s, ok := w.cold[k]
			delete(w.cold, k)
			return s, ok
		},
	})
}

// ahead and next against plain arithmetic on an unwrapped line.
func TestSequenceArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(0, 1<<33).Draw(t, "at")
		by := rapid.Int64Range(-(1<<30)+1, 1<<30-1).Draw(t, "by")
		if at+by < 0 {
			t.Skip()
		}
		a, b := int32(at&sequenceMask), int32((at+by)&sequenceMask)
		if got := ahead(a, b); int64(got) != by {
			t.Fatalf("ahead(%d, %d) = %d, want %d", a, b, got, by)
		}
		if by == 1 && next(a) != b {
			t.Fatal(fmt.Sprint("next of ", a, " is ", next(a)))
		}
	})
}

// Far along a run that has wrapped, the window's own arithmetic holds.
func TestLongRun(t *testing.T) {
	table := NewTable(Options{})
	const step = 1 << 20
	key := Key{Topic: 1, ProducerID: 1}
	first := int32(0)
	var previous Batch
	for i := range 5000 { // twice around 2^31
		last := int32((uint32(first) + step - 1) & sequenceMask)
		b := Batch{Key: key, First: first, Last: last, Link: 1, Leader: 1}
		v := table.Submit(&b, 0)
		if v.Kind != Forward {
			t.Fatalf("batch %d: %+v", i, v)
		}
		table.Stored(v.Ticket, int64(i)*step, 0, nil)
		if i > 0 {
			if v := table.Submit(&previous, 0); v.Kind != Duplicate || v.Offset != int64(i-1)*step {
				t.Fatalf("the retry of batch %d: %+v", i-1, v)
			}
		}
		previous = b
		first = next(last)
	}
}
