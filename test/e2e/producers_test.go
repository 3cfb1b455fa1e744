package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/test/java"
)

// workload is what one producer is to do.
type workload struct {
	client     string // the library, and what names the records: client:seq
	bootstrap  []string
	topic      string
	count      int // records, in turn over the partitions
	idempotent bool
	pace       time.Duration // between bursts of records
	answers    *answers
}

const burst = 20

// libraries are the ways to produce. Each runs a workload to its end and
// records every acknowledgement.
var libraries = map[string]func(context.Context, workload) error{
	"franz-go": produceFranz, "sarama": produceSarama, "java": produceJava, "transactions": produceTransactions,
}

// clients are the libraries without transactions, the slowest to start first.
var clients = []string{"java", "sarama", "franz-go"}

// answers are what the producers of a run were told.
type answers struct {
	*audit.History
	tb testing.TB

	mu     sync.Mutex
	acked  map[string]int
	failed int
}

func newAnswers(tb testing.TB) *answers {
	return &answers{History: audit.NewHistory(), tb: tb, acked: make(map[string]int)}
}

// shownFailures is how many errors of producers are printed.
const shownFailures = 5

// answer records an answer. Answers of one client come in order.
func (a *answers) answer(r audit.Record, partition int32, offset int64, err error) {
	ack := audit.Ack{Client: r.Client, Seq: r.Seq, Partition: partition, Offset: offset}
	if err != nil {
		ack.Error = err.Error()
	}
	a.Ack(ack)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.acked[r.Client]++
	} else if a.failed++; a.failed <= shownFailures {
		a.tb.Logf("%v failed: %v", r, err)
	}
}

// of returns how many records of a client were acknowledged.
func (a *answers) of(client string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.acked[client]
}

func produceFranz(ctx context.Context, w workload) error {
	opts := []kgo.Opt{
		kgo.SeedBrokers(w.bootstrap...), kgo.ClientID(w.client), kgo.DefaultProduceTopic(w.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(200),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.ProduceRequestTimeout(requestTimeout), kgo.RequestTimeoutOverhead(time.Second),
		kgo.AlwaysRetryEOF(), // a kill amid a handshake is no sign of a wrong configuration
	}
	if !w.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range w.count {
		r := audit.Record{Client: w.client, Seq: int64(i)}
		w.answers.Sent(r)
		client.Produce(ctx, &kgo.Record{Value: r.Value(0), Partition: int32(i % partitions)}, func(rec *kgo.Record, err error) {
			w.answers.answer(r, rec.Partition, rec.Offset, err)
		})
		if i%burst == burst-1 {
			time.Sleep(w.pace)
		}
	}
	return client.Flush(ctx)
}

// requestTimeout is how long clients wait for an answer before they send again.
const requestTimeout = 3 * time.Second

func produceSarama(ctx context.Context, w workload) error {
	cfg := sarama.NewConfig()
	cfg.ClientID = w.client
	cfg.Version = sarama.V2_8_0_0
	cfg.Net.MaxOpenRequests = 1
	cfg.Net.ReadTimeout = requestTimeout + time.Second
	cfg.Producer.Idempotent = w.idempotent
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Return.Successes = true
	cfg.Producer.Flush.MaxMessages = 10 // so that there are many batches
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Producer.Retry.Max = 1000
	cfg.Producer.Retry.Backoff = 20 * time.Millisecond
	cfg.Metadata.Retry.Max = 1000
	cfg.Metadata.Retry.Backoff = 20 * time.Millisecond
	client, err := sarama.NewAsyncProducer(w.bootstrap, cfg)
	if err != nil {
		return err
	}
	answered := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for m := range client.Successes() {
			w.answers.answer(m.Metadata.(audit.Record), m.Partition, m.Offset, nil)
			answered <- struct{}{}
		}
	})
	readers.Go(func() {
		for e := range client.Errors() {
			w.answers.answer(e.Msg.Metadata.(audit.Record), 0, -1, e.Err)
			answered <- struct{}{}
		}
	})
	go func() {
		for i := range w.count {
			r := audit.Record{Client: w.client, Seq: int64(i)}
			w.answers.Sent(r)
			select {
			case client.Input() <- &sarama.ProducerMessage{Topic: w.topic, Partition: int32(i % partitions), Value: sarama.ByteEncoder(r.Value(0)), Metadata: r}:
			case <-ctx.Done():
				return
			}
			if i%burst == burst-1 {
				time.Sleep(w.pace)
			}
		}
	}()
	// A producer that is being closed refuses its own retries: close it last.
	for n := 0; n < w.count && ctx.Err() == nil; n++ {
		select {
		case <-answered:
		case <-ctx.Done():
		}
	}
	client.AsyncClose()
	go func() {
		readers.Wait()
		close(answered)
	}()
	for range answered {
	}
	return ctx.Err()
}

func produceJava(ctx context.Context, w workload) error {
	for i := range w.count {
		w.answers.Sent(audit.Record{Client: w.client, Seq: int64(i)})
	}
	program := java.Program{Name: "produce", Args: map[string]string{
		"bootstrap.servers": strings.Join(w.bootstrap, ","), "topic": w.topic, "client": w.client,
		"count": fmt.Sprint(w.count), "partitions": fmt.Sprint(partitions), "pace": fmt.Sprint(w.pace.Milliseconds()),
		"enable.idempotence": fmt.Sprint(w.idempotent), "request.timeout.ms": fmt.Sprint(requestTimeout.Milliseconds()),
	}}
	return program.Run(ctx, func(e java.Event) { answerJava(w.answers, e) })
}

func answerJava(a *answers, e java.Event) {
	if e.Event != "ack" {
		return
	}
	var err error
	if e.Error != "" {
		err = fmt.Errorf("%s", e.Error)
	}
	a.answer(audit.Record{Client: e.Client, Seq: e.Seq}, e.Partition, e.Offset, err)
}
