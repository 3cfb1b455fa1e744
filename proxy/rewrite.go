package proxy

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// rewrite turns an upstream answer that carries addresses or versions into what
// the client may see, and learns topic ids and producer epochs on the way.
func (s *session) rewrite(p *pending, frame []byte) ([]byte, error) {
	var err error
	body := frame[lengthPrefix:]
	switch kmsg.Key(p.key) {
	case kmsg.ApiVersions:
		body, err = wire.IntersectApiVersions(p.version, body)
	case kmsg.InitProducerID, kmsg.EndTxn:
		s.learnEpoch(p, body)
		return frame, nil
	case kmsg.Metadata:
		s.learnTopics(p, body)
		return s.rewriteAddresses(p, frame)
	default:
		return s.rewriteAddresses(p, frame)
	}
	if err != nil {
		return nil, rewriteError(p, err)
	}
	return withLength(body, frame), nil
}

func rewriteError(p *pending, err error) error {
	return &protocolError{fmt.Sprintf("the broker's %s v%d answer can't be rewritten: %v", kmsg.NameForKey(p.key), p.version, err)}
}

func (s *session) rewriteAddresses(p *pending, frame []byte) ([]byte, error) {
	body, err := wire.RewriteAddresses(p.key, p.version, frame[lengthPrefix:], func(a wire.Address) (string, int32) {
		return s.proxy.listeners.advertise(a.Node, a.Host, a.Port)
	})
	if err != nil {
		return nil, rewriteError(p, err)
	}
	return withLength(body, frame), nil
}

// withLength puts the length prefix before a body; original is used again where
// the body is its own.
func withLength(body, original []byte) []byte {
	if len(body) == len(original)-lengthPrefix && &body[0] == &original[lengthPrefix] {
		return original
	}
	frame := make([]byte, lengthPrefix+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	copy(frame[lengthPrefix:], body)
	return frame
}

// learnTopics takes the topic ids from a Metadata answer (v10 and later,
// KIP-516).
func (s *session) learnTopics(p *pending, body []byte) {
	if p.version < 10 {
		return
	}
	r, err := wire.DecodeResponse(p.key, p.version, body)
	if err != nil {
		return // rewriting the addresses will say so
	}
	for _, t := range r.(*kmsg.MetadataResponse).Topics {
		if t.Topic != nil && t.ErrorCode == codeNone {
			name := strings.Clone(*t.Topic) // it lies in the frame
			s.proxy.topics.learn(name, t.TopicID)
			s.proxy.cfg.Cluster.Watch(name)
		}
	}
}

// learnEpoch takes the epoch that a transactional producer goes on with: what
// it sent under an older one is over (KIP-890).
func (s *session) learnEpoch(p *pending, body []byte) {
	r, err := wire.DecodeResponse(p.key, p.version, body)
	if err != nil {
		return
	}
	switch r := r.(type) {
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == codeNone && r.ProducerEpoch > 0 {
			s.proxy.windows.fence(r.ProducerID, r.ProducerEpoch)
		}
	case *kmsg.EndTxnResponse:
		if r.ErrorCode == codeNone && p.version >= 5 && r.ProducerID >= 0 {
			s.proxy.windows.fence(r.ProducerID, r.ProducerEpoch)
		}
	}
}
