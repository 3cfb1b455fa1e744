package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/wire"
)

// session is one client connection and the upstream connection that it maps
// to. Two goroutines serve it: one reads requests, decides, and writes them
// upstream; the other reads answers, learns from them, and writes them to the
// client. The queue of pending requests joins them.
//
// Lock order: upMu, outMu, mu, then a window shard's.
type session struct {
	proxy    *Proxy
	endpoint *endpoint
	link     dedup.Link
	client   net.Conn
	log      *zap.Logger
	ctx      context.Context // ends when the session is torn down
	cancel   context.CancelFunc
	wake     chan struct{} // a batch that waits should be submitted again

	// Used by the request goroutine only.
	in      *frames
	produce wire.Produce
	preset  []batch // what stamping has decided of the request's partitions
	// siblingsChecked says that connections which this client lost before have
	// been looked for.
	siblingsChecked bool
	batch           dedup.Batch
	name            string // client id, for logs
	// localReady says that an answer of Oncegate's own may be due.
	localReady  bool
	verifyTopic []byte   // topic of the batch to verify, by name
	verifyID    [16]byte // or by id

	// Used by the answer goroutine only.
	resumed  int // how often the upstream connection was mended since its last answer
	asked    wire.Produce
	answered wire.ProduceResponse

	upMu      sync.Mutex // serialises writing upstream, dialling and sending again
	up        net.Conn   // nil before the first request
	upDone    chan struct{}
	writing   [][]byte // segments being written; memory of unsent in turn
	upBuffers net.Buffers

	outMu      sync.Mutex // serialises writing to the client
	out        [][]byte   // answers gathered, not written yet
	spent      []*pending // answered, their memory still referred to by out
	outBuffers net.Buffers
	outBroken  bool // the client can't be written to any more

	mu        sync.Mutex // guards what follows
	pending   queue
	unsent    [][]byte // requests gathered, not written upstream yet
	free      []*pending
	inputDone bool // no more requests will come
	saslSeen  bool // the client authenticated the upstream connection itself

	identity         *identity  // stamps this session's batches; nil before the first
	answers          []*pending // stamped requests that were answered lately
	answersBytes     int        // what they take
	doubtsRegistered bool
	knownAs          string // name, for other goroutines

	gaveUp atomic.Bool // the upstream has been silent for too long
	// abandoned says that the client has come back on another connection, so
	// that what it left unread on this one must not be passed on.
	abandoned atomic.Bool
	resolver  resolver
}

func (s *session) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run serves the session until both sides are done.
func (s *session) run() {
	err := s.readRequests()
	s.logEnd(err)
	s.flush()
	s.registerDoubts(errors.Is(err, syscall.ECONNRESET))
	s.mu.Lock()
	s.inputDone = true
	// A client that is gone for good is not waited for, unless the outcome of
	// its batches may still be learnt: its retry will come on another link.
	idle := s.pending.size == 0 || (err != io.EOF && err != errStopped && !s.awaitsProduce())
	s.mu.Unlock()
	s.upMu.Lock()
	up := s.up
	s.upMu.Unlock()
	if up != nil {
		if idle {
			s.cancel()
			up.Close()
		}
		<-s.upDone
	}
	s.tearDown()
}

func (s *session) logEnd(err error) {
	var bad *frameError
	switch {
	case errors.As(err, &bad):
		s.proxy.stats.BadFrames.Add(1)
		s.log.Warn("closed a client connection: " + bad.reason)
	case err != io.EOF && err != errStopped && !errors.Is(err, net.ErrClosed):
		s.log.Debug("a client connection broke", zap.Error(err))
	}
}

// awaitsProduce says whether an answer to a tracked batch is outstanding; mu is
// held.
func (s *session) awaitsProduce() bool {
	for i := range s.pending.size {
		if s.pending.at(i).reply == replyProduce {
			return true
		}
	}
	return false
}

// tearDown ends what is left: batches without an answer are in doubt.
func (s *session) tearDown() {
	s.cancel()
	s.client.Close()
	if s.up != nil {
		s.up.Close()
	}
	s.registerDoubts(false)
	s.mu.Lock()
	left := make([]*pending, 0, s.pending.size)
	for s.pending.size > 0 {
		left = append(left, s.pending.pop())
	}
	s.mu.Unlock()
	left = append(left, s.spent...)
	s.spent = nil
	for _, p := range left {
		s.abandon(p)
		s.letGo(p)
	}
	s.forgetAnswers(0, -1, 0)
	if s.identity != nil {
		s.proxy.identities.put(s.identity)
	}
	s.in.drop()
}

// abandon reports the batches of p that have no answer as lost.
func (s *session) abandon(p *pending) {
	for i := range p.batches {
		if b := &p.batches[i]; b.fate == fateForwarded {
			s.proxy.windows.lost(b.shard, b.ticket, s.proxy.seconds())
			if b.st.identity != nil {
				s.doubtful(p, i)
			} else {
				b.fate = fateSettled
			}
		}
	}
}

// newPending takes a pending request from the session's free list.
func (s *session) newPending(h *wire.RequestHeader) *pending {
	s.mu.Lock()
	var p *pending
	if n := len(s.free); n > 0 {
		p, s.free = s.free[n-1], s.free[:n-1]
	}
	s.mu.Unlock()
	if p == nil {
		p = new(pending)
	}
	p.key, p.version, p.correlationID = h.Key, h.Version, h.CorrelationID
	p.since = s.proxy.now()
	return p
}

// letGo gives back what p holds.
func (s *session) letGo(p *pending) {
	if p.chunk != nil {
		p.chunk.release()
	}
	if p.cost > 0 {
		s.proxy.budget.Release(p.cost)
	}
	clear(p.batches) // they point to identities, doubts and sessions
	*p = pending{batches: p.batches[:0], answer: p.answer[:0], split: p.split[:0]}
	if cap(p.split) > readChunk {
		p.split = nil
	}
	s.mu.Lock()
	if len(s.free) < 8 {
		s.free = append(s.free, p)
	}
	s.mu.Unlock()
}

func (s *session) clientName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knownAs
}
