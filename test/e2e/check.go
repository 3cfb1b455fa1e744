package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/test/kafka"
)

// checkLog reads the whole topic straight from Kafka and compares it with what
// the producers were told.
func checkLog(tb testing.TB, c *kafka.Cluster, topic string, h *audit.History) *audit.Report {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := c.Admin().ListEndOffsets(ctx, topic)
	if err != nil {
		tb.Fatal(err)
	}
	starts := make(map[int32]kgo.Offset)
	left := make(map[int32]int64)
	for partition, end := range ends[topic] {
		if end.Err != nil {
			tb.Fatal(end.Err)
		}
		if end.Offset > 0 {
			starts[partition] = kgo.NewOffset().At(0)
			left[partition] = end.Offset
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	checker, err := audit.NewChecker(h)
	if err != nil {
		tb.Fatal(err)
	}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			tb.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			checker.Add(audit.Entry{Partition: r.Partition, Offset: r.Offset, Value: r.Value, ProducerID: r.ProducerID, Epoch: r.ProducerEpoch, Sequence: -1})
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return checker.Report()
}

// mustBeClean fails unless all of count records were acknowledged and are in
// the log once, in order, where the answers said.
func mustBeClean(tb testing.TB, r *audit.Report, count int) {
	tb.Helper()
	if !r.OK() || r.Acked != int64(count) || r.Distinct != int64(count) {
		tb.Errorf("not clean:\n%v", r)
	}
}

// topicName is a topic of the test's own.
func topicName(tb testing.TB) string {
	name := []byte(tb.Name())
	for i, b := range name {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9') {
			name[i] = '-'
		}
	}
	return fmt.Sprintf("%s-%d", name, time.Now().UnixNano()%1e6)
}
