package null

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/test/raw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, partitions int) *Broker {
	t.Helper()
	b, err := Start("127.0.0.1:0", partitions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func dial(t *testing.T, b *Broker) *raw.Conn {
	t.Helper()
	c, err := raw.Dial(b.Addr(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// An idempotent producer of another author's takes the broker for one, and is
// told rising offsets.
func TestFranzGoProduces(t *testing.T) {
	b := start(t, 3)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.DefaultProduceTopic(Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i := range 300 {
		client.Produce(ctx, &kgo.Record{Partition: int32(i % 3), Value: make([]byte, i*100)}, func(r *kgo.Record, err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			} else if r.Offset != int64(i/3) {
				t.Errorf("record %d of partition %d has offset %d", i/3, i%3, r.Offset)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// Every version of Produce is answered in its own format, and offsets count
// records.
func TestProduceVersions(t *testing.T) {
	c := dial(t, start(t, 1))
	for version := int16(wire.MinProduce); version <= wire.MaxProduce; version++ {
		req := raw.Request(&raw.Batch{Topic: Topic, PID: 1, First: int32(version) * 2, Values: [][]byte{{1}, {2}}})
		req.Version, req.Topics[0].TopicID = version, TopicID
		r, err := c.Ask(req)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		want := raw.Answer{Offset: int64(version-wire.MinProduce) * 2}
		if got := raw.AnswerOf(r); got != want {
			t.Errorf("version %d is answered %+v, not %+v", version, got, want)
		}
	}
}

// What isn't there is said so.
func TestRefusals(t *testing.T) {
	c := dial(t, start(t, 1))
	for _, b := range []*raw.Batch{
		{Topic: "other", Values: [][]byte{nil}},
		{Topic: Topic, Partition: 1, Values: [][]byte{nil}},
		{Topic: Topic, Partition: -1, Values: [][]byte{nil}},
	} {
		r, err := c.Ask(raw.Request(b))
		if err != nil {
			t.Fatal(err)
		}
		if got := raw.AnswerOf(r).Code; got != errUnknownTopic {
			t.Errorf("topic %s partition %d is answered with error %d", b.Topic, b.Partition, got)
		}
	}
	broken := raw.Request(&raw.Batch{Topic: Topic, Values: [][]byte{nil}})
	broken.Topics[0].Partitions[0].Records[16] = 1 // magic
	r, err := c.Ask(broken)
	if err != nil {
		t.Fatal(err)
	}
	if got := raw.AnswerOf(r).Code; got != 87 {
		t.Errorf("a batch of magic 1 is answered with error %d", got)
	}
}

// Metadata of all versions leads to the broker and all partitions.
func TestMetadataVersions(t *testing.T) {
	b := start(t, 5)
	c := dial(t, b)
	for version := int16(0); version <= 13; version++ {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = version
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(Topic)
		req.Topics = append(req.Topics, topic)
		r, err := c.Ask(req)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		m := r.(*kmsg.MetadataResponse)
		if len(m.Brokers) != 1 || net.JoinHostPort(m.Brokers[0].Host, fmt.Sprint(m.Brokers[0].Port)) != b.Addr() {
			t.Errorf("version %d: brokers %+v", version, m.Brokers)
		}
		if len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 || len(m.Topics[0].Partitions) != 5 {
			t.Errorf("version %d: topics %+v", version, m.Topics)
		}
		if version >= 10 && m.Topics[0].TopicID != TopicID {
			t.Errorf("version %d: topic id %x", version, m.Topics[0].TopicID)
		}
	}
}

// A client that is newer than the broker is told in version 0 (KIP-511).
func TestApiVersionsFallsBack(t *testing.T) {
	c := dial(t, start(t, 1))
	body := []byte{0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 1, 2, 3}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		t.Fatal(err)
	}
	var n [4]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(n[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		t.Fatal(err)
	}
	if id := binary.BigEndian.Uint32(frame); id != 7 {
		t.Errorf("correlation id %d", id)
	}
	var r kmsg.ApiVersionsResponse
	if err := r.ReadFrom(frame[4:]); err != nil || r.ErrorCode != 35 || len(r.ApiKeys) != len(offered) {
		t.Errorf("%+v, %v", r, err)
	}
}

// Each producer gets an id of its own.
func TestProducerIDs(t *testing.T) {
	c := dial(t, start(t, 1))
	seen := make(map[int64]bool)
	for range 10 {
		id, err := c.ProducerID()
		if err != nil {
			t.Fatal(err)
		}
		if seen[id] {
			t.Errorf("id %d was given twice", id)
		}
		seen[id] = true
	}
}

// Frames are found however the stream is cut.
func TestCutStream(t *testing.T) {
	c := dial(t, start(t, 1))
	var stream []byte
	const requests = 20
	for i := range requests {
		body := wire.AppendRequest(nil, int32(i), "cut", raw.Request(&raw.Batch{Topic: Topic, PID: 1, First: int32(i), Values: [][]byte{make([]byte, i*3000)}}))
		stream = append(binary.BigEndian.AppendUint32(stream, uint32(len(body))), body...)
	}
	go func() {
		for step := 1; len(stream) > 0; step = step*5%7919 + 1 {
			n := min(step, len(stream))
			if _, err := c.Write(stream[:n]); err != nil {
				return
			}
			stream = stream[n:]
		}
	}()
	for i := range requests {
		req := kmsg.NewPtrProduceRequest()
		req.Version = 9
		r, err := c.Receive(req, int32(i))
		if err != nil {
			t.Fatal(err)
		}
		if got := (raw.AnswerOf(r)); got != (raw.Answer{Offset: int64(i)}) {
			t.Errorf("request %d: %+v", i, got)
		}
	}
}

func TestAnswersWithoutAllocation(t *testing.T) {
	b := start(t, 1)
	s := &session{broker: b}
	frame := wire.AppendRequest(nil, 1, "a", raw.Request(&raw.Batch{Topic: Topic, PID: 1, Values: [][]byte{{1}}}))
	if n := testing.AllocsPerRun(100, func() {
		s.out = s.out[:0]
		if err := s.answer(frame); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each Produce answer", n)
	}
}
