package dedup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// world is a table between idempotent producers and a broker, with everything
// that can happen as an action. The exhaustive check walks all of its states,
// the random one long walks through larger worlds.
type world struct {
	table    *Table
	broker   *broker
	clients  []*client
	links    []*link // all that ever were; index + 1 is the Link
	strays   []entry // sent on connections that died, and still on their way to the broker
	restarts int     // left
	cuts     int     // left
	faults   int     // broker errors left
	cold     map[Key]Snapshot
	evicts   int // left
	reboots  int // of the broker, left
	bug      bug
	pipeline int
}

// bug is a fault that is planted to see that it is found.
type bug int

const (
	noBug          bug = iota
	markOnReceipt      // a batch counts as stored when it is forwarded
	ackBeforeStore     // the client is acknowledged when its batch is forwarded
	errorIsStored      // a broker's error counts as stored
	lostIsStored       // a batch without an answer counts as stored
	nothingWaits       // the second batch of a new producer is not held back
)

// client is an idempotent producer: it sends its batches in order, sends what
// fails or is unanswered again in order, and sends nothing new before that.
type client struct {
	pid      int64
	batches  []clientBatch
	link     int // index of its current link
	attempts int // for each batch
}

type clientBatch struct {
	first, last int32
	state       clientState
	tries       int
	offset      int64
}

type clientState byte

const (
	unsent clientState = iota
	sent               // on the client's current link, unanswered
	acked
)

// link is a session.
type link struct {
	client  int
	alive   bool  // the client's side
	in      []int // batches that the client sent and the session has not taken
	blocked bool  // the head of in waits
	up      []sub // forwarded, not yet at the broker
	down    []sub // answered by the broker, not yet seen
	dead    bool  // the upstream side is gone
}

type sub struct {
	batch  int
	ticket Ticket
	code   int16
	offset int64
	marked bool // by a planted bug
}

func newWorld(clients, batches, tries, size, pipeline int) *world {
	w := &world{table: NewTable(Options{}), broker: newBroker(), pipeline: pipeline}
	for i := range clients {
		c := &client{pid: int64(i + 1), attempts: tries}
		for b := range batches {
			c.batches = append(c.batches, clientBatch{first: int32(b * size), last: int32(b*size + size - 1)})
		}
		w.clients = append(w.clients, c)
		w.connect(i)
	}
	return w
}

func (w *world) connect(client int) {
	w.links = append(w.links, &link{client: client, alive: true})
	w.clients[client].link = len(w.links) - 1
}

// action is one thing that can happen.
type action struct {
	name string
	do   func(*world)
}

// actions are all that can happen now.
func (w *world) actions() (all []action) {
	for ci, c := range w.clients {
		if b := c.next(w.pipeline); b >= 0 {
			all = append(all, action{fmt.Sprintf("client %d sends batch %d", ci, b), func(w *world) { w.send(ci, b) }})
		}
	}
	for li, l := range w.links {
		if len(l.in) > 0 && !l.blocked && !l.dead {
			all = append(all, action{fmt.Sprintf("link %d takes batch %d", li, l.in[0]), func(w *world) { w.take(li) }})
		}
		if len(l.up) > 0 {
			all = append(all, action{fmt.Sprintf("the broker takes batch %d of link %d", l.up[0].batch, li), func(w *world) { w.deliver(li, 0) }})
			if w.faults > 0 {
				for _, code := range []int16{6, 7, 19} {
					all = append(all, action{fmt.Sprintf("the broker answers batch %d of link %d with error %d", l.up[0].batch, li, code), func(w *world) { w.faults--; w.deliver(li, code) }})
				}
			}
		}
		if len(l.down) > 0 {
			all = append(all, action{fmt.Sprintf("the answer to batch %d of link %d arrives", l.down[0].batch, li), func(w *world) { w.answer(li) }})
		}
		if w.cuts > 0 && l.alive && (len(l.up)+len(l.down)+len(l.in) > 0) {
			all = append(all, action{fmt.Sprintf("the client's side of link %d is cut", li), func(w *world) { w.cuts--; w.cutClient(li) }})
		}
		if w.cuts > 0 && len(l.up)+len(l.down) > 0 {
			all = append(all, action{fmt.Sprintf("the broker's side of link %d is cut", li), func(w *world) { w.cuts--; w.cutUpstream(li) }})
		}
	}
	if len(w.strays) > 0 {
		all = append(all,
			action{"a stray batch reaches the broker", func(w *world) { w.broker.append(w.strays[0]); w.strays = w.strays[1:] }},
			action{"the stray batches are lost", func(w *world) { w.strays = nil }})
	}
	if w.restarts > 0 {
		all = append(all, action{"Oncegate restarts", func(w *world) { w.restarts--; w.restart() }})
	}
	// A producer is idle only when nothing of its is on the way.
	if w.evicts > 0 && !slices.ContainsFunc(w.links, func(l *link) bool { return len(l.in) > 0 && !l.dead }) {
		all = append(all, action{"idle windows are evicted", func(w *world) { w.evicts--; w.table.Sweep(1, 1000) }})
	}
	if w.reboots > 0 {
		all = append(all, action{"the broker restarts", func(w *world) { w.reboots--; w.broker.restart() }})
	}
	return all
}

// next is the batch that the client would send now, −1 for none.
func (c *client) next(pipeline int) int {
	inFlight := 0
	for _, b := range c.batches {
		if b.state == sent {
			inFlight++
		}
	}
	for i, b := range c.batches {
		if b.state == unsent {
			if inFlight < pipeline && b.tries < c.attempts {
				return i
			}
			return -1
		}
	}
	return -1
}

func (w *world) send(ci, b int) {
	c := w.clients[ci]
	c.batches[b].state = sent
	c.batches[b].tries++
	l := w.links[c.link]
	l.in = append(l.in, b)
}

func (w *world) entry(l *link, b int) entry {
	c := w.clients[l.client]
	cb := c.batches[b]
	return entry{pid: c.pid, first: cb.first, last: cb.last, content: uint32(b)}
}

// take submits the head of a link's input.
func (w *world) take(li int) {
	l := w.links[li]
	b := l.in[0]
	e := w.entry(l, b)
	v := w.table.Submit(&Batch{Key: Key{Topic: 1, ProducerID: e.pid}, First: e.first, Last: e.last, CRC: e.content, Link: Link(li + 1), Leader: 1}, 0)
	if v.Kind == Wait && w.bug == nothingWaits {
		l.in = l.in[1:]
		l.up = append(l.up, sub{batch: b, marked: true})
		return
	}
	if v.Kind == Wait {
		l.blocked = true
		return
	}
	l.in = l.in[1:]
	switch v.Kind {
	case Forward:
		s := sub{batch: b, ticket: v.Ticket}
		if w.bug == markOnReceipt {
			s.marked = true
			w.wake(w.table.Stored(v.Ticket, 0, 0, nil))
		}
		l.up = append(l.up, s)
		if w.bug == ackBeforeStore {
			w.tell(l, b, 0, 0)
		}
	case Duplicate:
		w.tell(l, b, 0, v.Offset)
	case Refuse:
		w.tell(l, b, v.Code, -1)
	case Verify:
		// The answer of DescribeProducers; the head of in is taken again.
		l.in = append([]int{b}, l.in...)
		key := Key{Topic: 1, ProducerID: e.pid}
		if s := w.broker.producers[e.pid]; s != nil {
			w.table.Confirm(key, 1, s.epoch, s.batches[len(s.batches)-1].last)
		} else {
			w.table.Forget(key)
		}
	}
}

func (w *world) deliver(li int, code int16) {
	l := w.links[li]
	s := l.up[0]
	l.up = l.up[1:]
	if code == 0 || code == 7 {
		c, offset := w.broker.append(w.entry(l, s.batch))
		s.offset = offset
		if code == 0 || c != 0 {
			code = c
		}
	}
	s.code = code
	l.down = append(l.down, s)
}

func (w *world) answer(li int) {
	l := w.links[li]
	s := l.down[0]
	l.down = l.down[1:]
	if !s.marked {
		if s.code == 0 || w.bug == errorIsStored {
			w.wake(w.table.Stored(s.ticket, s.offset, 0, nil))
		} else {
			w.wake(w.table.Failed(s.ticket, s.code, 0, nil))
		}
	}
	w.tell(l, s.batch, s.code, s.offset)
}

// tell gives the client an answer, if it still listens.
func (w *world) tell(l *link, b int, code int16, offset int64) {
	c := w.clients[l.client]
	if !l.alive || w.links[c.link] != l || c.batches[b].state != sent {
		return
	}
	if code == 0 {
		c.batches[b].state, c.batches[b].offset = acked, offset
	} else {
		c.batches[b].state = unsent
	}
}

// cutClient ends the client's side: it connects anew and sends all that is
// unanswered again.
func (w *world) cutClient(li int) {
	l := w.links[li]
	l.alive = false
	c := w.clients[l.client]
	for i := range c.batches {
		if c.batches[i].state == sent {
			c.batches[i].state = unsent
		}
	}
	w.connect(l.client)
}

// cutUpstream ends the broker's side, and with it the session: what was sent
// may still reach the broker.
func (w *world) cutUpstream(li int) {
	l := w.links[li]
	for _, s := range l.up {
		w.strays = append(w.strays, w.entry(l, s.batch))
	}
	lost := append(slices.Clone(l.down), l.up...)
	l.up, l.down, l.in, l.dead, l.blocked = nil, nil, nil, true, false
	if l.alive {
		w.cutClient(li)
	}
	for _, s := range lost {
		if s.marked {
			continue
		}
		if w.bug == lostIsStored {
			w.wake(w.table.Stored(s.ticket, 0, 0, nil))
		} else {
			w.wake(w.table.Lost(s.ticket, 0, nil))
		}
	}
}

// restart forgets the table and cuts everything.
func (w *world) restart() {
	for li, l := range w.links {
		for _, s := range l.up {
			w.strays = append(w.strays, w.entry(l, s.batch))
		}
		l.up, l.down, l.in, l.dead, l.blocked = nil, nil, nil, true, false
		if l.alive {
			w.cutClient(li)
		}
	}
	if w.cold != nil {
		w.useCold()
	} else {
		w.table = NewTable(Options{})
	}
}

func (w *world) wake(links []Link) {
	for _, l := range links {
		w.links[l-1].blocked = false
	}
}

// fault says what is wrong with the world, "" for nothing.
//
//   - Nothing lost: what a client was told is stored is in the log, where it was
//     told.
//   - Nothing twice, and in order: the log holds each producer's sequences
//     once, rising, without a gap. A gap is a batch that can never be stored.
//   - Nobody waits for ever: a blocked link waits for something in flight.
func (w *world) fault() string {
	next := make(map[int64]int32)
	for _, e := range w.broker.log {
		if e.first != next[e.pid] {
			return fmt.Sprintf("producer %d: sequence %d is stored where %d was due", e.pid, e.first, next[e.pid])
		}
		next[e.pid] = e.last + 1
	}
	for ci, c := range w.clients {
		for i, b := range c.batches {
			if b.state != acked {
				continue
			}
			at := slices.IndexFunc(w.broker.log, func(e entry) bool { return e.pid == c.pid && e.first == b.first })
			if at < 0 {
				return fmt.Sprintf("batch %d of client %d is acknowledged and not stored", i, ci)
			}
			if b.offset >= 0 && b.offset != w.broker.log[at].offset {
				return fmt.Sprintf("batch %d of client %d is stored at %d, and the client was told %d", i, ci, w.broker.log[at].offset, b.offset)
			}
		}
	}
	for li, l := range w.links {
		if l.blocked {
			win := w.table.windows[Key{Topic: 1, ProducerID: w.clients[l.client].pid}]
			if win == nil || win.flight == nil || !slices.Contains(win.flight.waiting, Link(li+1)) {
				return fmt.Sprintf("link %d waits for ever", li)
			}
		}
	}
	return ""
}

// clone copies everything, tickets included.
func (w *world) clone() *world {
	c := *w
	windows := make(map[*window]*window)
	c.table = &Table{opts: w.table.opts, windows: make(map[Key]*window), nextID: w.table.nextID}
	copyWindow := func(old *window) *window {
		if old == nil {
			return nil
		}
		if done := windows[old]; done != nil {
			return done
		}
		win := *old
		if old.flight != nil {
			f := *old.flight
			f.waiting = slices.Clone(f.waiting)
			win.flight = &f
		}
		windows[old] = &win
		return &win
	}
	for k, win := range w.table.windows {
		c.table.windows[k] = copyWindow(win)
	}
	copySubs := func(subs []sub) []sub {
		out := slices.Clone(subs)
		for i := range out {
			out[i].ticket.w = copyWindow(out[i].ticket.w)
		}
		return out
	}
	c.broker = w.broker.clone()
	c.clients, c.links = nil, nil
	for _, cl := range w.clients {
		n := *cl
		n.batches = slices.Clone(cl.batches)
		c.clients = append(c.clients, &n)
	}
	for _, l := range w.links {
		n := *l
		n.in, n.up, n.down = slices.Clone(l.in), copySubs(l.up), copySubs(l.down)
		c.links = append(c.links, &n)
	}
	c.strays = slices.Clone(w.strays)
	c.cold = maps.Clone(w.cold)
	return &c
}

// key tells states apart. Tickets count by their order only.
func (w *world) key() string {
	var b strings.Builder
	fmt.Fprint(&b, w.restarts, w.cuts, w.faults, w.evicts, w.reboots, w.strays, w.broker.log)
	for _, s := range w.broker.producers {
		fmt.Fprint(&b, len(s.batches))
	}
	for _, c := range w.clients {
		fmt.Fprint(&b, c.batches, c.link)
	}
	for _, l := range w.links {
		fmt.Fprint(&b, "|", l.client, l.alive, l.in, l.blocked, l.dead)
		for _, s := range l.up {
			fmt.Fprint(&b, "u", s.batch)
		}
		for _, s := range l.down {
			fmt.Fprint(&b, "d", s.batch, s.code, s.offset)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(w.table.windows), func(a, b Key) int { return int(a.ProducerID - b.ProducerID) }) {
		win := w.table.windows[k]
		fmt.Fprint(&b, "w", win.n, win.first, win.since, win.leader, win.refused, win.lasts[:win.n], win.offsets[:win.n])
		if f := win.flight; f != nil {
			fmt.Fprint(&b, f.asking, f.link, f.waiting)
			for _, x := range f.batches[:f.n] {
				fmt.Fprint(&b, x.first)
			}
		}
	}
	return b.String()
}
