package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record produced before a broker was killed is read back after it was
// started again on the same port.
func TestBrokerKeepsDataOverKill(t *testing.T) {
	c := Start(t, Options{Version: V40, Brokers: 1})
	c.CreateTopic(t, "kept", 1, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.ConsumeTopics("kept"), kgo.DefaultProduceTopic("kept"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.ProduceSync(ctx, kgo.StringRecord("here")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.Broker(1).Kill()
	if err := c.Broker(1).Start(); err != nil {
		t.Fatal(err)
	}
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if got := string(fetches.Records()[0].Value); got != "here" {
		t.Fatalf("read %q", got)
	}
}
