// Package demo shows on one machine what Oncegate is for: it runs an embedded
// broker, loses acknowledgements on purpose, and counts what the log holds.
package demo

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/faults"
	"github.com/oncegate/oncegate/proxy"
	"github.com/oncegate/oncegate/upstream"
)

// Count is what one scenario came to. All of it is counted: acknowledgements
// as the producer got them, the rest from the log read back.
type Count struct {
	Acked      int `json:"acked"`      // records that the producer was told are stored
	AcksLost   int `json:"acks_lost"`  // answers that were swallowed after the append
	Stored     int `json:"stored"`     // records in the log
	Duplicates int `json:"duplicates"` // copies beyond the first
	Lost       int `json:"lost"`       // acknowledged, but not in the log
}

// Result is what the demo found.
type Result struct {
	Without Count `json:"without"`
	With    struct {
		Count
		AnsweredByOncegate int `json:"answered_by_oncegate"` // batches
	} `json:"with"`
	// Stamped is with Oncegate and idempotence off.
	Stamped struct {
		Count
		LeftOutByOncegate int `json:"left_out_by_oncegate"` // records of retries
	} `json:"stamped"`
}

// Demo is an embedded broker with an Oncegate in front of it.
type Demo struct {
	broker *kfake.Cluster
	proxy  *proxy.Proxy
	stop   context.CancelFunc
	ended  chan struct{}
}

const (
	directTopic = "payments-direct"
	gateTopic   = "payments-oncegate"
	stampTopic  = "payments-stamped"
	payments    = 1000
)

// Start starts the broker and Oncegate, both on free loopback ports.
func Start() (*Demo, error) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, directTopic, gateTopic, stampTopic), kfake.AllowAutoTopicCreation())
	if err != nil {
		return nil, fmt.Errorf("the embedded broker can't start: %w", err)
	}
	d := &Demo{broker: broker, ended: make(chan struct{})}
	up := upstream.Config{Brokers: broker.ListenAddrs(), ClientID: "oncegate", DialTimeout: 5 * time.Second, RefreshInterval: time.Minute, Log: zap.NewNop()}
	dialer := upstream.NewDialer(up)
	cluster := upstream.NewCluster(up, dialer)
	port, err := freePort()
	if err != nil {
		broker.Close()
		return nil, err
	}
	d.proxy, err = proxy.Start(proxy.Config{
		Dialer: dialer, Cluster: cluster, Bootstrap: up.Brokers,
		Listen: "127.0.0.1:0", BrokerBase: port, BrokerCount: 1,
		MaxFrame: 100 << 20, MemoryBudget: 256 << 20, FrameTimeout: 30 * time.Second, GiveUp: 25 * time.Second,
		Dedup: dedup.Options{}, Idle: 5 * time.Minute, RaiseAcks: true, Stamp: true, InDoubtTTL: 10 * time.Minute, Log: up.Log,
	})
	if err != nil {
		broker.Close()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	go func() {
		defer close(d.ended)
		cluster.Run(ctx)
	}()
	select {
	case <-cluster.Ready():
		return d, nil
	case <-time.After(10 * time.Second):
		defer d.Close()
		return nil, fmt.Errorf("the embedded broker does not answer: %w", cluster.Err())
	}
}

// Close ends both.
func (d *Demo) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	d.proxy.Shutdown(ctx)
	d.stop()
	<-d.ended
	d.broker.Close()
}

// Broker is the embedded broker's address.
func (d *Demo) Broker() string { return d.broker.ListenAddrs()[0] }

// Oncegate is the address to point clients at.
func (d *Demo) Oncegate() string { return d.proxy.Addr().String() }

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Progress is told how far a scenario has come: records acknowledged of total,
// and acknowledgements lost.
type Progress func(scenario string, acked, total, lost int)

// Run sends payments three times over a network that loses acknowledgements: to
// the broker with idempotence off, through Oncegate with it on, and through
// Oncegate with it off.
func (d *Demo) Run(ctx context.Context, progress Progress) (r Result, err error) {
	r.Without, err = d.scenario(ctx, "without Oncegate, idempotence off", d.Broker(), directTopic, false, progress)
	if err != nil {
		return r, err
	}
	before := d.proxy.Stats().Duplicates.Load()
	r.With.Count, err = d.scenario(ctx, "through Oncegate, idempotence on", d.Oncegate(), gateTopic, true, progress)
	r.With.AnsweredByOncegate = int(d.proxy.Stats().Duplicates.Load() - before)
	if err != nil {
		return r, err
	}
	r.Stamped.Count, err = d.scenario(ctx, "through Oncegate, idempotence off", d.Oncegate(), stampTopic, false, progress)
	r.Stamped.LeftOutByOncegate = int(d.proxy.Stats().RecordsLeftOut.Load())
	return r, err
}

// scenario sends the payments to target over a faulty network and counts.
func (d *Demo) scenario(ctx context.Context, name, target, topic string, idempotent bool, progress Progress) (Count, error) {
	plan := &faults.Plan{Seed: 7, Odds: map[faults.Kind]float64{faults.LoseAck: 0.15}}
	network, err := faults.Listen("127.0.0.1:0", target, plan)
	if err != nil {
		return Count{}, err
	}
	defer network.Close()
	p := &producing{topic: topic, network: network.Addr(), idempotent: idempotent}
	p.progress = func(acked int) { progress(name, acked, payments, plan.Count()) }
	h, err := p.run(ctx)
	if err != nil {
		return Count{}, fmt.Errorf("%s: %w", name, err)
	}
	c, err := count(ctx, d.Broker(), topic, h)
	c.AcksLost = plan.Count(faults.LoseAck)
	return c, err
}
