package kafka

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

var three = SharedCluster{Options: Options{Version: V44, Brokers: 3}}

func TestMain(m *testing.M) {
	code := Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// write produces records straight to Kafka and waits until they are stored.
func write(t *testing.T, c *Cluster, topic string, values ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, v := range values {
		if err := client.ProduceSync(ctx, kgo.StringRecord(v)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the first n records of a topic, from the addresses given.
func read(t *testing.T, bootstrap []string, topic string, n int) (values []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(values) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// Records outlive a broker's kill, stop and pause, under the same address, on
// every version. The only controller is a process of its own.
func TestRestart(t *testing.T) {
	for _, version := range []string{V40, V44} {
		t.Run(version, func(t *testing.T) {
			began := time.Now()
			c := Start(t, Options{Version: version, Brokers: 1, Controllers: 1})
			t.Logf("started in %v", time.Since(began))
			c.CreateTopic(t, "kept", 1, nil)
			b := c.Broker(1)

			write(t, c, "kept", "before the kill")
			b.Kill()
			if b.Running() {
				t.Error("the broker runs after Kill")
			}
			if err := b.Start(); err != nil {
				t.Fatal(err)
			}
			write(t, c, "kept", "after the kill")
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := b.Start(); err != nil {
				t.Fatal(err)
			}
			write(t, c, "kept", "after the stop")
			b.Pause()
			if err := b.serves(t.Context(), nil); err == nil {
				t.Error("a paused broker serves clients")
			}
			b.Resume()
			write(t, c, "kept", "after the pause")

			want := []string{"before the kill", "after the kill", "after the stop", "after the pause"}
			if got := read(t, c.Bootstrap(), "kept", len(want)); !slices.Equal(got, want) {
				t.Errorf("read %q", got)
			}
		})
	}
}

// Leadership goes around all brokers and each of them says so.
func TestMoveLeader(t *testing.T) {
	c := three.Get(t)
	c.CreateTopic(t, "moved", 1, nil)
	var seen []int32
	for range 3 {
		seen = append(seen, c.MoveLeader(t, "moved", 0))
		if got := c.Leader(t, "moved", 0); got != seen[len(seen)-1] {
			t.Errorf("moved to broker %d, but broker %d leads", seen[len(seen)-1], got)
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, []int32{1, 2, 3}) {
		t.Errorf("leaders were %v", seen)
	}
}

// A broker that a test leaves dead or paused runs for the next one, and the
// other brokers take over meanwhile.
func TestSharedClusterHeals(t *testing.T) {
	t.Run("breaks", func(t *testing.T) {
		c := three.Get(t)
		c.CreateTopic(t, "healed", 3, nil)
		c.Broker(1).Kill()
		c.Broker(2).Pause()
	})
	t.Run("finds all well", func(t *testing.T) {
		c := three.Get(t)
		c.AwaitInSync(t, "healed")
		write(t, c, "healed", "here")
	})
}

// Whoever starts at the faulty listeners is sent to their addresses only, at
// which nothing listens without a fault proxy.
func TestFaultyListenersAreAdvertised(t *testing.T) {
	c := three.Get(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Broker(1).Addr(Faulty)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var told []string
	for _, b := range brokersToldTo(t, client) {
		told = append(told, fmt.Sprintf("%s:%d", b.Host, b.Port))
	}
	slices.Sort(told)
	want := slices.Sorted(slices.Values(c.FaultyBootstrap()))
	if !slices.Equal(told, want) {
		t.Errorf("told of %v, not of %v", told, want)
	}
}

// A cluster may have listeners of other protocols and settings of one broker.
func TestOptionsReachTheBrokers(t *testing.T) {
	c := Start(t, Options{
		Version: V44, Brokers: 1,
		Listeners: map[string]string{"SECURE": "SASL_PLAINTEXT"},
		Config: map[string]string{
			"sasl.enabled.mechanisms":                     "PLAIN",
			"listener.name.secure.plain.sasl.jaas.config": `org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";`,
		},
		PerBroker: func(id int32) map[string]string { return map[string]string{"broker.rack": fmt.Sprint("rack", id)} },
	})
	c.CreateTopic(t, "secret", 1, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs("SECURE")...), kgo.SASL(plainAuth("ann", "secret")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	brokers := brokersToldTo(t, client)
	if len(brokers) != 1 || int(brokers[0].Port) != c.Broker(1).Port("SECURE") || brokers[0].Rack == nil || *brokers[0].Rack != "rack1" {
		t.Errorf("told of %+v", brokers)
	}
}
