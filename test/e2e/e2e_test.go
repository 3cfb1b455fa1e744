package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/internal/faults"
	"github.com/oncegate/oncegate/test/kafka"
)

// cluster is a 3-broker Kafka that the tests of this package share, started by
// the first that needs it.
var cluster struct {
	sync.Once
	c   *kafka.Cluster
	err error
}

func TestMain(m *testing.M) {
	remove, err := buildBinary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if cluster.c != nil {
		cluster.c.Close()
	}
	remove()
	os.Exit(code)
}

func sharedCluster(tb testing.TB) *kafka.Cluster {
	tb.Helper()
	kafka.Require(tb)
	cluster.Do(func() { cluster.c, cluster.err = kafka.Run(kafka.Options{Version: kafka.V44, Brokers: 3}) })
	if cluster.err != nil {
		tb.Fatal(cluster.err)
	}
	return cluster.c
}

const partitions = 3

// records is enough for some hundred batches and dozens of faults.
const records = 3000

// hops are where an acknowledgement can get lost: between client and Oncegate,
// or between Oncegate and the broker.
var hops = []string{"client", "upstream"}

// Acknowledgements are lost on either hop; the control runs lose them between
// the client and Kafka. Through Oncegate an idempotent producer's records are
// stored once; without idempotence and without Oncegate some are stored twice.
func TestLostAcks(t *testing.T) {
	for name, produce := range producers {
		t.Run(name, func(t *testing.T) {
			c := sharedCluster(t)
			t.Run("control", func(t *testing.T) {
				topic := topicName(t)
				c.CreateTopic(t, topic, partitions, nil)
				plan := lostAcks(1)
				h := audit.NewHistory()
				produce(t, workload{bootstrap: faultsBeforeKafka(t, c, plan), topic: topic, partitions: partitions, client: name, count: records}, h)
				r := checkLog(t, c, topic, h)
				t.Logf("%v: %d acks lost, %d duplicates", plan, plan.Count(), r.Duplicated)
				if r.Duplicated == 0 {
					t.Errorf("the faults bit nobody:\n%v", r)
				}
			})
			for _, hop := range hops {
				t.Run(hop, func(t *testing.T) {
					topic := topicName(t)
					c.CreateTopic(t, topic, partitions, nil)
					plan := lostAcks(2)
					h := audit.NewHistory()
					var o *oncegate
					w := workload{topic: topic, partitions: partitions, client: name, count: records, idempotent: true}
					if hop == "client" {
						o = startOncegate(t, c.Bootstrap(), "ADVERTISED_HOST="+kafka.FaultyHost)
						w.bootstrap = []string{o.faultsBefore(t, plan)}
					} else {
						o = startOncegate(t, faultsBeforeKafka(t, c, plan))
						w.bootstrap = []string{o.bootstrap()}
					}
					produce(t, w, h)
					mustBeClean(t, checkLog(t, c, topic, h), records)
					t.Logf("%v: %d acks lost, %d batches answered by Oncegate, %d requests sent again", plan, plan.Count(), o.duplicates(t), o.metric(t, "oncegate_upstream_resends_total"))
					if plan.Count() < 5 {
						t.Errorf("only %d acknowledgements were lost", plan.Count())
					}
					if hop == "client" && o.duplicates(t) == 0 {
						t.Error("Oncegate answered no retry")
					}
				})
			}
		})
	}
}

func lostAcks(seed uint64) *faults.Plan {
	return &faults.Plan{Seed: seed, Limit: 40, Odds: map[faults.Kind]float64{faults.LoseAck: 0.1, faults.ResetAck: 0.02, faults.CutAfter: 0.02, faults.CutBefore: 0.02}}
}

// produceDuring runs an idempotent franz-go producer through Oncegate, and
// disturb beside it.
func produceDuring(t *testing.T, c *kafka.Cluster, o *oncegate, count int, disturb func(topic string)) {
	t.Helper()
	topic := topicName(t)
	c.CreateTopic(t, topic, partitions, nil)
	h := audit.NewHistory()
	var producing sync.WaitGroup
	producing.Go(func() {
		produceFranz(t, workload{bootstrap: []string{o.bootstrap()}, topic: topic, partitions: partitions, client: "p", count: count, idempotent: true, pace: 20 * time.Millisecond}, h)
	})
	time.Sleep(500 * time.Millisecond)
	disturb(topic)
	producing.Wait()
	mustBeClean(t, checkLog(t, c, topic, h), count)
}

func TestLeaderMovesWhileProducing(t *testing.T) {
	c := sharedCluster(t)
	o := startOncegate(t, c.Bootstrap())
	produceDuring(t, c, o, records, func(topic string) {
		for p := range int32(partitions) {
			old := c.Leader(t, topic, p)
			t.Logf("partition %d moved from broker %d to %d", p, old, c.MoveLeader(t, topic, p))
		}
	})
}

func TestBrokerKilledWhileProducing(t *testing.T) {
	c := sharedCluster(t)
	o := startOncegate(t, c.Bootstrap())
	produceDuring(t, c, o, records, func(topic string) {
		b := c.Broker(c.Leader(t, topic, 0))
		b.Kill()
		time.Sleep(time.Second)
		if err := b.Start(); err != nil {
			t.Error(err)
		}
	})
	if err := c.AwaitAll(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestOncegateKilledWhileProducing(t *testing.T) {
	c := sharedCluster(t)
	o := startOncegate(t, c.Bootstrap())
	produceDuring(t, c, o, records, func(string) {
		for range 3 {
			o.kill()
			o.start(t)
			time.Sleep(300 * time.Millisecond)
		}
	})
}

// SIGTERM under load: what has arrived is answered, and the exit code says so.
func TestOncegateTerminatedWhileProducing(t *testing.T) {
	c := sharedCluster(t)
	o := startOncegate(t, c.Bootstrap())
	produceDuring(t, c, o, records, func(string) {
		for range 3 {
			if code := o.terminate(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			o.start(t)
			time.Sleep(300 * time.Millisecond)
		}
	})
}

// Consumers, in a group and without, read through Oncegate what was produced.
func TestConsumers(t *testing.T) {
	c := sharedCluster(t)
	o := startOncegate(t, c.Bootstrap())
	topic := topicName(t)
	c.CreateTopic(t, topic, partitions, nil)
	h := audit.NewHistory()
	produceFranz(t, workload{bootstrap: []string{o.bootstrap()}, topic: topic, partitions: partitions, client: "p", count: records, idempotent: true}, h)
	for name, opts := range map[string][]kgo.Opt{
		"plain": {},
		"group": {kgo.ConsumerGroup(topic)},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(o.bootstrap()), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			checker, err := audit.NewChecker(h)
			if err != nil {
				t.Fatal(err)
			}
			for got := 0; got < records; {
				fetches := client.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					checker.Add(audit.Entry{Partition: r.Partition, Offset: r.Offset, Value: r.Value, ProducerID: -1, Sequence: -1})
					got++
				})
			}
			mustBeClean(t, checker.Report(), records)
		})
	}
}

// kcat (librdkafka) produces idempotently and consumes, through Oncegate.
func TestKcat(t *testing.T) {
	c := sharedCluster(t)
	_, err := exec.LookPath("kcat")
	kafka.RequireTools(t, err)
	o := startOncegate(t, c.Bootstrap())
	topic := topicName(t)
	c.CreateTopic(t, topic, 1, nil)
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "kcat:%d\n", i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kcat := func(stdin string, args ...string) string {
		cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", o.bootstrap(), "-t", topic}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("kcat %v: %v\n%s", args, err, errs.String())
		}
		return out.String()
	}
	kcat(lines.String(), "-P", "-X", "enable.idempotence=true", "-z", "lz4")
	if got := kcat("", "-C", "-e", "-q", "-o", "beginning"); got != lines.String() {
		t.Errorf("read back %d bytes of %d", len(got), lines.Len())
	}
}

// The oldest Kafka of the 4 line: lost acknowledgements on both hops at once.
func TestOldestKafka(t *testing.T) {
	c := kafka.Start(t, kafka.Options{Version: kafka.V40, Brokers: 1})
	topic := topicName(t)
	c.CreateTopic(t, topic, partitions, nil)
	plan := lostAcks(3)
	o := startOncegate(t, faultsBeforeKafka(t, c, plan), "ADVERTISED_HOST="+kafka.FaultyHost)
	h := audit.NewHistory()
	produceJava(t, workload{bootstrap: []string{o.faultsBefore(t, plan)}, topic: topic, partitions: partitions, client: "java", count: records, idempotent: true}, h)
	mustBeClean(t, checkLog(t, c, topic, h), records)
	t.Logf("%v: %d faults", plan, plan.Count())
}
