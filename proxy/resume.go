package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/internal/wire"
)

// resume mends a broken upstream connection: it dials anew and sends every
// unanswered request again, in order, with the same producer id, epoch and
// sequence, so that the broker appends only what it hasn't yet. It returns
// false where the session has to end instead. The client notices nothing but
// time.
func (s *session) resume(cause error) bool {
	var bad *protocolError
	if errors.As(cause, &bad) {
		s.warnProtocol(cause)
		return false
	}
	s.upMu.Lock()
	defer s.upMu.Unlock()
	s.up.Close()
	if s.ctx.Err() != nil {
		return false
	}
	// What the broker holds may have changed: its windows' word has to be
	// verified from now on.
	s.endpoint.leadershipDoubtful()
	deadline, ok := s.resumable()
	if !ok {
		return false
	}
	s.log.Info("the upstream connection broke; sending its unanswered requests again", zap.Error(cause))
	s.proxy.stats.Reconnects.Add(1)
	for ; ; s.resumed++ {
		if !s.pause(s.resumed, deadline) {
			s.proxy.stats.GaveUp.Add(1)
			s.log.Warn("gave up on unanswered requests; the client gets a retriable error", zap.Duration("after", s.proxy.cfg.GiveUp))
			s.answerAll(codeRequestTimedOut)
			return false
		}
		ctx, cancel := context.WithDeadline(s.ctx, deadline)
		up, err := s.endpoint.dial(ctx)
		cancel()
		switch {
		case err == nil:
			if err = s.sendAgain(up); err == nil {
				s.resumed++ // until the broker answers, this has not mended anything
				return true
			}
			up.Close()
		case s.leaderMoved():
			s.log.Info("the partitions' leader moved; the client is told so", zap.Error(err))
			s.answerAll(codeNotLeader)
			return false
		}
		s.log.Debug("sending again failed", zap.Int("attempt", s.resumed), zap.Error(err))
	}
}

// resumable says whether everything unanswered may be sent again, and until
// when that is tried.
func (s *session) resumable() (deadline time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saslSeen || s.inputDone || !s.awaitsProduce() {
		return time.Time{}, false
	}
	oldest := int64(0)
	for i := range s.pending.size {
		p := s.pending.at(i)
		if p.reply != replyLocal && p.sent == nil {
			return time.Time{}, false
		}
		if oldest == 0 {
			oldest = p.since
		}
	}
	return s.proxy.started.Add(time.Duration(oldest)).Add(s.proxy.cfg.GiveUp), true
}

// pause waits before an attempt: not at all before the first, then for a time
// that doubles up to a second, with jitter so that many sidecars don't come
// back at once. It returns false when the time is over.
func (s *session) pause(attempt int, deadline time.Time) bool {
	if time.Until(deadline) <= 0 || s.gaveUp.Load() {
		return false
	}
	if attempt == 0 {
		return true
	}
	wait := min(time.Second, 25*time.Millisecond<<min(attempt, 6))
	wait = wait/2 + rand.N(wait/2)
	timer := time.NewTimer(min(wait, time.Until(deadline)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return time.Now().Before(deadline)
	case <-s.ctx.Done():
		return false
	}
}

// sendAgain writes all unanswered requests to up and makes it the session's;
// upMu is held.
func (s *session) sendAgain(up net.Conn) error {
	s.mu.Lock()
	var segments [][]byte
	for i := range s.pending.size {
		if p := s.pending.at(i); p.reply != replyLocal {
			segments = append(segments, p.sent)
		}
	}
	s.unsent = s.unsent[:0] // all of it is in segments
	s.up = up
	s.mu.Unlock()
	s.proxy.stats.Resent.Add(uint64(len(segments)))
	return writeSegments(up, segments, &s.upBuffers)
}

// leaderMoved says whether another broker leads a partition that is awaited
// here. The client then has to go there: it gets NOT_LEADER_OR_FOLLOWER, its
// retry comes on that broker's listener, and that broker tells whether it has
// the batch.
func (s *session) leaderMoved() bool {
	s.proxy.cfg.Cluster.Refresh()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.pending.size {
		p := s.pending.at(i)
		if p.reply != replyProduce || s.asked.Peek(p.request[lengthPrefix:]) != nil {
			continue
		}
		for j := range s.asked.Partitions {
			part := &s.asked.Partitions[j]
			leader, ok := s.proxy.cfg.Cluster.Leader(s.proxy.topics.name(part.Topic, part.TopicID), part.Index)
			if ok && leader != s.endpoint.node && s.endpoint.node >= 0 {
				return true
			}
		}
	}
	return false
}

// answerAll answers the unanswered Produce requests at the head of the queue
// with a retriable error: their batches are in doubt.
func (s *session) answerAll(code int16) {
	for {
		s.mu.Lock()
		if s.pending.size == 0 || s.pending.at(0).reply != replyProduce {
			s.mu.Unlock()
			break
		}
		p := s.pending.at(0)
		s.mu.Unlock()
		if s.asked.Peek(p.request[lengthPrefix:]) != nil {
			break
		}
		s.abandon(p)
		answer := s.asked.AppendResponse(make([]byte, lengthPrefix, 256), func(i int) wire.PartitionAnswer {
			if p.batches[i].fate == fateLocal {
				return p.batches[i].answer
			}
			return failure(code)
		})
		setLength(answer)
		s.emit(answer)
	}
	s.flushClient()
}
