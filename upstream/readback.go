package upstream

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeProducer asks the partition's leader which epoch and last sequence it
// has of a producer (DescribeProducers, KIP-664, Kafka 2.8; READ on the topic).
// found is false when it has none. It takes at most twice Config.DialTimeout.
func (c *Cluster) DescribeProducer(topic string, index int32, producerID int64) (epoch int16, last int32, found bool, err error) {
	r, err := patiently(2*c.cfg.DialTimeout, func() (*sarama.DescribeProducersResponse, error) {
		leader, err := c.leader(topic, index)
		if err != nil {
			return nil, err
		}
		return leader.DescribeProducers(&sarama.DescribeProducersRequest{
			Topics: []sarama.DescribeProducersRequestTopic{{Name: topic, PartitionIndexes: []int32{index}}},
		})
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("the producers of %s/%d can't be described: %w", topic, index, err)
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if t.Name != topic || p.PartitionIndex != index {
				continue
			}
			if p.ErrorCode != sarama.ErrNoError {
				return 0, 0, false, fmt.Errorf("the producers of %s/%d can't be described: %w", topic, index, p.ErrorCode)
			}
			for _, s := range p.ActiveProducers {
				if s.ProducerID == producerID {
					return int16(s.ProducerEpoch), s.LastSequence, s.LastSequence >= 0, nil
				}
			}
			return 0, 0, false, nil
		}
	}
	return 0, 0, false, fmt.Errorf("the producers of %s/%d can't be described: the leader did not answer for it", topic, index)
}

// EpochEnd asks the partition's leader for the offset behind the last record of
// the largest leader epoch that is not above leaderEpoch (OffsetForLeaderEpoch,
// KIP-101 and KIP-320; Kafka 2.3; DESCRIBE on the topic). It is -1 when the
// leader knows no such epoch. A record that was stored in leaderEpoch at this
// offset or a later one has been truncated since.
func (c *Cluster) EpochEnd(ctx context.Context, topic string, index, leaderEpoch int32) (offset int64, err error) {
	fail := func(err error) (int64, error) {
		return 0, fmt.Errorf("the end of leader epoch %d of %s/%d can't be learnt: %w", leaderEpoch, topic, index, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*c.cfg.DialTimeout)
	defer cancel()
	addr, err := c.LeaderAddr(topic, index)
	if err != nil {
		return fail(err)
	}
	conn, err := c.dialer.Dial(ctx, addr)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	// The first version that needs no permission on the cluster.
	req.Version = 3
	req.ReplicaID = -1
	part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch, part.LeaderEpoch = index, -1, leaderEpoch
	req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{part}}}
	answer, err := roundTrip(ctx, conn, c.cfg.ClientID, req)
	if err != nil {
		return fail(fmt.Errorf("broker %s: %w", addr, reason(err)))
	}
	for _, t := range answer.(*kmsg.OffsetForLeaderEpochResponse).Topics {
		for _, p := range t.Partitions {
			if t.Topic != topic || p.Partition != index {
				continue
			}
			if p.ErrorCode != 0 {
				return fail(sarama.KError(p.ErrorCode))
			}
			return p.EndOffset, nil
		}
	}
	return fail(fmt.Errorf("broker %s did not answer for it", addr))
}

// LeaderAddr asks for the address of a partition's leader.
func (c *Cluster) LeaderAddr(topic string, index int32) (string, error) {
	leader, err := patiently(2*c.cfg.DialTimeout, func() (*sarama.Broker, error) { return c.leader(topic, index) })
	if err != nil {
		return "", fmt.Errorf("the leader of %s/%d can't be learnt: %w", topic, index, err)
	}
	return leader.Addr(), nil
}

// leader returns the partition's leader as the brokers know it now. What the
// client remembers may be older than the fault that raised the question, and a
// replica that led before answers too, of its own log.
func (c *Cluster) leader(topic string, index int32) (*sarama.Broker, error) {
	client, err := c.connected()
	if err != nil {
		return nil, err
	}
	if err := client.RefreshMetadata(topic); err != nil {
		return nil, err
	}
	return client.Leader(topic, index)
}

// patiently waits for f, but not longer than limit. sarama takes no context: f
// then ends by sarama's own limits, which add up over the brokers that it tries,
// and what it returns is lost.
func patiently[T any](limit time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		var none T
		return none, fmt.Errorf("no answer within %v", limit)
	}
}
