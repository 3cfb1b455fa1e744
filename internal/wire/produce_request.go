package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
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

	byTopic, byPartition []int32 // sorted, for Find
	answered             []int32 // of AppendMerged
}

type produceTopic struct {
	name                     []byte
	id                       [16]byte
	start, partitionsAt, end int   // the topic, its partitions' length, behind its last byte
	first, n                 int   // its part of Partitions
	rank                     int32 // the same for entries that name the same topic
}

// ProducePartition is one partition of a Produce request.
type ProducePartition struct {
	Topic      []byte   // its topic's name up to version 12
	TopicID    [16]byte // its topic's id from version 13
	TopicIndex int      // which topic of the request
	Index      int32    // partition number
	Start, End int      // where the records lie; both the same where there are none
	Batch      BatchHeader
	Problem    BatchProblem

	start, end int // the whole partition entry
}

var (
	// ErrDuplicatePartition says that a request names one partition twice.
	// Kafka's clients never do, and brokers differ in what they make of it.
	ErrDuplicatePartition = errors.New("a partition is named twice")
	// ErrTooManyPartitions says that a request names more topics and partitions
	// than its size has room for.
	ErrTooManyPartitions = errors.New("the request names far more topics and partitions than it has records for")
)

// A view takes more memory than an empty partition's six bytes. One with
// records has a batch header at least, so only hostile requests have more
// partitions than one for every leastPartition bytes, beyond the first few.
const (
	leastPartition = 64
	fewPartitions  = 1024
	// keptPartitions is how many a request may have for its view's memory to be
	// kept for the next.
	keptPartitions = 4096
)

// Peek reads a Produce request of version 3 to 13. Records that are not one
// sound batch are a Problem of their partition; an error says that the request
// itself can't be read, and leaves a view that must not be used. The view
// aliases the frame.
func (p *Produce) Peek(frame []byte) error {
	h, err := ParseRequestHeader(frame)
	if err != nil {
		return err
	}
	if h.Key != int16(kmsg.Produce) {
		return fmt.Errorf("api key %d is not Produce", h.Key)
	}
	if h.Version < MinProduce || h.Version > MaxProduce {
		return fmt.Errorf("version %d is not between %d and %d", h.Version, MinProduce, MaxProduce)
	}
	p.Header = h
	p.reset()
	flexible := h.Version >= produceFlexible
	r := reader{b: frame, at: h.Len}
	p.TransactionalID = r.string(flexible)
	p.acksAt = r.at
	p.Acks = r.int16()
	p.TimeoutMillis = r.int32()
	p.topicsAt = r.at
	for n := r.array(flexible); n > 0 && r.fault == nil; n-- {
		p.peekTopic(&r, flexible)
	}
	p.end = r.at
	if flexible {
		r.tags(noTag)
	}
	switch {
	case r.fault != nil:
		return r.fault
	case r.at != len(frame):
		return fmt.Errorf("%d bytes follow the request's end", len(frame)-r.at)
	}
	return p.sort()
}

// reset empties the view. The memory of a very large request isn't kept.
func (p *Produce) reset() {
	if len(p.Partitions)+len(p.topics) > keptPartitions {
		*p = Produce{Header: p.Header}
	}
	p.Partitions, p.topics = p.Partitions[:0], p.topics[:0]
}

func (p *Produce) peekTopic(r *reader, flexible bool) {
	t := produceTopic{start: r.at, first: len(p.Partitions)}
	if p.Header.Version >= produceTopicIDs {
		copy(t.id[:], r.take(len(t.id)))
	} else {
		t.name = r.name(flexible)
	}
	t.partitionsAt = r.at
	most := fewPartitions + len(r.b)/leastPartition
	for n := r.array(flexible); n > 0 && r.fault == nil; n-- {
		part := ProducePartition{Topic: t.name, TopicID: t.id, TopicIndex: len(p.topics), start: r.at}
		part.Index = r.int32()
		records := r.bytes(flexible)
		part.Start, part.End = r.at-len(records), r.at
		part.Batch, part.Problem = PeekBatch(records)
		if flexible {
			r.tags(noTag)
		}
		part.end = r.at
		if len(p.Partitions)+len(p.topics) >= most {
			r.fail(ErrTooManyPartitions)
			return
		}
		p.Partitions = append(p.Partitions, part)
	}
	t.n = len(p.Partitions) - t.first
	if flexible {
		r.tags(noTag)
	}
	t.end = r.at
	if len(p.Partitions)+len(p.topics) >= most {
		r.fail(ErrTooManyPartitions)
		return
	}
	p.topics = append(p.topics, t)
}

// SetAcks writes another acks into the frame that was peeked.
func (p *Produce) SetAcks(frame []byte, acks int16) {
	binary.BigEndian.PutUint16(frame[p.acksAt:], uint16(acks))
	p.Acks = acks
}
