package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/test/kafka"
)

// workload is what a producer is to do.
type workload struct {
	bootstrap  []string
	topic      string
	partitions int32
	client     string // names the records: client:seq
	count      int    // records
	idempotent bool
	pace       time.Duration // between bursts of records; 0 for a millisecond
}

// producer runs a workload with one client library to its end, and records
// every acknowledgement.
type producer func(tb testing.TB, w workload, h *audit.History)

var producers = map[string]producer{"franz-go": produceFranz, "sarama": produceSarama, "java": produceJava}

// burst is how many records are handed to a producer at once.
const burst = 20

func (w *workload) pause() {
	if w.pace == 0 {
		w.pace = time.Millisecond
	}
	time.Sleep(w.pace)
}

func produceFranz(tb testing.TB, w workload, h *audit.History) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(w.bootstrap...), kgo.ClientID(w.client), kgo.DefaultProduceTopic(w.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(200),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RecordDeliveryTimeout(2 * time.Minute),
	}
	if !w.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		tb.Error(err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for i := range w.count {
		r := audit.Record{Client: w.client, Seq: int64(i)}
		h.Sent(r)
		client.Produce(ctx, &kgo.Record{Value: r.Value(0), Partition: int32(i) % w.partitions}, func(rec *kgo.Record, err error) {
			h.Ack(ackOf(r, rec.Partition, rec.Offset, err))
		})
		if i%burst == burst-1 {
			w.pause()
		}
	}
	if err := client.Flush(ctx); err != nil {
		tb.Error(err)
	}
}

func produceSarama(tb testing.TB, w workload, h *audit.History) {
	cfg := sarama.NewConfig()
	cfg.ClientID = w.client
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.Idempotent = w.idempotent
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Return.Successes = true
	cfg.Producer.Flush.MaxMessages = 5 // so that there are many batches
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Producer.Retry.Max = 1000
	cfg.Producer.Retry.Backoff = 20 * time.Millisecond
	cfg.Metadata.Retry.Max = 1000
	cfg.Metadata.Retry.Backoff = 20 * time.Millisecond
	cfg.Net.MaxOpenRequests = 1
	client, err := sarama.NewAsyncProducer(w.bootstrap, cfg)
	if err != nil {
		tb.Error(err)
		return
	}
	var readers, unanswered sync.WaitGroup
	unanswered.Add(w.count)
	readers.Go(func() {
		for m := range client.Successes() {
			unanswered.Done()
			h.Ack(ackOf(m.Metadata.(audit.Record), m.Partition, m.Offset, nil))
		}
	})
	readers.Go(func() {
		for e := range client.Errors() {
			unanswered.Done()
			tb.Logf("sarama gave up on %v: %v", e.Msg.Metadata, e.Err)
			h.Ack(ackOf(e.Msg.Metadata.(audit.Record), 0, -1, e.Err))
		}
	})
	for i := range w.count {
		r := audit.Record{Client: w.client, Seq: int64(i)}
		h.Sent(r)
		client.Input() <- &sarama.ProducerMessage{Topic: w.topic, Partition: int32(i) % w.partitions, Value: sarama.ByteEncoder(r.Value(0)), Metadata: r}
		if i%burst == burst-1 {
			w.pause()
		}
	}
	unanswered.Wait() // a producer that is being closed refuses its own retries
	client.AsyncClose()
	readers.Wait()
}

func produceJava(tb testing.TB, w workload, h *audit.History) {
	for i := range w.count {
		h.Sent(audit.Record{Client: w.client, Seq: int64(i)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd, err := kafka.JavaSource(ctx, "../java/Produce.java", strings.Join(w.bootstrap, ","), w.topic, w.client,
		fmt.Sprint(w.count), fmt.Sprint(w.partitions), "acks=all", fmt.Sprintf("enable.idempotence=%v", w.idempotent))
	if err != nil {
		tb.Error(err)
		return
	}
	readAcks(tb, cmd, w.client, h)
}

// readAcks runs a producer program that prints "ack seq partition offset" and
// "error seq message".
func readAcks(tb testing.TB, cmd *exec.Cmd, client string, h *audit.History) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Error(err)
		return
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		tb.Error(err)
		return
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var seq, offset int64
		var partition int32
		line := lines.Text()
		if _, err := fmt.Sscanf(line, "ack %d %d %d", &seq, &partition, &offset); err == nil {
			h.Ack(ackOf(audit.Record{Client: client, Seq: seq}, partition, offset, nil))
		} else if _, err := fmt.Sscanf(line, "error %d", &seq); err == nil {
			h.Ack(ackOf(audit.Record{Client: client, Seq: seq}, 0, -1, fmt.Errorf("%s", line)))
		}
	}
	if err := cmd.Wait(); err != nil {
		tb.Errorf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
}

func ackOf(r audit.Record, partition int32, offset int64, err error) audit.Ack {
	a := audit.Ack{Client: r.Client, Seq: r.Seq, Partition: partition, Offset: offset, At: time.Now()}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
