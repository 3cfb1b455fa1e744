package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/test/kafka"
)

func init() { libraries["franz-go transactions"] = produceFranzTransactions }

// produceFranzTransactions writes in transactions of ten records, every fourth
// of which is aborted. In a control run there can't be any.
func produceFranzTransactions(ctx context.Context, w workload) error {
	if !w.idempotent {
		return produceFranz(ctx, w)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(w.bootstrap...), kgo.ClientID(w.client), kgo.DefaultProduceTopic(w.topic),
		kgo.TransactionalID(w.topic+"-franz"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.ProduceRequestTimeout(requestTimeout), kgo.RequestTimeoutOverhead(time.Second), kgo.AlwaysRetryEOF(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	const size = 10
	for from := 0; from < w.count; from += size {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		stored := make([]*kgo.Record, size)
		errs := make([]error, size)
		for i := range size {
			r := audit.Record{Client: w.client, Seq: int64(from + i)}
			w.answers.Sent(r)
			client.Produce(ctx, &kgo.Record{Value: r.Value(0), Partition: int32((from + i) % partitions)}, func(rec *kgo.Record, err error) {
				stored[i], errs[i] = rec, err
			})
		}
		if err := client.Flush(ctx); err != nil {
			return err
		}
		commit := kgo.TryCommit
		if from/size%abortedOneIn == abortedOneIn-1 {
			commit = kgo.TryAbort
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("records %d…: %w", from, err)
		}
		if err := client.EndTransaction(ctx, commit); err != nil {
			return fmt.Errorf("ending the transaction of records %d…: %w", from, err)
		}
		for i := range size {
			var err error
			if commit == kgo.TryAbort {
				err = errAborted
			}
			w.answers.answer(audit.Record{Client: w.client, Seq: int64(from + i)}, stored[i].Partition, stored[i].Offset, err)
		}
	}
	return nil
}

var errAborted = errors.New("aborted")

func TestFranzTransactions(t *testing.T) {
	const records = 1200
	s := scenario{
		cluster: newest.Get(t), clients: []string{"franz-go transactions"}, records: records, aborted: records / abortedOneIn,
		pace: 5 * time.Millisecond, near: lostAcks, far: lostAcks,
	}
	s.control(t)
	s.through(t, "oncegate", nil)
}

// Transactions of the first kind: the producer's epoch stays, and partitions
// are added by a request of their own.
func TestTransactionsV1(t *testing.T) {
	const records = 600
	c := kafka.Start(t, kafka.Options{Version: kafka.V44, Brokers: 1})
	useTransactionsV1(t, c)
	for _, client := range []string{"transactions", "franz-go transactions"} {
		t.Run(client, func(t *testing.T) {
			s := scenario{cluster: c, clients: []string{client}, records: records, aborted: records / abortedOneIn, pace: 5 * time.Millisecond, near: lostAcks, far: lostAcks}
			s.control(t)
			s.through(t, "oncegate", nil)
		})
	}
}

// useTransactionsV1 takes the cluster's transaction.version back.
func useTransactionsV1(t *testing.T, c *kafka.Cluster) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), exchange)
	defer cancel()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis = 10_000
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType, f.AllowDowngrade = "transaction.version", 1, 2, true
	req.FeatureUpdates = append(req.FeatureUpdates, f)
	r, err := req.RequestWith(ctx, client)
	if err != nil || r.ErrorCode != 0 {
		t.Fatalf("transaction.version can't be set: error %d, %v", r.ErrorCode, err)
	}
	for ctx.Err() == nil {
		v, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
		if err == nil {
			for _, f := range v.FinalizedFeatures {
				if f.Name == "transaction.version" && f.MaxVersionLevel == 1 {
					return
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("transaction.version stays")
}
