package proxy

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/records"
	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/upstream"
)

// stampable says whether a batch has no producer id and can get one.
func stampable(part *wire.ProducePartition) bool {
	return part.Problem == wire.BatchOK && part.Batch.ProducerID < 0 && !part.Batch.Control() && !part.Batch.Transactional()
}

// errUnstampable says that a request goes on without stamps.
var errUnstampable = errors.New("the upstream gives no producer ids")

// stampAll makes the batches of a request that have no producer id safe to send
// twice: records that are a retry of stored ones are left out, and the rest
// gets a producer id and sequence of Oncegate's. It returns the frame to go on
// with, which is another one where records were left out. The fates that are
// decided here are in s.preset.
func (s *session) stampAll(frame []byte) ([]byte, error) {
	req := &s.produce
	s.preset = s.preset[:0]
	if !slices.ContainsFunc(req.Partitions, func(part wire.ProducePartition) bool { return stampable(&part) }) {
		return frame, nil
	}
	// Before anything is changed: without an identity the request goes on as it
	// came.
	if err := s.haveIdentity(); err != nil {
		return nil, err
	}
	for range req.Partitions {
		s.preset = append(s.preset, batch{})
	}
	frame, err := s.leaveOutStored(frame)
	if err != nil {
		s.unstamp()
		return nil, err
	}
	for i := range req.Partitions {
		part := &req.Partitions[i]
		if s.preset[i].own || !stampable(part) {
			continue
		}
		if err := s.stamp(i, frame[lengthPrefix+part.Start:lengthPrefix+part.End]); err != nil {
			s.unstamp()
			return nil, err
		}
	}
	return frame, nil
}

// stamp gives one batch its place in its lane, waiting while the lane recovers
// from a refusal.
func (s *session) stamp(i int, b []byte) error {
	part := &s.produce.Partitions[i]
	key := laneKey{s.proxy.topics.handle(part.Topic, part.TopicID), part.Index}
	for {
		if err := s.haveIdentity(); err != nil {
			return fmt.Errorf("another producer id is needed: %w", err)
		}
		st, ok := s.identity.take(key, b, &part.Batch)
		if ok {
			s.preset[i].st = st
			return nil
		}
		s.flush()
		select {
		case <-s.wake:
		case <-time.After(50 * time.Millisecond): // a wake-up may have been another's
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// haveIdentity sees to it that the session has an identity to stamp with.
func (s *session) haveIdentity() error {
	if s.identity != nil && !s.identity.isSpoiled() {
		return nil
	}
	if s.saslSeen {
		return s.noIdentity(fmt.Errorf("%w to clients that authenticate themselves: it would need credentials of its own", upstream.ErrNoProducerIDs))
	}
	s.flush()
	id, err := s.proxy.identities.take(s.proxy.cfg.Cluster.LeaseProducerID)
	if err != nil {
		return s.noIdentity(err)
	}
	s.setIdentity(id)
	return nil
}

func (s *session) noIdentity(err error) error {
	if errors.Is(err, upstream.ErrNoProducerIDs) {
		if s.proxy.unstampedLogged.CompareAndSwap(false, true) {
			s.log.Error("batches without a producer id pass unprotected; set STAMP=off if that is meant", zap.Error(err))
		}
		return errUnstampable
	}
	s.log.Warn("a batch can't be stamped; the client gets a retriable error", zap.Error(err))
	return err
}

func (s *session) setIdentity(id *identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identity = id
}

// unstamp takes back what stampAll did for a request that will not go on: the
// places of its batches, the newest first, and the records that it claimed.
func (s *session) unstamp() {
	for i := len(s.preset) - 1; i >= 0; i-- {
		b := &s.preset[i]
		if b.st.identity != nil {
			b.st.giveBack()
			b.st = stamped{}
		}
		if b.claims != nil {
			s.proxy.doubts.unclaim(s, b.claims)
			b.claims = nil
		}
	}
}

// doubtKeyOf is where the client's doubts about a partition are kept.
func (s *session) doubtKeyOf(part *wire.ProducePartition) doubtKey {
	host, _, _ := net.SplitHostPort(s.client.RemoteAddr().String())
	return doubtKey{client: s.name, host: host, topic: s.proxy.topics.handle(part.Topic, part.TopicID), partition: part.Index}
}

// leaveOutStored takes records out of the request that are a retry of stored
// ones.
func (s *session) leaveOutStored(frame []byte) ([]byte, error) {
	if !s.siblingsChecked {
		s.siblingsChecked = true
		s.proxy.registerDeadSiblings(s)
	}
	ds := s.proxy.doubts
	req := &s.produce
	var replaced map[int][]byte
	for i := range req.Partitions {
		part := &req.Partitions[i]
		if !stampable(part) || !ds.about(s.doubtKeyOf(part)) {
			continue
		}
		decoded, err := records.Decode(frame[lengthPrefix+part.Start : lengthPrefix+part.End])
		if err != nil {
			continue // the broker will say what is wrong with it
		}
		claims := ds.claim(s.doubtKeyOf(part), s, decoded.Digests(ds.seed))
		if claims == nil {
			continue
		}
		if err := s.awaitOutcome(claims); err != nil {
			s.preset[i].claims = claims
			return nil, err
		}
		rest, err := s.answerClaims(i, decoded, claims)
		if err != nil {
			return nil, err
		}
		if rest != nil {
			if replaced == nil {
				replaced = make(map[int][]byte)
			}
			replaced[i] = rest
		}
	}
	if len(replaced) == 0 {
		return frame, nil
	}
	return s.replaceRecords(frame, replaced)
}

// awaitOutcome waits until it is known what became of the claimed records.
func (s *session) awaitOutcome(claims []claim) error {
	giveUp := time.NewTimer(s.proxy.cfg.GiveUp)
	defer giveUp.Stop()
	for _, c := range claims {
		if c.d == nil {
			continue
		}
		select {
		case <-c.d.settled:
			continue
		default:
		}
		s.flush()
		select {
		case <-c.d.settled:
		case <-giveUp.C:
			return errors.New("the outcome of the original is still unknown")
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

// answerClaims decides on partition i of which some records came before. It
// returns the batch of those that are not stored, where that is only a part.
func (s *session) answerClaims(i int, decoded *records.Batch, claims []claim) (rest []byte, err error) {
	stored := 0
	for at := range claims {
		if c := &claims[at]; c.d != nil && !c.d.stored {
			c.d = nil
		} else if c.d != nil {
			stored++
		}
	}
	b := &s.preset[i]
	b.claims = claims
	s.proxy.stats.RecordsLeftOut.Add(uint64(stored))
	switch stored {
	case 0:
		b.claims = nil
		return nil, nil
	case len(claims):
		b.reword(codeNone)
		b.answer.BaseOffset = contiguousOffset(claims)
		return nil, nil
	}
	b.partial = true
	return decoded.Subset(func(at int) bool { return claims[at].d == nil })
}

// contiguousOffset is the offset of the first record where all lie behind each
// other, else −1: one base offset can't tell of records that don't.
func contiguousOffset(claims []claim) int64 {
	base := int64(unknownOffset)
	for at, c := range claims {
		if c.d.offset < 0 {
			return unknownOffset
		}
		if here := c.d.offset + int64(c.i) - int64(at); at == 0 {
			base = here
		} else if here != base {
			return unknownOffset
		}
	}
	return base
}

// replaceRecords makes a frame with other records for some partitions, and
// peeks it.
func (s *session) replaceRecords(frame []byte, replaced map[int][]byte) ([]byte, error) {
	h := s.produce.Header
	req := kmsg.NewPtrProduceRequest()
	req.Version = h.Version
	if err := req.ReadFrom(frame[lengthPrefix+h.Len:]); err != nil {
		return nil, fmt.Errorf("a Produce request can't be decoded: %w", err)
	}
	i := 0
	for t := range req.Topics {
		for part := range req.Topics[t].Partitions {
			if b, ok := replaced[i]; ok {
				req.Topics[t].Partitions[part].Records = b
			}
			i++
		}
	}
	out := req.AppendTo(append([]byte(nil), frame[:lengthPrefix+h.Len]...))
	setLength(out)
	return out, s.produce.Peek(out[lengthPrefix:])
}

// settleStamped records the broker's answer for a stamped batch. The client
// has no sequences, so it must not be told of them: what was refused only
// because of another batch gets a retriable error.
func (s *session) settleStamped(p *pending, i int, answer *wire.ProduceResponsePartition) (reworded bool) {
	b := &p.batches[i]
	windows, now := s.proxy.windows, s.proxy.seconds()
	code, offset := answer.ErrorCode, answer.BaseOffset
	if code == codeDuplicateSequence {
		code, offset = codeNone, unknownOffset
	}
	if code == codeNone {
		windows.stored(b.shard, b.ticket, offset, now)
		b.st.stored()
		s.noteOutcome(b, true, offset)
		if answer.ErrorCode != codeNone || b.partial {
			b.reword(codeNone)
			return true
		}
		return false
	}
	windows.failed(b.shard, b.ticket, answer.ErrorCode, now)
	switch code {
	case codeRequestTimedOut, dedup.CodeNotEnoughAfterAppend:
		s.doubtful(p, i)
		return false
	}
	behindAnother := b.st.refused()
	s.noteOutcome(b, false, unknownOffset)
	s.wakeUp()
	switch code {
	case dedup.CodeOutOfOrderSequence, dedup.CodeInvalidProducerEpoch, dedup.CodeUnknownProducerID:
		if !behindAnother {
			s.log.Warn("the upstream refused a stamp; another producer id is taken", zap.Int16("code", code), zap.Int64("producer_id", b.st.identity.id))
			b.st.identity.spoil()
		}
		b.reword(codeNotEnoughReplicas)
		return true
	case dedup.CodeUnknownTopicOrPartition, dedup.CodeUnknownTopicID:
		s.proxy.topics.forget(answer.Topic, answer.TopicID)
	}
	return false
}

// noteOutcome keeps the outcome of a stamped batch, for those that may ask.
func (s *session) noteOutcome(b *batch, stored bool, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.fate, b.stored, b.offset = fateSettled, stored, offset
	if b.doubt != nil {
		b.doubt.settle(stored, offset)
	}
}
