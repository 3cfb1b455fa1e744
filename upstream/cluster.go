package upstream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"
)

// Broker is a broker as the upstream's metadata tells of it.
type Broker struct {
	ID   int32
	Addr string // host:port, as the upstream advertises it
	Rack string // empty where there is none
}

// Cluster keeps the upstream's topology and asks its brokers questions.
type Cluster struct {
	cfg       Config
	dialer    *Dialer
	reach     *reach
	refresh   chan struct{}
	ready     chan struct{}
	readyOnce sync.Once

	connecting sync.Mutex // one client is made at a time

	mu       sync.Mutex
	closed   bool
	client   sarama.Client
	err      error
	brokers  []Broker
	topics   map[string]*topic // watched
	onChange func([]Broker)
	onTopic  func(name string, id [16]byte)
}

// topic is what the last refresh told of a watched topic.
type topic struct {
	id      [16]byte // zero while not known, and before Kafka 2.8
	leaders map[int32]int32
}

var (
	errNotReady = errors.New("the upstream has not answered yet")
	errClosed   = errors.New("the proxy is shutting down")
)

// NewCluster returns a cluster that knows nothing before Run.
func NewCluster(cfg Config, dialer *Dialer) *Cluster {
	cfg = cfg.withDefaults()
	return &Cluster{
		cfg: cfg, dialer: dialer, err: errNotReady,
		reach:   newReach(cfg.Log),
		refresh: make(chan struct{}, 1),
		ready:   make(chan struct{}),
		topics:  make(map[string]*topic),
	}
}

// Subscribe sets who is told the brokers, by ascending id, whenever one was
// added, removed or re-addressed; one call at a time. It must be called before
// Run.
func (c *Cluster) Subscribe(f func([]Broker)) { c.onChange = f }

// OnTopics sets who is told the id (KIP-516) of a watched topic, with each
// refresh, so that a topic deleted and created again is noticed; one call at a
// time. It must be called before Run.
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
	if t := c.topics[topic]; t != nil {
		id, ok = t.leaders[index]
	}
	return id, ok
}

// TopicID returns the id of a watched topic as it was learnt last. ok is false
// when it is not known, as with brokers before Kafka 2.8.
func (c *Cluster) TopicID(name string) (id [16]byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.topics[name]; t != nil {
		id = t.id
	}
	return id, id != [16]byte{}
}

// watchLimit bounds how many topics a refresh asks for. A sidecar's producers
// write to few.
const watchLimit = 1000

// Watch has the topic's id and leaders learnt with each refresh from now on.
func (c *Cluster) Watch(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics[name] == nil && len(c.topics) < watchLimit {
		c.topics[name] = new(topic)
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

// How long Run waits between two attempts.
const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// soon is how long a Refresh waits for others: a broker's death is noticed
	// by many connections at once.
	soon = 50 * time.Millisecond
)

// Run keeps the topology until ctx ends, and then closes Oncegate's own
// connections. While no broker answers it keeps trying all of them, and logs
// which address failed and why whenever that changes.
func (c *Cluster) Run(ctx context.Context) {
	defer c.close()
	backoff := firstBackoff
	for ctx.Err() == nil {
		err := c.learn()
		c.note(err)
		if err != nil {
			// A Refresh does not shorten it: all that fails asks for one.
			sleep(ctx, backoff/2+rand.N(backoff/2))
			backoff = min(2*backoff, lastBackoff)
			continue
		}
		backoff = firstBackoff
		// Sidecars that were started together shall not ask together for ever.
		timer := time.NewTimer(c.cfg.RefreshInterval*9/10 + rand.N(c.cfg.RefreshInterval/5+1))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.refresh:
			sleep(ctx, soon)
		}
		timer.Stop()
		select {
		case <-c.refresh:
		default:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
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
		c.reach.answered()
		if before != nil {
			c.cfg.Log.Info("the upstream answers", zap.Any("brokers", c.Brokers()))
		}
	case before == nil || before.Error() != err.Error():
		c.cfg.Log.Warn("the upstream can't be reached; trying on", zap.Error(err))
	}
}

// learn asks any broker for the brokers and the watched topics.
func (c *Cluster) learn() error {
	err := c.learnOnce()
	if errors.Is(err, errReachable) || errors.Is(err, sarama.ErrClosedClient) {
		// The client had a password that has been rotated since, or a question
		// that reached nobody has dropped it.
		err = c.learnOnce()
	}
	return err
}

func (c *Cluster) learnOnce() error {
	client, err := c.connected()
	if err != nil {
		return err
	}
	names := c.watched()
	if len(names) == 0 {
		// Asking for no topic means all in sarama. This one costs little, and
		// need not exist.
		names = []string{"__consumer_offsets"}
	}
	// sarama tries every broker it knows of, and then the bootstrap addresses.
	if err := client.RefreshMetadata(names...); err != nil && !isTopicError(err) {
		err = c.describe(err)
		c.drop(client)
		return err
	}
	brokers := make([]Broker, 0, 8)
	for _, b := range client.Brokers() {
		brokers = append(brokers, Broker{ID: b.ID(), Addr: b.Addr(), Rack: b.Rack()})
	}
	slices.SortFunc(brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	c.learnTopics(client, names)
	c.mu.Lock()
	changed := !slices.Equal(brokers, c.brokers)
	c.brokers = brokers
	c.mu.Unlock()
	if changed {
		c.reach.keep(c.addresses())
		if c.onChange != nil {
			c.onChange(slices.Clone(brokers))
		}
	}
	return nil
}

// learnTopics asks for topic ids and leaders, of which the sarama client hands
// out only the leaders. What can't be had now is had with the next refresh.
func (c *Cluster) learnTopics(client sarama.Client, names []string) {
	broker := client.LeastLoadedBroker()
	if broker == nil {
		return
	}
	r, err := broker.GetMetadata(sarama.NewMetadataRequest(client.Config().Version, names))
	if err != nil {
		c.cfg.Log.Debug("topic ids can't be had", zap.Error(err))
		return
	}
	for _, answer := range r.Topics {
		if answer.Err != sarama.ErrNoError {
			continue
		}
		leaders := make(map[int32]int32, len(answer.Partitions))
		for _, p := range answer.Partitions {
			leaders[p.ID] = p.Leader
		}
		c.mu.Lock()
		watched := c.topics[answer.Name] != nil
		if watched {
			c.topics[answer.Name] = &topic{id: answer.Uuid, leaders: leaders}
		}
		c.mu.Unlock()
		if watched && c.onTopic != nil {
			c.onTopic(answer.Name, answer.Uuid)
		}
	}
}

func (c *Cluster) watched() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.topics))
}

// addresses are those that may lead to a broker: the bootstrap addresses and
// the brokers that were learnt last.
func (c *Cluster) addresses() []string {
	all := slices.Clone(c.cfg.Brokers)
	for _, b := range c.Brokers() {
		if !slices.Contains(all, b.Addr) {
			all = append(all, b.Addr)
		}
	}
	return all
}

// connected returns the sarama client, made anew if need be.
func (c *Cluster) connected() (sarama.Client, error) {
	c.connecting.Lock()
	defer c.connecting.Unlock()
	c.mu.Lock()
	client, ended := c.client, c.closed
	c.mu.Unlock()
	if ended {
		return nil, errClosed
	}
	if client != nil && !client.Closed() {
		return client, nil
	}
	cfg := c.cfg.sarama()
	cfg.Net.Proxy.Dialer = saramaDialer{c}
	if _, err := c.dialer.auth.configure(context.Background(), cfg, true); err != nil {
		return nil, err
	}
	// Without Metadata.Full it connects to none yet.
	client, err := sarama.NewClient(c.addresses(), cfg)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		client.Close()
		return nil, errClosed
	}
	c.client = client
	return client, nil
}

// drop closes a client that reached nobody. The next one reads the secrets
// anew, which may have been rotated.
func (c *Cluster) drop(client sarama.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == client {
		c.client = nil
	}
	client.Close()
}

func (c *Cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.client != nil {
		c.client.Close()
		c.client = nil
	}
}

func isTopicError(err error) bool {
	return errors.Is(err, sarama.ErrUnknownTopicOrPartition) || errors.Is(err, sarama.ErrLeaderNotAvailable) ||
		errors.Is(err, sarama.ErrTopicAuthorizationFailed) || errors.Is(err, sarama.ErrInvalidTopic)
}

// saramaDialer has sarama's client dial as the data path does, TLS included,
// and leaves SASL to sarama, which authenticates again before a session ends.
type saramaDialer struct{ c *Cluster }

func (s saramaDialer) Dial(_, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.cfg.DialTimeout)
	defer cancel()
	conn, err := s.c.dialer.connect(ctx, addr)
	s.c.reach.connected(addr, err)
	return conn, err
}
