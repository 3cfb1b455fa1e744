package proxy

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/upstream"
)

// listeners holds the bootstrap listener and one listener per broker. A
// broker's port is BrokerBase + its node id where that lies in the range, else
// the highest free one; it stays the broker's for as long as the proxy runs,
// over restarts and changes of address, and is the same after a restart of
// Oncegate as long as node ids lie in the range.
type listeners struct {
	proxy      *Proxy
	host       string // to listen on
	advertised string
	bootstrap  net.Listener

	mu     sync.Mutex
	byNode map[int32]*brokerListener
	ports  map[int]int32 // port → node id
	closed bool
}

type brokerListener struct {
	endpoint *endpoint
	port     int
	listener net.Listener // nil while the port can't be bound
}

func newListeners(p *Proxy) (*listeners, error) {
	host, _, err := net.SplitHostPort(p.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_ADDRESS=%q is not host:port: %w", p.cfg.Listen, err)
	}
	l := &listeners{
		proxy: p, host: host, advertised: p.cfg.AdvertisedHost,
		byNode: make(map[int32]*brokerListener), ports: make(map[int]int32),
	}
	if l.advertised == "" {
		l.advertised = host
	}
	if l.bootstrap, err = net.Listen("tcp", p.cfg.Listen); err != nil {
		return nil, fmt.Errorf("LISTEN_ADDRESS=%s can't be listened on: %w", p.cfg.Listen, err)
	}
	go l.accept(l.bootstrap, newEndpoint(p, -1, ""))
	return l, nil
}

// update takes the upstream's list of brokers. A broker that is gone keeps its
// listener: it may come back.
func (l *listeners) update(brokers []upstream.Broker) {
	for _, b := range brokers {
		l.ensure(b.ID, b.Addr)
	}
}

// advertise returns what a client is told instead of a broker's own address.
func (l *listeners) advertise(node int32, host string, port int32) (string, int32) {
	b := l.ensure(node, net.JoinHostPort(host, strconv.Itoa(int(port))))
	return l.advertised, int32(b.port)
}

// ensure returns the listener of a broker, made or pointed to addr if need be.
func (l *listeners) ensure(node int32, addr string) *brokerListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.byNode[node]
	if b == nil {
		b = &brokerListener{endpoint: newEndpoint(l.proxy, node, addr), port: l.portFor(node)}
		l.byNode[node] = b
		l.ports[b.port] = node
	} else if *b.endpoint.addr.Load() != addr {
		l.proxy.log.Info("a broker has another address", zap.Int32("broker", node), zap.String("address", addr), zap.String("before", *b.endpoint.addr.Load()))
		b.endpoint.addr.Store(&addr)
		b.endpoint.leadershipDoubtful()
	}
	if b.listener == nil && !l.closed {
		l.bind(b)
	}
	return b
}

// portFor chooses the port of a new broker; mu is held. It returns 0 where the
// range is used up.
func (l *listeners) portFor(node int32) int {
	base, count := l.proxy.cfg.BrokerBase, l.proxy.cfg.BrokerCount
	if port := base + int(node); node >= 0 && int(node) < count {
		if _, taken := l.ports[port]; !taken {
			return port
		}
	}
	for port := base + count - 1; port >= base; port-- {
		if _, taken := l.ports[port]; !taken {
			return port
		}
	}
	return 0
}

// bind listens on the broker's port; mu is held.
func (l *listeners) bind(b *brokerListener) {
	node := b.endpoint.node
	if b.port == 0 {
		l.proxy.log.Error("no port is left for a broker: raise BROKER_LISTEN_COUNT", zap.Int32("broker", node), zap.Int("BROKER_LISTEN_COUNT", l.proxy.cfg.BrokerCount))
		return
	}
	addr := net.JoinHostPort(l.host, strconv.Itoa(b.port))
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		l.proxy.log.Error("a broker's port can't be listened on, so clients can't reach that broker: free the port, or set BROKER_LISTEN_BASE to a free range", zap.Int32("broker", node), zap.String("address", addr), zap.Error(err))
		return
	}
	l.proxy.log.Info("listening for a broker", zap.Int32("broker", node), zap.String("address", addr), zap.String("upstream", *b.endpoint.addr.Load()))
	b.listener = listener
	go l.accept(listener, b.endpoint)
}

func (l *listeners) accept(listener net.Listener, e *endpoint) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			go l.proxy.serve(conn, e)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			// Mostly too many open files: it passes.
			l.proxy.log.Warn("a connection can't be accepted", zap.Error(err))
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (l *listeners) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.bootstrap.Close()
	for _, b := range l.byNode {
		if b.listener != nil {
			b.listener.Close()
		}
	}
}
