// Package proxy is the client side of Oncegate: listeners, sessions, and the
// way of a request from the one to the other.
//
// A request is read (requests.go), a Produce request is decided on batch by
// batch (produce.go), what is new goes upstream, and the answer comes back in
// the order of the requests (answers.go). A broken upstream connection is
// mended where that is safe (resume.go). windows.go is the shell around the
// dedup core.
package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/dedup/cold"
	"github.com/oncegate/oncegate/upstream"
)

// Config is what a Proxy needs to know. The zero value of an optional field
// stands for the default named with it.
type Config struct {
	Dialer  *upstream.Dialer
	Cluster *upstream.Cluster
	// Bootstrap are the upstream's bootstrap addresses, host:port.
	Bootstrap []string

	Listen         string // host:port of the bootstrap listener
	BrokerBase     int    // first TCP port of the listeners that stand for one broker each
	BrokerCount    int    // how many ports from BrokerBase on may be used
	AdvertisedHost string // what clients are told to connect to; default: the host of Listen

	MaxFrame       int           // bytes; a larger request closes the connection
	MemoryBudget   int64         // bytes of requests in flight; beyond it clients aren't read
	MaxConnections int           // client connections; 0 = no limit
	FrameTimeout   time.Duration // how long a frame may stay half-sent
	GiveUp         time.Duration // how long an unanswered batch is sent again

	// Dedup holds the user's choices; Recall and Demote are the proxy's own.
	Dedup      dedup.Options
	CacheBytes int64 // memory for idle producers
	// Stamp gives batches without a producer id one of Oncegate's own.
	Stamp      bool
	InDoubtTTL time.Duration // how long an unknown outcome is worked on, and a known one remembered
	Idle       time.Duration // windows unused for so long are given to the cold tier
	RaiseAcks  bool          // idempotent batches with acks 0 or 1 are sent with acks −1

	Log *zap.Logger
}

// Proxy serves clients until it is shut down.
type Proxy struct {
	cfg       Config
	log       *zap.Logger
	started   time.Time
	coarse    atomic.Uint32 // seconds since started
	budget    *semaphore.Weighted
	windows   *windows
	idle      *cold.Cache
	topics    *topics
	listeners *listeners
	stats     Stats

	reuseLogged     onceEach
	unstampedLogged atomic.Bool
	identities      identities
	doubts          *doubts

	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	nextLink atomic.Uint64

	mu       sync.Mutex
	sessions map[*session]struct{}
	draining bool
}

// Start binds the bootstrap listener and serves it. Listeners for the brokers
// follow as the upstream's metadata tells of them.
func Start(cfg Config) (*Proxy, error) {
	idle, err := cold.New(cfg.CacheBytes)
	if err != nil {
		return nil, err
	}
	cfg.Dedup.Recall, cfg.Dedup.Demote = idle.Recall, idle.Demote
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		idle: idle,
		cfg:  cfg, log: cfg.Log, started: time.Now(),
		budget:   semaphore.NewWeighted(cfg.MemoryBudget),
		windows:  newWindows(cfg.Dedup),
		topics:   newTopics(),
		doubts:   newDoubts(cfg.InDoubtTTL),
		sessions: make(map[*session]struct{}),
		ctx:      ctx, cancel: cancel,
	}
	if p.listeners, err = newListeners(p); err != nil {
		cancel()
		idle.Close()
		return nil, err
	}
	cfg.Cluster.Subscribe(p.listeners.update)
	cfg.Cluster.OnTopics(p.topics.learn)
	p.work.Add(1)
	go p.tick()
	return p, nil
}

// Addr is the address of the bootstrap listener.
func (p *Proxy) Addr() net.Addr { return p.listeners.bootstrap.Addr() }

// now is the time since the proxy started, in nanoseconds.
func (p *Proxy) now() int64 { return int64(time.Since(p.started)) }

// seconds is a clock that costs nothing to read; windows need no finer one.
func (p *Proxy) seconds() uint32 { return p.coarse.Load() }

// tick keeps the coarse clock, gives idle windows away, and ends waiting for
// upstreams that stay silent.
func (p *Proxy) tick() {
	defer p.work.Done()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	idle := uint32(max(1, p.cfg.Idle/time.Second))
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-ticker.C:
		}
		now := uint32(time.Since(p.started) / time.Second)
		p.coarse.Store(now)
		if now > idle {
			p.windows.sweep(now - idle)
		}
		p.endSilence()
		p.doubts.sweep(time.Now())
	}
}

// endSilence gives up on upstream connections that owe an answer to a batch
// for longer than GiveUp: a half-open connection never breaks by itself.
func (p *Proxy) endSilence() {
	limit := p.now() - int64(p.cfg.GiveUp)
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		s.mu.Lock()
		silent := s.pending.size > 0 && s.pending.at(0).since < limit && (s.inputDone || s.pending.at(0).reply == replyProduce)
		up := s.up
		s.mu.Unlock()
		s.forgetAnswers(rememberedAnswers, rememberedBytes, p.now()-int64(rememberedFor))
		if silent && up != nil && s.gaveUp.CompareAndSwap(false, true) {
			up.Close()
		}
	}
}

// serve runs a session for a new client connection.
func (p *Proxy) serve(client net.Conn, e *endpoint) {
	ctx, cancel := context.WithCancel(p.ctx)
	s := &session{
		proxy: p, endpoint: e, client: client, ctx: ctx, cancel: cancel,
		link: dedup.Link(p.nextLink.Add(1)),
		wake: make(chan struct{}, 1),
		log:  p.log.With(zap.Stringer("client", client.RemoteAddr()), zap.String("broker", e.String())),
	}
	s.resolver.proxy = p
	s.in = newFrames(client, p.cfg.MaxFrame, p.cfg.FrameTimeout, s.flush)
	if !p.admit(s) {
		cancel()
		client.Close()
		return
	}
	p.windows.links.Store(s.link, s)
	defer func() {
		p.windows.links.Delete(s.link)
		p.mu.Lock()
		delete(p.sessions, s)
		p.mu.Unlock()
		p.stats.Connections.Add(-1)
		p.work.Done()
	}()
	s.run()
}

func (p *Proxy) admit(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return false
	}
	if p.cfg.MaxConnections > 0 && len(p.sessions) >= p.cfg.MaxConnections {
		p.stats.ConnectionsRefused.Add(1)
		if p.stats.ConnectionsRefused.Load() == 1 {
			s.log.Warn(fmt.Sprintf("refused a client connection: MAX_CONNECTIONS=%d are open", p.cfg.MaxConnections))
		}
		return false
	}
	p.sessions[s] = struct{}{}
	p.stats.Connections.Add(1)
	p.work.Add(1)
	return true
}

// Shutdown stops accepting, lets every request that has arrived be answered,
// and ends. When ctx ends first, what is left is cut off: its clients have no
// answer, and will ask again.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()
	p.listeners.close()
	p.mu.Lock()
	for s := range p.sessions {
		s.in.stop()
	}
	p.mu.Unlock()

	done := make(chan struct{})
	go func() {
		p.waitForSessions()
		p.cancel()
		p.work.Wait()
		p.idle.Close()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	left := len(p.sessions)
	for s := range p.sessions {
		s.kill()
	}
	p.mu.Unlock()
	p.cancel()
	<-done
	return fmt.Errorf("%d client connections were cut off with requests unanswered: %w", left, ctx.Err())
}

func (p *Proxy) waitForSessions() {
	for {
		p.mu.Lock()
		left := len(p.sessions) + int(p.stats.Unresolved.Load())
		p.mu.Unlock()
		if left == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
