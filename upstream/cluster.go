package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
	"go.uber.org/zap"
)

func init() {
	// sarama measures everything twice over; Oncegate reads none of it.
	metrics.UseNilMetrics = true
}

// Broker is a broker as the upstream's metadata tells of it.
type Broker struct {
	ID   int32
	Addr string // host:port
}

// Cluster keeps the upstream's topology and asks its brokers questions, through
// a sarama client.
type Cluster struct {
	cfg       Config
	dialer    *Dialer
	refresh   chan struct{}
	ready     chan struct{}
	readyOnce sync.Once

	connecting sync.Mutex // one client is made at a time

	mu       sync.Mutex
	client   sarama.Client
	err      error
	brokers  []Broker
	leaders  map[partition]int32
	watched  map[string]struct{}
	onChange func([]Broker)
	onTopic  func(name string, id [16]byte)
}

type partition struct {
	topic string
	index int32
}

// errNotReady is the state before the first success.
var errNotReady = errors.New("the upstream has not answered yet")

// NewCluster returns a cluster that knows nothing before Run.
func NewCluster(cfg Config, dialer *Dialer) *Cluster {
	return &Cluster{
		cfg: cfg, dialer: dialer, err: errNotReady,
		refresh: make(chan struct{}, 1),
		ready:   make(chan struct{}),
		leaders: make(map[partition]int32),
		watched: make(map[string]struct{}),
	}
}

// Subscribe sets who is told the brokers whenever the list changes, one call at
// a time. It must be called before Run.
func (c *Cluster) Subscribe(f func([]Broker)) { c.onChange = f }

// OnTopics sets who is told the topic ids (KIP-516) of watched topics. It must
// be called before Run.
func (c *Cluster) OnTopics(f func(name string, id [16]byte)) { c.onTopic = f }

// Ready is closed once the topology has been learnt.
func (c *Cluster) Ready() <-chan struct{} { return c.ready }

// Err says why the topology could not be learnt the last time, nil when it
// could.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Brokers returns the brokers by ascending id.
func (c *Cluster) Brokers() []Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.brokers)
}

// Leader returns the id of the broker that led a watched topic's partition when
// the topology was learnt last.
func (c *Cluster) Leader(topic string, index int32) (id int32, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok = c.leaders[partition{topic, index}]
	return id, ok
}

// watchLimit bounds how many topics a refresh asks for. A sidecar's producers
// write to few.
const watchLimit = 1000

// Watch has the topic's id and leaders learnt with each refresh from now on.
func (c *Cluster) Watch(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watched) < watchLimit {
		c.watched[topic] = struct{}{}
	}
}

// Refresh asks for the topology to be learnt soon. Requests that come while one
// is outstanding are one.
func (c *Cluster) Refresh() {
	select {
	case c.refresh <- struct{}{}:
	default:
	}
}

// Run keeps the topology until ctx ends. While no broker answers it keeps
// trying, and logs which address failed and why whenever that changes.
func (c *Cluster) Run(ctx context.Context) {
	defer c.closeClient()
	failures := 0
	for ctx.Err() == nil {
		err := c.learn()
		c.note(err)
		wait := c.cfg.RefreshInterval
		if err != nil {
			failures++
			wait = min(5*time.Second, 100*time.Millisecond<<min(failures, 6))
			wait = wait/2 + rand.N(wait/2)
		} else {
			failures = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.refresh:
			// Many sessions notice the same fault at once.
			timer.Reset(50 * time.Millisecond)
			<-timer.C
		}
		timer.Stop()
	}
}

// note records how learning went.
func (c *Cluster) note(err error) {
	c.mu.Lock()
	before := c.err
	c.err = err
	c.mu.Unlock()
	switch {
	case err == nil:
		c.readyOnce.Do(func() { close(c.ready) })
		if before != nil {
			c.cfg.Log.Info("the upstream answers", zap.Any("brokers", c.Brokers()))
		}
	case before == nil || before.Error() != err.Error():
		c.cfg.Log.Warn("the upstream can't be reached; trying on", zap.Error(err))
	}
}

// learn asks any broker for the brokers and the watched topics.
func (c *Cluster) learn() error {
	client, err := c.connected()
	if err != nil {
		return err
	}
	// The sarama client finds a broker that lives, the bootstrap addresses
	// included. With no topic to watch it asks for one that needs no
	// permission to be missing: asking for none means all in this protocol.
	topics := c.topics()
	if err := client.RefreshMetadata(topics...); err != nil && !isTopicError(err) {
		return c.describe(err)
	}
	brokers := make([]Broker, 0, 8)
	for _, b := range client.Brokers() {
		brokers = append(brokers, Broker{ID: b.ID(), Addr: b.Addr()})
	}
	slices.SortFunc(brokers, func(a, b Broker) int { return int(a.ID) - int(b.ID) })
	c.learnTopics(client, topics)
	c.mu.Lock()
	changed := !slices.Equal(brokers, c.brokers)
	c.brokers = brokers
	c.mu.Unlock()
	if changed && c.onChange != nil {
		c.onChange(slices.Clone(brokers))
	}
	return nil
}

// learnTopics asks for topic ids and leaders, which the sarama client does not
// hand out all of. What can't be had now is had with the next refresh.
func (c *Cluster) learnTopics(client sarama.Client, topics []string) {
	broker := client.LeastLoadedBroker()
	if broker == nil {
		return
	}
	r, err := broker.GetMetadata(sarama.NewMetadataRequest(client.Config().Version, topics))
	if err != nil {
		c.cfg.Log.Debug("topic ids can't be had", zap.Error(err))
		return
	}
	for _, t := range r.Topics {
		if t.Err != sarama.ErrNoError {
			continue
		}
		if c.onTopic != nil {
			c.onTopic(t.Name, t.Uuid)
		}
		c.mu.Lock()
		for _, p := range t.Partitions {
			c.leaders[partition{t.Name, p.ID}] = p.Leader
		}
		c.mu.Unlock()
	}
}

func (c *Cluster) topics() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watched) == 0 {
		return []string{"__consumer_offsets"}
	}
	return slices.Sorted(maps.Keys(c.watched))
}

// connected returns the sarama client, made anew if need be.
func (c *Cluster) connected() (sarama.Client, error) {
	c.connecting.Lock()
	defer c.connecting.Unlock()
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	if client != nil && !client.Closed() {
		return client, nil
	}
	cfg, err := c.cfg.sarama()
	if err != nil {
		return nil, err
	}
	cfg.Net.Proxy.Enable = true
	cfg.Net.Proxy.Dialer = saramaDialer{c.dialer}
	if client, err = sarama.NewClient(c.cfg.Brokers, cfg); err != nil {
		return nil, c.describe(err)
	}
	c.mu.Lock()
	c.client = client
	c.mu.Unlock()
	return client, nil
}

func (c *Cluster) closeClient() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		c.client.Close()
		c.client = nil
	}
}

// describe puts the addresses and their own errors to sarama's summary, which
// says only that no broker was left to try.
func (c *Cluster) describe(err error) error {
	if !errors.Is(err, sarama.ErrOutOfBrokers) {
		return err
	}
	errs := []error{err}
	for _, addr := range c.cfg.Brokers {
		ctx, cancel := context.WithTimeout(context.Background(), c.cfg.DialTimeout)
		conn, derr := c.dialer.Dial(ctx, addr)
		cancel()
		if derr != nil {
			errs = append(errs, derr)
			continue
		}
		conn.Close()
		errs = append(errs, fmt.Errorf("broker %s accepts connections but does not answer", addr))
	}
	return errors.Join(errs[1:]...)
}

func isTopicError(err error) bool {
	return errors.Is(err, sarama.ErrUnknownTopicOrPartition) || errors.Is(err, sarama.ErrLeaderNotAvailable) ||
		errors.Is(err, sarama.ErrTopicAuthorizationFailed) || errors.Is(err, sarama.ErrInvalidTopic)
}

// saramaDialer lets sarama dial as the sessions do, TLS included; SASL is left
// to sarama.
type saramaDialer struct{ d *Dialer }

func (s saramaDialer) Dial(_, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.d.cfg.DialTimeout)
	defer cancel()
	return s.d.dialTLS(ctx, addr)
}
