package wire

import "encoding/binary"

// PartitionAnswer is an answer for one partition that Oncegate gives itself.
type PartitionAnswer struct {
	ErrorCode      int16
	BaseOffset     int64
	LogAppendTime  int64  // milliseconds
	LogStartOffset int64  // −1 where unknown
	Message        string // error message from version 8, null when empty
}

// retriable is what a partition gets that nobody answered for: its outcome is
// in doubt, and REQUEST_TIMED_OUT makes every client ask again.
var retriable = PartitionAnswer{ErrorCode: 7, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1}

// AppendResponse appends a whole response to the peeked request, its header
// included. Partitions stand in the order of the request.
func (p *Produce) AppendResponse(dst []byte, answers func(i int) PartitionAnswer) []byte {
	dst = p.appendTopics(dst, func(dst []byte, i int) []byte {
		return p.appendAnswer(dst, i, answers(i))
	})
	dst = binary.BigEndian.AppendUint32(dst, 0) // throttle time
	if p.Header.Version >= produceFlexible {
		dst = append(dst, 0)
	}
	return dst
}

// AppendMerged appends a response to the peeked request, made from the
// upstream's response r to a part of it, whose frame is given, and of answers
// of Oncegate's own. An own answer goes before the upstream's. What the
// upstream said of a partition is kept byte for byte, and so are throttle time
// and tagged fields. A partition that nobody answered for gets
// REQUEST_TIMED_OUT: never a success.
func (p *Produce) AppendMerged(dst []byte, r *ProduceResponse, frame []byte, own func(i int) (PartitionAnswer, bool)) []byte {
	dst = p.appendTopics(dst, func(dst []byte, i int) []byte {
		if a, ok := own(i); ok {
			return p.appendAnswer(dst, i, a)
		}
		if answer := r.find(&p.Partitions[i]); answer != nil {
			return append(dst, frame[answer.start:answer.end]...)
		}
		return p.appendAnswer(dst, i, retriable)
	})
	return append(dst, frame[r.tail:]...)
}

func (p *ProduceResponse) find(asked *ProducePartition) *ProduceResponsePartition {
	for i := range p.Partitions {
		part := &p.Partitions[i]
		if part.Index == asked.Index && part.TopicID == asked.TopicID && string(part.Topic) == string(asked.Topic) {
			return part
		}
	}
	return nil
}

// appendTopics appends the header and the topics array.
func (p *Produce) appendTopics(dst []byte, partition func(dst []byte, i int) []byte) []byte {
	flexible := p.Header.Version >= produceFlexible
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Header.CorrelationID))
	if flexible {
		dst = append(dst, 0)
	}
	dst = appendCount(dst, len(p.topics), flexible)
	for t := range p.topics {
		topic := &p.topics[t]
		dst = p.appendTopicName(dst, topic, flexible)
		dst = appendCount(dst, topic.n, flexible)
		for i := topic.first; i < topic.first+topic.n; i++ {
			dst = partition(dst, i)
		}
		if flexible {
			dst = append(dst, 0)
		}
	}
	return dst
}

func (p *Produce) appendTopicName(dst []byte, t *produceTopic, flexible bool) []byte {
	if p.Header.Version >= produceTopicIDs {
		return append(dst, t.id[:]...)
	}
	return appendString(dst, t.name, flexible)
}

func (p *Produce) appendAnswer(dst []byte, i int, a PartitionAnswer) []byte {
	version := p.Header.Version
	flexible := version >= produceFlexible
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Partitions[i].Index))
	dst = binary.BigEndian.AppendUint16(dst, uint16(a.ErrorCode))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.BaseOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.LogAppendTime))
	if version >= 5 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(a.LogStartOffset))
	}
	if version >= 8 {
		dst = appendCount(dst, 0, flexible) // record errors
		dst = appendNullableString(dst, a.Message, flexible)
	}
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

func appendString(dst, s []byte, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

// appendNullableString appends s, null when it is empty.
func appendNullableString(dst []byte, s string, flexible bool) []byte {
	switch {
	case s != "":
		return appendString(dst, []byte(s), flexible)
	case flexible:
		return append(dst, 0)
	default:
		return append(dst, 0xff, 0xff)
	}
}
