package demo

import (
	"context"
	"net"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
)

// producing is one run of a payment producer: sarama's, as an application
// would use it.
type producing struct {
	network    string // where the faulty network begins
	topic      string
	idempotent bool
	progress   func(acked int)
}

// run sends all payments and records what the producer is told.
func (p *producing) run(ctx context.Context) (*audit.History, error) {
	client, err := sarama.NewAsyncProducer([]string{p.network}, p.config())
	if err != nil {
		return nil, err
	}
	// Not before every answer is there: a producer that closes sends nothing
	// again.
	defer client.Close()
	h := audit.NewHistory()
	acked, failed := 0, 0
	for sent := 0; acked+failed < payments; {
		var input chan<- *sarama.ProducerMessage
		r := audit.Record{Client: "payment", Seq: int64(sent)}
		if sent < payments {
			input = client.Input()
		}
		select {
		case input <- &sarama.ProducerMessage{Topic: p.topic, Value: sarama.ByteEncoder(r.Value(100)), Metadata: r}:
			sent++
		case m := <-client.Successes():
			r := m.Metadata.(audit.Record)
			h.Ack(audit.Ack{Client: r.Client, Seq: r.Seq, Partition: m.Partition, Offset: m.Offset})
			acked++
			p.progress(acked)
		case e := <-client.Errors():
			r := e.Msg.Metadata.(audit.Record)
			h.Ack(audit.Ack{Client: r.Client, Seq: r.Seq, Offset: -1, Error: e.Err.Error()})
			failed++
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return h, nil
}

// config is what an application would set, with less patience between retries.
func (p *producing) config() *sarama.Config {
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
	// The one broker is told to clients by its own address; they get there over
	// the faulty network all the same.
	cfg.Net.Proxy.Enable = true
	cfg.Net.Proxy.Dialer = p
	return cfg
}

// Dial makes p a dialer for sarama.
func (p *producing) Dial(network, _ string) (net.Conn, error) { return net.Dial(network, p.network) }

// count reads the topic back and compares it with what the producer was told.
func count(ctx context.Context, broker, topic string, h *audit.History) (Count, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		return Count{}, err
	}
	defer client.Close()
	log, err := audit.OpenTopic(ctx, client, topic, audit.Selection{})
	if err != nil {
		return Count{}, err
	}
	checker, err := audit.NewChecker(h)
	if err != nil {
		return Count{}, err
	}
	if err := checker.AddAll(log.Entries(ctx)); err != nil {
		return Count{}, err
	}
	r := checker.Report()
	return Count{Acked: int(r.Acked), Stored: int(r.Stored), Duplicates: int(r.Duplicated), Lost: int(r.Lost)}, nil
}
