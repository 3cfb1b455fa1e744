package proxy

import (
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/internal/records"
	"github.com/oncegate/oncegate/internal/wire"
)

// What a client could have missed when its connection ended: everything
// unanswered, and the last few answers, which may have been lost on the way.
const (
	rememberedAnswers = 5       // always
	rememberedBytes   = 1 << 20 // more, while they take no more than this
	rememberedFor     = 5 * time.Second
	unreadFor         = time.Second // what a reset may have left unread
)

// remember keeps an answered request of stamped batches for a while, and says
// whether it did. mu is held: a request is always either in the queue or
// remembered when the doubts are registered.
func (s *session) remember(p *pending) bool {
	if !s.proxy.cfg.Stamp || p.silent || p.request == nil || !p.stampedBatches() {
		return false
	}
	if p.cost > 0 {
		s.proxy.budget.Release(p.cost)
		p.cost = 0
	}
	p.since = s.proxy.now()
	s.answers = append(s.answers, p)
	s.answersBytes += len(p.request)
	return true
}

// forgetAnswers lets go of the oldest remembered answers while there are more
// than count and they take more than size bytes, and of those from before
// since.
func (s *session) forgetAnswers(count, size int, since int64) {
	for {
		s.mu.Lock()
		if len(s.answers) == 0 {
			s.mu.Unlock()
			return
		}
		oldest := s.answers[0]
		if (len(s.answers) <= count || s.answersBytes <= size) && oldest.since >= since {
			s.mu.Unlock()
			return
		}
		s.answers[0] = nil
		s.answers = s.answers[1:]
		s.answersBytes -= len(oldest.request)
		learnt := !s.doubtsRegistered
		s.mu.Unlock()
		if learnt {
			s.learnt(oldest)
		}
		s.letGo(oldest)
	}
}

// learnt says that the client has had its answer to p: its connection went on
// for long enough.
func (s *session) learnt(p *pending) {
	var req wire.Produce
	for i := range p.batches {
		if p.batches[i].claims == nil {
			continue
		}
		if req.Partitions == nil && req.Peek(p.request[lengthPrefix:]) != nil {
			return
		}
		s.proxy.doubts.learnt(s.doubtKeyOf(&req.Partitions[i]), s, p.batches[i].claims)
	}
}

// stampedBatches says whether any batch of p is stamped or was answered as a
// retry of a stamped one.
func (p *pending) stampedBatches() bool {
	for i := range p.batches {
		if p.batches[i].st.identity != nil || p.batches[i].claims != nil {
			return true
		}
	}
	return false
}

// registerDoubts records what this session's client may not have learnt, once
// its connection is over. It is called by the session itself, or by another
// one of the same client, which is then known to have come back. reset says
// that the connection was reset rather than closed.
func (s *session) registerDoubts(reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubtsRegistered {
		return
	}
	s.doubtsRegistered = true
	for _, p := range s.answers {
		// A reset says that the client closed its socket with answers unread.
		unread := reset && s.proxy.now()-p.since < int64(unreadFor)
		s.registerPending(p, !unread)
	}
	for i := range s.pending.size {
		s.registerPending(s.pending.at(i), false)
	}
}

// registerPending does so for one request; mu is held.
func (s *session) registerPending(p *pending, answered bool) {
	if p.silent || p.request == nil || !p.stampedBatches() {
		return
	}
	var req wire.Produce
	if req.Peek(p.request[lengthPrefix:]) != nil {
		return
	}
	for i := range p.batches {
		b := &p.batches[i]
		if b.claims != nil {
			// The retry may come once more.
			s.proxy.doubts.unclaim(s, b.claims)
		}
		if b.st.identity == nil || b.doubt != nil || b.fate == fateSettled && !b.stored {
			continue
		}
		d := s.newDoubt(&req, p, i, answered)
		if d == nil {
			continue
		}
		b.doubt = d
		if b.fate != fateForwarded {
			d.settle(b.stored, b.offset)
		}
	}
}

// newDoubt records one batch; nil where its records can't be read.
func (s *session) newDoubt(req *wire.Produce, p *pending, i int, answered bool) *doubt {
	part := &req.Partitions[i]
	decoded, err := records.Decode(p.request[lengthPrefix+part.Start : lengthPrefix+part.End])
	if err != nil {
		s.log.Warn("a batch in doubt can't be decoded, so its retry will not be known", zap.Error(err))
		return nil
	}
	d := &doubt{
		records: decoded.Digests(s.proxy.doubts.seed), claimed: make([]claimState, decoded.Len()),
		born: time.Now(), answered: answered, settled: make(chan struct{}), offset: unknownOffset,
	}
	s.proxy.doubts.add(s.doubtKeyOf(part), d)
	s.proxy.stats.Doubts.Add(1)
	return d
}

// registerDeadSiblings registers the doubts of sessions whose client is this
// one's, and whose connection is over though they may not have noticed yet,
// being busy with the upstream. What such a session has not passed on by now
// it must not pass on any more: the client sends it again.
func (p *Proxy) registerDeadSiblings(of *session) {
	host, _, _ := net.SplitHostPort(of.client.RemoteAddr().String())
	p.mu.Lock()
	var dead []*session
	for s := range p.sessions {
		if s == of || s.clientName() != of.name {
			continue
		}
		if h, _, _ := net.SplitHostPort(s.client.RemoteAddr().String()); h == host && clientGone(s.client) {
			dead = append(dead, s)
		}
	}
	p.mu.Unlock()
	for _, s := range dead {
		s.abandoned.Store(true)
		s.registerDoubts(false)
	}
}
