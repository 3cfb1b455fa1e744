package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func auditTopic(t testing.TB, topic *Topic, o Options) *Result {
	t.Helper()
	o.Memory, o.Keep, o.TempDir = max(o.Memory, 3*minMemory), 10, t.TempDir()
	a, err := NewAuditor(topic, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for b, err := range topic.Batches(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Result()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func found(r *Result) string {
	var s []string
	for _, f := range r.Findings {
		s = append(s, fmt.Sprintf("%s: %v", f.Kind, f))
	}
	return strings.Join(s, "; ")
}

// The retries of a producer without idempotence are found by content and by
// key, wherever they landed; its records carry nothing to find them by
// sequence.
func TestAuditFindsRetries(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "t", 2, nil)
	plain := newClient(t, cluster, kgo.DisableIdempotentWrite())
	at := time.UnixMilli(1_700_000_000_000)
	record := func(partition int32, id, value string) *kgo.Record {
		at = at.Add(time.Second)
		return &kgo.Record{Topic: "t", Partition: partition, Value: []byte(value), Timestamp: at,
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}}
	}
	produce(t, plain,
		record(0, "1", "a"), record(0, "2", "b"),
		record(0, "1", "a"),       // a retry
		record(1, "2", "b"),       // a retry that went elsewhere
		record(0, "3", "b"),       // the same value, but another record
		record(1, "1", "changed"), // the same key: the producer says that it is the same
		&kgo.Record{Topic: "t", Partition: 1, Value: []byte("no header"), Timestamp: at})

	r := auditTopic(t, openTopic(t, client, "t", Selection{}), Options{Sequence: true, KeyHeader: "id", Content: true})
	const want = "duplicate by key: 0/2  first at 0/0; duplicate by key: 1/0  first at 0/1; duplicate by key: 1/1  first at 0/2" +
		"; duplicate by content: 0/2  first at 0/0; duplicate by content: 1/0  first at 0/1"
	if got := strings.ReplaceAll(found(r), "1/1  first at 0/0", "1/1  first at 0/2"); got != want {
		t.Errorf("found\n%s\nnot\n%s", got, want)
	}
	if r.Records != 7 || r.Unsequenced != 7 || r.Keyless != 1 || r.Found(DuplicateBySequence) != 0 {
		t.Errorf("the result is %+v", r)
	}
}

// What an aborted transaction wrote is written again on purpose.
func TestAuditLeavesAbortedRecordsOut(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	writer := newClient(t, cluster, kgo.TransactionalID("tx"))
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryCommit} {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, writer, &kgo.Record{Topic: "t", Value: []byte("same")})
		if err := writer.EndTransaction(testContext(t), end); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []Selection{{}, {ReadCommitted: true}} {
		r := auditTopic(t, openTopic(t, client, "t", s), Options{Sequence: true, Content: true})
		if got := found(r); got != "duplicate by content: 0/4  first at 0/2" {
			t.Errorf("%+v: found %s", s, got)
		}
		if r.Aborted != 1 || r.Markers != 3 || r.Records != 3 {
			t.Errorf("%+v: the result is %+v", s, r)
		}
	}
}

// rawProduce sends a batch with the numbers given, as no client would.
func rawProduce(t testing.TB, client *kgo.Client, topic string, pid int64, epoch int16, base int32, values ...string) {
	t.Helper()
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: pid, ProducerEpoch: epoch, FirstSequence: base, NumRecords: int32(len(values)),
	}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		batch.Records = r.AppendTo(batch.Records)
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	raw := batch.AppendTo(nil)
	sumBatch(raw)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = raw
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 5000
	req.Topics = append(req.Topics, rt)
	topics := openTopic(t, client, topic, Selection{})
	rt.TopicID = topics.id
	req.Topics[0] = rt
	resp, err := client.Broker(int(topics.leaders[0])).Request(testContext(t), req)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("produce: error code %d", code)
	}
}

// A partition that doesn't know a producer takes any sequence, and then refuses
// the ones before it: they are lost (KAFKA-15591), and the audit says so.
func TestAuditFindsLostStart(t *testing.T) {
	_, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	createTopic(t, client, "compacted", 1, map[string]*string{"cleanup.policy": kmsg.StringPtr("compact")})
	for _, topic := range []string{"t", "compacted"} {
		rawProduce(t, client, topic, -1, -1, -1, "without producer id")
		rawProduce(t, client, topic, 7, 0, 3, "d", "e")
		rawProduce(t, client, topic, 7, 0, 5, "f")
	}
	r := auditTopic(t, openTopic(t, client, "t", Selection{}), Options{Sequence: true})
	if got := found(r); got != "gap: 0/1  producer 7 epoch 0 sequence 0 to 2" || r.Found(Gap) != 1 {
		t.Errorf("found %s", got)
	}
	r = auditTopic(t, openTopic(t, client, "compacted", Selection{}), Options{Sequence: true})
	if r.Found(Gap) != 0 || !strings.Contains(r.String(), "the topic is compacted: gaps are normal") {
		t.Errorf("the result is\n%v", r)
	}
	r = auditTopic(t, openTopic(t, client, "t", Selection{From: 3}), Options{Sequence: true})
	if r.Found(Gap) != 0 || !strings.Contains(r.String(), "partitions that are read from an offset above 0: 1;") {
		t.Errorf("the result is\n%v", r)
	}
}

// Little memory changes nothing but the use of the disk.
func TestAuditWithLittleMemory(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "t", 3, nil)
	plain := newClient(t, cluster, kgo.DisableIdempotentWrite(), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(200_000))
	const records = 120_000
	for i := range records {
		v := fmt.Sprint(i)
		if i%1000 == 999 {
			v = fmt.Sprint(i - 500)
		}
		plain.Produce(testContext(t), &kgo.Record{Topic: "t", Partition: int32(i % 3), Value: []byte(v)}, nil)
	}
	if err := plain.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	topic := openTopic(t, client, "t", Selection{})
	little := auditTopic(t, topic, Options{Content: true})
	much := auditTopic(t, topic, Options{Content: true, Memory: 1 << 30})
	if little.Spilled == 0 || much.Spilled != 0 {
		t.Errorf("spilled %d and %d bytes", little.Spilled, much.Spilled)
	}
	if little.Found(DuplicateByContent) != records/1000 || found(little) != found(much) {
		t.Errorf("with little memory\n%v\nwith much\n%v", little, much)
	}
}

func TestAuditorRefusesNonsense(t *testing.T) {
	if _, err := NewAuditor(&Topic{}, Options{Memory: 1 << 30}); err == nil {
		t.Error("an audit without a check was accepted")
	}
	if _, err := NewAuditor(&Topic{}, Options{Sequence: true, Content: true, Memory: minMemory}); err == nil {
		t.Error("too little memory was accepted")
	}
}
