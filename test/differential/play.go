package differential

import (
	"fmt"
	"time"

	"github.com/oncegate/oncegate/test/raw"
)

// side is one of the two ways into Kafka.
type side struct {
	addr      string
	topic     string
	partition int32
	pids      []int64
	base      int64 // log end offset before the history
	conns     []*raw.Conn
}

const patience = 20 * time.Second

// answer is what a producer was told, offsets counted from the history's start.
type answer struct {
	code   int16
	offset int64
}

func (a answer) String() string {
	if a.code != 0 {
		return fmt.Sprintf("error %d", a.code)
	}
	return fmt.Sprintf("offset %d", a.offset)
}

func (s *side) conn(producer int) (*raw.Conn, error) {
	for len(s.conns) <= producer {
		s.conns = append(s.conns, nil)
	}
	if s.conns[producer] == nil {
		c, err := raw.Dial(s.addr, patience)
		if err != nil {
			return nil, err
		}
		c.ClientID = fmt.Sprintf("producer-%d", producer)
		s.conns[producer] = c
	}
	s.conns[producer].SetDeadline(time.Now().Add(patience))
	return s.conns[producer], nil
}

func (s *side) drop(producer int) {
	if c := s.conns[producer]; c != nil {
		c.Close()
		s.conns[producer] = nil
	}
}

func (s *side) close() {
	for i := range s.conns {
		s.drop(i)
	}
}

func (s *side) batch(o op) *raw.Batch {
	b := &raw.Batch{Topic: s.topic, Partition: s.partition, PID: s.pids[o.producer], Epoch: o.epoch, First: o.first}
	for i := range o.count {
		b.Values = append(b.Values, fmt.Appendf(nil, "%d/%d/%d", o.producer, o.epoch, int32((uint32(o.first)+uint32(i))&(1<<31-1))))
	}
	return b
}

func (s *side) answerOf(a raw.Answer) answer {
	if a.Code != 0 {
		return answer{a.Code, -1}
	}
	if a.Offset < 0 {
		return answer{0, -1}
	}
	return answer{0, a.Offset - s.base}
}

// play does one operation and returns the answers to its batches.
func (s *side) play(o op) ([]answer, error) {
	c, err := s.conn(o.producer)
	if err != nil {
		return nil, err
	}
	switch o.kind {
	case lose:
		// The answer is awaited, not read: the broker has appended.
		req := raw.Request(s.batch(o))
		id, err := c.Send(req)
		if err != nil {
			return nil, err
		}
		if _, err := c.Receive(req, id); err != nil {
			return nil, err
		}
		s.drop(o.producer)
		o.kind = send
		return s.play(o)
	case swap:
		early, late := raw.Request(s.batch(*o.next)), raw.Request(s.batch(o))
		id1, err := c.Send(early)
		if err != nil {
			return nil, err
		}
		id2, err := c.Send(late)
		if err != nil {
			return nil, err
		}
		r1, err := c.Receive(early, id1)
		if err != nil {
			return nil, err
		}
		r2, err := c.Receive(late, id2)
		if err != nil {
			return nil, err
		}
		return []answer{s.answerOf(raw.AnswerOf(r1)), s.answerOf(raw.AnswerOf(r2))}, nil
	}
	r, err := c.Ask(raw.Request(s.batch(o)))
	if err != nil {
		return nil, err
	}
	return []answer{s.answerOf(raw.AnswerOf(r))}, nil
}
