package e2e

import (
	"context"
	bigendian "encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/test/kafka"
	"github.com/oncegate/oncegate/test/raw"
)

// Rules that need a real broker's side: each test is a producer that says byte
// by byte what it sends.

const exchange = 30 * time.Second

// at connects to Oncegate's listener for a broker.
func (o *oncegate) at(t *testing.T, broker int32) *raw.Conn {
	t.Helper()
	return dialRaw(t, fmt.Sprintf("127.0.0.1:%d", o.port+1+int(broker)))
}

func dialRaw(t *testing.T, addr string) *raw.Conn {
	t.Helper()
	c, err := raw.Dial(addr, exchange)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(t *testing.T, c *raw.Conn, req kmsg.Request) kmsg.Response {
	t.Helper()
	r, err := c.Ask(req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func produce(t *testing.T, c *raw.Conn, b *raw.Batch) raw.Answer {
	t.Helper()
	return raw.AnswerOf(ask(t, c, raw.Request(b)))
}

func newPID(t *testing.T, c *raw.Conn) int64 {
	t.Helper()
	pid, err := c.ProducerID()
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func mustAnswer(t *testing.T, what string, got, want raw.Answer) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func one(topic string, pid int64, first int32, value string) *raw.Batch {
	return &raw.Batch{Topic: topic, PID: pid, First: first, Values: [][]byte{[]byte(value)}}
}

func endOffset(t *testing.T, c *kafka.Cluster, topic string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), exchange)
	defer cancel()
	ends, err := c.Admin().ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := ends.Lookup(topic, 0)
	return o.Offset
}

// metadata makes the producer learn of a topic, as every client does before it
// sends.
func metadata(t *testing.T, c *raw.Conn, topic string) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	for range 100 {
		r := ask(t, c, req).(*kmsg.MetadataResponse)
		if len(r.Topics) == 1 && r.Topics[0].ErrorCode == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("no metadata of %s", topic)
}

// A topic that is deleted and made again under its name inherits no window: a
// producer that starts again at sequence 0 is not taken for a duplicate.
func TestTopicIsMadeAgain(t *testing.T) {
	c := newest.Get(t)
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c)
	conn := o.at(t, c.Leader(t, topic, 0))
	metadata(t, conn, topic)
	pid := newPID(t, conn)
	mustAnswer(t, "first", produce(t, conn, one(topic, pid, 0, "a")), raw.Answer{Offset: 0})
	mustAnswer(t, "its retry", produce(t, conn, one(topic, pid, 0, "a")), raw.Answer{Offset: 0})

	ctx, cancel := context.WithTimeout(t.Context(), exchange)
	defer cancel()
	if _, err := c.Admin().DeleteTopic(ctx, topic); err != nil {
		t.Fatal(err)
	}
	for {
		if m, err := c.Admin().Metadata(ctx, topic); err == nil && m.Topics[topic].Err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.CreateTopic(t, topic, 1, nil)
	conn = o.at(t, c.Leader(t, topic, 0))
	metadata(t, conn, topic)
	mustAnswer(t, "other content in the new topic", produce(t, conn, one(topic, pid, 0, "b")), raw.Answer{Offset: 0})
	if end := endOffset(t, c, topic); end != 1 {
		t.Errorf("the new topic ends at %d: a record was taken for a duplicate", end)
	}
}

// A partition that is added starts without a window.
func TestPartitionIsAdded(t *testing.T) {
	c := newest.Get(t)
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c)
	conn := o.at(t, c.Leader(t, topic, 0))
	pid := newPID(t, conn)
	mustAnswer(t, "old partition", produce(t, conn, one(topic, pid, 0, "a")), raw.Answer{Offset: 0})
	ctx, cancel := context.WithTimeout(t.Context(), exchange)
	defer cancel()
	before, err := c.Admin().Metadata(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	added := int32(len(before.Topics[topic].Partitions))
	if _, err := c.Admin().CreatePartitions(ctx, 1, topic); err != nil {
		t.Fatal(err)
	}
	b := one(topic, pid, 0, "b")
	b.Partition = added
	var got raw.Answer
	for range 100 { // until the leader serves it
		if got = produce(t, o.at(t, leaderOf(t, c, topic, added)), b); got.Code != 3 && got.Code != 6 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	mustAnswer(t, "new partition", got, raw.Answer{Offset: 0})
	mustAnswer(t, "its retry", produce(t, o.at(t, leaderOf(t, c, topic, added)), b), raw.Answer{Offset: 0})
}

func leaderOf(t *testing.T, c *kafka.Cluster, topic string, partition int32) int32 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), exchange)
	defer cancel()
	for {
		m, err := c.Admin().Metadata(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := m.Topics[topic].Partitions[partition]; ok && p.Leader >= 0 {
			return p.Leader
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Records that were deleted stay stored as far as their producer is concerned.
func TestRecordsAreDeleted(t *testing.T) {
	c := newest.Get(t)
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c)
	conn := o.at(t, c.Leader(t, topic, 0))
	pid := newPID(t, conn)
	for i := range int32(3) {
		mustAnswer(t, "batch", produce(t, conn, one(topic, pid, i, "a")), raw.Answer{Offset: int64(i)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), exchange)
	defer cancel()
	var upTo kadm.Offsets
	upTo.Add(kadm.Offset{Topic: topic, Partition: 0, At: 3})
	if _, err := c.Admin().DeleteRecords(ctx, upTo); err != nil {
		t.Fatal(err)
	}
	mustAnswer(t, "retry of a deleted batch", produce(t, conn, one(topic, pid, 1, "a")), raw.Answer{Offset: 1})
	mustAnswer(t, "next", produce(t, conn, one(topic, pid, 3, "a")), raw.Answer{Offset: 3})
}

// MESSAGE_TOO_LARGE records nothing: the halves go on from the same sequence.
func TestBatchIsSplit(t *testing.T) {
	c := newest.Get(t)
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c) + "-small"
	c.CreateTopic(t, topic, 1, map[string]string{"max.message.bytes": "400"})
	conn := o.at(t, c.Leader(t, topic, 0))
	pid := newPID(t, conn)
	long := make([]byte, 150)
	whole := &raw.Batch{Topic: topic, PID: pid, Values: [][]byte{long, long, long}}
	if got := produce(t, conn, whole); got.Code != 10 {
		t.Fatalf("got %+v, want MESSAGE_TOO_LARGE", got)
	}
	mustAnswer(t, "first half", produce(t, conn, &raw.Batch{Topic: topic, PID: pid, Values: [][]byte{long}}), raw.Answer{Offset: 0})
	mustAnswer(t, "second half", produce(t, conn, &raw.Batch{Topic: topic, PID: pid, First: 1, Values: [][]byte{long, long}}), raw.Answer{Offset: 1})
	mustAnswer(t, "retry of the first", produce(t, conn, &raw.Batch{Topic: topic, PID: pid, Values: [][]byte{long}}), raw.Answer{Offset: 0})
}

// A late retry from a transaction that is over is fenced: with transactions v2
// its end has raised the producer's epoch. The control run asks Kafka itself.
func TestLateRetryOfFinishedTransaction(t *testing.T) {
	c := newest.Get(t)
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	for name, dial := range map[string]func(broker int32) *raw.Conn{
		"Kafka":    func(b int32) *raw.Conn { return dialRaw(t, c.Broker(b).Addr(kafka.Direct)) },
		"Oncegate": func(b int32) *raw.Conn { return o.at(t, b) },
	} {
		t.Run(name, func(t *testing.T) {
			topic := newTopic(t, c)
			leader := dial(c.Leader(t, topic, 0))
			coordinator := dial(coordinatorOf(t, leader, topic))
			pid, epoch := initTransactional(t, coordinator, topic)
			b := one(topic, pid, 0, "in a transaction")
			b.Epoch = epoch
			req := transactional(raw.Request(b), topic)
			if got := raw.AnswerOf(ask(t, leader, req)); got.Code != 0 {
				t.Fatalf("got %+v", got)
			}
			mustAnswer(t, "retry within the transaction", raw.AnswerOf(ask(t, leader, req)), raw.Answer{Offset: 0})
			end := kmsg.NewPtrEndTxnRequest()
			end.Version, end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = 5, topic, pid, epoch, true
			for range 100 {
				r := ask(t, coordinator, end).(*kmsg.EndTxnResponse)
				if r.ErrorCode == 0 {
					break
				}
				if r.ErrorCode != 51 { // CONCURRENT_TRANSACTIONS
					t.Fatalf("EndTxn: error %d", r.ErrorCode)
				}
				time.Sleep(20 * time.Millisecond)
			}
			var got raw.Answer
			for range 100 { // Kafka's leaders learn of it with the marker
				if got = raw.AnswerOf(ask(t, leader, req)); got.Code != 0 {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if got.Code != 47 {
				t.Errorf("got %+v, want INVALID_PRODUCER_EPOCH", got)
			}
		})
	}
}

func coordinatorOf(t *testing.T, c *raw.Conn, id string) int32 {
	t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorType, req.CoordinatorKeys = 4, 1, []string{id}
	for range 200 {
		r := ask(t, c, req).(*kmsg.FindCoordinatorResponse)
		if r.Coordinators[0].ErrorCode == 0 {
			return r.Coordinators[0].NodeID
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("no transaction coordinator")
	return 0
}

func initTransactional(t *testing.T, c *raw.Conn, id string) (pid int64, epoch int16) {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 5, &id, 60_000
	for range 200 {
		r := ask(t, c, req).(*kmsg.InitProducerIDResponse)
		if r.ErrorCode == 0 {
			return r.ProducerID, r.ProducerEpoch
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("no transactional producer id")
	return 0, 0
}

// transactional makes a Produce request part of a transaction; version 12 adds
// the partition to it (KIP-890).
func transactional(req *kmsg.ProduceRequest, id string) *kmsg.ProduceRequest {
	req.Version, req.TransactionID = 12, &id
	b := req.Topics[0].Partitions[0].Records
	bigendian.BigEndian.PutUint16(b[21:], 1<<4)
	bigendian.BigEndian.PutUint32(b[17:], wire.SumBatch(b))
	return req
}

// An unclean election truncates what was stored and acknowledged to Oncegate. A
// retry of it is no duplicate any more: the window is verified with the new
// leader, and the batch stored again. That Kafka has lost it is shown first.
func TestUncleanElection(t *testing.T) {
	c := kafka.Start(t, kafka.Options{Version: kafka.V44, Brokers: 2, Controllers: 1, Config: map[string]string{"min.insync.replicas": "1"}})
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	const topic = "unclean"
	c.CreateTopic(t, topic, 1, map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
	first := c.Leader(t, topic, 0)
	second := 3 - first
	conn := o.at(t, first)
	pid := newPID(t, conn)
	mustAnswer(t, "stored by both", produce(t, conn, one(topic, pid, 0, "a")), raw.Answer{Offset: 0})
	awaitISR(t, c, topic, 2)
	c.Broker(second).Pause()
	awaitISR(t, c, topic, 1)
	lost := one(topic, pid, 1, "b")
	mustAnswer(t, "stored by the leader alone", produce(t, conn, lost), raw.Answer{Offset: 1})
	mustAnswer(t, "its retry", produce(t, conn, lost), raw.Answer{Offset: 1})

	c.Broker(first).Kill()
	c.Broker(second).Resume()
	for deadline := time.Now().Add(exchange); leaderOf(t, c, topic, 0) != second; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no unclean election")
		}
	}
	if end := endOffset(t, c, topic); end != 1 {
		t.Fatalf("the log ends at %d: Kafka has lost nothing, so this proves nothing", end)
	}
	conn = o.at(t, second)
	mustAnswer(t, "a retry of what the new leader has", produce(t, conn, one(topic, pid, 0, "a")), raw.Answer{Offset: 0})
	mustAnswer(t, "a retry of what it lost", produce(t, conn, lost), raw.Answer{Offset: 1})
	if end := endOffset(t, c, topic); end != 2 {
		t.Errorf("the log ends at %d, want 2: a lost batch was taken for a duplicate", end)
	}
	if o.metric(t, "oncegate_windows_verified_total") == 0 {
		t.Error("no window was verified")
	}
}

func awaitISR(t *testing.T, c *kafka.Cluster, topic string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), exchange)
	defer cancel()
	for ctx.Err() == nil {
		if m, err := c.Admin().Metadata(ctx, topic); err == nil && len(m.Topics[topic].Partitions[0].ISR) == n {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not %d replicas in sync", n)
}

// After a restart Oncegate knows nothing, and the first batch is answered as
// soon as the upstream has told its brokers: the time from the process's start
// is printed.
func TestFirstBatchAfterRestart(t *testing.T) {
	c := newest.Get(t)
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c)
	leader := c.Leader(t, topic, 0)
	conn := o.at(t, leader)
	pid := newPID(t, conn)
	for i := range int32(5) {
		mustAnswer(t, "batch", produce(t, conn, one(topic, pid, i, "a")), raw.Answer{Offset: int64(i)})
		o.Kill()
		began := time.Now()
		o.start(t)
		ready := time.Since(began)
		conn = o.at(t, leader)
		asked := time.Now()
		mustAnswer(t, "its retry after the restart", produce(t, conn, one(topic, pid, i, "a")), raw.Answer{Offset: int64(i)})
		t.Logf("ready %v after the process was started, first batch answered within %v", ready.Round(time.Millisecond), time.Since(asked).Round(time.Millisecond))
	}
	if end := endOffset(t, c, topic); end != 5 {
		t.Errorf("the log ends at %d, want 5", end)
	}
}
