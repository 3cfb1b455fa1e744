// Package load is what producers do, at the least cost to the machine: whole
// Produce requests are written again and again, and only sequences, CRCs and
// correlation ids change. Every answer is checked, and one that is wrong ends
// the load with an error.
package load

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/test/raw"
)

// Load describes a load. Each connection is a producer of its own, with
// partitions of its own.
type Load struct {
	Addr        string // of the bootstrap server
	Advertised  bool   // connect to where Metadata says that the leader is
	Topic       string
	Connections int
	InFlight    int // requests on each connection; brokers remember five
	BatchBytes  int // of each record batch, about
	Partitions  int // in each request
	// Retries is the share of requests, from 0 to 1, that repeat a batch which
	// was answered before.
	Retries float64
	Dedups  bool    // whether retries must get the original's offset
	Plain   bool    // no producer ids
	Rate    float64 // requests per second of all connections; 0 is a closed loop
	First   int32   // sequence
	Warmup  time.Duration
	Measure time.Duration
	// Begin and End are called when measuring begins and ends.
	Begin, End func()
}

// Result is what was measured. In an open loop, latencies count from when a
// request was due, not from when it could be sent.
type Result struct {
	Requests, Retries int64
	Bytes             int64 // of record batches
	Seconds           float64
	P50, P99, Max     time.Duration
}

// Run runs the load. An error says that the subject of the benchmark did
// something wrong.
func Run(l Load) (Result, error) {
	producers, err := l.connect()
	defer func() {
		for _, p := range producers {
			if p != nil {
				p.conn.Close()
			}
		}
	}()
	if err != nil {
		return Result{}, err
	}
	// All goroutines are there, and warm, when measuring begins.
	start := time.Now().Add(time.Duration(l.Connections) * 50 * time.Microsecond)
	from := start.Add(l.Warmup + time.Duration(l.Connections)*100*time.Microsecond)
	until := from.Add(l.Measure)
	due := l.schedule(start, until)
	var running sync.WaitGroup
	// The first failure ends all; what the others then fail with says nothing.
	var failed sync.Once
	var cause error
	for i, p := range producers {
		p.start, p.from, p.until = start, from, until
		p.conn.SetDeadline(until.Add(30*time.Second + 5*l.Measure)) // an open loop may leave much to answer
		if due != nil {
			p.due = due[i]
		}
		running.Go(func() {
			if err := p.run(); err != nil {
				failed.Do(func() {
					cause = err
					for _, other := range producers {
						other.conn.Close()
					}
				})
			}
		})
	}
	time.Sleep(time.Until(from))
	l.Begin()
	time.Sleep(time.Until(until))
	l.End()
	running.Wait()
	if cause != nil {
		return Result{}, cause
	}
	return l.sum(producers)
}

// sum adds up what the producers saw.
func (l *Load) sum(producers []*producer) (Result, error) {
	r := Result{Seconds: l.Measure.Seconds()}
	var all []time.Duration
	for _, p := range producers {
		r.Requests += p.requests
		r.Retries += p.retries
		r.Bytes += p.requests * int64(p.template.size) * int64(l.Partitions)
		all = append(all, p.latencies...)
	}
	if len(all) == 0 || r.Requests == 0 {
		return r, fmt.Errorf("no request was answered within %v", l.Measure)
	}
	slices.Sort(all)
	r.P50, r.P99, r.Max = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	return r, nil
}

// connect makes all producers, ready to send.
func (l *Load) connect() ([]*producer, error) {
	addr := l.Addr
	if l.Advertised {
		var err error
		if addr, err = Leader(l.Addr, l.Topic); err != nil {
			return nil, err
		}
	}
	producers := make([]*producer, l.Connections)
	var dialing errgroup.Group
	dialing.SetLimit(32)
	for i := range producers {
		dialing.Go(func() error {
			p, err := l.newProducer(addr, i)
			producers[i] = p
			return err
		})
	}
	return producers, dialing.Wait()
}

// Leader asks a bootstrap server where the topic's partition 0 is led.
func Leader(bootstrap, topic string) (string, error) {
	c, err := raw.Dial(bootstrap, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	r, err := c.Ask(req)
	if err != nil {
		return "", fmt.Errorf("asking %s for metadata: %w", bootstrap, err)
	}
	m := r.(*kmsg.MetadataResponse)
	if len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 || len(m.Topics[0].Partitions) == 0 {
		return "", fmt.Errorf("%s doesn't know topic %s: %+v", bootstrap, topic, m.Topics)
	}
	for _, b := range m.Brokers {
		if b.NodeID == m.Topics[0].Partitions[0].Leader {
			return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), nil
		}
	}
	return "", fmt.Errorf("%s names no address of the leader of topic %s", bootstrap, topic)
}

// schedule says when requests are due in an open loop, a channel for each
// connection; nil in a closed loop. Nothing ever waits to put a time in, so
// that a slow answer delays no later one's due time.
func (l *Load) schedule(start, until time.Time) []chan time.Time {
	if l.Rate == 0 {
		return nil
	}
	each := time.Duration(float64(time.Second) / l.Rate)
	due := make([]chan time.Time, l.Connections)
	for i := range due {
		due[i] = make(chan time.Time, int(until.Sub(start)/each)/l.Connections+2)
	}
	go func() {
		// Go's own timers are late by up to a millisecond on an idle machine.
		runtime.LockOSThread()
		for n, at := 0, start; at.Before(until); n, at = n+1, at.Add(each) {
			if wait := time.Until(at); wait > 0 {
				sleep(wait)
			}
			due[n%l.Connections] <- at
		}
		for _, d := range due {
			close(d)
		}
	}()
	return due
}
