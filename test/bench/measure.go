package main

import (
	"fmt"
	"time"

	"github.com/oncegate/oncegate/test/bench/load"
	"github.com/oncegate/oncegate/test/bench/null"
)

// measurement is one line of the results.
type measurement struct {
	Workload    string  `json:"workload"`
	Subject     string  `json:"subject"`
	Loop        string  `json:"loop"` // closed, or open: at a fixed rate
	Round       int     `json:"round"`
	Connections int     `json:"connections"`
	InFlight    int     `json:"in_flight"`
	BatchBytes  int     `json:"batch_bytes"`
	Partitions  int     `json:"partitions"` // in each request
	RetryShare  float64 `json:"retry_share"`
	Rate        float64 `json:"rate,omitempty"` // asked for, requests per second

	Requests int64   `json:"requests"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`

	// Of the subject's process; none where nothing is in between.
	CPU      float64 `json:"cpu_seconds,omitempty"`
	PeakRSS  int64   `json:"peak_rss_bytes,omitempty"`
	LoadCPU  float64 `json:"load_cpu_seconds"`
	BrokerCP float64 `json:"broker_cpu_seconds"`
}

func (m *measurement) bytesPerSecond() float64    { return float64(m.Bytes) / m.Seconds }
func (m *measurement) requestsPerSecond() float64 { return float64(m.Requests) / m.Seconds }
func (m *measurement) cpuPerGB() float64          { return m.CPU / (float64(m.Bytes) / 1e9) }
func (m *measurement) cpuPerRequest() float64     { return m.CPU / float64(m.Requests) * 1e6 }
func (m *measurement) p99() float64               { return m.P99 }
func (m *measurement) p50() float64               { return m.P50 }

// one measures one subject once.
func (b *bench) one(workload string, s *subject, l load.Load, round int) (measurement, error) {
	l.Addr, l.Topic, l.Advertised, l.Dedups = s.addr, null.Topic, s.rewrites, s.dedups
	l.Plain = s.plain
	l.Warmup, l.Measure = max(b.measure/10, 100*time.Millisecond), b.measure
	var own, broker, subject [2]time.Duration
	read := func(i int) {
		own[i], broker[i] = ownCPU(), b.null.cpu()
		if s.proc != nil {
			subject[i] = s.proc.cpu()
		}
	}
	l.Begin, l.End = func() { read(0) }, func() { read(1) }
	if s.proc != nil {
		s.proc.resetPeak()
	}
	r, err := load.Run(l)
	if err != nil {
		return measurement{}, fmt.Errorf("%s, round %d: %w%s", s.name, round, err, s.proc.said())
	}
	m := measurement{
		Workload: workload, Subject: s.name, Loop: "closed", Round: round, Connections: l.Connections, InFlight: l.InFlight,
		BatchBytes: l.BatchBytes, Partitions: l.Partitions, RetryShare: l.Retries, Rate: l.Rate,
		Requests: r.Requests, Bytes: r.Bytes, Seconds: r.Seconds,
		P50: micros(r.P50), P99: micros(r.P99), Max: micros(r.Max),
		CPU: (subject[1] - subject[0]).Seconds(), LoadCPU: (own[1] - own[0]).Seconds(), BrokerCP: (broker[1] - broker[0]).Seconds(),
	}
	if l.Rate > 0 {
		m.Loop = "open"
	}
	if s.proc != nil {
		_, m.PeakRSS = s.proc.resident()
	}
	return m, b.json.Encode(m)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// base is the load of all workloads; they change what they vary.
func (b *bench) base() load.Load {
	return load.Load{Connections: b.conns, InFlight: b.inFlight, Partitions: 1, BatchBytes: 1024}
}

// rounds measures all subjects in turn, again and again.
func (b *bench) interleave(workload string, l load.Load) (table, error) {
	t := table{subjects: b.subjects, rows: make([][]measurement, len(b.subjects))}
	for round := range b.rounds {
		for i, s := range b.subjects {
			m, err := b.one(workload, s, l, round)
			if err != nil {
				return t, err
			}
			t.rows[i] = append(t.rows[i], m)
		}
	}
	return t, nil
}

// runSizes is the table that the goals are about.
func (b *bench) runSizes() error {
	if err := b.startAll(b.subjectNames, b.conns); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%d connections × %d in flight, %d rounds of %v\n", b.conns, b.inFlight, b.rounds, b.measure)
	for _, size := range b.sizes {
		l := b.base()
		l.BatchBytes = size
		closed, err := b.interleave("sizes", l)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "\nbatches of %d bytes, closed loop\n", size)
		if err := closed.print(b.out); err != nil {
			return err
		}
		closed.goals(b.out)
		if b.openShare == 0 {
			continue
		}
		l.Rate = b.openShare * closed.median(closed.index("frame"), (*measurement).requestsPerSecond)
		if l.Rate == 0 {
			return fmt.Errorf("the open loop's rate is a share of the frame proxy's, which isn't measured; say -open 0")
		}
		open, err := b.interleave("sizes", l)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "\nbatches of %d bytes, open loop at %.0f requests/s\n", size, l.Rate)
		if err := open.print(b.out); err != nil {
			return err
		}
	}
	return nil
}

// startAll starts the broker and the subjects, and those of the revision to
// compare with.
func (b *bench) startAll(names string, partitions int) error {
	subjects, err := choose(allSubjects(), names)
	if err != nil {
		return err
	}
	upstream, err := b.startNull(partitions)
	if err != nil {
		return err
	}
	if b.compare != "" {
		binary, err := b.buildRevision(b.compare)
		if err != nil {
			return err
		}
		start := func(b *bench, upstream string) (*program, string, error) { return startOncegate(b, binary, upstream) }
		subjects = append(subjects,
			&subject{name: "track of " + b.compare, rewrites: true, dedups: true, start: start},
			&subject{name: "stamp of " + b.compare, rewrites: true, dedups: true, plain: true, start: start})
	}
	return b.startSubjects(subjects, upstream)
}
