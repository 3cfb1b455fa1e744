package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Produce versions that are read in place. Version 9 is the first flexible one
// (KIP-482), version 13 names topics by id (KIP-516).
const (
	MinProduce = 3
	MaxProduce = 13

	produceFlexible = 9
	produceTopicIDs = 13
)

// Produce is a view of a Produce request. The zero value is ready; Peek may be
// called again and again, and re-uses what it holds.
type Produce struct {
	Header          RequestHeader
	TransactionalID []byte // nil when null
	Acks            int16
	TimeoutMillis   int32
	Partitions      []ProducePartition // in the order of the request

	acksAt   int
	topicsAt int // the topics array's length
	end      int // behind the topics array: the request's tagged fields
	topics   []produceTopic
}

type produceTopic struct {
	name                     []byte
	id                       [16]byte
	start, partitionsAt, end int // the topic, its partitions' length, behind its last byte
	first, n                 int // its part of Partitions
}

// ProducePartition is one partition of a Produce request.
type ProducePartition struct {
	Topic      []byte   // its topic's name up to version 12
	TopicID    [16]byte // its topic's id from version 13
	TopicIndex int      // which topic of the request
	Index      int32    // partition number
	Start, End int      // where the records lie
	Batch      BatchHeader
	Problem    BatchProblem

	start, end int // the whole partition entry
}

// ErrDuplicatePartition says that a request names one partition twice. Kafka's
// clients never do, and brokers differ in what they make of it.
var ErrDuplicatePartition = errors.New("a partition is named twice")

// Peek reads a Produce request of version 3 to 13. Records that are not one
// sound batch are a Problem of their partition; an error says that the request
// itself can't be read.
func (p *Produce) Peek(frame []byte) error {
	h, err := ParseRequestHeader(frame)
	if err != nil {
		return err
	}
	if h.Version < MinProduce || h.Version > MaxProduce {
		return fmt.Errorf("version %d is not between %d and %d", h.Version, MinProduce, MaxProduce)
	}
	p.Header = h
	p.Partitions, p.topics = p.Partitions[:0], p.topics[:0]
	flexible := h.Version >= produceFlexible
	r := reader{b: frame, at: h.Len}
	p.TransactionalID = r.string(flexible)
	p.acksAt = r.at
	p.Acks = r.int16()
	p.TimeoutMillis = r.int32()
	p.topicsAt = r.at
	for n := r.count(flexible, 6); n > 0 && !r.bad; n-- {
		p.peekTopic(&r, flexible)
	}
	p.end = r.at
	if flexible {
		r.tags(noTag)
	}
	switch {
	case r.bad:
		return ErrTruncated
	case r.at != len(frame):
		return fmt.Errorf("%d bytes follow the request's end", len(frame)-r.at)
	case p.namesTwice():
		return ErrDuplicatePartition
	}
	return nil
}

func (p *Produce) peekTopic(r *reader, flexible bool) {
	t := produceTopic{start: r.at, first: len(p.Partitions)}
	if p.Header.Version >= produceTopicIDs {
		copy(t.id[:], r.take(len(t.id)))
	} else {
		t.name = r.string(flexible)
	}
	t.partitionsAt = r.at
	for n := r.count(flexible, 5); n > 0 && !r.bad; n-- {
		part := ProducePartition{Topic: t.name, TopicID: t.id, TopicIndex: len(p.topics), start: r.at}
		part.Index = r.int32()
		records := r.bytes(flexible)
		part.Start, part.End = r.at-len(records), r.at
		part.Batch, part.Problem = PeekBatch(records)
		if flexible {
			r.tags(noTag)
		}
		part.end = r.at
		p.Partitions = append(p.Partitions, part)
	}
	t.n = len(p.Partitions) - t.first
	if flexible {
		r.tags(noTag)
	}
	t.end = r.at
	p.topics = append(p.topics, t)
}

// namesTwice looks for a partition that occurs twice: pairwise while that is
// cheap, with a set beyond.
func (p *Produce) namesTwice() bool {
	const few = 32
	if len(p.Partitions) > few {
		return p.namesTwiceAmongMany()
	}
	for i := range p.Partitions {
		for j := range i {
			if p.Partitions[i].same(&p.Partitions[j]) {
				return true
			}
		}
	}
	return false
}

func (p *ProducePartition) same(o *ProducePartition) bool {
	return p.Index == o.Index && p.TopicID == o.TopicID && string(p.Topic) == string(o.Topic)
}

func (p *Produce) namesTwiceAmongMany() bool {
	type key struct {
		topic string
		id    [16]byte
		index int32
	}
	seen := make(map[key]struct{}, len(p.Partitions))
	for i := range p.Partitions {
		part := &p.Partitions[i]
		k := key{string(part.Topic), part.TopicID, part.Index}
		if _, twice := seen[k]; twice {
			return true
		}
		seen[k] = struct{}{}
	}
	return false
}

// SetAcks writes another acks into the frame that was peeked.
func (p *Produce) SetAcks(frame []byte, acks int16) {
	binary.BigEndian.PutUint16(frame[p.acksAt:], uint16(acks))
	p.Acks = acks
}

// AppendSplit appends to dst the peeked request with only those partitions for
// which keep is true. Everything else in it, tagged fields included, stays byte
// for byte. Topics that lose all their partitions are left out.
func (p *Produce) AppendSplit(dst, frame []byte, keep func(i int) bool) []byte {
	flexible := p.Header.Version >= produceFlexible
	dst = append(dst, frame[:p.topicsAt]...)
	topics := 0
	for i := range p.topics {
		if p.topics[i].kept(keep) > 0 {
			topics++
		}
	}
	dst = appendCount(dst, topics, flexible)
	for i := range p.topics {
		t := &p.topics[i]
		n := t.kept(keep)
		if n == 0 {
			continue
		}
		dst = append(dst, frame[t.start:t.partitionsAt]...)
		dst = appendCount(dst, n, flexible)
		behind := t.end
		for j := t.first; j < t.first+t.n; j++ {
			part := &p.Partitions[j]
			if keep(j) {
				dst = append(dst, frame[part.start:part.end]...)
			}
			behind = part.end
		}
		dst = append(dst, frame[behind:t.end]...)
	}
	return append(dst, frame[p.end:]...)
}

func (t *produceTopic) kept(keep func(int) bool) (n int) {
	for i := t.first; i < t.first+t.n; i++ {
		if keep(i) {
			n++
		}
	}
	return n
}

func appendCount(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}
