package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/test/kafka"
)

// What an embedded broker can't show: compaction, a broker that forgets
// producers, and the transaction index of a real log.
func TestAuditOfRealKafka(t *testing.T) {
	for _, version := range []string{kafka.V40, kafka.V44} {
		t.Run(version, func(t *testing.T) {
			cluster := kafka.Start(t, kafka.Options{Version: version, Brokers: 1, Config: map[string]string{
				"producer.id.expiration.ms":                "1000",
				"producer.id.expiration.check.interval.ms": "500",
				"log.cleaner.backoff.ms":                   "100",
			}})
			client := func(opts ...kgo.Opt) *kgo.Client {
				c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				return c
			}
			t.Run("transactions", func(t *testing.T) { realTransactions(t, client) })
			t.Run("a forgotten producer", func(t *testing.T) { realForgottenProducer(t, client()) })
			t.Run("compaction", func(t *testing.T) { realCompaction(t, client) })
		})
	}
}

func realTransactions(t *testing.T, client func(...kgo.Opt) *kgo.Client) {
	reader := client()
	createTopic(t, reader, "transactions", 1, nil)
	writer := client(kgo.TransactionalID("audited"))
	for _, end := range []string{"commit", "abort", "commit", "leave open"} {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, writer, &kgo.Record{Topic: "transactions", Value: []byte("same")})
		if end == "leave open" {
			break
		}
		if err := writer.EndTransaction(testContext(t), kgo.TransactionEndTry(end == "commit")); err != nil {
			t.Fatal(err)
		}
	}
	r := auditTopic(t, openTopic(t, reader, "transactions", Selection{}), Options{Sequence: true, Content: true})
	if got := found(r); got != "duplicate by content: 0/4  first at 0/0" || r.Aborted != 1 || r.Open != 1 || r.Markers != 3 {
		t.Errorf("found %s, result\n%v", got, r)
	}
	committed := openTopic(t, reader, "transactions", Selection{ReadCommitted: true})
	if es := readAll(t, committed); len(es) != 2 || committed.Ranges[0].End != 6 {
		t.Errorf("%d committed records up to offset %d", len(es), committed.Ranges[0].End)
	}
}

// A broker that has forgotten a producer takes the same sequence again.
func realForgottenProducer(t *testing.T, client *kgo.Client) {
	createTopic(t, client, "forgotten", 1, nil)
	rawProduce(t, client, "forgotten", 4711, 0, 0, "a", "b")
	rawProduce(t, client, "forgotten", 4711, 0, 0, "a", "b") // answered with the first offset
	r := auditTopic(t, openTopic(t, client, "forgotten", Selection{}), Options{Sequence: true, Content: true})
	if len(r.Findings) > 0 || r.Records != 2 {
		t.Fatalf("the broker should have dropped the retry:\n%v", r)
	}
	const want = "duplicate by sequence: 0/2  first at 0/0  producer 4711 epoch 0 sequence 0 to 1" +
		"; duplicate by content: 0/2  first at 0/0; duplicate by content: 0/3  first at 0/1"
	for giveUp := time.Now().Add(20 * time.Second); r.Records == 2; {
		if time.Now().After(giveUp) {
			t.Fatal("the broker still knows the producer")
		}
		time.Sleep(500 * time.Millisecond)
		rawProduce(t, client, "forgotten", 4711, 0, 0, "a", "b")
		r = auditTopic(t, openTopic(t, client, "forgotten", Selection{}), Options{Sequence: true, Content: true})
	}
	if got := found(r); got != want {
		t.Errorf("found\n%s\nnot\n%s", got, want)
	}
}

// Compaction leaves batches with fewer records than offsets, and takes whole
// batches away.
func realCompaction(t *testing.T, client func(...kgo.Opt) *kgo.Client) {
	reader := client()
	text := kmsg.StringPtr
	createTopic(t, reader, "compacted", 1, map[string]*string{
		"cleanup.policy": text("compact"), "min.cleanable.dirty.ratio": text("0.001"), "segment.ms": text("200"),
		"delete.retention.ms": text("0"), "min.compaction.lag.ms": text("0"),
	})
	writer := client(kgo.ProducerLinger(20 * time.Millisecond))
	write := func(from, to int) {
		for i := from; i < to; i++ {
			key := i % 7
			if i%100 == 0 {
				key = 1000 + i // stays, with gaps around it
			}
			writer.Produce(testContext(t), &kgo.Record{Topic: "compacted", Key: []byte(fmt.Sprint(key)), Value: []byte(fmt.Sprint(i))}, nil)
		}
		if err := writer.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	var r *Result
	sent := 0
	for giveUp := time.Now().Add(40 * time.Second); r == nil || r.Counts[Gap].Found == 0; {
		if time.Now().After(giveUp) {
			t.Fatal("the broker doesn't compact")
		}
		write(sent, sent+20)
		sent += 20
		time.Sleep(300 * time.Millisecond)
		r = auditTopic(t, openTopic(t, reader, "compacted", Selection{}), Options{Sequence: true, Content: true})
	}
	if r.Found(Gap) != 0 || r.Found(OrderBreak) != 0 || r.Found(DuplicateBySequence) != 0 || r.Records >= int64(sent) {
		t.Errorf("of %d records written, the result is\n%v", sent, r)
	}
	if !strings.Contains(r.String(), "gaps are normal") {
		t.Errorf("it isn't said that gaps are normal:\n%v", r)
	}
	for e, err := range openTopic(t, reader, "compacted", Selection{}).Entries(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		// One producer wrote the only partition: record i has offset and sequence i.
		if string(e.Value) != fmt.Sprint(e.Offset) || int64(e.Sequence) != e.Offset {
			t.Errorf("offset %d holds %s, sequence %d", e.Offset, e.Value, e.Sequence)
		}
	}
}
