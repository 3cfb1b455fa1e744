package dedup

// Table holds the windows of many producers and partitions.
type Table struct {
	opts    Options
	windows map[Key]*window
	free    []*flight // flights to use again, so that the hot path allocates nothing
	nextID  uint64
	stats   Stats
}

// Stats counts what a table did since it was made.
type Stats struct {
	Windows int    // windows held now
	Hits    uint64 // batches whose window was held
	Recalls uint64 // batches whose window came back from its snapshot
	Misses  uint64 // batches of which nothing was known
}

// NewTable returns an empty table.
func NewTable(opts Options) *Table {
	return &Table{opts: opts, windows: make(map[Key]*window)}
}

// Stats returns the table's counters.
func (t *Table) Stats() Stats {
	s := t.stats
	s.Windows = len(t.windows)
	return s
}

// Submit asks what to do with b. The clock now is in seconds since any fixed
// moment; it only orders windows by age.
func (t *Table) Submit(b *Batch, now uint32) Verdict {
	if b.First < 0 || b.Last < 0 || b.ProducerID < 0 {
		panic("dedup: a batch without producer id and sequence can't be tracked")
	}
	w := t.window(b.Key)
	w.used = now
	if f := w.flight; f != nil && f.n > 0 {
		return t.submitBehind(w, f, b)
	}
	switch {
	case w.refused && b.Epoch == w.epoch && ahead(w.expected(), b.First) > 0:
		return Verdict{Kind: Refuse, Code: CodeOutOfOrderSequence}
	case w.n == 0 || b.Epoch > w.epoch:
		// Nothing is known, or nothing of this epoch: the broker decides. While
		// it does, the producer's next batch is held back: a broker without
		// state would take any sequence, and a first batch that failed could
		// then never be stored (KAFKA-15591).
		return t.forward(w, b, true)
	case b.Epoch < w.epoch:
		return Verdict{Kind: Refuse, Code: CodeInvalidProducerEpoch}
	case b.First == w.expected():
		// Another leader may have no state of the producer: then this is a
		// first batch once more.
		return t.forward(w, b, w.leader != b.Leader)
	case ahead(w.last(), b.First) > 0:
		// The missing range never came by here, or its outcome is unknown. The
		// broker may have it.
		return t.forward(w, b, true)
	default:
		return t.submitOld(w, b)
	}
}

// submitBehind decides on a batch while others of its producer are in flight.
func (t *Table) submitBehind(w *window, f *flight, b *Batch) Verdict {
	tail := f.batches[f.n-1].last
	switch {
	case b.Epoch != f.epoch, f.find(b.First, b.Last) >= 0:
		return f.wait(b.Link)
	case b.Epoch == w.epoch && w.n > 0 && ahead(w.last(), b.Last) <= 0:
		return t.submitOld(w, b)
	case b.Link != f.link, f.asking, w.n == 0, f.n == MaxInFlight, b.First != next(tail):
		return f.wait(b.Link)
	default:
		return t.forward(w, b, false)
	}
}

// submitOld decides on a batch of the window's epoch that starts at or before
// the newest stored sequence.
func (t *Table) submitOld(w *window, b *Batch) Verdict {
	seen := ahead(w.since, b.First) >= 0
	if !seen {
		if f := w.flight; f != nil && f.n > 0 {
			return f.wait(b.Link)
		}
		return t.forward(w, b, true)
	}
	if w.leader != b.Leader {
		return Verdict{Kind: Verify}
	}
	if i := w.find(b.First, b.Last); i >= 0 {
		reused := w.crcs[i] != b.CRC
		if reused && t.opts.RefuseReuse {
			return Verdict{Kind: Refuse, Code: CodeInvalidRecord, Reused: true}
		}
		return Verdict{Kind: Duplicate, Offset: w.offsets[i], Reused: reused}
	}
	stale := ahead(b.Last, w.first) > 0
	if stale && !t.opts.RefuseStale {
		return Verdict{Kind: Duplicate, Offset: -1}
	}
	return Verdict{Kind: Refuse, Code: CodeOutOfOrderSequence}
}

func (t *Table) forward(w *window, b *Batch, asking bool) Verdict {
	f := w.flight
	if f == nil {
		f = t.newFlight()
		w.flight = f
	}
	if f.n == 0 {
		f.epoch, f.link, f.leader, f.asking = b.Epoch, b.Link, b.Leader, asking
	}
	t.nextID++
	f.batches[f.n] = inFlight{id: t.nextID, first: b.First, last: b.Last, crc: b.CRC}
	f.n++
	return Verdict{Kind: Forward, Ticket: Ticket{w: w, id: t.nextID}}
}

func (f *flight) wait(link Link) Verdict {
	f.waiting = append(f.waiting, link)
	return Verdict{Kind: Wait}
}

// Stored says that a broker answered the ticket's batch with no error and this
// base offset (−1 where the broker did not say). It appends to wake the links
// that should submit again, as all events do.
func (t *Table) Stored(k Ticket, offset int64, now uint32, wake []Link) []Link {
	w, f := k.w, k.w.flight
	b := f.take(k.id)
	w.store(&b, f.epoch, offset, f.leader)
	return t.settle(w, now, wake)
}

// Failed says that a broker answered the ticket's batch with an error code.
func (t *Table) Failed(k Ticket, code int16, now uint32, wake []Link) []Link {
	w, f := k.w, k.w.flight
	b := f.take(k.id)
	switch code {
	case CodeRequestTimedOut, CodeNotEnoughAfterAppend:
		// It is in the leader's log, though maybe not for good: in doubt.
		w.doubt(&b, f.epoch)
	case CodeUnknownTopicOrPartition, CodeUnknownTopicID, CodeUnknownProducerID:
		w.forget()
	case CodeNotLeader:
		// Whoever leads now, or here again later, may have lost something.
		w.leader = noLeader
		w.refuse(&b, f.epoch)
	case CodeOutOfOrderSequence, CodeInvalidProducerEpoch:
		if w.follows(&b, f.epoch) {
			w.forget() // the broker knows better: what the window held is out of date
		}
	default:
		w.refuse(&b, f.epoch)
	}
	return t.settle(w, now, wake)
}

// Lost says that the ticket's batch was sent and that its answer will never
// come. It may be stored already, or be stored later: in doubt. A retry is
// forwarded, and the broker tells.
func (t *Table) Lost(k Ticket, now uint32, wake []Link) []Link {
	w, f := k.w, k.w.flight
	b := f.take(k.id)
	w.doubt(&b, f.epoch)
	return t.settle(w, now, wake)
}

// Withdraw says that the ticket's batch was never sent after all.
func (t *Table) Withdraw(k Ticket, now uint32, wake []Link) []Link {
	k.w.flight.take(k.id)
	return t.settle(k.w, now, wake)
}

// Confirm settles a Verify: under leadership leader, the broker has the
// producer at this epoch and last sequence. What the window holds beyond that
// was truncated, and is forgotten.
func (t *Table) Confirm(key Key, leader uint32, epoch int16, last int32) {
	w := t.windows[key]
	if w == nil {
		return
	}
	if epoch == w.epoch {
		w.truncate(last)
		w.leader = leader
	} else {
		w.forget()
	}
	t.release(w)
}

// Forget drops what is known of the key: the broker has nothing of it, or
// can't tell. Its batches are asked about from now on.
func (t *Table) Forget(key Key) {
	if w := t.windows[key]; w != nil {
		w.forget()
		t.release(w)
	}
}

// release lets go of a window that neither knows nor awaits anything.
func (t *Table) release(w *window) {
	if w.n == 0 && !w.refused && w.flight == nil {
		delete(t.windows, w.key)
	}
}

// settle ends every event on w: the waiting are woken, and what holds nothing
// is let go.
func (t *Table) settle(w *window, now uint32, wake []Link) []Link {
	w.used = now
	f := w.flight
	wake = append(wake, f.waiting...)
	f.waiting = f.waiting[:0]
	if f.n > 0 {
		return wake
	}
	w.flight = nil
	t.free = append(t.free, f)
	t.release(w)
	return wake
}

func (t *Table) newFlight() *flight {
	if n := len(t.free); n > 0 {
		f := t.free[n-1]
		t.free = t.free[:n-1]
		return f
	}
	return new(flight)
}

// window finds what is known of key: held, recalled from its snapshot, or new.
func (t *Table) window(key Key) *window {
	if w := t.windows[key]; w != nil {
		t.stats.Hits++
		return w
	}
	w := &window{key: key}
	t.windows[key] = w
	if t.opts.Recall != nil {
		if s, ok := t.opts.Recall(key); ok {
			t.stats.Recalls++
			w.restore(s)
			return w
		}
	}
	t.stats.Misses++
	return w
}
