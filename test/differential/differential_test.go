package differential

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/proxy"
	"github.com/oncegate/oncegate/test/kafka"
	"github.com/oncegate/oncegate/test/raw"
	"github.com/oncegate/oncegate/upstream"
)

var batches = flag.Int("batches", 1500, "how many batches to compare at least")

// gate is an Oncegate in this process, which can forget.
type gate struct {
	upstream []string
	port     int
	cluster  *upstream.Cluster
	dialer   *upstream.Dialer
	proxy    *proxy.Proxy
	idle     time.Duration
}

func (g *gate) start(t testing.TB) {
	var err error
	g.proxy, err = proxy.Start(proxy.Config{
		Dialer: g.dialer, Cluster: g.cluster, Bootstrap: g.upstream,
		Listen: "127.0.0.1:0", BrokerBase: g.port, BrokerCount: 5,
		MaxFrame: 1 << 20, MemoryBudget: 16 << 20, FrameTimeout: time.Minute, GiveUp: 10 * time.Second,
		CacheBytes: 1 << 20, Idle: g.idle, RaiseAcks: true, Log: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (g *gate) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	g.proxy.Shutdown(ctx)
}

// The stated differences: Oncegate acknowledges what it saw stored though it is
// older than the window (offset −1), where a broker says OUT_OF_ORDER; and of a
// producer that was evicted it remembers the newest batch only, so that for a
// while the offset of an older one is −1 where a broker still knows it. All
// other answers are equal, and so are the logs.
func TestDifferential(t *testing.T) {
	c := kafka.Start(t, kafka.Options{Version: kafka.V44, Brokers: 1})
	const topic = "differential"
	c.CreateTopic(t, topic, 2, nil)
	port, err := kafka.FreePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	up := upstream.Config{Brokers: c.Bootstrap(), ClientID: "oncegate", DialTimeout: 5 * time.Second, RefreshInterval: time.Minute, Log: zap.NewNop()}
	g := &gate{upstream: up.Brokers, port: port, dialer: upstream.NewDialer(up), idle: time.Second}
	g.cluster = upstream.NewCluster(up, g.dialer)
	g.start(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { g.cluster.Run(ctx) })
	defer func() { g.stop(); cancel(); running.Wait() }()
	<-g.cluster.Ready()

	compared, histories, stale := 0, 0, 0
	for compared < *batches && !t.Failed() {
		rapid.Check(t, func(rt *rapid.T) {
			if compared >= *batches && !t.Failed() {
				return
			}
			h := draw(rt, rapid.IntRange(5, 60).Draw(rt, "operations"))
			histories++
			fault := compare(t, g, c, topic, h, &compared, &stale)
			if fault != "" {
				rt.Fatalf("%s in\n%v\nkept as %s", fault, h, keep(h, fault))
			}
		})
	}
	t.Logf("%d histories, %d batches compared, %d of them acknowledged with offset −1, mismatches: 0", histories, compared, stale)
}

// compare plays a history on both sides and says what differs.
func compare(t testing.TB, g *gate, c *kafka.Cluster, topic string, h history, compared, stale *int) string {
	direct := &side{addr: c.Bootstrap()[0], topic: topic, partition: 0}
	gated := &side{addr: g.proxy.Addr().String(), topic: topic, partition: 1}
	defer direct.close()
	defer gated.close()
	setup, err := raw.Dial(direct.addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close()
	for range 3 {
		pid, err := setup.ProducerID()
		if err != nil {
			t.Fatal(err)
		}
		direct.pids, gated.pids = append(direct.pids, pid), append(gated.pids, pid)
	}
	direct.base, gated.base = end(t, c, topic, 0), end(t, c, topic, 1)
	evicted := false
	for n, o := range h {
		switch o.kind {
		case restart:
			gated.close()
			g.stop()
			g.start(t)
			gated.addr = g.proxy.Addr().String()
			continue
		case evict:
			g.proxy.Evict()
			evicted = true
			continue
		}
		want, err := direct.play(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := gated.play(o)
		if err != nil {
			return fmt.Sprintf("operation %d, %v: %v", n+1, o, err)
		}
		for i := range want {
			*compared++
			if got[i] == (answer{0, -1}) && (want[i].code == 45 || want[i].code == 0 && evicted) {
				*stale++
				continue
			}
			if got[i] != want[i] {
				return fmt.Sprintf("operation %d, %v: Kafka says %v, Oncegate %v", n+1, o, want[i], got[i])
			}
		}
	}
	a, b := read(t, c, topic, 0, direct.base), read(t, c, topic, 1, gated.base)
	if a != b {
		return fmt.Sprintf("the logs differ:\nKafka\n%s\nOncegate\n%s", a, b)
	}
	return ""
}

// end is a partition's log end offset.
func end(t testing.TB, c *kafka.Cluster, topic string, partition int32) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ends, err := c.Admin().ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := ends.Lookup(topic, partition)
	return o.Offset
}

// read returns the values of a partition from base on.
func read(t testing.TB, c *kafka.Cluster, topic string, partition int32, base int64) string {
	last := end(t, c, topic, partition)
	if last == base {
		return ""
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(base)}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var b strings.Builder
	for at := base; at < last; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			fmt.Fprintf(&b, "%s@%d\n", r.Value, r.Offset-base)
			at = r.Offset + 1
		})
	}
	return b.String()
}

// keep writes a history that shows a difference to where the core's own
// dialogues are, for a person to turn into one.
func keep(h history, fault string) string {
	path := filepath.Join("..", "..", "dedup", "testdata", "differential.found")
	text := "# " + strings.ReplaceAll(fault, "\n", "\n# ") + "\n" + h.String() + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err.Error()
	}
	return path
}
