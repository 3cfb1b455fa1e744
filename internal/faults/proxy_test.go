package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker counts the requests that reach it and answers each with its
// correlation id.
type broker struct {
	listener net.Listener
	work     sync.WaitGroup

	mu  sync.Mutex
	got []uint32 // correlation ids
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{listener: l}
	b.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.work.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		b.work.Wait()
	})
	return b
}

func (b *broker) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		frame, err := readFrame(in)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.got = append(b.got, binary.BigEndian.Uint32(frame[8:]))
		b.mu.Unlock()
		if parseRequest(frame).answered {
			conn.Write(append([]byte{0, 0, 0, 4}, frame[8:12]...))
		}
	}
}

// await waits until n requests have come, and returns how many have.
func (b *broker) await(n int) int {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		got := len(b.got)
		b.mu.Unlock()
		if got >= n || time.Now().After(deadline) {
			return got
		}
	}
}

// client sends requests with rising correlation ids.
type client struct {
	t    *testing.T
	conn net.Conn
	sent uint32
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn}
}

func (c *client) send(r kmsg.Request) {
	c.t.Helper()
	c.sent++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("a client")).AppendRequest(nil, r, int32(c.sent))
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

// outcome says what comes back within a moment: an answer's correlation id, or
// how the connection ended.
func (c *client) outcome() string {
	c.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	answer := make([]byte, 8)
	_, err := io.ReadFull(c.conn, answer)
	switch {
	case err == nil:
		return fmt.Sprint("answer ", binary.BigEndian.Uint32(answer[4:]))
	case errors.Is(err, io.EOF):
		return "closed"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silence"
	}
	return err.Error()
}

func produce(version, acks int16) kmsg.Request {
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(version)
	r.Acks = acks
	id := "a transaction"
	r.TransactionID = &id
	return r
}

// What each kind does to a Produce request: whether it reaches the broker, what
// the client sees, and what becomes of the next request.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		reaches int
		sees    string
		next    int // how many have reached the broker after one more; −1: the connection is gone
	}{
		{None, 1, "answer 1", 2},
		{CutBefore, 0, "closed", -1},
		{CutAfter, 1, "closed", -1},
		{LoseAck, 1, "closed", -1},
		{ResetAck, 1, "reset", -1},
		{DelayAck, 1, "answer 1", 2},
		{Mute, 1, "silence", 2},
		{Freeze, 1, "silence", 1},
	} {
		for _, version := range []int16{3, 8, 9, 13} {
			t.Run(fmt.Sprintf("%v/v%d", c.kind, version), func(t *testing.T) {
				const delay = 30 * time.Millisecond
				plan := &Plan{Delay: delay}
				plan.Next(c.kind)
				b := startBroker(t)
				p, err := Listen("127.0.0.1:0", b.listener.Addr().String(), plan)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				client := dial(t, p)
				began := time.Now()
				client.send(produce(version, -1))
				if got := client.outcome(); got != c.sees {
					t.Errorf("the client sees %q, not %q", got, c.sees)
				}
				if took := time.Since(began); c.kind == DelayAck && took < delay {
					t.Errorf("answered after %v", took)
				}
				if got := b.await(c.reaches); got != c.reaches {
					t.Errorf("%d requests reached the broker, not %d", got, c.reaches)
				}
				if c.next >= 0 {
					client.send(produce(version, -1))
					if got := b.await(c.next); got != c.next {
						t.Errorf("%d requests reached the broker after one more, not %d", got, c.next)
					}
				}
				want := 1
				if c.kind == None {
					want = 0
				}
				if plan.Count() != want || plan.Count(c.kind) != 1 && c.kind != None {
					t.Errorf("counted %q", plan.Counts())
				}
			})
		}
	}
}

// A cut after the request lets it arrive, even with an answer to an earlier one
// on its way back.
func TestCutAfterLetsRequestsArrive(t *testing.T) {
	plan := &Plan{}
	plan.Next(CutAfter)
	b := startBroker(t)
	p, err := Listen("127.0.0.1:0", b.listener.Addr().String(), plan)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client := dial(t, p)
	client.send(kmsg.NewPtrMetadataRequest())
	client.send(produce(9, -1))
	if got := b.await(2); got != 2 {
		t.Errorf("%d requests reached the broker", got)
	}
}

// Only Produce requests that expect an answer are hit; acks=0 does not put
// answers out of step.
func TestOtherRequestsPass(t *testing.T) {
	plan := &Plan{}
	plan.Next(LoseAck)
	b := startBroker(t)
	p, err := Listen("127.0.0.1:0", b.listener.Addr().String(), plan)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client := dial(t, p)
	client.send(kmsg.NewPtrMetadataRequest())
	client.send(produce(9, 0))
	client.send(kmsg.NewPtrMetadataRequest())
	for _, want := range []string{"answer 1", "answer 3"} {
		if got := client.outcome(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	client.send(produce(9, 1))
	if got := client.outcome(); got != "closed" {
		t.Errorf("%q, though its acknowledgement was to be lost", got)
	}
}

// CutAll ends what is open; the proxy takes new connections.
func TestCutAll(t *testing.T) {
	b := startBroker(t)
	p, err := Listen("127.0.0.1:0", b.listener.Addr().String(), &Plan{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 2 {
		client := dial(t, p)
		client.send(kmsg.NewPtrMetadataRequest())
		if got := client.outcome(); got != "answer 1" {
			t.Fatal(got)
		}
		p.CutAll()
		if got := client.outcome(); got != "closed" && got != "reset" {
			t.Errorf("%q after CutAll", got)
		}
	}
}

// A target that isn't there looks to clients as without the proxy: they are
// refused, not hung up on, which some take for another fault.
func TestAbsentTargetResets(t *testing.T) {
	b := startBroker(t)
	p, err := Listen("127.0.0.1:0", b.listener.Addr().String(), &Plan{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b.listener.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil { // or the reset was quicker
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, not a reset", err)
	}
}
