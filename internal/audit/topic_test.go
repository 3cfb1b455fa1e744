package audit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is read is what was written, whatever the compression, with the
// producer's numbers.
func TestTopicReadsWhatWasWritten(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	cluster, reader := fakeCluster(t)
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			createTopic(t, reader, name, 3, nil)
			writer := newClient(t, cluster, kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(5*time.Millisecond))
			var sent []*kgo.Record
			for i := range 3000 {
				r := &kgo.Record{
					Topic: name, Partition: int32(i % 3),
					Key: []byte(fmt.Sprint(i)), Value: []byte(strings.Repeat("v", i%400)),
					Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}},
				}
				sent = append(sent, r)
				writer.Produce(testContext(t), r, nil)
			}
			if err := writer.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
			var got [3][]Entry
			for _, e := range readAll(t, openTopic(t, reader, name, Selection{})) {
				got[e.Partition] = append(got[e.Partition], e)
			}
			for i, r := range sent {
				want := Entry{
					Partition: r.Partition, Offset: int64(i / 3), Timestamp: r.Timestamp.UnixMilli(),
					Key: r.Key, Value: r.Value, Headers: []Header{{"h", []byte{byte(i)}}},
					ProducerID: r.ProducerID, Epoch: r.ProducerEpoch, Sequence: int32(i / 3),
				}
				if e := got[r.Partition][i/3]; !reflect.DeepEqual(e, want) {
					t.Fatalf("record %d is %+v, not %+v", i, e, want)
				}
			}
		})
	}
}

func TestTopicSelection(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "orders", 2, nil)
	plain := newClient(t, cluster, kgo.DisableIdempotentWrite())
	start := time.UnixMilli(1_700_000_000_000)
	for i := range 20 {
		produce(t, plain, &kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: []byte("x"), Timestamp: start.Add(time.Duration(i/2) * time.Second)})
	}
	if _, err := kadm.NewClient(client).DeleteRecords(testContext(t), kadm.Offsets{"orders": {1: {Topic: "orders", Partition: 1, At: 3}}}); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		s    Selection
		want string
	}{
		{"all", Selection{}, "0:0-10 1:3-10"},
		{"a partition", Selection{Partitions: []int32{1, 1}}, "1:3-10"},
		{"offsets", Selection{From: 2, To: 4}, "0:2-4 1:3-4"},
		{"beyond the end", Selection{From: 100, To: 200}, "0:10-10 1:10-10"},
		{"before the start of the log", Selection{To: 2}, "0:0-2 1:2-2"},
		{"time", Selection{Since: start.Add(4 * time.Second), Until: start.Add(6 * time.Second)}, "0:4-6 1:4-6"},
		{"since the future", Selection{Since: start.Add(time.Hour)}, "0:10-10 1:10-10"},
		{"until the past", Selection{Until: start.Add(-time.Hour)}, "0:0-0 1:3-3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			topic := openTopic(t, client, "orders", c.s)
			var ranges []string
			var n int64
			for _, r := range topic.Ranges {
				ranges = append(ranges, fmt.Sprintf("%d:%d-%d", r.Partition, r.Start, r.End))
			}
			if got := strings.Join(ranges, " "); got != c.want {
				t.Errorf("reads %s, not %s", got, c.want)
			}
			for _, e := range readAll(t, topic) {
				r := topic.Ranges[min(int(e.Partition), len(topic.Ranges)-1)]
				if e.Offset < r.Start || e.Offset >= r.End {
					t.Errorf("%v isn't in %+v", e.Place(), r)
				}
				if e.ProducerID != -1 || e.Sequence != -1 {
					t.Errorf("a record without producer id has %d, sequence %d", e.ProducerID, e.Sequence)
				}
				n++
			}
			if n != topic.Total() {
				t.Errorf("%d records were read, %d announced", n, topic.Total())
			}
		})
	}
}

// A range that begins inside a batch has only the records that it should, but
// the batch's own numbers.
func TestRangeInsideBatch(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	writer := newClient(t, cluster, kgo.ProducerLinger(20*time.Millisecond))
	for i := range 10 {
		writer.Produce(testContext(t), &kgo.Record{Topic: "t", Value: []byte{byte(i)}}, nil)
	}
	if err := writer.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	topic := openTopic(t, client, "t", Selection{From: 4, To: 7})
	var batches, records int
	for b, err := range topic.Batches(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		batches++
		if b.BaseOffset != 0 || b.LastOffset != 9 || b.BaseSequence != 0 || b.LastSequence != 9 {
			t.Errorf("the batch is %+v", b)
		}
		for _, e := range b.Entries {
			records++
			if e.Offset != int64(e.Sequence) || e.Value[0] != byte(e.Offset) {
				t.Errorf("offset %d has sequence %d and value %d", e.Offset, e.Sequence, e.Value[0])
			}
		}
	}
	if batches != 1 || records != 3 {
		t.Errorf("%d batches, %d records", batches, records)
	}
}

// Transactions: committed, aborted, and one that is still open.
func TestTopicKnowsTransactions(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	writer := newClient(t, cluster, kgo.TransactionalID("tx"))
	transaction := func(value string, end ...kgo.TransactionEndTry) {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, writer, &kgo.Record{Topic: "t", Value: []byte(value)}, &kgo.Record{Topic: "t", Value: []byte(value)})
		for _, e := range end {
			if err := writer.EndTransaction(testContext(t), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	transaction("committed", kgo.TryCommit)
	transaction("aborted", kgo.TryAbort)
	transaction("committed", kgo.TryCommit)
	transaction("open")
	plain := newClient(t, cluster, kgo.DisableIdempotentWrite())
	produce(t, plain, &kgo.Record{Topic: "t", Value: []byte("plain")})

	var got []string
	for e := range openTopic(t, client, "t", Selection{}).Entries(testContext(t)) {
		got = append(got, fmt.Sprintf("%s aborted=%v open=%v", e.Value, e.Aborted, e.Open))
	}
	want := []string{}
	for _, s := range []string{"committed aborted=false open=false", "aborted aborted=true open=false", "committed aborted=false open=false", "open aborted=false open=true"} {
		want = append(want, s, s)
	}
	want = append(want, "plain aborted=false open=false")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	var committed []string
	for _, e := range readAll(t, openTopic(t, client, "t", Selection{ReadCommitted: true})) {
		committed = append(committed, string(e.Value))
	}
	if strings.Join(committed, " ") != "committed committed committed committed" {
		t.Errorf("committed records are %v", committed)
	}

	var markers []Marker
	for b := range openTopic(t, client, "t", Selection{}).Batches(testContext(t)) {
		if b.Marker != NoMarker {
			markers = append(markers, b.Marker)
			if len(b.Entries) > 0 || b.sequenced() {
				t.Errorf("a marker looks like records: %+v", b)
			}
		}
	}
	if fmt.Sprint(markers) != fmt.Sprint([]Marker{Commit, Abort, Commit}) {
		t.Errorf("the markers are %v", markers)
	}
}

// A leader that moves, and a broker that fails for a while, don't matter.
func TestReadingOutlivesTrouble(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	for i := range 10 {
		produce(t, client, &kgo.Record{Topic: "t", Value: []byte{byte(i)}})
	}
	topic := openTopic(t, client, "t", Selection{})
	if err := cluster.MoveTopicPartition("t", 0, 1-topic.leaders[0]); err != nil {
		t.Fatal(err)
	}
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: 2})
	if n := len(readAll(t, topic)); n != 10 {
		t.Errorf("%d records were read", n)
	}
}

func TestReadingFailsWithReason(t *testing.T) {
	cluster, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	produce(t, client, &kgo.Record{Topic: "t", Value: []byte("x")}, &kgo.Record{Topic: "t", Value: []byte("y")})
	failure := func(topic *Topic) string {
		for _, err := range topic.Entries(testContext(t)) {
			if err != nil {
				return err.Error()
			}
		}
		return "none"
	}
	expect := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("the error is %q, it should contain %q", got, want)
		}
	}

	_, err := OpenTopic(testContext(t), client, "no-such", Selection{})
	expect(fmt.Sprint(err), `topic "no-such" doesn't exist`)
	_, err = OpenTopic(testContext(t), client, "t", Selection{Partitions: []int32{0, 7}})
	expect(fmt.Sprint(err), `topic "t" has no partition 7; it has 0 to 0`)

	topic := openTopic(t, client, "t", Selection{})
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed})
	expect(failure(topic), "grant Read and Describe")

	topic.Ranges[0].End, topic.Ranges[0].stable = 50, 50
	topic.patience = 0
	expect(failure(topic), "the log was cut off")

	topic = openTopic(t, client, "t", Selection{})
	if _, err := kadm.NewClient(client).DeleteTopic(testContext(t), "t"); err != nil {
		t.Fatal(err)
	}
	createTopic(t, client, "t", 1, nil)
	expect(failure(topic), "was deleted and made anew")

	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := OpenTopic(ctx, client, "t", Selection{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// Records that retention removes while a topic is read are skipped, and counted.
func TestRetentionWhileReading(t *testing.T) {
	_, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	for i := range 10 {
		produce(t, client, &kgo.Record{Topic: "t", Value: []byte{byte(i)}})
	}
	topic := openTopic(t, client, "t", Selection{})
	if _, err := kadm.NewClient(client).DeleteRecords(testContext(t), kadm.Offsets{"t": {0: {Topic: "t", At: 4}}}); err != nil {
		t.Fatal(err)
	}
	if es := readAll(t, topic); len(es) != 6 || es[0].Offset != 4 || topic.Moved() != 4 {
		t.Errorf("read %d records, %d were removed", len(es), topic.Moved())
	}
}

// A damaged batch is an error that names the place, never silence.
func TestDamagedBatch(t *testing.T) {
	_, client := fakeCluster(t)
	createTopic(t, client, "t", 1, nil)
	produce(t, client, &kgo.Record{Topic: "t", Value: []byte("a value")})
	topic := openTopic(t, client, "t", Selection{})
	p, err := topic.fetch(testContext(t), topic.Ranges[0], 0, true)
	if err != nil {
		t.Fatal(err)
	}
	d := &decoder{r: topic.Ranges[0], topic: "t", plain: topic.decoder}
	if _, err := d.decode(p.RecordBatches); err != nil {
		t.Fatal(err)
	}
	for at := magicAt + 1; at < len(p.RecordBatches); at++ {
		damaged := append([]byte(nil), p.RecordBatches...)
		damaged[at] ^= 0x10
		if _, err := d.decode(damaged); err == nil || !strings.Contains(err.Error(), "partition 0") {
			t.Errorf("byte %d was changed, the error is %v", at, err)
		}
	}
}
