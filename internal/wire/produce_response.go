package wire

import (
	"fmt"
)

// ProduceResponse is a view of a Produce response. The zero value is ready;
// Peek re-uses what it holds.
type ProduceResponse struct {
	CorrelationID  int32
	ThrottleMillis int32
	Partitions     []ProduceResponsePartition // in the order of the response
	// NodeEndpoints says that the response carries broker addresses
	// (version 10 and later, tag 0, KIP-951).
	NodeEndpoints bool

	tail int // behind the topics: throttle time and tagged fields
}

// ProduceResponsePartition is the answer for one partition.
type ProduceResponsePartition struct {
	Topic          []byte   // up to version 12
	TopicID        [16]byte // from version 13
	TopicIndex     int
	Index          int32 // partition number
	ErrorCode      int16
	BaseOffset     int64
	LogAppendTime  int64 // milliseconds, −1 on topics with CreateTime
	LogStartOffset int64 // from version 5

	start, end int // the whole partition entry
}

// Peek reads a Produce response to a request of this version, 3 to 13.
func (p *ProduceResponse) Peek(version int16, frame []byte) error {
	if version < MinProduce || version > MaxProduce {
		return fmt.Errorf("version %d is not between %d and %d", version, MinProduce, MaxProduce)
	}
	flexible := version >= produceFlexible
	r := reader{b: frame}
	p.Partitions = p.Partitions[:0]
	p.CorrelationID = r.int32()
	if flexible {
		r.tags(noTag) // of the response header
	}
	topics := r.count(flexible, 6)
	for t := 0; t < topics && !r.bad; t++ {
		p.peekTopic(&r, version, t)
	}
	p.tail = r.at
	p.ThrottleMillis = r.int32()
	p.NodeEndpoints = false
	if flexible {
		p.NodeEndpoints = r.tags(0) != nil
	}
	if r.bad {
		return ErrTruncated
	}
	if r.at != len(frame) {
		return fmt.Errorf("%d bytes follow the response's end", len(frame)-r.at)
	}
	return nil
}

func (p *ProduceResponse) peekTopic(r *reader, version int16, index int) {
	flexible := version >= produceFlexible
	var name []byte
	var id [16]byte
	if version >= produceTopicIDs {
		copy(id[:], r.take(len(id)))
	} else {
		name = r.string(flexible)
	}
	for n := r.count(flexible, 22); n > 0 && !r.bad; n-- {
		part := ProduceResponsePartition{Topic: name, TopicID: id, TopicIndex: index, LogStartOffset: -1, start: r.at}
		part.Index = r.int32()
		part.ErrorCode = r.int16()
		part.BaseOffset = r.int64()
		part.LogAppendTime = r.int64()
		if version >= 5 {
			part.LogStartOffset = r.int64()
		}
		if version >= 8 {
			for e := r.count(flexible, 5); e > 0 && !r.bad; e-- { // record errors
				r.int32()
				r.string(flexible)
				if flexible {
					r.tags(noTag)
				}
			}
			r.string(flexible) // error message
		}
		if flexible {
			r.tags(noTag) // the current leader among them
		}
		part.end = r.at
		p.Partitions = append(p.Partitions, part)
	}
	if flexible {
		r.tags(noTag)
	}
}
