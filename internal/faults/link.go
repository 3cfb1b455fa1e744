package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// link is one client connection and its way to the target.
type link struct {
	client, server *net.TCPConn
	plan           *Plan
	asked          chan request // in the order of the answers
	self           *net.TCPAddr // what broker addresses are replaced with, if anything
	closed         chan struct{}
	once           sync.Once
}

func newLink(client, server *net.TCPConn, plan *Plan) *link {
	return &link{client: client, server: server, plan: plan, asked: make(chan request, 1<<12), closed: make(chan struct{})}
}

func (l *link) run() {
	var back sync.WaitGroup
	back.Go(l.answers)
	l.requests()
	back.Wait()
	l.closeBoth()
}

// closeBoth ends the link at once.
func (l *link) closeBoth() {
	l.once.Do(func() {
		close(l.closed)
		l.client.Close()
		l.server.Close()
	})
}

// cut closes the client's side. The target is only told that no more requests
// come, and for a while its answers are thrown away: closing with answers unread
// would reset the connection, and what the target hasn't read yet would be lost.
func (l *link) cut() {
	l.client.Close()
	l.server.CloseWrite()
	l.server.SetReadDeadline(time.Now().Add(drainTime))
}

// drainTime is how long a target may take to end a connection after cut.
const drainTime = 2 * time.Second

func (l *link) requests() {
	defer close(l.asked)
	in := bufio.NewReaderSize(l.client, 64<<10)
	for {
		frame, err := readFrame(in)
		if errors.Is(err, io.EOF) {
			l.server.CloseWrite() // what the client has sent must still arrive
			return
		}
		if err != nil {
			l.cut()
			return
		}
		asked := parseRequest(frame)
		if asked.produce && asked.answered {
			asked.fate = l.plan.draw()
		}
		fate := asked.fate
		if fate == CutBefore {
			l.plan.happened(fate)
			l.cut()
			return
		}
		if asked.answered {
			select {
			case l.asked <- asked:
			case <-l.closed:
				return
			}
		}
		if _, err := l.server.Write(frame); err != nil {
			l.closeBoth()
			return
		}
		switch fate {
		case CutAfter:
			l.plan.happened(fate)
			l.cut()
			return
		case Freeze:
			<-l.closed
			return
		}
	}
}

// answers passes answers on until a side ends.
func (l *link) answers() {
	defer l.closeBoth()
	in := bufio.NewReaderSize(l.server, 64<<10)
	mute := false
	for {
		frame, err := readFrame(in)
		if err != nil {
			if errors.Is(err, syscall.ECONNRESET) {
				l.client.SetLinger(0)
			}
			return
		}
		asked, ok := <-l.asked
		switch fate := asked.fate; fate {
		case LoseAck, ResetAck:
			l.plan.happened(fate)
			if fate == ResetAck {
				l.client.SetLinger(0)
			}
			l.cut()
			io.Copy(io.Discard, in)
			return
		case CutAfter:
			io.Copy(io.Discard, in)
			return
		case Freeze:
			l.plan.happened(fate)
			<-l.closed
			return
		case Mute:
			l.plan.happened(fate)
			mute = true
		case DelayAck:
			l.plan.happened(fate)
			select {
			case <-time.After(l.plan.Delay):
			case <-l.closed:
				return
			}
		}
		if mute {
			continue
		}
		if ok && l.self != nil {
			frame, err = l.readdress(asked, frame)
		}
		if ok && err == nil {
			_, err = l.client.Write(frame)
		}
		if !ok || err != nil {
			l.cut()
			io.Copy(io.Discard, in)
			return
		}
	}
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

// request is what a link must know of a request.
type request struct {
	key, version int16
	produce      bool
	answered     bool // all are, but Produce with acks=0
	fate         Kind
}

func parseRequest(frame []byte) request {
	r := kbin.Reader{Src: frame[4:]}
	q := request{key: r.Int16(), version: r.Int16(), answered: true}
	q.produce = q.key == int16(kmsg.Produce)
	if !q.produce {
		return q
	}
	r.Int32()          // correlation id
	r.NullableString() // client id
	if q.version >= 9 {
		for range r.Uvarint() { // tagged fields of the header
			r.Uvarint()
			r.Span(int(r.Uvarint()))
		}
		r.CompactNullableString() // transactional id
	} else {
		r.NullableString()
	}
	acks := r.Int16()
	q.answered = !r.Ok() || acks != 0
	return q
}

// readdress puts the proxy's own address in the place of the broker's.
func (l *link) readdress(asked request, frame []byte) ([]byte, error) {
	if !wire.CarriesAddresses(asked.key, asked.version) {
		return frame, nil
	}
	body, err := wire.RewriteAddresses(asked.key, asked.version, frame[4:], func(wire.Address) (string, int32) {
		return l.self.IP.String(), int32(l.self.Port)
	})
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), err
}
