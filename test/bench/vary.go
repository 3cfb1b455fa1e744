package main

import (
	"fmt"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/oncegate/oncegate/test/bench/load"
	"github.com/oncegate/oncegate/test/bench/null"
)

// runPartitions varies how many partitions a request holds, of 1 KiB each.
func (b *bench) runPartitions() error {
	most := 64
	if err := b.startAll("direct,frame,track,stamp", b.conns*most); err != nil {
		return err
	}
	for _, n := range []int{1, 4, 16, most} {
		l := b.base()
		l.Partitions = n
		t, err := b.interleave("partitions", l)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "\n%d partitions in a request, batches of 1 KiB\n", n)
		if err := t.print(b.out); err != nil {
			return err
		}
	}
	return nil
}

// runRetries varies the share of requests that repeat one before.
func (b *bench) runRetries() error {
	if err := b.startAll("direct,frame,track", b.conns); err != nil {
		return err
	}
	for _, size := range b.sizes {
		for _, share := range []float64{0, 0.1, 1} {
			l := b.base()
			l.BatchBytes, l.Retries = size, share
			t, err := b.interleave("retries", l)
			if err != nil {
				return err
			}
			fmt.Fprintf(b.out, "\n%.0f %% of requests are retries, batches of %d bytes\n", share*100, size)
			if err := t.print(b.out); err != nil {
				return err
			}
		}
	}
	return nil
}

// runConnections varies connections, each with one request in flight, and
// tells what idle ones take.
func (b *bench) runConnections() error {
	most, err := mostPairs()
	if err != nil {
		return err
	}
	for _, n := range []int{10, 100, 1_000, 10_000} {
		if n > most {
			fmt.Fprintf(b.out, "\n%d connections need more open files than may be had (ulimit -Hn): %d it is\n", n, most)
			n = most
		}
		if err := b.startAll("direct,frame,track", n); err != nil {
			return err
		}
		if err := b.idle(n); err != nil {
			return err
		}
		l := b.base()
		l.Connections, l.InFlight = n, 1
		t, err := b.interleave("connections", l)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "\n%d connections × 1 in flight, batches of 1 KiB\n", n)
		if err := t.print(b.out); err != nil {
			return err
		}
		b.stopAll()
	}
	return nil
}

// mostPairs is how many connections a proxy can pass on, two files each, with
// some left for itself. It raises the limit as far as it may be raised, for
// the processes started from here as well.
func mostPairs() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	return int(limit.Max-500) / 2, nil
}

// idle tells what connections take that have sent a request and fell silent.
func (b *bench) idle(n int) error {
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d idle connections\tMiB before\tMiB with them\tKiB each\n", n)
	for _, s := range b.subjects {
		if s.proc == nil {
			continue
		}
		before, _ := s.proc.resident()
		hold, err := load.Hold(load.Load{Addr: s.addr, Advertised: s.rewrites, Topic: null.Topic, Connections: n, InFlight: 1, Partitions: 1, BatchBytes: 1024, Dedups: s.dedups})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		time.Sleep(time.Second)
		after, _ := s.proc.resident()
		hold.Close()
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\n", s.name, mib(before), mib(after), float64(after-before)/1024/float64(n))
		b.json.Encode(memory{Workload: "idle connections", Subject: s.name, Count: n, Before: before, After: after})
	}
	return w.Flush()
}

// memory is a line of the results about memory.
type memory struct {
	Workload string `json:"workload"`
	Subject  string `json:"subject"`
	Count    int    `json:"count"`
	Before   int64  `json:"rss_before_bytes"`
	After    int64  `json:"rss_after_bytes"`
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// runProducers tells what producers take that sent one batch each.
func (b *bench) runProducers() error {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		if err := b.startAll("frame,track", b.conns); err != nil {
			return err
		}
		w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "\n%d producers of one batch each\tMiB at rest\tMiB before\tMiB after\tbytes each\n", n)
		for _, s := range b.subjects {
			rest, _ := s.proc.resident()
			// The connections' and the collector's part is there before.
			l := load.Load{Addr: s.addr, Advertised: s.rewrites, Topic: null.Topic, Connections: b.conns, InFlight: b.inFlight, Partitions: 1, BatchBytes: 128, Dedups: s.dedups}
			if err := load.Touch(l, 1000, 1<<40); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			before, _ := s.proc.resident()
			if err := load.Touch(l, n, 1<<41); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			time.Sleep(time.Second)
			after, _ := s.proc.resident()
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.0f\n", s.name, mib(rest), mib(before), mib(after), float64(after-before)/float64(n))
			b.json.Encode(memory{Workload: "producers", Subject: s.name, Count: n, Before: before, After: after})
		}
		if err := w.Flush(); err != nil {
			return err
		}
		b.stopAll()
	}
	return nil
}
