package proxy

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// refuseOldProduce answers Produce 0–2 with UNSUPPORTED_VERSION. Brokers
// advertise those versions for librdkafka's sake and no longer serve them;
// their message sets have neither producer id nor sequence.
func (s *session) refuseOldProduce(h *wire.RequestHeader, frame []byte) error {
	req := kmsg.NewPtrProduceRequest()
	req.Version = h.Version
	if err := req.ReadFrom(frame[lengthPrefix+h.Len:]); err != nil {
		return &frameError{fmt.Sprintf("a Produce v%d request can't be read: %v", h.Version, err)}
	}
	s.log.Warn(fmt.Sprintf("refused a Produce v%d request: let the client negotiate version %d or later (Kafka 0.11, 2017)", h.Version, firstProduceVersion))
	if req.Acks == 0 {
		return &frameError{fmt.Sprintf("a Produce v%d request with acks=0 can't be answered", h.Version)}
	}
	r := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = t.Topic
		for _, part := range t.Partitions {
			refused := kmsg.NewProduceResponseTopicPartition()
			refused.Partition = part.Partition
			refused.ErrorCode = codeUnsupportedVersion
			refused.BaseOffset = unknownOffset
			topic.Partitions = append(topic.Partitions, refused)
		}
		r.Topics = append(r.Topics, topic)
	}
	p := s.newPending(h)
	p.reply = replyLocal
	p.answer = wire.AppendResponse(append(p.answer[:0], 0, 0, 0, 0), h.CorrelationID, r)
	setLength(p.answer)
	s.mu.Lock()
	s.pending.push(p)
	s.mu.Unlock()
	s.localReady = true
	return nil
}
