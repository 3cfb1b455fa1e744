package wire

import (
	"encoding/binary"
	"math"
)

// PartitionAnswer is an answer for one partition that Oncegate gives itself.
type PartitionAnswer struct {
	ErrorCode      int16
	BaseOffset     int64
	LogAppendTime  int64  // milliseconds, −1 on topics with CreateTime
	LogStartOffset int64  // −1 where unknown; sent from version 5
	Message        string // sent from version 8, null when empty
}

// unanswered is what a partition gets that nobody answered for. Whether it is
// stored is in doubt, and REQUEST_TIMED_OUT says just that: a broker sends it
// when it has appended a batch and can't tell whether the replicas have. Every
// client sends the same batch again on it.
var unanswered = PartitionAnswer{ErrorCode: 7, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1}

// AppendResponse appends a whole response to the peeked request, its header
// included. Partitions stand in the order of the request.
func (p *Produce) AppendResponse(dst []byte, answers func(i int) PartitionAnswer) []byte {
	flexible := p.Header.Version >= produceFlexible
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Header.CorrelationID))
	dst = appendNoTags(dst, flexible)
	dst = appendCount(dst, len(p.topics), flexible)
	for t := range p.topics {
		topic := &p.topics[t]
		dst = p.appendTopicHead(dst, topic)
		for i := topic.first; i < topic.first+topic.n; i++ {
			dst = p.appendAnswer(dst, i, answers(i))
		}
		dst = appendNoTags(dst, flexible)
	}
	dst = binary.BigEndian.AppendUint32(dst, 0) // throttle time
	return appendNoTags(dst, flexible)
}

// AppendMerged appends a response to the peeked request, made from the
// upstream's response r to a part of it, whose frame is given, and of answers
// of Oncegate's own. An own answer goes before the upstream's. What the
// upstream said of a partition is kept byte for byte, and so are throttle time
// and tagged fields. Every partition of the request is answered once, in its
// order: what the upstream says of others is left out, and one that nobody
// answered for gets REQUEST_TIMED_OUT, never a success.
//
// r must have been peeked with the version of the request.
func (p *Produce) AppendMerged(dst []byte, r *ProduceResponse, frame []byte, own func(i int) (PartitionAnswer, bool)) []byte {
	p.match(r)
	flexible := p.Header.Version >= produceFlexible
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Header.CorrelationID))
	dst = append(dst, frame[4:r.topicsAt]...) // the header's tagged fields
	dst = appendCount(dst, len(p.topics), flexible)
	for t := range p.topics {
		topic := &p.topics[t]
		dst = p.appendTopicHead(dst, topic)
		var tags []byte
		for i := topic.first; i < topic.first+topic.n; i++ {
			var answer *ProduceResponsePartition
			if j := p.answered[i]; j >= 0 {
				answer = &r.Partitions[j]
				tags = r.topics[answer.TopicIndex].tags
			}
			if a, ok := own(i); ok {
				dst = p.appendAnswer(dst, i, a)
			} else if answer != nil {
				dst = append(dst, frame[answer.start:answer.end]...)
			} else {
				dst = p.appendAnswer(dst, i, unanswered)
			}
		}
		if tags != nil {
			dst = append(dst, tags...)
		} else {
			dst = appendNoTags(dst, flexible)
		}
	}
	return append(dst, frame[r.tail:]...)
}

// match sets answered: for each partition of the request which of r's answers
// it, −1 for none.
func (p *Produce) match(r *ProduceResponse) {
	p.answered = p.answered[:0]
	for range p.Partitions {
		p.answered = append(p.answered, -1)
	}
	for j := range r.Partitions {
		answer := &r.Partitions[j]
		if i := p.Find(answer.Topic, answer.TopicID, answer.Index); i >= 0 && p.answered[i] < 0 {
			p.answered[i] = int32(j)
		}
	}
}

// appendTopicHead appends what precedes a topic's partitions.
func (p *Produce) appendTopicHead(dst []byte, t *produceTopic) []byte {
	flexible := p.Header.Version >= produceFlexible
	if p.Header.Version >= produceTopicIDs {
		dst = append(dst, t.id[:]...)
	} else {
		dst = appendString(dst, t.name, flexible)
	}
	return appendCount(dst, t.n, flexible)
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
		dst = appendMessage(dst, a.Message, flexible)
	}
	return appendNoTags(dst, flexible)
}

// appendNoTags appends an empty section of tagged fields where there is one.
func appendNoTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}

func appendString[S string | []byte](dst []byte, s S, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

// appendMessage appends s, null when it is empty, and no more of it than every
// version has room for.
func appendMessage(dst []byte, s string, flexible bool) []byte {
	switch {
	case s != "":
		return appendString(dst, s[:min(len(s), math.MaxInt16)], flexible)
	case flexible:
		return append(dst, 0)
	default:
		return append(dst, 0xff, 0xff)
	}
}
