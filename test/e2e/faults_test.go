package e2e

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/test/kafka"
)

// lostAcks breaks a connection for every sixth Produce request, mostly so that
// the record is stored and nobody is told.
const lostAcks = "seed=1 limit=40 lose-ack=0.1 reset-ack=0.02 cut-after=0.02 cut-before=0.02"

// Acknowledgements are lost between clients and Oncegate, or between Oncegate
// and the brokers.
func TestLostAcks(t *testing.T) {
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			s := scenario{cluster: newest.Get(t), clients: []string{client}, records: 3000, pace: time.Millisecond}
			near, far := s, s
			near.near, far.far = lostAcks, lostAcks
			near.control(t)
			near.through(t, "near", answeredRetries)
			far.through(t, "far", sentAgain)
		})
	}
}

func answeredRetries(t *testing.T, r *run) {
	if r.near.Count() < 5 {
		t.Errorf("only %d faults happened before Oncegate", r.near.Count())
	}
	if r.gate.answered(t) == 0 {
		t.Error("Oncegate answered no retry")
	}
}

func sentAgain(t *testing.T, r *run) {
	if r.far.Count() < 5 {
		t.Errorf("only %d faults happened behind Oncegate", r.far.Count())
	}
	if r.gate.resent(t) == 0 {
		t.Error("Oncegate sent nothing again")
	}
}

// A connection freezes in both directions and stays open: only time tells, to
// clients and to Oncegate.
func TestHalfOpenConnections(t *testing.T) {
	s := scenario{
		cluster: newest.Get(t), clients: clients, records: 1000, pace: time.Millisecond,
		env: []string{"UPSTREAM_GIVE_UP=" + (requestTimeout / 2).String()},
	}
	const frozen = "seed=5 limit=4 freeze=0.03"
	near, far := s, s
	near.near, far.far = frozen, frozen
	near.control(t)
	near.through(t, "near", nil)
	far.through(t, "far", nil)
}

// The oldest Kafka of the 4 line, with acknowledgements lost on both hops.
func TestOldestKafka(t *testing.T) {
	c := kafka.Start(t, kafka.Options{Version: kafka.V40, Brokers: 3})
	s := scenario{cluster: c, clients: clients, records: 1500, pace: time.Millisecond, near: lostAcks, far: lostAcks}
	s.control(t)
	s.through(t, "both hops", func(t *testing.T, r *run) {
		answeredRetries(t, r)
		sentAgain(t, r)
	})
	t.Run("consumers", func(t *testing.T) { testConsumers(t, c) })
}
