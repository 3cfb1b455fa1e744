package kafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options describe a cluster.
type Options struct {
	Version string // V40 or V44
	Brokers int    // 1 or 3, each a controller too
	// Config adds to or replaces lines of every broker's server.properties.
	Config map[string]string
}

// FaultyHost is the host that the faulty listener of every broker is
// advertised with. Nothing listens there unless a test puts a fault proxy at
// FaultyHost:port in front of 127.0.0.1:port.
const FaultyHost = "127.0.0.2"

// Cluster is a running Kafka.
type Cluster struct {
	Version string
	dir     string
	brokers []*Broker
}

// Start runs a cluster until the test ends.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	Require(tb)
	c, err := Run(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(c.LogTail())
		}
		c.Close()
	})
	return c
}

// Run starts a cluster that several tests share; Close ends it.
func Run(o Options) (*Cluster, error) {
	jars, err := fetch(o.Version)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "oncegate-kafka-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Version: o.Version, dir: dir}
	ports, err := freePorts(3 * o.Brokers)
	if err != nil {
		return nil, err
	}
	var voters []string
	for i := range o.Brokers {
		id := i + 1
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", id, ports[3*i]))
		c.brokers = append(c.brokers, &Broker{
			ID: int32(id), jars: jars, dir: filepath.Join(dir, fmt.Sprint(id)),
			controllerPort: ports[3*i], Port: ports[3*i+1], FaultyPort: ports[3*i+2],
		})
	}
	for _, b := range c.brokers {
		if err := b.writeConfig(strings.Join(voters, ","), o.Brokers, o.Config); err != nil {
			return nil, err
		}
	}
	if err := c.each(func(b *Broker) error { return b.format() }); err != nil {
		c.Close()
		return nil, err
	}
	if err := c.each(func(b *Broker) error { return b.start() }); err != nil {
		c.Close()
		return nil, err
	}
	if err := c.AwaitAll(2 * time.Minute); err != nil {
		err = fmt.Errorf("%w\n%s", err, c.LogTail())
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) each(do func(*Broker) error) error {
	errs := make([]error, len(c.brokers))
	var all sync.WaitGroup
	for i, b := range c.brokers {
		all.Go(func() { errs[i] = do(b) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Close kills the brokers and removes their data.
func (c *Cluster) Close() {
	for _, b := range c.brokers {
		b.Kill()
	}
	os.RemoveAll(c.dir)
}

// Bootstrap are the brokers' own addresses.
func (c *Cluster) Bootstrap() (addrs []string) {
	for _, b := range c.brokers {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", b.Port))
	}
	return addrs
}

// FaultyBootstrap are the addresses behind which a test may put fault proxies;
// clients that start there are told these addresses only.
func (c *Cluster) FaultyBootstrap() (addrs []string) {
	for _, b := range c.brokers {
		addrs = append(addrs, fmt.Sprintf("%s:%d", FaultyHost, b.FaultyPort))
	}
	return addrs
}

// Brokers returns the brokers by ascending id.
func (c *Cluster) Brokers() []*Broker { return c.brokers }

// Broker returns the broker with this id.
func (c *Cluster) Broker(id int32) *Broker { return c.brokers[id-1] }

// AwaitAll waits until all brokers are registered and answer.
func (c *Cluster) AwaitAll(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		if last = c.allAnswer(ctx); last == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("Kafka %s is not ready after %v: %w", c.Version, limit, last)
}

func (c *Cluster) allAnswer(ctx context.Context) error {
	for _, addr := range c.Bootstrap() {
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RetryTimeout(time.Second))
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, 3*time.Second)
		m, err := kadm.NewClient(client).BrokerMetadata(within)
		cancel()
		client.Close()
		if err != nil {
			return err
		}
		if len(m.Brokers) < len(c.brokers) {
			return fmt.Errorf("%s knows %d of %d brokers", addr, len(m.Brokers), len(c.brokers))
		}
	}
	return nil
}

// Admin returns a client that talks to the brokers directly.
func (c *Cluster) Admin(tb testing.TB) *kadm.Client {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// CreateTopic makes a topic, replicated on every broker, and waits for its
// leaders.
func (c *Cluster) CreateTopic(tb testing.TB, name string, partitions int32, configs map[string]string) {
	tb.Helper()
	admin := c.Admin(tb)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ptrs := make(map[string]*string, len(configs))
	for k, v := range configs {
		ptrs[k] = &v
	}
	if _, err := admin.CreateTopic(ctx, partitions, int16(len(c.brokers)), ptrs, name); err != nil {
		tb.Fatalf("creating topic %s: %v", name, err)
	}
	for ctx.Err() == nil {
		m, err := admin.Metadata(ctx, name)
		if err == nil && len(m.Topics[name].Partitions) == int(partitions) &&
			!slices.ContainsFunc(slices.Collect(maps.Values(m.Topics[name].Partitions)), func(p kadm.PartitionDetail) bool { return p.Leader < 0 || p.Err != nil }) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	tb.Fatalf("topic %s has no leaders", name)
}

// Leader returns the id of the broker that leads a partition.
func (c *Cluster) Leader(tb testing.TB, topic string, partition int32) int32 {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m, err := c.Admin(tb).Metadata(ctx, topic)
	if err != nil {
		tb.Fatal(err)
	}
	return m.Topics[topic].Partitions[partition].Leader
}

// MoveLeader makes another replica the leader, by a new order of replicas and a
// preferred leader election. It returns the new leader.
func (c *Cluster) MoveLeader(tb testing.TB, topic string, partition int32) int32 {
	tb.Helper()
	admin := c.Admin(tb)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	old := c.Leader(tb, topic, partition)
	var order []int32
	for _, b := range c.brokers {
		if b.ID != old {
			order = append(order, b.ID)
		}
	}
	order = append(order, old)
	var change kadm.AlterPartitionAssignmentsReq
	change.Assign(topic, partition, order)
	if _, err := admin.AlterPartitionAssignments(ctx, change); err != nil {
		tb.Fatal(err)
	}
	for ctx.Err() == nil {
		election := kmsg.NewPtrElectLeadersRequest()
		election.TimeoutMillis = 5000
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = topic, []int32{partition}
		election.Topics = append(election.Topics, t)
		var set kadm.TopicsSet
		set.Add(topic, partition)
		admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
		if now := c.Leader(tb, topic, partition); now != old {
			return now
		}
		time.Sleep(100 * time.Millisecond)
	}
	tb.Fatalf("the leader of %s/%d did not move", topic, partition)
	return 0
}

// LogTail returns the ends of all brokers' logs.
func (c *Cluster) LogTail() string {
	var b strings.Builder
	for _, broker := range c.brokers {
		fmt.Fprintf(&b, "--- broker %d\n%s\n", broker.ID, broker.logTail())
	}
	return b.String()
}
