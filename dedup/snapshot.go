package dedup

// Snapshot is what is kept of an idle window: its newest batch, as a broker's
// own snapshot keeps the newest batch of each producer. What was older than
// that is asked about. It holds only what stays true however old it is.
type Snapshot struct {
	Key         Key
	Offset      int64 // base offset of the newest batch
	First, Last int32
	CRC         uint32
	Since       int32 // the run from here to Last was seen stored, unbroken
	Leader      uint32
	Epoch       int16
}

func (w *window) snapshot() Snapshot {
	i := int(w.n) - 1
	return Snapshot{
		Key: w.key, Offset: w.offsets[i], First: w.firstOf(i), Last: w.lasts[i], CRC: w.crcs[i],
		Since: w.since, Leader: w.leader, Epoch: w.epoch,
	}
}

func (w *window) restore(s Snapshot) {
	w.epoch, w.first, w.since = s.Epoch, s.First, s.Since
	w.leader = s.Leader
	w.offsets[0], w.lasts[0], w.crcs[0], w.n = s.Offset, s.Last, s.CRC, 1
}

// Sweep gives up to limit windows that were last used before the given time,
// and have nothing in flight, to Demote, and returns how many. A window without
// flight is never lost for good: its batches are asked about.
func (t *Table) Sweep(before uint32, limit int) int {
	swept := 0
	for key, w := range t.windows {
		if swept == limit {
			break
		}
		if w.flight != nil || w.used >= before {
			continue
		}
		if w.n > 0 && t.opts.Demote != nil {
			t.opts.Demote(w.snapshot())
		}
		delete(t.windows, key)
		swept++
	}
	return swept
}
