package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/test/kafka"
)

// checkLog reads the whole topic straight from Kafka and compares it with what
// the clients sent and were told.
func checkLog(t *testing.T, c *kafka.Cluster, topic string, h *audit.History) *audit.Report {
	t.Helper()
	// A broker still works off what it had read from connections that are gone.
	time.Sleep(200 * time.Millisecond)
	c.AwaitInSync(t, topic)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log, err := audit.OpenTopic(ctx, client, topic, audit.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	checker, err := audit.NewChecker(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := checker.AddAll(log.Entries(ctx)); err != nil {
		t.Fatal(err)
	}
	return checker.Report()
}

// mustBeClean fails unless the log holds each of the records once, in order,
// where the answers said. Aborted ones are the exception: they must neither be
// acknowledged nor be seen.
func mustBeClean(t *testing.T, r *audit.Report, records, aborted int) {
	t.Helper()
	sent, stored := int64(records), int64(records-aborted)
	if !r.OK() || r.Sent != sent || r.Acked != stored || r.Distinct != stored || r.Foreign != 0 {
		t.Errorf("the log of %d records, %d of them aborted, is not clean:\n%v", sent, aborted, r)
	}
}
