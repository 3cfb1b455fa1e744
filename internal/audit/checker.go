package audit

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Checker compares a log with a history. It needs about 50 bytes of memory a
// record.
type Checker struct {
	clients map[string]*client
	at      map[int32]int64  // next offset to come, by partition
	highest map[stream]int64 // highest sequence number seen in the log
	sends   bool             // the history tells of sends
	report  Report
}

// stream is what order is promised for: one client's records in a partition.
type stream struct {
	client    string
	partition int32
}

// NewChecker reads the history, which must not grow any more.
func NewChecker(h *History) (*Checker, error) {
	c := &Checker{
		clients: make(map[string]*client),
		at:      make(map[int32]int64),
		highest: make(map[stream]int64),
	}
	answered := make(map[stream]int64) // highest acknowledged sequence number
	err := h.each(func(e event) error { return c.learn(e, answered) })
	if err != nil {
		return nil, err
	}
	c.report.HistoryTorn = h.Torn()
	return c, nil
}

func (c *Checker) learn(e event, answered map[stream]int64) error {
	if e.Client == "" || e.Seq < 0 {
		return fmt.Errorf("client %q seq %d: a record has a client and a seq that isn't negative", e.Client, e.Seq)
	}
	r := Record{e.Client, e.Seq}
	f := c.fate(r)
	switch {
	case e.Event == eventSent:
		c.sends = true
		f.sent = true
	case e.Error != "":
		f.failed = true
	case f.acked:
		// Answered again: the answer to a retry, say. It must name a true place
		// as well.
		c.client(r).more[r.Seq] = append(c.client(r).more[r.Seq], answer{place: Place{e.Partition, e.Offset}})
	default:
		f.acked, f.answer = true, answer{place: Place{e.Partition, e.Offset}}
		s := stream{e.Client, e.Partition}
		if high, ok := answered[s]; ok && e.Seq < high {
			c.report.add(Fault{Kind: AnswerOutOfOrder, Record: r, Acked: copyOf(f.answer.place),
				Detail: fmt.Sprintf("answered after #%d", high)})
		} else {
			answered[s] = e.Seq
		}
	}
	return nil
}

// Add tells of the log's next entry. Within a partition entries come in the
// order of their offsets. The entry's bytes are not kept.
func (c *Checker) Add(e Entry) {
	if next, ok := c.at[e.Partition]; ok && e.Offset < next {
		panic(fmt.Sprintf("audit: entry %v after offset %d", e.Place(), next-1))
	}
	c.at[e.Partition] = e.Offset + 1

	r, err := ParseRecord(e.Value)
	switch {
	case r.Client == "" || c.clients[r.Client] == nil:
		c.report.Foreign++
		return
	case e.Aborted:
		c.report.Aborted++
		return
	case err != nil:
		place := e.Place()
		c.report.add(Fault{Kind: Corrupt, Record: r, Stored: []Place{place}, Detail: err.Error()})
	}
	c.report.Stored++
	f := c.fate(r)
	f.copies++
	for a := range c.client(r).answers(f, r.Seq) {
		a.true = a.true || a.place == e.Place()
	}
	if f.copies > 1 {
		c.report.add(Fault{Kind: Duplicated, Record: r, Stored: []Place{f.first, e.Place()}})
		return
	}
	f.first = e.Place()
	s := stream{r.Client, e.Partition}
	if high, ok := c.highest[s]; ok && r.Seq < high {
		c.report.add(Fault{Kind: Reordered, Record: r, Stored: []Place{f.first},
			Detail: fmt.Sprintf("stored after #%d", high)})
	} else {
		c.highest[s] = r.Seq
	}
}

// AddAll adds the entries of a log.
func (c *Checker) AddAll(log iter.Seq2[Entry, error]) error {
	for e, err := range log {
		if err != nil {
			return err
		}
		c.Add(e)
	}
	return nil
}

// Report judges what was added. The checker can't be used any more.
func (c *Checker) Report() *Report {
	for _, name := range slices.Sorted(maps.Keys(c.clients)) {
		cl := c.clients[name]
		c.report.Clients++
		for _, n := range slices.Sorted(maps.Keys(cl.chunks)) {
			chunk := cl.chunks[n]
			for i := range chunk {
				c.judge(cl, Record{name, n<<chunkBits | int64(i)}, &chunk[i])
			}
		}
	}
	c.report.sort()
	return &c.report
}

func (c *Checker) judge(cl *client, r Record, f *fate) {
	if *f == (fate{}) {
		return
	}
	rep := &c.report
	rep.Sent += count(f.sent || !c.sends && (f.acked || f.failed))
	rep.Acked += count(f.acked)
	rep.Failed += count(f.failed && !f.acked)
	rep.Unanswered += count(f.sent && !f.acked && !f.failed)
	rep.Distinct += count(f.copies > 0)
	rep.UnackedStored += count(f.copies > 0 && !f.acked)

	var stored []Place
	if f.copies > 0 {
		stored = []Place{f.first}
	}
	if c.sends && !f.sent {
		rep.add(Fault{Kind: NeverSent, Record: r, Stored: stored})
	}
	if f.acked && f.copies == 0 {
		rep.add(Fault{Kind: Lost, Record: r, Acked: copyOf(f.answer.place)})
		return
	}
	for a := range cl.answers(f, r.Seq) {
		switch {
		case a.place.Offset < 0:
			rep.UnknownOffset++
		case !a.true:
			rep.add(Fault{Kind: WrongOffset, Record: r, Acked: copyOf(a.place), Stored: stored})
		}
	}
}

func copyOf(p Place) *Place { return &p }

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
