package wire

import "fmt"

// ProduceResponse is a view of a Produce response. The zero value is ready;
// Peek re-uses what it holds.
type ProduceResponse struct {
	CorrelationID  int32
	ThrottleMillis int32
	Partitions     []ProduceResponsePartition // in the order of the response
	// NodeEndpoints says that the response carries broker addresses
	// (version 10 and later, tag 0, KIP-951).
	NodeEndpoints bool

	topics   []produceResponseTopic
	topicsAt int // behind the response header
	tail     int // behind the topics: throttle time and tagged fields
}

type produceResponseTopic struct {
	tags []byte // its section of tagged fields; nil before version 9
}

// ProduceResponsePartition is the answer for one partition.
type ProduceResponsePartition struct {
	Topic          []byte   // up to version 12
	TopicID        [16]byte // from version 13
	TopicIndex     int      // which topic of the response
	Index          int32    // partition number
	ErrorCode      int16
	BaseOffset     int64
	LogAppendTime  int64 // milliseconds, −1 on topics with CreateTime
	LogStartOffset int64 // from version 5, −1 before

	start, end int // the whole partition entry
}

// Peek reads a Produce response to a request of this version, 3 to 13. The view
// aliases the frame; after an error it must not be used.
func (p *ProduceResponse) Peek(version int16, frame []byte) error {
	if version < MinProduce || version > MaxProduce {
		return fmt.Errorf("version %d is not between %d and %d", version, MinProduce, MaxProduce)
	}
	flexible := version >= produceFlexible
	r := reader{b: frame}
	p.reset()
	p.CorrelationID = r.int32()
	if flexible {
		r.tags(noTag)
	}
	p.topicsAt = r.at
	for n := r.count(flexible); n > 0 && r.fault == nil; n-- {
		p.peekTopic(&r, version)
	}
	p.tail = r.at
	p.ThrottleMillis = r.int32()
	p.NodeEndpoints = false
	if flexible {
		p.NodeEndpoints = r.tags(nodeEndpointsTag) != nil && CarriesAddresses(0, version)
	}
	if r.fault != nil {
		return r.fault
	}
	if r.at != len(frame) {
		return fmt.Errorf("%d bytes follow the response's end", len(frame)-r.at)
	}
	return nil
}

const nodeEndpointsTag = 0

// reset empties the view. The memory of a very large response isn't kept.
func (p *ProduceResponse) reset() {
	if len(p.Partitions)+len(p.topics) > keptPartitions {
		*p = ProduceResponse{}
	}
	p.Partitions, p.topics = p.Partitions[:0], p.topics[:0]
}

func (p *ProduceResponse) peekTopic(r *reader, version int16) {
	flexible := version >= produceFlexible
	var name []byte
	var id [16]byte
	if version >= produceTopicIDs {
		copy(id[:], r.take(len(id)))
	} else {
		name = r.name(flexible)
	}
	for n := r.count(flexible); n > 0 && r.fault == nil; n-- {
		part := ProduceResponsePartition{Topic: name, TopicID: id, TopicIndex: len(p.topics), LogStartOffset: -1, start: r.at}
		part.Index = r.int32()
		part.ErrorCode = r.int16()
		part.BaseOffset = r.int64()
		part.LogAppendTime = r.int64()
		if version >= 5 {
			part.LogStartOffset = r.int64()
		}
		if version >= 8 {
			for e := r.count(flexible); e > 0 && r.fault == nil; e-- { // record errors
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
	var t produceResponseTopic
	if flexible {
		start := r.at
		r.tags(noTag)
		t.tags = r.b[start:r.at:r.at]
	}
	p.topics = append(p.topics, t)
}
