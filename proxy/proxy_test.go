package proxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a proxy in front of an embedded broker.
type rig struct {
	*Proxy
	broker *kfake.Cluster
	logs   *observer.ObservedLogs
	addr   string // of the listener for broker 0
}

const testTopic, testPartitions = "orders", 4

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(testPartitions, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return newRigBefore(t, broker, broker.ListenAddrs(), change...)
}

func newRigBefore(t *testing.T, broker *kfake.Cluster, addrs []string, change ...func(*Config)) *rig {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	log := zap.New(core)
	up := upstream.Config{Brokers: addrs, ClientID: "oncegate", DialTimeout: 2 * time.Second, RefreshInterval: time.Minute, Log: log}
	dialer := upstream.NewDialer(up)
	cluster := upstream.NewCluster(up, dialer)
	cfg := Config{
		Dialer: dialer, Cluster: cluster, Bootstrap: up.Brokers,
		Listen: "127.0.0.1:0", BrokerBase: freePort(t), BrokerCount: 1,
		MaxFrame: 1 << 20, MemoryBudget: 4 << 20, FrameTimeout: 200 * time.Millisecond, GiveUp: 2 * time.Second,
		Idle: time.Minute, RaiseAcks: true, Stamp: true, InDoubtTTL: time.Minute, Log: log,
	}
	for _, c := range change {
		c(&cfg)
	}
	p, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { cluster.Run(ctx) })
	t.Cleanup(func() {
		within, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := p.Shutdown(within); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
		if t.Failed() {
			for _, e := range logs.All() {
				t.Log(e.Level, e.Message, e.ContextMap())
			}
		}
	})
	select {
	case <-cluster.Ready():
	case <-time.After(5 * time.Second):
		t.Fatal(cluster.Err())
	}
	return &rig{Proxy: p, broker: broker, logs: logs, addr: fmt.Sprintf("127.0.0.1:%d", cfg.BrokerBase)}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// logged waits for a log message that contains text.
func (r *rig) logged(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the log says "+text, func() bool {
		return r.logs.Filter(func(e observer.LoggedEntry) bool { return strings.Contains(e.Message, text) }).Len() > 0
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 500 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never came true that %s", what)
}

// testClient speaks frames.
type testClient struct {
	t    *testing.T
	conn net.Conn
	next int32
	name string // client id
}

func (r *rig) dial(t *testing.T) *testClient {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return &testClient{t: t, conn: conn, name: "test"}
}

func (c *testClient) send(req kmsg.Request) (correlationID int32) {
	c.t.Helper()
	c.next++
	frame := wire.AppendRequest(make([]byte, 4), c.next, c.name, req)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatal(err)
	}
	return c.next
}

func (c *testClient) receive(req kmsg.Request, correlationID int32) kmsg.Response {
	c.t.Helper()
	frame, err := readFrame(c.conn)
	if err != nil {
		c.t.Fatal(err)
	}
	if got, _ := wire.ResponseCorrelationID(frame); got != correlationID {
		c.t.Fatalf("answer to %d where %d was due", got, correlationID)
	}
	resp, err := wire.DecodeResponse(req.Key(), req.GetVersion(), frame)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

func readFrame(r io.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(n[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func (c *testClient) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	return c.receive(req, c.send(req))
}

// mustBeClosed fails unless the proxy closes the connection without a further
// byte.
func (c *testClient) mustBeClosed() {
	c.t.Helper()
	if n, err := c.conn.Read(make([]byte, 1)); n > 0 || err == nil {
		c.t.Fatal("the connection goes on")
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("the connection stays open")
	}
}

// testBatch is a batch for a partition: records of one byte each.
type testBatch struct {
	partition int32
	pid       int64
	epoch     int16
	first     int32
	count     int32
	values    string // one record a letter, instead of count
	timestamp int64
}

// plain is a batch without a producer id, one record a letter.
func plain(partition int32, values string, timestamp int64) testBatch {
	return testBatch{partition: partition, pid: -1, epoch: -1, first: -1, values: values, timestamp: timestamp}
}

func produceRequest(version, acks int16, batches ...testBatch) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 5000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = testTopic
	for _, b := range batches {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition = b.partition
		part.Records = b.encode()
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

func (b testBatch) encode() []byte {
	var records []byte
	if b.values != "" {
		b.count = int32(len(b.values))
	}
	for i := range b.count {
		r := kmsg.Record{OffsetDelta: i, Value: []byte{byte(i)}}
		if b.values != "" {
			r.Value = []byte{b.values[i]}
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	batch := kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: b.count - 1, FirstTimestamp: b.timestamp, MaxTimestamp: b.timestamp,
		ProducerID: b.pid, ProducerEpoch: b.epoch, FirstSequence: b.first, NumRecords: b.count, Records: records,
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	out := batch.AppendTo(nil)
	wire.StampBatch(out, b.pid, b.epoch, b.first)
	return out
}

// producerID gets an id from the broker, through the proxy.
func (c *testClient) producerID() int64 {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	r := c.ask(req).(*kmsg.InitProducerIDResponse)
	if r.ErrorCode != 0 {
		c.t.Fatalf("InitProducerId: error %d", r.ErrorCode)
	}
	return r.ProducerID
}

// offsets sends a Produce request and returns error code and base offset for
// each partition in the order of the answer.
func (c *testClient) produce(req *kmsg.ProduceRequest) (got []answerOf) {
	c.t.Helper()
	return answersOf(c.ask(req))
}

type answerOf struct {
	partition int32
	code      int16
	offset    int64
}

func answersOf(r kmsg.Response) (got []answerOf) {
	for _, t := range r.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			got = append(got, answerOf{p.Partition, p.ErrorCode, p.BaseOffset})
		}
	}
	return got
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// end is a partition's log end offset.
func (c *testClient) end(partition int32) int64 {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 4, -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = testTopic
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = partition, -1
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
}

// holdProduce keeps the answer to the next Produce request back, after the
// append, until release is closed.
func (r *rig) holdProduce(release <-chan struct{}) {
	r.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.SleepControl(func() { <-release })
		return nil, nil, false
	})
}
