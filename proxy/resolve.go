package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/wire"
)

// resolver settles stamped batches whose session could not: it sends each
// again, under the same stamp, to whatever broker leads its partition, until
// that tells. Whichever copy lands first, the broker drops the other.
type resolver struct {
	proxy *Proxy

	mu      sync.Mutex
	jobs    []job // in the order of their stamps
	running bool
}

// job is one batch.
type job struct {
	topic     string
	topicID   [16]byte
	partition int32
	batch     []byte // with its stamp
	st        stamped
	doubt     *doubt // nil where the client can't ask again
}

// doubtful hands a stamped batch with an unknown outcome to the resolver; p
// still holds its bytes.
func (s *session) doubtful(p *pending, i int) {
	var req wire.Produce
	if err := req.Peek(p.request[lengthPrefix:]); err != nil {
		return
	}
	part := &req.Partitions[i]
	s.mu.Lock()
	b := &p.batches[i]
	b.fate = fateSettled
	if b.doubt == nil && !p.silent {
		b.doubt = s.newDoubt(&req, p, i, false)
	}
	j := job{
		topic: s.proxy.topics.name(part.Topic, part.TopicID), topicID: part.TopicID, partition: part.Index,
		batch: append([]byte(nil), p.request[lengthPrefix+part.Start:lengthPrefix+part.End]...),
		st:    b.st, doubt: b.doubt,
	}
	s.mu.Unlock()
	b.st.identity.spoil()
	s.resolver.add(j)
}

func (r *resolver) add(j job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, j)
	r.proxy.stats.Unresolved.Add(1)
	if !r.running {
		r.running = true
		r.proxy.work.Go(r.run)
	}
}

func (r *resolver) run() {
	for {
		r.mu.Lock()
		if len(r.jobs) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		j := r.jobs[0]
		r.jobs = r.jobs[1:]
		r.mu.Unlock()
		r.resolve(&j)
		r.proxy.stats.Unresolved.Add(-1)
	}
}

// resolve works on one batch until its outcome is known, or for IN_DOUBT_TTL.
func (r *resolver) resolve(j *job) {
	ctx, cancel := context.WithTimeout(r.proxy.ctx, r.proxy.cfg.InDoubtTTL)
	defer cancel()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if attempt > 0 {
			wait := min(time.Second, 50*time.Millisecond<<min(attempt, 5))
			select {
			case <-time.After(wait/2 + rand.N(wait/2)):
			case <-ctx.Done():
				continue
			}
		}
		answer, err := r.send(ctx, j)
		if err != nil {
			r.proxy.log.Debug("a batch in doubt can't be sent again yet", zap.String("topic", j.topic), zap.Int32("partition", j.partition), zap.Error(err))
			continue
		}
		stored, known := r.judge(j, answer)
		if !known {
			continue
		}
		offset := int64(unknownOffset)
		if stored && answer.ErrorCode == codeNone {
			offset = answer.BaseOffset
		}
		if stored {
			j.st.stored()
		} else {
			j.st.refused()
		}
		if j.doubt != nil {
			j.doubt.settle(stored, offset)
		}
		return
	}
	r.proxy.stats.GaveUp.Add(1)
	r.proxy.log.Error("gave up on a batch in doubt: whether it is stored is not known, and its retry will be taken for new records",
		zap.String("topic", j.topic), zap.Int32("partition", j.partition), zap.Duration("IN_DOUBT_TTL", r.proxy.cfg.InDoubtTTL))
	if j.doubt != nil {
		j.doubt.settle(false, unknownOffset)
	}
}

// judge reads an answer: whether the batch is stored, and whether that is
// known.
func (r *resolver) judge(j *job, answer *kmsg.ProduceResponseTopicPartition) (stored, known bool) {
	switch answer.ErrorCode {
	case codeNone, codeDuplicateSequence:
		return true, true
	case dedup.CodeOutOfOrderSequence:
		// Either it can't be stored any more because one before it was not, or
		// it is, and the broker no longer retains it: after a restart it
		// retains the last batch only.
		epoch, last, found, err := r.proxy.cfg.Cluster.DescribeProducer(j.topic, j.partition, j.st.identity.id)
		if err != nil {
			return false, false
		}
		reached := found && epoch == j.st.identity.epoch && int32(uint32(last-(j.st.behind-1))&(1<<31-1)) < 1<<30
		return reached, true
	case dedup.CodeInvalidProducerEpoch, codeMessageTooLarge, dedup.CodeInvalidRecord, codeCorruptMessage, codeTopicAuthorization, codeClusterAuthorization:
		return false, true
	}
	return false, false
}

// send asks the leader once.
func (r *resolver) send(ctx context.Context, j *job) (*kmsg.ProduceResponseTopicPartition, error) {
	cluster := r.proxy.cfg.Cluster
	addr, err := cluster.LeaderAddr(j.topic, j.partition)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.proxy.cfg.GiveUp)
	defer cancel()
	conn, err := r.proxy.cfg.Dialer.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(past) })
	defer stop()
	return exchangeProduce(conn, j)
}

// exchangeProduce sends one batch and reads the answer.
func exchangeProduce(conn net.Conn, j *job) (*kmsg.ProduceResponseTopicPartition, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 7, -1, 10_000
	if j.topic == "" {
		req.Version = 13
	}
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = j.topic, j.topicID
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = j.partition, j.batch
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	frame := wire.AppendRequest(make([]byte, lengthPrefix), 1, "oncegate", req)
	setLength(frame)
	if _, err := conn.Write(frame); err != nil {
		return nil, err
	}
	var n [lengthPrefix]byte
	if _, err := io.ReadFull(conn, n[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > readChunk {
		return nil, fmt.Errorf("a Produce answer of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, err
	}
	decoded, err := wire.DecodeResponse(req.Key(), req.Version, body)
	if err != nil {
		return nil, err
	}
	for _, t := range decoded.(*kmsg.ProduceResponse).Topics {
		for i := range t.Partitions {
			return &t.Partitions[i], nil
		}
	}
	return nil, errors.New("an empty Produce answer")
}
