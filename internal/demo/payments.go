package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/oncegate/oncegate/internal/audit"
)

// producing is one run of a payment producer: sarama's, as an application
// would use it.
type producing struct {
	bootstrap, topic string
	idempotent       bool
	progress         func(answered int)
}

// run sends all payments and records what the producer is told.
func (p *producing) run(ctx context.Context) (*audit.History, error) {
	cfg := sarama.NewConfig()
	cfg.ClientID = "payments"
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.Idempotent = p.idempotent
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Return.Successes = true
	cfg.Producer.Flush.MaxMessages = 5
	cfg.Producer.Retry.Max = 100
	cfg.Producer.Retry.Backoff = 5 * time.Millisecond
	cfg.Metadata.Retry.Max = 100
	cfg.Metadata.Retry.Backoff = 5 * time.Millisecond
	cfg.Net.MaxOpenRequests = 1
	client, err := sarama.NewAsyncProducer([]string{p.bootstrap}, cfg)
	if err != nil {
		return nil, err
	}
	h := audit.NewHistory()
	var readers, unanswered sync.WaitGroup
	unanswered.Add(payments)
	answered := 0
	readers.Go(func() {
		for m := range client.Successes() {
			r := m.Metadata.(audit.Record)
			h.Ack(audit.Ack{Client: r.Client, Seq: r.Seq, Partition: m.Partition, Offset: m.Offset})
			if answered++; answered%10 == 0 {
				p.progress(answered)
			}
			unanswered.Done()
		}
	})
	readers.Go(func() {
		for e := range client.Errors() {
			r := e.Msg.Metadata.(audit.Record)
			h.Ack(audit.Ack{Client: r.Client, Seq: r.Seq, Offset: -1, Error: e.Err.Error()})
			unanswered.Done()
		}
	})
	for i := range payments {
		r := audit.Record{Client: "payment", Seq: int64(i)}
		h.Sent(r)
		message := &sarama.ProducerMessage{Topic: p.topic, Value: sarama.ByteEncoder(r.Value(100)), Metadata: r}
		select {
		case client.Input() <- message:
		case <-ctx.Done():
			client.AsyncClose()
			return nil, ctx.Err()
		}
	}
	unanswered.Wait()
	client.AsyncClose()
	readers.Wait()
	return h, nil
}

// count reads the topic back and compares it with what the producer was told.
func count(ctx context.Context, broker, topic string, h *audit.History) (Count, error) {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V2_8_0_0
	client, err := sarama.NewClient([]string{broker}, cfg)
	if err != nil {
		return Count{}, err
	}
	defer client.Close()
	end, err := client.GetOffset(topic, 0, sarama.OffsetNewest)
	if err != nil {
		return Count{}, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return Count{}, err
	}
	defer consumer.Close()
	log, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return Count{}, err
	}
	defer log.Close()
	checker, err := audit.NewChecker(h)
	if err != nil {
		return Count{}, err
	}
	for next := int64(0); next < end; {
		select {
		case m := <-log.Messages():
			checker.Add(audit.Entry{Offset: m.Offset, Value: m.Value, ProducerID: -1, Sequence: -1})
			next = m.Offset + 1
		case <-ctx.Done():
			return Count{}, fmt.Errorf("the log of %s ends at %d, read up to %d: %w", topic, end, next, ctx.Err())
		}
	}
	r := checker.Report()
	return Count{Acked: int(r.Acked), Stored: int(r.Stored), Duplicates: int(r.Duplicated), Lost: int(r.Lost)}, nil
}
