// Package null is a Kafka broker that stores nothing and answers at once. It
// reads large pieces, builds Produce answers in place, many to a write, and
// allocates nothing for them, so that it is never what a benchmark measures.
package null

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// Topic is the only one there is; TopicID is its id.
const Topic = "bench"

var TopicID = [16]byte{0xbe, 1}

// NodeID is the broker's.
const NodeID = 0

// Broker is a running null broker.
type Broker struct {
	listener   net.Listener
	partitions []partition
	producers  atomic.Int64

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
	serve  sync.WaitGroup
}

// partition is padded to a cache line, since connections write to neighbours.
type partition struct {
	next atomic.Int64 // offset
	_    [56]byte
}

// Start listens on addr.
func Start(addr string, partitions int) (*Broker, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	b := &Broker{listener: l, partitions: make([]partition, partitions), conns: make(map[net.Conn]struct{})}
	b.producers.Store(1000)
	b.serve.Go(b.accept)
	return b, nil
}

// Addr is where the broker listens, which it also advertises.
func (b *Broker) Addr() string { return b.listener.Addr().String() }

// Close ends all connections and returns once they have ended.
func (b *Broker) Close() {
	b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.serve.Wait()
}

// Wait returns once the broker has been closed.
func (b *Broker) Wait() { b.serve.Wait() }

func (b *Broker) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			c.Close()
			return
		}
		b.conns[c] = struct{}{}
		b.serve.Go(func() {
			if err := b.connection(c); err != nil {
				fmt.Println("null broker:", err)
			}
			b.mu.Lock()
			delete(b.conns, c)
			b.mu.Unlock()
			c.Close()
		})
		b.mu.Unlock()
	}
}

const maxFrame = 256 << 20

// connection serves one client until it leaves. An error says that it sent
// what is no request.
func (b *Broker) connection(c net.Conn) error {
	s := &session{broker: b}
	buf := make([]byte, 16<<10)
	r, w := 0, 0
	for {
		s.out = s.out[:0]
		for w-r >= 4 {
			n := 4 + int(binary.BigEndian.Uint32(buf[r:]))
			if n < 4+wire.MinFrame || n > maxFrame {
				return fmt.Errorf("a frame of %d bytes", n-4)
			}
			if w-r < n {
				buf, r, w = roomFor(buf, r, w, n)
				break
			}
			if err := s.answer(buf[r+4 : r+n]); err != nil {
				return err
			}
			r += n
		}
		if len(s.out) > 0 {
			if _, err := c.Write(s.out); err != nil {
				return nil
			}
		}
		if w-r < 4 {
			r, w = 0, copy(buf, buf[r:w])
		}
		n, err := c.Read(buf[w:])
		if err != nil {
			return nil
		}
		if w += n; w == len(buf) && len(buf) < 256<<10 {
			buf = append(buf, make([]byte, len(buf))...) // a busy client
		}
	}
}

// roomFor makes room for a frame of n bytes that begins at r.
func roomFor(buf []byte, r, w, n int) ([]byte, int, int) {
	if r+n <= len(buf) {
		return buf, r, w
	}
	if n > len(buf) {
		grown := make([]byte, n+64<<10)
		return grown, 0, copy(grown, buf[r:w])
	}
	return buf, 0, copy(buf, buf[r:w])
}

// session is what a connection keeps from request to request.
type session struct {
	broker  *Broker
	out     []byte
	produce wire.Produce
}

// errUnknownTopic is UNKNOWN_TOPIC_OR_PARTITION.
const errUnknownTopic = 3

// answer appends the answer to one request to s.out.
func (s *session) answer(frame []byte) error {
	at := len(s.out)
	s.out = append(s.out, 0, 0, 0, 0)
	if kmsg.Key(binary.BigEndian.Uint16(frame)) == kmsg.Produce {
		if err := s.produce.Peek(frame); err != nil {
			return fmt.Errorf("a Produce request that can't be read: %w", err)
		}
		if s.produce.Acks == 0 {
			s.out = s.out[:at]
			return nil
		}
		s.out = s.produce.AppendResponse(s.out, s.store)
	} else {
		var err error
		if s.out, err = s.broker.answerOther(s.out, frame); err != nil {
			return err
		}
	}
	binary.BigEndian.PutUint32(s.out[at:], uint32(len(s.out)-at-4))
	return nil
}

// store counts the offsets of one partition of the request.
func (s *session) store(i int) wire.PartitionAnswer {
	p := &s.produce.Partitions[i]
	known := string(p.Topic) == Topic || s.produce.Header.Version >= 13 && p.TopicID == TopicID
	if !known || p.Index < 0 || int(p.Index) >= len(s.broker.partitions) {
		return wire.PartitionAnswer{ErrorCode: errUnknownTopic, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1}
	}
	if p.Problem != wire.BatchOK {
		return wire.PartitionAnswer{ErrorCode: 87, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1} // INVALID_RECORD
	}
	n := int64(p.Batch.RecordCount)
	return wire.PartitionAnswer{BaseOffset: s.broker.partitions[p.Index].next.Add(n) - n, LogAppendTime: -1}
}

var errUnknownRequest = errors.New("the null broker doesn't know this api key")
