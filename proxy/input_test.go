package proxy

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// What isn't Kafka is named in the log, and the connection is closed.
func TestForeignProtocols(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct{ sent, logged string }{
		"TLS":       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS ClientHello"},
		"HTTP":      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP request"},
		"oversized": {"\x7f\xff\xff\xff\x00\x00\x00\x09", "larger than MAX_FRAME_BYTES=1048576"},
		"tiny":      {"\x00\x00\x00\x02\x00\x00", "too short"},
		"negative":  {"\xff\xff\xff\xff\x00\x00", "too short"},
		"header":    {"\x00\x00\x00\x0a\x00\x03\x00\x09\x00\x00\x00\x01\x7f\xff", "header can't be read"},
		"produce":   {"\x00\x00\x00\x10\x00\x00\x00\x09\x00\x00\x00\x01\xff\xff\x00\x00\xff\xff\x00\x00", "Produce v9 request can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			client := r.dial(t)
			if _, err := io.WriteString(client.conn, c.sent); err != nil {
				t.Fatal(err)
			}
			client.mustBeClosed()
			r.logged(t, c.logged)
		})
	}
}

// A half-sent frame ends after FRAME_TIMEOUT; a connection that is quiet
// between frames does not.
func TestHalfSentFrame(t *testing.T) {
	r := newRig(t)
	quiet := r.dial(t)
	client := r.dial(t)
	io.WriteString(client.conn, "\x00\x00\x01\x00\x00\x03")
	client.mustBeClosed()
	r.logged(t, "half-sent")
	quiet.ask(kmsg.NewPtrMetadataRequest())
}

// Brokers advertise Produce 0–2 and do not serve them: they are answered with
// UNSUPPORTED_VERSION.
func TestOldProduceIsRefused(t *testing.T) {
	r := newRig(t)
	for version := range int16(3) {
		c := r.dial(t)
		req := produceRequest(version, 1, testBatch{partition: 0, pid: -1, epoch: -1, first: -1, count: 1})
		expect(t, "answer", c.produce(req), []answerOf{{0, 35, -1}})
		c.ask(kmsg.NewPtrMetadataRequest()) // the connection goes on
	}
}

// A request that Oncegate does not know passes as it is, and so does its
// answer.
func TestUnknownKeyPasses(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	r := newRigBefore(t, broker, []string{newCutter(t, broker.ListenAddrs()[0]).addr})
	r.addr = r.Addr().String()
	c := r.dial(t)
	request := []byte{0x03, 0xe7, 0, 5, 0, 0, 0, 77, 0xff, 0xff, 1, 2, 3}
	if !writeFrame(c.conn, request) {
		t.Fatal("write")
	}
	answer, err := readFrame(c.conn)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "answer", answer, request[4:])
	c.next = 100
	c.ask(kmsg.NewPtrMetadataRequest())
}

// No address of a broker reaches the client.
func TestMetadataNamesOnlyListeners(t *testing.T) {
	r := newRig(t)
	m := r.dial(t).ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
	for _, b := range m.Brokers {
		if got := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))); got != r.addr {
			t.Errorf("broker %d is advertised as %s, its listener is %s", b.NodeID, got, r.addr)
		}
	}
	if len(m.Brokers) != 1 {
		t.Errorf("%d brokers", len(m.Brokers))
	}
}

// Frames larger than the memory left wait for it; none is lost.
func TestMemoryBudgetIsBackpressure(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxFrame, c.MemoryBudget = 300<<10, 300<<10 })
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			c := r.dial(t)
			pid := c.producerID()
			req := produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1})
			req.Topics[0].Partitions[0].Records = bigBatch(pid, 200<<10)
			if got := c.produce(req); got[0].code != 0 {
				t.Errorf("error %d", got[0].code)
			}
		})
	}
	clients.Wait()
	if !r.budget.TryAcquire(300 << 10) {
		t.Error("memory was not given back")
	}
	r.budget.Release(300 << 10)
}

// bigBatch is a batch of one record of about size bytes.
func bigBatch(pid int64, size int) []byte {
	r := kmsg.Record{Value: make([]byte, size)}
	n := len(r.AppendTo(nil)) - 1
	for {
		r.Length = int32(n)
		if grown := len(r.AppendTo(nil)) - varintLen(n); grown == n {
			break
		} else {
			n = grown
		}
	}
	batch := kmsg.RecordBatch{Magic: 2, ProducerID: pid, NumRecords: 1, FirstTimestamp: 1, MaxTimestamp: 1, Records: r.AppendTo(nil)}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	out := batch.AppendTo(nil)
	wire.StampBatch(out, pid, 0, 0)
	return out
}

func varintLen(n int) int { return len(binary.AppendVarint(nil, int64(n))) }

// A client that goes away in the middle leaves nothing behind.
func TestConnectionsLeaveNothing(t *testing.T) {
	r := newRig(t)
	for range 50 {
		c := r.dial(t)
		pid := c.producerID()
		c.send(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1}))
		c.conn.Close()
	}
	eventually(t, "all sessions have ended", func() bool { return r.Stats().Connections.Load() == 0 })
	if !r.budget.TryAcquire(4 << 20) {
		t.Error("memory was not given back")
	}
	r.budget.Release(4 << 20)
}

// unknownKey is an api key that exists nowhere; the cutter answers it with the
// request from the correlation id on.
const unknownKey = 999

// cutter passes frames on to a broker and cuts the connection instead of
// delivering a chosen number of Produce answers.
type cutter struct {
	addr string
	todo atomic.Int32
	done atomic.Int32
}

func newCutter(t *testing.T, target string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String()}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { c.serve(client, target) })
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return c
}

func (c *cutter) nextAnswers(n int32) { c.todo.Store(n) }
func (c *cutter) count() int32        { return c.done.Load() }

// serve handles one request at a time: that is all the test needs.
func (c *cutter) serve(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	for {
		request, err := readFrame(client)
		if err != nil {
			return
		}
		if binary.BigEndian.Uint16(request) == unknownKey {
			writeFrame(client, request[4:])
			continue
		}
		if !writeFrame(server, request) {
			return
		}
		answer, err := readFrame(server)
		if err != nil {
			return
		}
		if binary.BigEndian.Uint16(request) == uint16(kmsg.Produce) && c.todo.Add(-1) >= 0 {
			c.done.Add(1)
			return
		}
		if !writeFrame(client, answer) {
			return
		}
	}
}

func writeFrame(w io.Writer, frame []byte) bool {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err == nil
}

// A shutdown answers what has arrived.
func TestShutdownDrains(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	pid := c.producerID()
	release := make(chan struct{})
	r.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.SleepControl(func() { <-release })
		return nil, nil, false
	})
	req := produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1})
	id := c.send(req)
	eventually(t, "the batch is forwarded", func() bool { return r.Stats().Forwarded.Load() == 1 })
	ended := make(chan error)
	go func() { ended <- r.Shutdown(t.Context()) }()
	time.Sleep(50 * time.Millisecond)
	close(release)
	expect(t, "answer", answersOf(c.receive(req, id)), []answerOf{{0, 0, 0}})
	c.mustBeClosed()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
