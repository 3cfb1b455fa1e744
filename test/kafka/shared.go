package kafka

import (
	"sync"
	"testing"
	"time"
)

// SharedCluster is a cluster for all tests of a package, started by the first
// that needs it and ended by Main. Declare it at package level.
type SharedCluster struct {
	Options Options

	once    sync.Once
	cluster *Cluster
	err     error
}

var shared struct {
	sync.Mutex
	clusters []*Cluster
}

// Get returns the cluster with all brokers running. What the test stops, kills
// or pauses is started again when it ends; when it fails it prints what the
// brokers logged meanwhile.
func (s *SharedCluster) Get(tb testing.TB) *Cluster {
	tb.Helper()
	Require(tb)
	s.once.Do(func() {
		s.cluster, s.err = Run(s.Options)
		if s.err == nil {
			shared.Lock()
			defer shared.Unlock()
			shared.clusters = append(shared.clusters, s.cluster)
		}
	})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	c := s.cluster
	if err := c.Heal(); err != nil {
		tb.Fatalf("an earlier test broke the cluster: %v", err)
	}
	c.logWhenFailed(tb)
	tb.Cleanup(func() {
		if err := c.Heal(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Heal starts every broker that doesn't run and waits until all of them are
// ready.
func (c *Cluster) Heal() error {
	err := each(c.nodes(), func(b *Broker) error {
		b.Resume()
		if b.Running() {
			return nil
		}
		return b.launch()
	})
	if err != nil {
		return err
	}
	return c.AwaitAll(time.Minute)
}

func closeShared() {
	shared.Lock()
	defer shared.Unlock()
	for _, c := range shared.clusters {
		c.Close()
	}
	shared.clusters = nil
}
