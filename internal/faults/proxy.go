// Package faults breaks connections between a Kafka client and what it talks
// to, at chosen points of a Produce request's way: a [Proxy] passes frames on,
// and a [Plan] says what happens to which.
package faults

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy passes Kafka frames between clients and one target.
type Proxy struct {
	// Advertise, when set before the first connection, replaces the broker
	// addresses in answers, so that clients of a cluster with one broker keep
	// coming through the proxy.
	Advertise bool

	listener net.Listener
	target   string
	plan     *Plan
	closing  context.Context
	stop     context.CancelFunc
	work     sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{}
}

// Listen starts a proxy at addr in front of target.
func Listen(addr, target string, plan *Plan) (*Proxy, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("fault proxy before %s: %w", target, err)
	}
	p := &Proxy{listener: l, target: target, plan: plan, links: make(map[*link]struct{})}
	p.closing, p.stop = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.stop()
	p.listener.Close()
	p.CutAll()
	p.work.Wait()
}

// CutAll closes the connections that are open now, whatever is on its way.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.closeBoth()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	defer client.Close()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	server, err := dialer.DialContext(p.closing, "tcp", p.target)
	if err != nil {
		client.SetLinger(0) // a target that isn't there refuses; it doesn't hang up
		return
	}
	l := newLink(client, server.(*net.TCPConn), p.plan)
	if p.Advertise {
		l.self = p.listener.Addr().(*net.TCPAddr)
	}
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	if p.closing.Err() != nil { // and CutAll may have come before
		l.closeBoth()
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}
