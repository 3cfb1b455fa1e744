package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/wire"
)

// Proxy passes Kafka frames between clients and one target, and lets a Plan
// break things.
type Proxy struct {
	// Advertise, when set before the first connection, replaces the broker
	// addresses in answers, so that clients of a cluster with one broker keep
	// coming through the proxy.
	Advertise bool

	listener net.Listener
	target   string
	plan     *Plan

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	done  bool
	work  sync.WaitGroup
}

// Listen starts a proxy at addr in front of target.
func Listen(addr, target string, plan *Plan) (*Proxy, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, plan: plan, conns: make(map[net.Conn]struct{})}
	p.work.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.done = true
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// CutAll closes the connections that are open now.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) letGo(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) serve(client net.Conn) {
	if !p.hold(client) {
		return
	}
	defer p.letGo(client)
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil || !p.hold(server) {
		return
	}
	defer p.letGo(server)
	l := &link{client: client, server: server, plan: p.plan, asked: make(chan request, 1<<12)}
	if p.Advertise {
		l.self = p.listener.Addr().(*net.TCPAddr)
	}
	var back sync.WaitGroup
	back.Go(l.answers)
	l.requests()
	back.Wait()
}

// link is one client connection and its way to the target.
type link struct {
	client, server net.Conn
	plan           *Plan
	asked          chan request // in the order of the answers
	self           *net.TCPAddr // what broker addresses are replaced with, if anything
}

type request struct {
	key, version int16
	fate         Kind
}

const keyProduce = 0

// requests passes requests on until a side ends. The client's end is passed on
// too: what it has sent must still arrive.
func (l *link) requests() {
	defer close(l.asked)
	in := bufio.NewReaderSize(l.client, 64<<10)
	for {
		frame, err := readFrame(in)
		if err != nil {
			if tcp, ok := l.server.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
				tcp.CloseWrite()
			} else {
				l.cut()
			}
			return
		}
		fate := None
		if len(frame) < 14 {
			l.cut()
			return
		}
		if binary.BigEndian.Uint16(frame[4:]) == keyProduce {
			if expectsAnswer(frame) {
				fate = l.plan.draw()
			} else {
				l.server.Write(frame)
				continue
			}
		}
		if fate == CutBefore {
			l.cut()
			return
		}
		l.asked <- request{int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:])), fate}
		if _, err := l.server.Write(frame); err != nil {
			l.cut()
			return
		}
		if fate == CutAfter {
			l.cut()
			return
		}
	}
}

func (l *link) answers() {
	in := bufio.NewReaderSize(l.server, 64<<10)
	silent := false
	for {
		frame, err := readFrame(in)
		if err != nil {
			l.cut()
			return
		}
		asked, ok := <-l.asked
		if !ok {
			l.cut()
			return
		}
		switch asked.fate {
		case LoseAck:
			l.cut()
			return
		case ResetAck:
			if tcp, ok := l.client.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			l.cut()
			return
		case DelayAck:
			time.Sleep(l.plan.Delay)
		case HalfOpen:
			silent = true
		}
		if silent {
			continue
		}
		if l.self != nil {
			if frame, err = l.readdress(asked, frame); err != nil {
				l.cut()
				return
			}
		}
		if _, err := l.client.Write(frame); err != nil {
			l.cut()
			return
		}
	}
}

func (l *link) readdress(asked request, frame []byte) ([]byte, error) {
	if !wire.CarriesAddresses(asked.key, asked.version) {
		return frame, nil
	}
	body, err := wire.RewriteAddresses(asked.key, asked.version, frame[4:], func(wire.Address) (string, int32) {
		return l.self.IP.String(), int32(l.self.Port)
	})
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), err
}

func (l *link) cut() {
	l.client.Close()
	l.server.Close()
}

// readFrame returns the next frame with its length prefix.
func readFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(head))
	_, err = io.ReadFull(in, frame)
	return frame, err
}

// expectsAnswer reads the acks of a Produce request of version 3 or later.
func expectsAnswer(frame []byte) bool {
	b := frame[4:]
	version := binary.BigEndian.Uint16(b[2:])
	at := 8
	if n := int16(binary.BigEndian.Uint16(b[at:])); n > 0 { // client id
		at += int(n)
	}
	at += 2
	if version >= 9 {
		at++ // no tagged fields in a request header
		n, size := binary.Uvarint(b[at:])
		at += size
		if n > 0 {
			at += int(n) - 1
		}
	} else {
		n := int16(binary.BigEndian.Uint16(b[at:]))
		at += 2 + int(max(n, 0))
	}
	return at+2 > len(b) || binary.BigEndian.Uint16(b[at:]) != 0
}
