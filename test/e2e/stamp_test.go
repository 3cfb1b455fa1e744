package e2e

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/oncegate/oncegate/internal/audit"
	foreign "github.com/oncegate/oncegate/test/clients"
	"github.com/oncegate/oncegate/test/java"
	"github.com/oncegate/oncegate/test/kafka"
)

func init() {
	libraries["payments"] = producePayments
	libraries["kafka-go"] = produceKafkaGo
	libraries["librdkafka"] = produceForeign(foreign.Librdkafka)
	libraries["kafkajs"] = produceForeign(foreign.KafkaJS)
}

// producePayments is Java's client with idempotence off, as VulnerablePaymentProducer.
func producePayments(ctx context.Context, w workload) error {
	for i := range w.count {
		w.answers.Sent(audit.Record{Client: w.client, Seq: int64(i)})
	}
	program := java.Program{Name: "payments", Args: map[string]string{
		"bootstrap.servers": strings.Join(w.bootstrap, ","), "topic": w.topic, "client": w.client, "count": fmt.Sprint(w.count),
		// The example has three retries; over a network that loses every
		// eighth answer that is too few for any service.
		"retries": "1000", "retry.backoff.ms": "20", "reconnect.backoff.ms": "10",
	}}
	return program.Run(ctx, func(e java.Event) { answerJava(w.answers, e) })
}

// produceKafkaGo is segmentio/kafka-go, which has no idempotence. With a time
// of its own each message is the same in every attempt.
func produceKafkaGo(ctx context.Context, w workload) error {
	var writers sync.WaitGroup
	errs := make(chan error, partitions)
	for p := range partitions {
		writers.Go(func() {
			writer := &kafkago.Writer{
				Addr: kafkago.TCP(w.bootstrap...), Topic: w.topic, RequiredAcks: kafkago.RequireAll,
				Balancer:  kafkago.BalancerFunc(func(kafkago.Message, ...int) int { return int(p) }),
				BatchSize: 5, BatchTimeout: 2 * time.Millisecond, MaxAttempts: 100, WriteBackoffMin: 10 * time.Millisecond, WriteBackoffMax: 50 * time.Millisecond,
				Transport: &kafkago.Transport{ClientID: fmt.Sprintf("%s-%d", w.client, p)},
			}
			defer writer.Close()
			for from := int(p); from < w.count; from += 5 * partitions {
				var batch []kafkago.Message
				var records []audit.Record
				for i := from; i < min(from+5*partitions, w.count); i += partitions {
					r := audit.Record{Client: w.client, Seq: int64(i)}
					w.answers.Sent(r)
					records = append(records, r)
					batch = append(batch, kafkago.Message{Value: r.Value(0), Time: time.Now()})
				}
				err := writer.WriteMessages(ctx, batch...)
				for i, r := range records {
					offset := int64(-1)
					if err == nil && batch[i].Offset > 0 {
						offset = batch[i].Offset
					}
					w.answers.answer(r, int32(p), offset, err)
				}
				if err != nil && ctx.Err() != nil {
					errs <- err
					return
				}
			}
		})
	}
	writers.Wait()
	close(errs)
	return <-errs
}

func produceForeign(l foreign.Library) func(context.Context, workload) error {
	return func(ctx context.Context, w workload) error {
		for i := range w.count {
			w.answers.Sent(audit.Record{Client: w.client, Seq: int64(i)})
		}
		return l.Produce(ctx, func(a foreign.Answer) {
			w.answers.answer(audit.Record{Client: w.client, Seq: a.Seq}, a.Partition, a.Offset, a.Err)
		}, strings.Join(w.bootstrap, ","), w.topic, w.client, fmt.Sprint(w.count), fmt.Sprint(partitions), "1")
	}
}

// plainly runs the scenario through Oncegate with idempotence off.
func (s scenario) plainly(t *testing.T) (*run, *audit.Report) {
	t.Helper()
	r := s.prepare(t)
	r.near, r.far = parse(t, s.near), parse(t, s.far)
	upstream := s.cluster.Bootstrap()
	if s.far != "" {
		upstream = s.cluster.FaultyBootstrap()
		for _, b := range s.cluster.Brokers() {
			listen(t, b.Port(kafka.Faulty), r.far)
		}
	}
	r.gate = startOncegate(t, upstream, kafka.FaultyHost, s.env...)
	for port := r.gate.port; port <= r.gate.port+brokerPorts; port++ {
		r.proxies = append(r.proxies, listen(t, port, r.near))
	}
	r.bootstrap = []string{fmt.Sprintf("%s:%d", kafka.FaultyHost, r.gate.port)}
	report := r.run(t, false)
	t.Logf("near faults %v: %s; far faults %v: %s; %d records of retries left out, %d requests sent again by Oncegate",
		r.near, r.near.Counts(), r.far, r.far.Counts(), r.gate.metric(t, "oncegate_records_left_out_total"), r.gate.resent(t))
	return r, report
}

var allClients = flag.Bool("clients", false, "test the clients of other languages as well")

// Producers that send no producer id: acknowledgements are lost on either hop,
// and each record is stored once.
func TestPlainProducers(t *testing.T) {
	names := []string{"sarama", "kafka-go", "payments"}
	if *allClients {
		names = append(names, "librdkafka", "kafkajs")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for _, l := range []foreign.Library{foreign.Librdkafka, foreign.KafkaJS} {
				if l.Name == name {
					_, err := exec.LookPath(l.Tool())
					kafka.RequireTools(t, err)
				}
			}
			s := scenario{cluster: newest.Get(t), clients: []string{name}, records: 900, near: lostAcks}
			s.control(t)
			t.Run("client hop", func(t *testing.T) {
				_, report := s.plainly(t)
				mustBeOnce(t, report, s.records)
			})
			t.Run("upstream hop", func(t *testing.T) {
				s.near, s.far = "", lostAcks
				_, report := s.plainly(t)
				mustBeOnce(t, report, s.records)
			})
		})
	}
}

// mustBeOnce fails unless every record was acknowledged and is stored once,
// where the client was told.
func mustBeOnce(t *testing.T, r *audit.Report, records int) {
	t.Helper()
	// Order is not looked at: without idempotence a client with several requests
	// in flight changes it itself when it retries, with or without Oncegate.
	if r.Lost+r.Duplicated+r.WrongOffset > 0 || r.Acked != int64(records) {
		t.Errorf("not once:\n%v", r)
	}
}
