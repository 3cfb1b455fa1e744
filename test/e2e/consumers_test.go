package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/test/java"
	"github.com/oncegate/oncegate/test/kafka"
)

// Consumers, in a group and without, read through Oncegate what was produced
// through it.
func TestConsumers(t *testing.T) { testConsumers(t, newest.Get(t)) }

func testConsumers(t *testing.T, c *kafka.Cluster) {
	const records = 2000
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c)
	a := newAnswers(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := produceFranz(ctx, workload{client: "p", bootstrap: []string{o.bootstrap()}, topic: topic, count: records, idempotent: true, answers: a}); err != nil {
		t.Fatal(err)
	}
	for name, consume := range map[string]func(context.Context, consumption) error{
		"franz-go": consumeFranz, "java": consumeJava,
	} {
		for _, group := range []string{"", topic + "-" + name} {
			t.Run(fmt.Sprintf("%s/group=%v", name, group != ""), func(t *testing.T) {
				checker, err := audit.NewChecker(a.History)
				if err != nil {
					t.Fatal(err)
				}
				in := consumption{bootstrap: o.bootstrap(), topic: topic, group: group, records: records, got: func(partition int32, offset int64, value []byte) {
					checker.Add(audit.Entry{Partition: partition, Offset: offset, Value: value, ProducerID: -1, Sequence: -1})
				}}
				if err := consume(ctx, in); err != nil {
					t.Fatal(err)
				}
				mustBeClean(t, checker.Report(), records, 0)
				if group != "" {
					mustBeCommitted(t, c, group, topic, records)
				}
			})
		}
	}
}

// consumption is what one consumer is to read.
type consumption struct {
	bootstrap, topic string
	group            string // empty: none
	records          int
	got              func(partition int32, offset int64, value []byte)
}

func consumeFranz(ctx context.Context, in consumption) error {
	opts := []kgo.Opt{kgo.SeedBrokers(in.bootstrap), kgo.ConsumeTopics(in.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if in.group != "" {
		opts = append(opts, kgo.ConsumerGroup(in.group), kgo.DisableAutoCommit())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	for n := 0; n < in.records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			in.got(r.Partition, r.Offset, r.Value)
			n++
		})
	}
	if in.group != "" {
		return client.CommitUncommittedOffsets(ctx)
	}
	return nil
}

func consumeJava(ctx context.Context, in consumption) error {
	args := map[string]string{"bootstrap.servers": in.bootstrap, "topic": in.topic, "count": fmt.Sprint(in.records)}
	if in.group != "" {
		args["group.id"] = in.group
	}
	return java.Program{Name: "consume", Args: args}.Run(ctx, func(e java.Event) {
		if e.Event == "read" {
			in.got(e.Partition, e.Offset, []byte(e.Value))
		}
	})
}

// mustBeCommitted asks Kafka itself what the group has committed.
func mustBeCommitted(t *testing.T, c *kafka.Cluster, group, topic string, records int64) {
	t.Helper()
	offsets, err := c.Admin().FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, o := range offsets[topic] {
		if err := errors.Join(o.Err); err != nil {
			t.Error(err)
		}
		sum += o.At
	}
	if sum != records {
		t.Errorf("the group has committed %d of %d records", sum, records)
	}
}

// kcat (librdkafka) produces idempotently, and consumes in a group and without,
// through Oncegate.
func TestKcat(t *testing.T) {
	c := newest.Get(t)
	kafka.RequireTools(t, kafka.Tool("kcat"))
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c)
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "kcat:%d\n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	kcat := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", o.bootstrap(), "-q"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("kcat %v: %v\n%s", args, err, errs.String())
		}
		return out.String()
	}
	kcat(lines.String(), "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", "-z", "lz4")
	for what, got := range map[string]string{
		"alone":      kcat("", "-C", "-t", topic, "-e", "-o", "beginning"),
		"in a group": kcat("", "-G", topic, "-e", "-X", "auto.offset.reset=earliest", topic),
	} {
		if got != lines.String() {
			t.Errorf("%s: read back %d bytes, wrote %d", what, len(got), lines.Len())
		}
	}
	// With a producer id, that is: what Oncegate sees as idempotent.
	if n := idempotentRecords(t, c, topic); n != 1000 {
		t.Errorf("%d of 1000 records carry a producer id", n)
	}
}

func idempotentRecords(t *testing.T, c *kafka.Cluster, topic string) (n int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	log, err := audit.OpenTopic(t.Context(), client, topic, audit.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range log.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.ProducerID >= 0 {
			n++
		}
	}
	return n
}
