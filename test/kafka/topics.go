package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is how long a change of the cluster may take.
const patience = 30 * time.Second

// Admin returns a client that talks to the brokers directly. It remembers
// metadata for some seconds; Leader and the like ask each time.
func (c *Cluster) Admin() *kadm.Client { return kadm.NewClient(c.client) }

// CreateTopic makes a topic with a replica on every broker, at most 3, and
// returns once all running brokers know its leaders.
func (c *Cluster) CreateTopic(tb testing.TB, name string, partitions int32, configs map[string]string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	values := make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	if _, err := c.Admin().CreateTopic(ctx, partitions, int16(min(3, len(c.brokers))), values, name); err != nil {
		tb.Fatalf("creating topic %s: %v", name, err)
	}
	for _, b := range c.brokers {
		if !b.Running() {
			continue
		}
		c.awaitTopic(tb, name, fmt.Sprintf("%v tells the leaders of its %d partitions", b, partitions), func(ctx context.Context) (bool, error) {
			t, err := c.describe(ctx, int(b.ID), name)
			return len(t.Partitions) == int(partitions) && !slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
				return p.ErrorCode != 0 || p.Leader < 0
			}), err
		})
	}
}

// Leader returns the id of the broker that leads a partition; −1: none does.
func (c *Cluster) Leader(tb testing.TB, topic string, partition int32) int32 {
	tb.Helper()
	var leader int32
	c.awaitTopic(tb, topic, fmt.Sprintf("partition %d is known", partition), func(ctx context.Context) (bool, error) {
		p, err := c.partition(ctx, topic, partition)
		leader = p.Leader
		return err == nil, err
	})
	return leader
}

// MoveLeader makes the next replica of a partition its leader, and returns that
// broker's id: a new order of replicas, and an election of the preferred one.
func (c *Cluster) MoveLeader(tb testing.TB, topic string, partition int32) int32 {
	tb.Helper()
	var next int32
	c.awaitTopic(tb, topic, fmt.Sprintf("partition %d has another leader", partition), func(ctx context.Context) (bool, error) {
		p, err := c.partition(ctx, topic, partition)
		if err != nil || next != 0 && p.Leader == next {
			return err == nil, err
		}
		if next == 0 {
			at := slices.Index(p.Replicas, p.Leader)
			order := slices.Concat(p.Replicas[at+1:], p.Replicas[:at+1])
			next = order[0]
			var change kadm.AlterPartitionAssignmentsReq
			change.Assign(topic, partition, order)
			r, err := c.Admin().AlterPartitionAssignments(ctx, change)
			if err == nil {
				err = r.Error()
			}
			if err != nil {
				return false, err
			}
		}
		var set kadm.TopicsSet
		set.Add(topic, partition)
		_, err = c.Admin().ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
		return false, err
	})
	return next
}

// AwaitInSync waits until every replica of a topic is in sync.
func (c *Cluster) AwaitInSync(tb testing.TB, topic string) {
	tb.Helper()
	c.awaitTopic(tb, topic, "all replicas are in sync", func(ctx context.Context) (bool, error) {
		t, err := c.describe(ctx, anyBroker, topic)
		return !slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
			return len(p.ISR) < len(p.Replicas)
		}), err
	})
}

// awaitTopic asks until the answer is yes.
func (c *Cluster) awaitTopic(tb testing.TB, topic, what string, yes func(context.Context) (bool, error)) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		ok, err := yes(ctx)
		if ok && err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			tb.Fatalf("topic %s: after %v it isn't so that %s (last error: %v)", topic, patience, what, err)
		}
	}
}

func (c *Cluster) partition(ctx context.Context, topic string, partition int32) (p kmsg.MetadataResponseTopicPartition, err error) {
	t, err := c.describe(ctx, anyBroker, topic)
	for _, p := range t.Partitions {
		if p.Partition == partition {
			return p, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	if err == nil {
		err = fmt.Errorf("topic %s has no partition %d", topic, partition)
	}
	return p, err
}

const anyBroker = -1

// describe asks a broker for a topic.
func (c *Cluster) describe(ctx context.Context, broker int, topic string) (t kmsg.MetadataResponseTopic, err error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	var resp kmsg.Response
	if broker == anyBroker {
		resp, err = c.client.Request(ctx, req)
	} else {
		resp, err = c.client.Broker(broker).RetriableRequest(ctx, req)
	}
	if err != nil {
		return t, err
	}
	topics := resp.(*kmsg.MetadataResponse).Topics
	if len(topics) != 1 {
		return t, fmt.Errorf("asked for topic %s, told of %d topics", topic, len(topics))
	}
	return topics[0], kerr.ErrorForCode(topics[0].ErrorCode)
}
