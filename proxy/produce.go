package proxy

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/wire"
)

const (
	codeNone                 = 0
	codeNotLeader            = 6
	codeRequestTimedOut      = dedup.CodeRequestTimedOut
	codeDuplicateSequence    = 46
	firstProduceVersion      = 3 // the first with record batches of magic 2 (KIP-98)
	codeCorruptMessage       = 2
	codeMessageTooLarge      = 10
	codeNotEnoughReplicas    = 19
	codeTopicAuthorization   = 29
	codeClusterAuthorization = 31
	codeUnsupportedVersion   = 35
	unknownOffset            = -1
	unknownTimestamp         = -1
)

// routeProduce asks the dedup core about every batch of a Produce request, and
// forwards what is new. It takes over cost.
func (s *session) routeProduce(h *wire.RequestHeader, frame []byte, c *chunk, cost int64) error {
	if h.Version < firstProduceVersion {
		s.proxy.budget.Release(cost)
		return s.refuseOldProduce(h, frame)
	}
	req := &s.produce
	if err := req.Peek(frame[lengthPrefix:]); err != nil {
		s.proxy.budget.Release(cost)
		return &frameError{fmt.Sprintf("a Produce v%d request can't be read: %v", h.Version, err)}
	}
	s.preset = s.preset[:0]
	if s.proxy.cfg.Stamp {
		stamped, err := s.stampAll(frame)
		switch {
		case err == errUnstampable:
			s.preset = s.preset[:0]
		case err != nil:
			s.proxy.budget.Release(cost)
			return s.refuseUnstamped(h, err)
		case &stamped[0] != &frame[0]:
			s.proxy.budget.Release(cost)
			frame, c, cost = stamped, nil, 0
		}
	}
	p := s.newPending(h)
	p.reply = replyProduce
	tracked := s.raiseAcks(p, frame)
	if req.Acks == 0 {
		// No answer will come, so nothing can be learnt from it.
		s.letGo(p)
		s.forward(nil, frame)
		if cost > 0 {
			s.flush()
			s.proxy.budget.Release(cost)
		}
		return nil
	}
	if cost == 0 {
		var err error
		if cost, err = s.reserve(len(frame)); err != nil {
			s.unstamp()
			return err
		}
	}
	s.keep(p, frame, c, cost)
	if tracked {
		if err := s.admit(p); err != nil {
			s.unstamp()
			s.letGo(p)
			return err
		}
	}
	return s.dispatch(p)
}

// presetAt is what stamping decided of partition i, nil where it did not.
func (s *session) presetAt(i int) *batch {
	if i >= len(s.preset) || !s.preset[i].own && s.preset[i].st.identity == nil {
		return nil
	}
	return &s.preset[i]
}

// refuseUnstamped answers a request that can't be made safe with a retriable
// error.
func (s *session) refuseUnstamped(h *wire.RequestHeader, err error) error {
	if s.ctx.Err() != nil || s.produce.Acks == 0 {
		return err
	}
	p := s.newPending(h)
	s.refuseAll(p, codeRequestTimedOut)
	return s.answerLocally(p)
}

// raiseAcks sees to it that an idempotent batch is acknowledged by all in-sync
// replicas. Brokers take a producer id with acks 0 or 1 (only clients insist
// on all), and lose what they have acknowledged when the leader dies. It
// returns whether the request has a batch to track.
func (s *session) raiseAcks(p *pending, frame []byte) (tracked bool) {
	req := &s.produce
	for i := range req.Partitions {
		if trackable(&req.Partitions[i]) || s.presetAt(i) != nil {
			tracked = true
			break
		}
	}
	if !tracked || req.Acks == -1 || !s.proxy.cfg.RaiseAcks && len(s.preset) == 0 {
		return tracked && req.Acks != 0
	}
	p.silent = req.Acks == 0
	req.SetAcks(frame[lengthPrefix:], -1)
	s.proxy.stats.AcksRaised.Add(1)
	return true
}

// trackable says whether a batch can be told from its retry by its sequence.
// Any other is the broker's to judge.
func trackable(part *wire.ProducePartition) bool {
	return part.Problem == wire.BatchOK && part.Batch.ProducerID >= 0 && part.Batch.BaseSequence >= 0 && !part.Batch.Control()
}

// admit gets a verdict on every batch of p, waiting where it must. A broker,
// too, serves one request of a connection at a time: waiting here keeps the
// order and needs no second queue.
func (s *session) admit(p *pending) error {
	var giveUp <-chan time.Time
	for {
		next, b := s.submitAll(p)
		if next == dedup.Forward {
			return nil
		}
		s.withdrawAll(p)
		s.flush()
		if next == dedup.Verify {
			s.verify(b)
			continue
		}
		s.proxy.stats.Waits.Add(1)
		if giveUp == nil {
			timer := time.NewTimer(s.proxy.cfg.GiveUp)
			defer timer.Stop()
			giveUp = timer.C
		}
		select {
		case <-s.wake:
		case <-giveUp:
			s.unstamp()
			s.refuseAll(p, codeRequestTimedOut)
			return nil
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// submitAll submits the batches of p until one can't be settled at once, and
// returns what that one needs; Forward stands for none.
func (s *session) submitAll(p *pending) (dedup.Kind, *dedup.Batch) {
	req := &s.produce
	leader, now := s.endpoint.leader.Load(), s.proxy.seconds()
	p.batches = p.batches[:0]
	for i := range req.Partitions {
		part := &req.Partitions[i]
		preset := s.presetAt(i)
		if preset != nil && preset.own {
			p.batches = append(p.batches, batch{fate: fateLocal, answer: preset.answer, claims: preset.claims})
			continue
		}
		if !trackable(part) {
			p.batches = append(p.batches, batch{fate: fateUntracked})
			continue
		}
		b := &s.batch
		*b = dedup.Batch{
			Key: dedup.Key{
				Topic:      s.proxy.topics.handle(part.Topic, part.TopicID),
				Partition:  part.Index,
				ProducerID: part.Batch.ProducerID,
			},
			Epoch:  part.Batch.ProducerEpoch,
			First:  part.Batch.BaseSequence,
			Last:   part.Batch.LastSequence(),
			CRC:    part.Batch.CRC,
			Link:   s.link,
			Leader: leader,
		}
		shard, v := s.proxy.windows.submit(b, now)
		switch v.Kind {
		case dedup.Forward:
			b := batch{fate: fateForwarded, shard: shard, ticket: v.Ticket}
			if preset != nil {
				b.st, b.partial, b.claims = preset.st, preset.partial, preset.claims
			}
			p.batches = append(p.batches, b)
		case dedup.Wait, dedup.Verify:
			s.verifyTopic, s.verifyID = part.Topic, part.TopicID
			return v.Kind, b
		default:
			answer := s.localAnswer(part, b, v)
			if preset != nil {
				// Its predecessor was refused while it waited. The client knows
				// nothing of sequences; it sends the batch again.
				preset.st.refused()
				preset.st = stamped{}
				preset.reword(codeNotEnoughReplicas)
				answer = preset.answer
			}
			p.batches = append(p.batches, batch{fate: fateLocal, answer: answer})
		}
	}
	return dedup.Forward, nil
}

// localAnswer words a verdict that needs no broker.
func (s *session) localAnswer(part *wire.ProducePartition, b *dedup.Batch, v dedup.Verdict) wire.PartitionAnswer {
	a := wire.PartitionAnswer{BaseOffset: unknownOffset, LogAppendTime: unknownTimestamp, LogStartOffset: unknownOffset}
	if v.Reused {
		s.noteReuse(part, b)
	}
	switch {
	case v.Kind == dedup.Refuse:
		a.ErrorCode = v.Code
	case part.Batch.Transactional() && s.proxy.windows.fenced(b):
		a.ErrorCode = dedup.CodeInvalidProducerEpoch
	default:
		a.BaseOffset = v.Offset
	}
	return a
}

func (s *session) withdrawAll(p *pending) {
	for i := range p.batches {
		if b := &p.batches[i]; b.fate == fateForwarded {
			s.proxy.windows.withdraw(b.shard, b.ticket, s.proxy.seconds())
		}
	}
	p.batches = p.batches[:0]
}

// refuseAll answers every batch of p with code.
func (s *session) refuseAll(p *pending, code int16) {
	p.batches = p.batches[:0]
	for range s.produce.Partitions {
		p.batches = append(p.batches, batch{fate: fateLocal, answer: failure(code)})
	}
}

func failure(code int16) wire.PartitionAnswer {
	return wire.PartitionAnswer{ErrorCode: code, BaseOffset: unknownOffset, LogAppendTime: unknownTimestamp, LogStartOffset: unknownOffset}
}

// dispatch sends p where its batches' fates lead: upstream, to the client, or
// in two parts.
func (s *session) dispatch(p *pending) error {
	req := &s.produce
	local := 0
	for i := range p.batches {
		if p.batches[i].fate == fateLocal {
			local++
			s.count(&p.batches[i].answer, req.Partitions[i].End-req.Partitions[i].Start)
		}
	}
	s.proxy.stats.Forwarded.Add(uint64(len(req.Partitions) - local))
	switch local {
	case 0:
		return s.enqueue(p, p.request)
	case len(req.Partitions):
		return s.answerLocally(p)
	default:
		keep := func(i int) bool { return p.batches[i].fate != fateLocal }
		p.split = req.AppendSplit(append(p.split[:0], 0, 0, 0, 0), p.request[lengthPrefix:], keep)
		setLength(p.split)
		p.sent = p.split
		return s.enqueue(p, p.sent)
	}
}

// enqueue puts p in the queue of answers, and frame, if any, in that of the
// upstream, unless the client has come back on another connection and sends the
// request again there.
func (s *session) enqueue(p *pending, frame []byte) error {
	s.mu.Lock()
	if s.doubtsRegistered && p.stampedBatches() {
		s.mu.Unlock()
		s.withdrawAll(p)
		s.unstamp()
		s.letGo(p)
		return errAbandoned
	}
	s.pending.push(p)
	if frame != nil {
		s.unsent = appendSegment(s.unsent, frame)
	}
	s.mu.Unlock()
	return nil
}

// count tells the counters of a local answer to a batch of size bytes.
func (s *session) count(a *wire.PartitionAnswer, size int) {
	if a.ErrorCode == codeNone {
		s.proxy.stats.Duplicates.Add(1)
		s.proxy.stats.BytesSaved.Add(uint64(size))
	} else {
		s.proxy.stats.Refused.Add(1)
	}
}

// answerLocally queues the whole answer to p; it is written when its turn
// comes.
func (s *session) answerLocally(p *pending) error {
	p.reply = replyLocal
	if !p.silent {
		p.answer = s.produce.AppendResponse(append(p.answer[:0], 0, 0, 0, 0), func(i int) wire.PartitionAnswer { return p.batches[i].answer })
		setLength(p.answer)
	}
	s.localReady = true
	return s.enqueue(p, nil)
}

func setLength(frame []byte) {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-lengthPrefix))
}

// noteReuse counts a stored range that came with another CRC, and logs it once
// per producer. Some clients use sequences twice under concurrent sends, and
// brokers then acknowledge records that they never stored.
func (s *session) noteReuse(part *wire.ProducePartition, b *dedup.Batch) {
	s.proxy.stats.Reused.Add(1)
	if !s.proxy.reuseLogged.first(b.ProducerID) {
		return
	}
	s.log.Warn("sequence reused: a stored range came again with another CRC; either the client encodes its retries anew, or it lost records",
		zap.String("topic", s.proxy.topics.name(part.Topic, part.TopicID)), zap.Int32("partition", b.Partition),
		zap.Int64("producer_id", b.ProducerID), zap.Int16("producer_epoch", b.Epoch),
		zap.Int32("first_sequence", b.First), zap.Int32("last_sequence", b.Last))
}
