package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/internal/faults"
	"github.com/oncegate/oncegate/test/kafka"
)

// scenario is a workload and what goes wrong meanwhile.
type scenario struct {
	cluster *kafka.Cluster
	clients []string // that produce at the same time
	records int      // of each client
	aborted int      // records of each client that it takes back by itself
	pace    time.Duration
	// near and far are the fault plans of the hops from the clients to Oncegate
	// and from there to the brokers; empty: nothing goes wrong there. A control
	// run has one hop and the plan of near, or else of far.
	near, far string
	// disturb, if any, strikes when every client is in the middle of its work.
	disturb func(*testing.T, *run)
	env     []string // of Oncegate
}

// run is one run of a scenario.
type run struct {
	scenario
	topic     string
	gate      *oncegate // nil in a control run
	near, far *faults.Plan
	proxies   []*faults.Proxy // before which the clients stand
	bootstrap []string        // for the clients
	answers   *answers
}

// control runs the scenario straight to Kafka with idempotence off. Records
// must be stored twice.
func (s scenario) control(t *testing.T) {
	t.Run("control", func(t *testing.T) {
		text := s.near
		if text == "" {
			text = s.far
		}
		r := s.prepare(t)
		r.near = parse(t, text)
		r.bootstrap = s.cluster.FaultyBootstrap()
		for _, b := range s.cluster.Brokers() {
			r.proxies = append(r.proxies, listen(t, b.Port(kafka.Faulty), r.near))
		}
		report := r.run(t, false)
		t.Logf("faults %v: %s; %d of %d records stored more than once", r.near, r.near.Counts(), report.Duplicated, report.Sent)
		if report.Duplicated == 0 {
			t.Errorf("the faults bit nobody:\n%v", report)
		}
	})
}

// through runs the scenario with idempotent clients through Oncegate. Each
// record must be stored once, in order, where the clients were told. Then check
// may look at what Oncegate did.
func (s scenario) through(t *testing.T, name string, check func(*testing.T, *run)) {
	t.Run(name, func(t *testing.T) {
		r := s.prepare(t)
		r.near, r.far = parse(t, s.near), parse(t, s.far)
		upstream := s.cluster.Bootstrap()
		if s.far != "" {
			upstream = s.cluster.FaultyBootstrap()
			for _, b := range s.cluster.Brokers() {
				listen(t, b.Port(kafka.Faulty), r.far)
			}
		}
		r.gate = startOncegate(t, upstream, kafka.FaultyHost, s.env...)
		for port := r.gate.port; port <= r.gate.port+brokerPorts; port++ {
			r.proxies = append(r.proxies, listen(t, port, r.near))
		}
		r.bootstrap = []string{fmt.Sprintf("%s:%d", kafka.FaultyHost, r.gate.port)}
		report := r.run(t, true)
		mustBeClean(t, report, s.records*len(s.clients), s.aborted*len(s.clients))
		t.Logf("near faults %v: %s; far faults %v: %s; %d retries answered by Oncegate, %d requests sent again by it",
			r.near, r.near.Counts(), r.far, r.far.Counts(), r.gate.answered(t), r.gate.resent(t))
		if check != nil {
			check(t, r)
		}
	})
}

func (s scenario) prepare(t *testing.T) *run {
	t.Helper()
	return &run{scenario: s, topic: newTopic(t, s.cluster), answers: newAnswers(t)}
}

func parse(t *testing.T, plan string) *faults.Plan {
	t.Helper()
	p, err := faults.Parse(plan)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// listen puts a fault proxy before a port.
func listen(t *testing.T, port int, plan *faults.Plan) *faults.Proxy {
	t.Helper()
	p, err := faults.Listen(fmt.Sprintf("%s:%d", kafka.FaultyHost, port), fmt.Sprintf("127.0.0.1:%d", port), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// limit is how long the producers may take for a run.
const limit = 2 * time.Minute

func (r *run) run(t *testing.T, idempotent bool) *audit.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	var producing sync.WaitGroup
	defer producing.Wait()
	defer cancel()
	for _, name := range r.clients {
		w := workload{
			client: name, bootstrap: r.bootstrap, topic: r.topic, count: r.records, pace: r.pace,
			idempotent: idempotent, answers: r.answers,
		}
		producing.Go(func() {
			if err := libraries[name](ctx, w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if r.disturb != nil {
			r.await(ctx, t, name, 1)
		}
	}
	if r.disturb != nil {
		r.awaitMiddle(ctx, t)
		r.disturb(t, r)
	}
	producing.Wait()
	return checkLog(t, r.cluster, r.topic, r.answers.History)
}

// awaitMiddle waits until every client is in the middle of its work.
func (r *run) awaitMiddle(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, name := range r.clients {
		r.await(ctx, t, name, r.records/10)
	}
	for _, name := range r.clients {
		if n := r.answers.of(name); n > r.records*9/10 {
			t.Errorf("%s has %d of %d acknowledgements before anything is disturbed: use more records", name, n, r.records)
		}
	}
}

// await waits until a client has n acknowledgements.
func (r *run) await(ctx context.Context, t *testing.T, client string, n int) {
	t.Helper()
	for r.answers.of(client) < n {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s has only %d of %d acknowledgements after %v", client, r.answers.of(client), r.records, limit)
		}
	}
}
