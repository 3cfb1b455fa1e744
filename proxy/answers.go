package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/wire"
)

// protocolError is an upstream answer that can't be right. The session ends:
// sending the requests again would not mend it.
type protocolError struct{ reason string }

func (e *protocolError) Error() string { return e.reason }

// readAnswers serves the upstream's answers until both sides are done, over as
// many upstream connections as it takes.
func (s *session) readAnswers() {
	defer close(s.upDone)
	for {
		f := newFrames(s.up, math.MaxInt32, 0, s.flushClient)
		err := s.answersFrom(f)
		s.flushClient()
		f.drop()
		if errors.Is(err, errDrained) || !s.resume(err) {
			s.kill()
			return
		}
	}
}

// answersFrom serves the answers of one upstream connection.
func (s *session) answersFrom(f *frames) error {
	for {
		size, err := f.head()
		if err != nil {
			return err
		}
		p, err := s.awaiting(int32(binary.BigEndian.Uint32(f.chunk.buf[f.r+lengthPrefix:])))
		if err != nil {
			return err
		}
		if p.reply == replyPass && size > readChunk {
			err = s.streamAnswer(f, p, size)
		} else {
			err = s.bufferedAnswer(f, p, size)
		}
		if err != nil {
			return err
		}
		s.resumed = 0
		if s.drained() {
			return errDrained
		}
	}
}

// awaiting returns the request whose turn it is. Answers come in the order of
// the requests; the correlation id proves it.
func (s *session) awaiting(correlationID int32) (*pending, error) {
	s.mu.Lock()
	if s.pending.size > 0 && s.pending.at(0).reply == replyLocal {
		// An answer of Oncegate's own is due first; the request goroutine may
		// not have come to it yet.
		s.mu.Unlock()
		s.emitReady()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.pending.size == 0 {
		return nil, &protocolError{fmt.Sprintf("the broker answered correlation id %d, but nothing was asked", correlationID)}
	}
	p := s.pending.at(0)
	if p.correlationID != correlationID {
		return nil, &protocolError{fmt.Sprintf("the broker answered correlation id %d where %d was due", correlationID, p.correlationID)}
	}
	return p, nil
}

// drained says whether the client asks no more and has all its answers.
func (s *session) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inputDone && s.pending.size == 0
}

func (s *session) bufferedAnswer(f *frames, p *pending, size int) error {
	frame, _, err := f.whole(size)
	if err != nil {
		return err
	}
	switch p.reply {
	case replyProduce:
		frame, err = s.settle(p, frame)
	case replyRewrite:
		frame, err = s.rewrite(p, frame)
	}
	if err != nil {
		return err
	}
	s.emit(frame)
	return nil
}

// streamAnswer passes a large answer on without holding it.
func (s *session) streamAnswer(f *frames, p *pending, size int) error {
	s.flushClient()
	s.outMu.Lock()
	var err error
	if s.outBroken {
		err = f.stream(io.Discard, size)
	} else {
		err = f.stream(s.client, size)
	}
	s.outMu.Unlock()
	if err != nil {
		// The client has a part of an answer, which nothing can complete.
		return &protocolError{fmt.Sprintf("a streamed answer broke off: %v", err)}
	}
	s.emit(nil)
	return nil
}

// emit gathers the answer to the oldest request, and those of Oncegate's own
// whose turn comes with it.
func (s *session) emit(frame []byte) {
	s.outMu.Lock()
	s.mu.Lock()
	p := s.pending.pop()
	remembered := s.remember(p)
	silent := p.silent
	s.mu.Unlock()
	if len(frame) > 0 && !silent {
		s.out = appendSegment(s.out, frame)
	}
	s.gatherReady()
	s.outMu.Unlock()
	if remembered {
		s.forgetAnswers(rememberedAnswers, rememberedBytes, 0)
	} else {
		s.letGo(p)
	}
}

// emitReady gathers Oncegate's own answers whose turn it is.
func (s *session) emitReady() {
	s.outMu.Lock()
	s.gatherReady()
	s.outMu.Unlock()
}

// gatherReady is emitReady with outMu held.
func (s *session) gatherReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.pending.size > 0 && s.pending.at(0).reply == replyLocal {
		p := s.pending.pop()
		answer := p.answer
		if s.remember(p) {
			answer = bytes.Clone(answer) // p may be let go of before it is written
		} else {
			s.spent = append(s.spent, p)
		}
		if !p.silent {
			s.out = appendSegment(s.out, answer)
		}
	}
}

// flushClient writes the gathered answers.
func (s *session) flushClient() {
	s.outMu.Lock()
	if !s.outBroken {
		if err := writeSegments(s.client, s.out, &s.outBuffers); err != nil {
			// The upstream's answers are still read: they tell what is stored.
			s.outBroken = true
			s.client.Close()
		}
	}
	s.out = s.out[:0]
	spent := s.spent
	s.spent = nil
	s.outMu.Unlock()
	for _, p := range spent {
		s.letGo(p)
	}
}

// settle gives the broker's word on each batch to the dedup core, and returns
// the frame that answers the client.
func (s *session) settle(p *pending, frame []byte) ([]byte, error) {
	r := &s.answered
	if err := r.Peek(p.version, frame[lengthPrefix:]); err != nil {
		return nil, &protocolError{fmt.Sprintf("the broker's Produce v%d answer can't be read: %v", p.version, err)}
	}
	simple := len(p.batches) == 1 && len(r.Partitions) == 1
	if !simple {
		if err := s.asked.Peek(p.request[lengthPrefix:]); err != nil {
			return nil, &protocolError{err.Error()}
		}
	}
	reworded := false
	for j := range r.Partitions {
		answer := &r.Partitions[j]
		i := 0
		if !simple {
			if i = s.askedIndex(answer, j); i < 0 {
				return nil, &protocolError{"the broker answered for a partition that was not asked for"}
			}
		}
		if i < len(p.batches) && s.settleBatch(p, i, answer) {
			reworded = true
		}
	}
	s.abandon(p)
	switch {
	case p.split != nil && len(p.sent) > 0 && &p.sent[0] != &p.request[0], reworded:
		if simple {
			if err := s.asked.Peek(p.request[lengthPrefix:]); err != nil {
				return nil, &protocolError{err.Error()}
			}
		}
		merged := s.asked.AppendMerged(make([]byte, lengthPrefix, len(frame)+64*len(p.batches)), r, frame[lengthPrefix:], func(i int) (wire.PartitionAnswer, bool) {
			return p.batches[i].answer, p.batches[i].fate == fateLocal || p.batches[i].own
		})
		setLength(merged)
		frame = merged
	}
	if r.NodeEndpoints {
		return s.rewriteAddresses(p, frame)
	}
	return frame, nil
}

// settleBatch records the broker's answer for b, and says whether the client
// must be told something else.
func (s *session) settleBatch(p *pending, i int, answer *wire.ProduceResponsePartition) (reworded bool) {
	b := &p.batches[i]
	if b.fate != fateForwarded {
		return false
	}
	if b.st.identity != nil {
		return s.settleStamped(p, i, answer)
	}
	b.fate = fateSettled
	windows, now := s.proxy.windows, s.proxy.seconds()
	switch answer.ErrorCode {
	case codeNone:
		windows.stored(b.shard, b.ticket, answer.BaseOffset, now)
	case codeDuplicateSequence:
		// A success that says only that the original is out of the broker's
		// sight. kafkajs takes it for a failure, so the client never sees it.
		windows.stored(b.shard, b.ticket, unknownOffset, now)
		b.reword(codeNone)
		return true
	case dedup.CodeUnknownTopicOrPartition, dedup.CodeUnknownTopicID:
		s.proxy.topics.forget(answer.Topic, answer.TopicID)
		windows.failed(b.shard, b.ticket, answer.ErrorCode, now)
	default:
		windows.failed(b.shard, b.ticket, answer.ErrorCode, now)
	}
	return false
}

// askedIndex finds the partition of the request that an answer is for. Brokers
// may group them in another order than the request; mostly they don't.
func (s *session) askedIndex(answer *wire.ProduceResponsePartition, guess int) int {
	same := func(i int) bool {
		part := &s.asked.Partitions[i]
		return part.Index == answer.Index && part.TopicID == answer.TopicID && string(part.Topic) == string(answer.Topic)
	}
	if guess < len(s.asked.Partitions) && same(guess) {
		return guess
	}
	for i := range s.asked.Partitions {
		if same(i) {
			return i
		}
	}
	return -1
}

func (s *session) warnProtocol(err error) {
	var bad *protocolError
	if errors.As(err, &bad) {
		s.log.Error("closed a connection: "+bad.reason, zap.String("hint", "this is a fault of Oncegate or of the broker; please report it"))
	}
}
