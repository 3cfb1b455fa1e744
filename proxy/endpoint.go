package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/oncegate/oncegate/upstream"
)

// endpoint is what a listener stands for: one broker, or the bootstrap
// addresses, of which any will do.
type endpoint struct {
	proxy *Proxy
	node  int32 // −1 for bootstrap
	addr  atomic.Pointer[string]
	// leader stands for what the broker's log is known to hold. It changes when
	// a connection to the broker breaks, since the broker may come back with
	// another log.
	leader atomic.Uint32
	first  atomic.Uint32 // bootstrap: the address that worked last
}

// leaderships numbers the values of all endpoints' leader, so that no two
// endpoints ever share one.
var leaderships atomic.Uint32

func newEndpoint(p *Proxy, node int32, addr string) *endpoint {
	e := &endpoint{proxy: p, node: node}
	e.addr.Store(&addr)
	e.leadershipDoubtful()
	return e
}

func (e *endpoint) leadershipDoubtful() { e.leader.Store(leaderships.Add(1)) }

func (e *endpoint) String() string {
	if e.node < 0 {
		return "bootstrap"
	}
	return fmt.Sprintf("%d at %s", e.node, *e.addr.Load())
}

// dial connects to the broker.
func (e *endpoint) dial(ctx context.Context) (net.Conn, error) {
	conn, err := e.dialAny(ctx)
	if limited, ok := conn.(*upstream.Session); ok {
		// When the session's time is over the broker closes the connection on
		// the next request (KIP-368), which is then sent again over a new one.
		return limited.Conn, err
	}
	return conn, err
}

func (e *endpoint) dialAny(ctx context.Context) (net.Conn, error) {
	if e.node >= 0 {
		return e.proxy.cfg.Dialer.Dial(ctx, *e.addr.Load())
	}
	var errs []error
	all := e.proxy.cfg.Bootstrap
	for i := range all {
		n := (e.first.Load() + uint32(i)) % uint32(len(all))
		conn, err := e.proxy.cfg.Dialer.Dial(ctx, all[n])
		if err == nil {
			e.first.Store(n)
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
