package proxy

import (
	"errors"
	"fmt"
	"net"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/oncegate/oncegate/internal/wire"
)

// readRequests serves the client's requests until its side ends.
func (s *session) readRequests() error {
	for {
		size, err := s.in.head()
		if err != nil {
			return err
		}
		if size < wire.MinFrame {
			return &frameError{fmt.Sprintf("a frame of %d bytes is too short for a Kafka request", size)}
		}
		// A large frame's memory is asked for before it is read; a small one
		// is there already.
		cost := int64(0)
		if !s.in.buffered(lengthPrefix+size) && size > readChunk {
			if cost, err = s.reserve(size); err != nil {
				return err
			}
		}
		if s.abandoned.Load() {
			s.proxy.budget.Release(cost)
			return errAbandoned
		}
		frame, c, err := s.in.whole(size)
		if err != nil {
			s.proxy.budget.Release(cost)
			return err
		}
		if err := s.route(frame, c, cost); err != nil {
			return err
		}
	}
}

// reserve takes memory from the budget. While there is none, the client isn't
// read: that is the backpressure.
func (s *session) reserve(size int) (int64, error) {
	cost := int64(size)
	if !s.proxy.budget.TryAcquire(cost) {
		s.flush()
		s.proxy.stats.BudgetWaits.Add(1)
		if err := s.proxy.budget.Acquire(s.ctx, cost); err != nil {
			return 0, err
		}
	}
	return cost, nil
}

// route decides by the api key what becomes of a request. It takes over cost.
func (s *session) route(frame []byte, c *chunk, cost int64) error {
	h, err := wire.ParseRequestHeader(frame[lengthPrefix:])
	if err != nil {
		s.proxy.budget.Release(cost)
		return &frameError{fmt.Sprintf("a request's header can't be read: %v", err)}
	}
	s.setName(h.ClientID)
	if h.Key == int16(kmsg.Produce) {
		return s.routeProduce(&h, frame, c, cost)
	}
	if h.Key == int16(kmsg.SASLHandshake) || h.Key == int16(kmsg.SASLAuthenticate) {
		s.mu.Lock()
		s.saslSeen = true
		s.mu.Unlock()
	}
	p := s.newPending(&h)
	p.reply = replyFor(h.Key, h.Version)
	if repeatable(h.Key) {
		s.keep(p, frame, c, cost)
		s.forward(p, frame)
		return nil
	}
	s.forward(p, frame)
	if cost > 0 {
		s.flush()
		s.proxy.budget.Release(cost)
	}
	return nil
}

// setName remembers the client id for logs and counters.
func (s *session) setName(clientID []byte) {
	if s.name != string(clientID) {
		s.name = string(clientID)
		s.mu.Lock()
		s.knownAs = s.name
		s.mu.Unlock()
		s.log = s.proxy.log.With(zap.String("client_id", s.name), zap.Stringer("client", s.client.RemoteAddr()), zap.String("broker", s.endpoint.String()))
	}
}

// replyFor says what the answer to a request other than Produce needs.
func replyFor(key, version int16) reply {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.InitProducerID, kmsg.EndTxn:
		return replyRewrite
	}
	if wire.CarriesAddresses(key, version) {
		return replyRewrite
	}
	return replyPass
}

// repeatable says whether a request may be sent twice without harm, so that a
// broken upstream connection need not be the client's concern.
func repeatable(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.Metadata, kmsg.ApiVersions, kmsg.FindCoordinator, kmsg.DescribeCluster, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch:
		return true
	}
	return false
}

// keep holds a request for being sent again.
func (s *session) keep(p *pending, frame []byte, c *chunk, cost int64) {
	if c != nil {
		c.retain()
	}
	p.chunk, p.request, p.sent, p.cost = c, frame, frame, cost
}

// forward queues a request for the upstream, and p, unless it is nil, for the
// answer. Nothing is written before flush.
func (s *session) forward(p *pending, frame []byte) {
	s.mu.Lock()
	if p != nil {
		s.pending.push(p)
	}
	s.unsent = appendSegment(s.unsent, frame)
	s.mu.Unlock()
}

// appendSegment appends b, joined to the last segment where it lies right
// behind it in memory, so that many small frames make one write.
func appendSegment(segments [][]byte, b []byte) [][]byte {
	if n := len(segments); n > 0 {
		last := segments[n-1]
		if end := len(last); cap(last)-end >= len(b) && unsafe.SliceData(last[end:end+1]) == unsafe.SliceData(b) {
			segments[n-1] = last[:end+len(b)]
			return segments
		}
	}
	return append(segments, b)
}

// flush writes what was gathered, in both directions; it runs before the
// request goroutine blocks.
func (s *session) flush() {
	s.flushUpstream()
	if s.localReady {
		s.localReady = false
		s.emitReady()
		s.flushClient()
	}
}

// flushUpstream writes the gathered requests. A write that fails is not
// reported here: the answer goroutine sees the connection end, and it alone
// decides whether the requests are sent again.
func (s *session) flushUpstream() {
	s.mu.Lock()
	nothing := len(s.unsent) == 0
	s.mu.Unlock()
	if nothing {
		return
	}
	s.upMu.Lock()
	defer s.upMu.Unlock()
	if s.up == nil {
		if err := s.connect(); err != nil {
			s.log.Warn("no connection to the upstream broker; closed the client's", zap.Error(err))
			// A reset, as from a broker that is down: some clients take an
			// orderly end before the first answer for a wrong configuration.
			if tcp, ok := s.client.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			s.kill()
			return
		}
	}
	s.mu.Lock()
	segments := s.unsent
	s.unsent, s.writing = s.writing[:0], segments
	s.mu.Unlock()
	if err := writeSegments(s.up, segments, &s.upBuffers); err != nil {
		s.up.Close()
	}
}

// connect makes the session's first upstream connection; upMu is held.
func (s *session) connect() error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	up, err := s.endpoint.dial(s.ctx)
	if err != nil {
		return err
	}
	s.setUpstream(up)
	s.upDone = make(chan struct{})
	go s.readAnswers()
	return nil
}

func (s *session) setUpstream(up net.Conn) {
	s.mu.Lock()
	s.up = up
	s.mu.Unlock()
}

// writeSegments writes all segments with one system call where it can. buffers
// is memory for it.
func writeSegments(conn net.Conn, segments [][]byte, buffers *net.Buffers) error {
	defer clear(segments)
	switch len(segments) {
	case 0:
		return nil
	case 1:
		_, err := conn.Write(segments[0])
		return err
	}
	*buffers = segments
	_, err := buffers.WriteTo(conn)
	*buffers = nil
	return err
}

// kill ends the session from outside.
func (s *session) kill() {
	s.cancel()
	s.client.Close()
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if up != nil {
		up.Close()
	}
}

var (
	errDrained   = errors.New("all requests are answered")
	errAbandoned = errors.New("the client has come back on another connection")
)
