package e2e

import (
	"testing"
	"time"
)

// While brokers or Oncegate are killed, every answer takes a while: some
// acknowledgements are always on their way and get lost.
const slowAcks = "seed=1 delay=10ms delay-ack=1"

// Leadership moves around the brokers while acknowledgements get lost, and both
// happen to clients that go straight to Kafka too.
func TestLeadersMoveWhileProducing(t *testing.T) {
	s := scenario{
		cluster: newest.Get(t), clients: clients, records: 4000, pace: 40 * time.Millisecond,
		near: lostAcks, far: lostAcks,
		disturb: func(t *testing.T, r *run) {
			for range 2 {
				for p := range int32(partitions) {
					r.cluster.MoveLeader(t, r.topic, p)
				}
			}
		},
	}
	s.control(t)
	s.through(t, "oncegate", nil)
}

// A broker is killed, and comes back while the others have taken over.
func TestBrokerKilledWhileProducing(t *testing.T) {
	s := scenario{
		cluster: newest.Get(t), clients: clients, records: 4000, pace: 40 * time.Millisecond,
		near: slowAcks, far: slowAcks,
		disturb: func(t *testing.T, r *run) {
			b := r.cluster.Broker(r.cluster.Leader(t, r.topic, 0))
			b.Kill()
			time.Sleep(time.Second)
			if err := b.Start(); err != nil {
				t.Error(err)
			}
		},
	}
	s.control(t)
	s.through(t, "oncegate", nil)
}

// Oncegate is killed and started again, three times; or ended in order. In the
// control run all connections break as often.
func TestOncegateEndsWhileProducing(t *testing.T) {
	s := scenario{
		cluster: newest.Get(t), clients: clients, records: 4000, pace: 40 * time.Millisecond,
		near: slowAcks, far: slowAcks,
	}
	three := func(end func(*testing.T, *run)) func(*testing.T, *run) {
		return func(t *testing.T, r *run) {
			for range 3 {
				end(t, r)
				time.Sleep(300 * time.Millisecond)
			}
		}
	}
	s.disturb = three(func(t *testing.T, r *run) {
		for _, p := range r.proxies {
			p.CutAll()
		}
	})
	s.control(t)
	s.disturb = three(func(t *testing.T, r *run) {
		r.gate.Kill()
		r.gate.start(t)
	})
	s.through(t, "killed", nil)
	s.disturb = three(func(t *testing.T, r *run) {
		if !r.gate.Terminate(30*time.Second) || r.gate.Err() != nil {
			t.Errorf("after SIGTERM: running %v, ended %v", r.gate.Running(), r.gate.Err())
		}
		r.gate.start(t)
	})
	s.through(t, "terminated", nil)
}
