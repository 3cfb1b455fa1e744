package java

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/test/kafka"
)

var cluster = kafka.SharedCluster{Options: kafka.Options{Version: kafka.V44, Brokers: 1}}

func TestMain(m *testing.M) { os.Exit(kafka.Main(m)) }

// run returns the events of a program, by kind.
func run(t *testing.T, p Program) map[string][]Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events := make(map[string][]Event)
	if err := p.Run(ctx, func(e Event) { events[e.Event] = append(events[e.Event], e) }); err != nil {
		t.Fatal(err)
	}
	return events
}

// read returns what a Java consumer gets of a topic.
func read(t *testing.T, c *kafka.Cluster, topic string, count int, more ...string) (values []string) {
	t.Helper()
	args := map[string]string{"bootstrap.servers": c.Bootstrap()[0], "topic": topic, "count": fmt.Sprint(count)}
	for i := 0; i < len(more); i += 2 {
		args[more[i]] = more[i+1]
	}
	for _, e := range run(t, Program{Name: "consume", Args: args})["read"] {
		values = append(values, e.Value)
	}
	return values
}

func numbers(client string, first, last int) (values []string) {
	for i := first; i <= last; i++ {
		values = append(values, fmt.Sprintf("%s:%d", client, i))
	}
	return values
}

func mustEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
		t.Errorf("%s: %s, not %s", what, g, w)
	}
}

// What is produced is acknowledged at its place and read back by a consumer,
// with and without a group, with the newest client and the oldest of its line.
func TestProduceAndConsume(t *testing.T) {
	c := cluster.Get(t)
	for _, version := range []string{"", kafka.V40} {
		topic := "produced" + version
		c.CreateTopic(t, topic, 1, nil)
		events := run(t, Program{Name: "produce", Version: version, Args: map[string]string{
			"bootstrap.servers": c.Bootstrap()[0], "topic": topic, "client": "j", "count": "30", "partitions": "1", "compression.type": "lz4",
		}})
		for i, e := range events["ack"] {
			if e != (Event{Event: "ack", Client: "j", Seq: int64(i), Offset: int64(i)}) {
				t.Errorf("acknowledgement %d is %+v", i, e)
			}
		}
		if s := events["summary"]; len(s) != 1 || s[0].Acked != 30 || s[0].Failed != 0 {
			t.Errorf("summary %+v", s)
		}
		mustEqual(t, "plain consumer", read(t, c, topic, 30), numbers("j", 0, 29))
		mustEqual(t, "group's consumer", read(t, c, topic, 30, "group.id", topic), numbers("j", 0, 29))
	}
}

// Records of aborted transactions are reported as such and not read.
func TestTransactions(t *testing.T) {
	c := cluster.Get(t)
	c.CreateTopic(t, "transactions", 1, nil)
	events := run(t, Program{Name: "transactions", Args: map[string]string{
		"bootstrap.servers": c.Bootstrap()[0], "topic": "transactions", "client": "j", "count": "50", "size": "10", "abort": "2", "transactional.id": "t",
	}})
	if len(events["ack"]) != 30 || len(events["aborted"]) != 20 {
		t.Errorf("%d acknowledged, %d aborted", len(events["ack"]), len(events["aborted"]))
	}
	want := append(append(numbers("j", 0, 9), numbers("j", 20, 29)...), numbers("j", 40, 49)...)
	mustEqual(t, "committed", read(t, c, "transactions", 30, "isolation.level", "read_committed"), want)
}

// A zombie is told that it is one, and its records are aborted.
func TestFence(t *testing.T) {
	c := cluster.Get(t)
	c.CreateTopic(t, "fence", 1, nil)
	events := run(t, Program{Name: "fence", Args: map[string]string{
		"bootstrap.servers": c.Bootstrap()[0], "topic": "fence", "client": "j", "size": "5", "transactional.id": "f",
	}})
	if len(events["fenced"]) != 1 {
		t.Errorf("fenced %d times", len(events["fenced"]))
	}
	mustEqual(t, "committed", read(t, c, "fence", 5, "isolation.level", "read_committed"), numbers("j", 5, 9))
}

// Each payment is acknowledged once while nothing goes wrong.
func TestPayments(t *testing.T) {
	c := cluster.Get(t)
	c.CreateTopic(t, "payments", 1, nil)
	events := run(t, Program{Name: "payments", Args: map[string]string{
		"bootstrap.servers": c.Bootstrap()[0], "topic": "payments", "client": "shop", "count": "20",
	}})
	if len(events["ack"]) != 20 {
		t.Errorf("%d acknowledged", len(events["ack"]))
	}
	mustEqual(t, "payments", read(t, c, "payments", 20), numbers("shop", 0, 19))
}

// A program's fault is its error, with what it said.
func TestErrorsAreTold(t *testing.T) {
	kafka.Require(t)
	err := Program{Name: "produce", Args: map[string]string{"topic": "x"}}.Run(t.Context(), func(Event) {})
	if err == nil || !strings.Contains(err.Error(), "client is missing") {
		t.Errorf("error %v", err)
	}
}
