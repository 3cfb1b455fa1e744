// Command bench measures Oncegate against the least that a Kafka proxy can do:
// a proxy that reads a frame and writes it on. Every subject is a process of its
// own before a broker that answers at once; rounds are interleaved, and the
// table shows medians of ratios from the same round.
//
//	go run ./test/bench [-rounds 5] [-seconds 2] [-sizes 1024,16384,102400,1048576]
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 1 {
		switch args[0] {
		case "null":
			return runNull(args[1])
		case "iocopy":
			return runProxy(args[1], args[2], copyBytes)
		case "frame":
			return runProxy(args[1], args[2], copyFrames)
		}
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "how often each subject is measured")
	seconds := flags.Float64("seconds", 2, "how long each time")
	conns := flags.Int("connections", 8, "producers, a connection each")
	inFlight := flags.Int("in-flight", 5, "requests in flight on each connection")
	sizes := flags.String("sizes", "1024,16384,102400,1048576", "bytes of a record batch")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &bench{rounds: *rounds, load: load{conns: *conns, inFlight: *inFlight, duration: time.Duration(*seconds * float64(time.Second))}}
	defer b.stop()
	if err := b.start(); err != nil {
		return err
	}
	fmt.Printf("%d connections × %d in flight, %d rounds of %.1f s, %d cores, %s, nothing pinned\n", *conns, *inFlight, *rounds, *seconds, runtime.NumCPU(), runtime.Version())
	for _, s := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		if err := b.measure(size); err != nil {
			return err
		}
	}
	return nil
}

// bench runs the subjects.
type bench struct {
	rounds   int
	load     load
	null     *process
	subjects []*subject
}

// subject is one way from the load to the null broker.
type subject struct {
	name  string
	addr  string
	plain bool
	proc  *process // nil where nothing is in between
}

type process struct {
	cmd  *exec.Cmd
	addr string
}

// start starts the null broker and all subjects.
func (b *bench) start() error {
	dir, err := os.MkdirTemp("", "oncegate-bench-")
	if err != nil {
		return err
	}
	binary := filepath.Join(dir, "oncegate")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/oncegate/oncegate/cmd/oncegate").CombinedOutput(); err != nil {
		return fmt.Errorf("building oncegate: %w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if b.null, err = spawn(exec.Command(self, "null", "127.0.0.1:0")); err != nil {
		return err
	}
	b.subjects = append(b.subjects, &subject{name: "direct", addr: b.null.addr})
	for _, name := range []string{"iocopy", "frame"} {
		p, err := spawn(exec.Command(self, name, "127.0.0.1:0", b.null.addr))
		if err != nil {
			return err
		}
		b.subjects = append(b.subjects, &subject{name: name, addr: p.addr, proc: p})
	}
	gate, err := b.startOncegate(binary)
	if err != nil {
		return err
	}
	b.subjects = append(b.subjects,
		&subject{name: "oncegate track", addr: gate.addr, proc: gate},
		&subject{name: "oncegate stamp", addr: gate.addr, proc: gate, plain: true})
	return nil
}

const oncegatePort = 19392

func (b *bench) startOncegate(binary string) (*process, error) {
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "UPSTREAM_BROKERS="+b.null.addr, fmt.Sprintf("LISTEN_ADDRESS=127.0.0.1:%d", oncegatePort),
		"BROKER_LISTEN_COUNT=1", fmt.Sprintf("ADMIN_ADDRESS=127.0.0.1:%d", oncegatePort+10), "LOG_LEVEL=warn", "MEMORY_BUDGET_BYTES=512MiB")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	return &process{cmd, fmt.Sprintf("127.0.0.1:%d", oncegatePort+1)}, nil
}

// spawn starts a process that prints its address first.
func spawn(cmd *exec.Cmd) (*process, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return &process{cmd, strings.TrimSpace(line)}, err
}

func (b *bench) stop() {
	for _, s := range b.subjects {
		if s.proc != nil {
			s.proc.cmd.Process.Kill()
		}
	}
	if b.null != nil {
		b.null.cmd.Process.Kill()
	}
}

// cpu is the processor time that the process has used, from /proc.
func (p *process) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

type sample struct {
	throughput, p99, cpuPerGB, cpuPerRequest float64
}

// measure runs all subjects in turn, round by round, and prints the table.
func (b *bench) measure(size int) error {
	samples := make([][]sample, len(b.subjects))
	for range b.rounds {
		for i, s := range b.subjects {
			l := b.load
			l.addr, l.size, l.plain = s.addr, size, s.plain
			before := time.Duration(0)
			if s.proc != nil {
				before = s.proc.cpu()
			}
			m, err := l.run()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			one := sample{throughput: float64(m.Bytes) / m.Seconds, p99: float64(m.P99)}
			if s.proc != nil {
				used := (s.proc.cpu() - before).Seconds() / 1.1 // the warm-up is not counted
				one.cpuPerGB, one.cpuPerRequest = used/(float64(m.Bytes)/1e9), used*1e6/float64(m.Requests)
			}
			samples[i] = append(samples[i], one)
		}
	}
	frame := slices.IndexFunc(b.subjects, func(s *subject) bool { return s.name == "frame" })
	fmt.Printf("\nbatches of %d bytes; ratios to the frame proxy in the same round: median (least–most)\n", size)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tMB/s\tthroughput\tp99\tCPU s/GB\tµs CPU/request\tCPU ratio")
	for i, s := range b.subjects {
		ratio := func(of func(sample) float64) string {
			var rs []float64
			for r := range samples[i] {
				if base := of(samples[frame][r]); base > 0 {
					rs = append(rs, of(samples[i][r])/base)
				}
			}
			if len(rs) == 0 || s.proc == nil && of(samples[i][0]) == 0 {
				return "–"
			}
			slices.Sort(rs)
			return fmt.Sprintf("%.2f (%.2f–%.2f)", rs[len(rs)/2], rs[0], rs[len(rs)-1])
		}
		median := func(of func(sample) float64) float64 {
			var all []float64
			for _, x := range samples[i] {
				all = append(all, of(x))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%.2f\t%.2f\t%s\n", s.name, median(func(x sample) float64 { return x.throughput })/1e6,
			ratio(func(x sample) float64 { return x.throughput }), ratio(func(x sample) float64 { return x.p99 }),
			median(func(x sample) float64 { return x.cpuPerGB }), median(func(x sample) float64 { return x.cpuPerRequest }), ratio(func(x sample) float64 { return x.cpuPerGB }))
	}
	return t.Flush()
}
