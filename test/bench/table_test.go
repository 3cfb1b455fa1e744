package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample is a table of two rounds, in the second of which the machine was half
// as fast: that must not show in ratios.
func sample(track [2]float64) table {
	row := func(rates [2]float64) []measurement {
		var ms []measurement
		for _, r := range rates {
			ms = append(ms, measurement{Bytes: int64(r), Requests: 10, Seconds: 1, P50: 1, P99: 2, CPU: r / 1e9})
		}
		return ms
	}
	return table{
		subjects: []*subject{{name: "direct"}, {name: "frame", proc: &program{}}, {name: "track", proc: &program{}}, {name: "track of v1", proc: &program{}}},
		rows:     [][]measurement{row([2]float64{200e6, 100e6}), row([2]float64{100e6, 50e6}), row(track), row([2]float64{50e6, 25e6})},
	}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	s := sample([2]float64{99e6, 49.5e6})
	if got := s.ratio(2, 1, (*measurement).bytesPerSecond); got != "0.99 (0.99–0.99)" {
		t.Error(got)
	}
	if got := s.median(1, (*measurement).bytesPerSecond); got != 75e6 {
		t.Error(got)
	}
	if got := s.ratio(2, s.index("haproxy"), (*measurement).p99); got != "–" {
		t.Errorf("a ratio to what isn't measured: %s", got)
	}
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		track [2]float64
		want  string
	}{
		{[2]float64{99e6, 49.5e6}, "throughput ≥ 0.98 × the frame proxy's: 0.990, met"},
		{[2]float64{97e6, 48.5e6}, "throughput ≥ 0.98 × the frame proxy's: 0.970, MISSED"},
	} {
		var out strings.Builder
		s := sample(c.track)
		s.goals(&out)
		if !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), "track to track of v1: throughput 1.9") {
			t.Errorf("%s", &out)
		}
		if err := s.print(&out); err != nil {
			t.Error(err)
		}
	}
}

func TestMiddle(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := middle(c.of); got != c.want {
			t.Errorf("middle of %v is %v", c.of, got)
		}
	}
}

// What /proc says of a process that computes for a while.
func TestCPUAndMemory(t *testing.T) {
	p, err := run(exec.Command("sh", "-c", "while :; do :; done"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	for deadline := time.Now().Add(20 * time.Second); p.cpu() < 50*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a busy loop uses no CPU")
		}
	}
	if now, peak := p.resident(); now < 100<<10 || peak < now/2 {
		t.Errorf("%d bytes resident, %d at most", now, peak)
	}
	if cpusOf(p.pid) == "unknown" || ownCPU() <= 0 {
		t.Error("CPUs or own CPU time are unknown")
	}
}

func TestUnknownNames(t *testing.T) {
	for _, args := range [][]string{{"nothing"}, {"sizes", "-subjects", "frame,other"}, {"-sizes", "x"}, {"-rounds", "0"}, {"null", "127.0.0.1:0"}, {"frame"}} {
		if err := command(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

// Results are written and end as Markdown does.
func TestResults(t *testing.T) {
	name := t.TempDir() + "/some/name"
	r, err := newResults(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name + ".md")
	if err != nil || string(text) != "# name\n\n```\n```\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestPerfTestSummary(t *testing.T) {
	const line = "200000 records sent, 10823.1 records/sec (10.57 MB/sec), 2100.21 ms avg latency, 4100.00 ms max latency, 2201 ms 50th, 3800 ms 95th, 4006 ms 99th, 4090 ms 99.9th.\n"
	r, err := parsePerfTest([]byte("some warning\n" + line))
	if err != nil || r.Records != realRecords || r.P50 != 2201 || r.P99 != 4006 || r.rate() < 10823 || r.rate() > 10824 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", strings.Replace(line, "200000", "199999", 1)} {
		if _, err := parsePerfTest([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
