package kafka

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is a running Kafka.
type Cluster struct {
	options     Options
	dir         string
	brokers     []*Broker
	controllers []*Broker
	client      *kgo.Client
}

// Start runs a cluster until the test ends. When the test fails it prints what
// the brokers logged.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	Require(tb)
	c, err := Run(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	c.logWhenFailed(tb)
	return c
}

// Run starts a cluster and returns once all brokers serve clients; Close ends
// it.
func Run(o Options) (*Cluster, error) {
	d, err := install(o.Version)
	if err != nil {
		return nil, err
	}
	c, err := prepare(o, d)
	if err != nil {
		return nil, err
	}
	if err := c.run(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepare gives every process its ports, and the cluster a folder.
func prepare(o Options, d distribution) (*Cluster, error) {
	c := &Cluster{options: o}
	listeners := []string{Direct, Faulty}
	for name := range o.Listeners {
		listeners = append(listeners, name)
	}
	if o.Controllers == 0 {
		listeners = append(listeners, controller)
	}
	removeLeftovers()
	var err error
	c.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	for i := range o.Brokers {
		b, err := c.newNode(int32(i+1), d, listeners)
		if err != nil {
			return nil, err
		}
		c.brokers = append(c.brokers, b)
	}
	for i := range o.Controllers {
		b, err := c.newNode(int32(firstController+i), d, []string{controller})
		if err != nil {
			return nil, err
		}
		c.controllers = append(c.controllers, b)
	}
	c.client, err = kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.RetryTimeout(10*time.Second))
	return c, err
}

func (c *Cluster) newNode(id int32, d distribution, listeners []string) (*Broker, error) {
	b := &Broker{ID: id, cluster: c, dir: filepath.Join(c.dir, fmt.Sprint(id)), flags: d.javaFlags(), ports: make(map[string]int)}
	first, err := FreePorts(len(listeners))
	for i, name := range listeners {
		b.ports[name] = first + i
	}
	return b, err
}

func (c *Cluster) run() error {
	if err := each(c.nodes(), (*Broker).format); err != nil {
		return err
	}
	if err := each(c.nodes(), (*Broker).launch); err != nil {
		return err
	}
	return c.AwaitAll(2 * time.Minute)
}

// Close kills all processes and removes their data.
func (c *Cluster) Close() {
	c.client.Close()
	each(c.nodes(), func(b *Broker) error {
		b.Kill()
		return nil
	})
	os.RemoveAll(c.dir)
}

// Version is Kafka's.
func (c *Cluster) Version() string { return c.options.Version }

// Brokers returns the brokers by ascending id.
func (c *Cluster) Brokers() []*Broker { return c.brokers }

// Broker returns the broker with this id.
func (c *Cluster) Broker(id int32) *Broker { return c.brokers[id-1] }

// Controllers returns the controllers that have processes of their own.
func (c *Cluster) Controllers() []*Broker { return c.controllers }

// Bootstrap are the addresses of the DIRECT listeners.
func (c *Cluster) Bootstrap() []string { return c.Addrs(Direct) }

// FaultyBootstrap are the addresses at which a test puts fault proxies; whoever
// starts there is told of no other addresses.
func (c *Cluster) FaultyBootstrap() (addrs []string) {
	for _, b := range c.brokers {
		addrs = append(addrs, fmt.Sprintf("%s:%d", FaultyHost, b.Port(Faulty)))
	}
	return addrs
}

// Addrs are the addresses of one listener of all brokers.
func (c *Cluster) Addrs(listener string) (addrs []string) {
	for _, b := range c.brokers {
		addrs = append(addrs, b.Addr(listener))
	}
	return addrs
}

// AwaitAll waits until all brokers are registered and serve clients.
func (c *Cluster) AwaitAll(limit time.Duration) error { return c.await(limit, c.brokers...) }

// await waits until these brokers serve clients and know of each other.
func (c *Cluster) await(limit time.Duration, brokers ...*Broker) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		err := each(brokers, func(b *Broker) error { return b.serves(ctx, brokers) })
		if err == nil {
			return nil
		}
		for _, b := range c.nodes() {
			if !b.Running() && (slices.Contains(brokers, b) || len(brokers) == len(c.brokers)) {
				return fmt.Errorf("%v ended (%v) while the cluster started\n%s", b, b.last().Err(), b.logSince(0))
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("no Kafka %s is ready after %v: %w\n%s", c.options.Version, limit, err, c.LogTail())
		}
	}
}

// serves says why a broker doesn't serve clients yet, or doesn't know the
// others. Kafka tells clients of a broker once it is registered and caught up.
func (b *Broker) serves(ctx context.Context, others []*Broker) error {
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr(Direct)), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(within, client)
	if err != nil {
		return fmt.Errorf("%v: %w", b, err)
	}
	for _, o := range others {
		if !slices.ContainsFunc(resp.Brokers, func(m kmsg.MetadataResponseBroker) bool { return m.NodeID == o.ID }) {
			return fmt.Errorf("%v doesn't know %v yet", b, o)
		}
	}
	return nil
}

// LogTail returns the ends of all logs.
func (c *Cluster) LogTail() string { return c.logSince(make([]int64, len(c.nodes()))) }

func (c *Cluster) logSince(at []int64) string {
	var text strings.Builder
	for i, b := range c.nodes() {
		fmt.Fprintf(&text, "--- %v\n%s\n", b, b.logSince(at[i]))
	}
	return text.String()
}

// logWhenFailed prints what is logged from now on, if the test fails.
func (c *Cluster) logWhenFailed(tb testing.TB) {
	var at []int64
	for _, b := range c.nodes() {
		at = append(at, b.logSize())
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("what Kafka %s logged:\n%s", c.options.Version, c.logSince(at))
		}
	})
}

// nodes are all processes.
func (c *Cluster) nodes() []*Broker { return slices.Concat(c.controllers, c.brokers) }

// each does something to brokers at the same time and returns the first error.
func each(brokers []*Broker, do func(*Broker) error) error {
	errs := make([]error, len(brokers))
	var all sync.WaitGroup
	for i, b := range brokers {
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
