package upstream

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// ErrNoProducerIDs says that the upstream issues no producer ids to Oncegate's
// principal, or none at all. Trying again will not help.
var ErrNoProducerIDs = errors.New("the upstream gives no producer id")

// LeaseProducerID takes a producer id of the upstream's own for a producer that
// sends none. Such an id can't be invented: it could be another's.
func (c *Cluster) LeaseProducerID() (id int64, epoch int16, err error) {
	client, err := c.connected()
	if err != nil {
		return 0, 0, err
	}
	r, err := client.InitProducerID()
	switch {
	case errors.Is(err, sarama.ErrClusterAuthorizationFailed), err == nil && r.Err == sarama.ErrClusterAuthorizationFailed:
		return 0, 0, fmt.Errorf("%w: Oncegate's principal needs IDEMPOTENT_WRITE on the cluster, or WRITE on a topic", ErrNoProducerIDs)
	case errors.Is(err, sarama.ErrUnsupportedVersion):
		return 0, 0, fmt.Errorf("%w: it does not know InitProducerId", ErrNoProducerIDs)
	case err != nil:
		return 0, 0, fmt.Errorf("no producer id from the upstream: %w", err)
	case r.Err != sarama.ErrNoError:
		return 0, 0, fmt.Errorf("no producer id from the upstream: %w", r.Err)
	}
	return r.ProducerID, r.ProducerEpoch, nil
}

// DescribeProducer asks the partition's leader which epoch and last sequence it
// has of a producer (DescribeProducers, KIP-664, Kafka 2.8). found is false
// when it has none.
func (c *Cluster) DescribeProducer(topic string, index int32, producerID int64) (epoch int16, last int32, found bool, err error) {
	client, err := c.connected()
	if err != nil {
		return 0, 0, false, err
	}
	// What the client holds of the leader may be older than the fault that
	// made the question necessary.
	if err := client.RefreshMetadata(topic); err != nil {
		return 0, 0, false, fmt.Errorf("the leader of %s/%d can't be learnt: %w", topic, index, err)
	}
	leader, err := client.Leader(topic, index)
	if err != nil {
		return 0, 0, false, fmt.Errorf("the leader of %s/%d can't be learnt: %w", topic, index, err)
	}
	r, err := leader.DescribeProducers(&sarama.DescribeProducersRequest{
		Topics: []sarama.DescribeProducersRequestTopic{{Name: topic, PartitionIndexes: []int32{index}}},
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("the producers of %s/%d can't be described: %w", topic, index, err)
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != sarama.ErrNoError {
				return 0, 0, false, fmt.Errorf("the producers of %s/%d can't be described: %w", topic, index, p.ErrorCode)
			}
			for _, s := range p.ActiveProducers {
				if s.ProducerID == producerID {
					return int16(s.ProducerEpoch), s.LastSequence, s.LastSequence >= 0, nil
				}
			}
		}
	}
	return 0, 0, false, nil
}

// LeaderAddr asks for the address of a partition's leader.
func (c *Cluster) LeaderAddr(topic string, index int32) (string, error) {
	client, err := c.connected()
	if err != nil {
		return "", err
	}
	if err := client.RefreshMetadata(topic); err != nil {
		return "", fmt.Errorf("the leader of %s/%d can't be learnt: %w", topic, index, err)
	}
	leader, err := client.Leader(topic, index)
	if err != nil {
		return "", fmt.Errorf("the leader of %s/%d can't be learnt: %w", topic, index, err)
	}
	return leader.Addr(), nil
}
