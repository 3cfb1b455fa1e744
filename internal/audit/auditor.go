package audit

import (
	"errors"
	"fmt"
	"time"
)

// Options say what an [Auditor] looks for, and with what means.
type Options struct {
	Sequence  bool   // duplicates, gaps and order breaks by producer id, epoch and sequence
	KeyHeader string // duplicates by the value of this header; empty: no such check
	Content   bool   // duplicates by key, value and headers

	// Window limits the checks by key and content: copies further apart in
	// their timestamps are no duplicates. 0: no limit.
	Window time.Duration

	Memory  int64  // bytes for the checks; the rest is sorted on disk
	TempDir string // for sorting on disk; empty: the system's
	Keep    int    // how many findings of each kind are named; all are counted
}

// minMemory is what one check needs at least to sort in reasonable steps.
const minMemory = 1 << 20

// Auditor looks through a log for duplicates, gaps and order breaks. It takes
// bounded memory: what the checks need of each record or batch is sorted on
// disk where it is too much, and looked at in the end.
type Auditor struct {
	opts   Options
	topic  *Topic
	marks  *spill[mark]
	keys   *spill[digest]
	bodies *spill[digest]
	hasher *hasher
	result Result
}

// NewAuditor prepares the audit of a topic's ranges. Close must be called.
func NewAuditor(t *Topic, o Options) (*Auditor, error) {
	var checks int64
	for _, on := range []bool{o.Sequence, o.KeyHeader != "", o.Content} {
		checks += count(on)
	}
	if checks == 0 {
		return nil, errors.New("audit: nothing to look for: no check is on")
	}
	memory := o.Memory / checks
	if memory < minMemory {
		return nil, fmt.Errorf("audit: %d bytes of memory are too little for %d checks, which need %d each", o.Memory, checks, minMemory)
	}
	a := &Auditor{opts: o, topic: t, hasher: newHasher(), result: Result{
		Topic: t.Name, Cleanup: t.Cleanup, Ranges: t.Ranges,
	}}
	if o.Sequence {
		a.marks = newMarkSpill(o.TempDir, memory)
	}
	if o.KeyHeader != "" {
		a.keys = newDigestSpill(o.TempDir, memory)
	}
	if o.Content {
		a.bodies = newDigestSpill(o.TempDir, memory)
	}
	return a, nil
}

func itemsIn(memory, size int64) int { return int(memory / size) }

// Add tells of the next batch.
func (a *Auditor) Add(b *Batch) error {
	a.result.Batches++
	if b.Marker != NoMarker {
		a.result.Markers++
		return nil
	}
	n := int64(len(b.Entries))
	a.result.Records += n
	if !b.sequenced() {
		a.result.Unsequenced += n
	} else if a.marks != nil {
		m := mark{b.ProducerID, b.BaseOffset, b.Partition, b.BaseSequence, b.LastSequence, b.Epoch}
		if err := a.marks.add(m); err != nil {
			return err
		}
	}
	switch {
	case b.Aborted:
		a.result.Aborted += n
		return nil // written again on purpose, as a rule
	case b.Open:
		a.result.Open += n
		return nil
	}
	for i := range b.Entries {
		if err := a.addEntry(&b.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *Auditor) addEntry(e *Entry) error {
	if a.bodies != nil {
		if err := a.bodies.add(a.hasher.content(e)); err != nil {
			return err
		}
	}
	if a.keys != nil {
		d, ok := a.hasher.key(e, a.opts.KeyHeader)
		if !ok {
			a.result.Keyless++
			return nil
		}
		return a.keys.add(d)
	}
	return nil
}

// Result judges what was added.
func (a *Auditor) Result() (*Result, error) {
	r := &a.result
	r.Moved = a.topic.Moved()
	found := newFindings(a.opts.Keep)
	if a.marks != nil {
		if err := a.judgeSequences(found); err != nil {
			return nil, err
		}
	}
	if a.keys != nil {
		if err := a.judgeDigests(found, a.keys, DuplicateByKey); err != nil {
			return nil, err
		}
	}
	if a.bodies != nil {
		if err := a.judgeDigests(found, a.bodies, DuplicateByContent); err != nil {
			return nil, err
		}
	}
	r.Counts = found.counts
	r.Findings = found.list()
	r.note(a.opts)
	return r, nil
}

func (a *Auditor) judgeSequences(found *findings) error {
	found.check(DuplicateBySequence, Gap, OrderBreak)
	s := &sequenceCheck{found: found, whole: make(map[int32]bool), newer: noOffset}
	for _, r := range a.topic.Ranges {
		s.whole[r.Partition] = r.Start == 0 && r.LogStart == 0 && !a.topic.Compacted()
	}
	for m, err := range a.marks.sorted() {
		if err != nil {
			return err
		}
		s.add(m)
	}
	s.finish()
	a.result.Sessions = s.sessions
	a.result.manyGaps = s.dropped
	a.result.Spilled += a.marks.written
	return a.marks.close()
}

func (a *Auditor) judgeDigests(found *findings, digests *spill[digest], kind FindingKind) error {
	found.check(kind)
	c := &digestCheck{kind: kind, window: a.opts.Window, found: found}
	for d, err := range digests.sorted() {
		if err != nil {
			return err
		}
		c.add(d)
	}
	a.result.Spilled += digests.written
	return digests.close()
}

// Close removes temporary files.
func (a *Auditor) Close() error {
	var errs []error
	if a.marks != nil {
		errs = append(errs, a.marks.close())
	}
	for _, s := range []*spill[digest]{a.keys, a.bodies} {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}
