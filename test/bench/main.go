// Command bench measures Oncegate against the least that a Kafka proxy can do:
// a proxy that reads a frame and writes it on. Every subject is a process of
// its own before a broker that answers at once; rounds are interleaved, and
// tables show medians of ratios between measurements of the same round.
//
//	go run ./test/bench              throughput, latency, CPU by batch size
//	go run ./test/bench connections  by connections, and memory of idle ones
//	go run ./test/bench partitions   by partitions in a request
//	go run ./test/bench retries      by the share of retries
//	go run ./test/bench producers    memory by producer-partitions
//	go run ./test/bench real         clients against real Kafka
//
// To pin, run it under taskset, and name the subjects' CPUs with -subject-cpus.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/test/bench/null"
	"github.com/oncegate/oncegate/test/bench/reference"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	what := "sizes"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		what, args = args[0], args[1:]
	}
	switch what {
	case "null":
		return runNull(args)
	case "iocopy":
		return runReference(args, reference.Bytes)
	case "frame":
		return runReference(args, reference.Frames)
	}
	return runBench(what, args)
}

// runNull is the null broker's process.
func runNull(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("null wants an address and a number of partitions")
	}
	partitions, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	b, err := null.Start(args[0], partitions)
	if err != nil {
		return err
	}
	b.Wait()
	return nil
}

// runReference is a reference proxy's process.
func runReference(args []string, pass reference.Pass) error {
	if len(args) != 2 {
		return fmt.Errorf("a reference proxy wants an address and an upstream's")
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	return reference.Serve(l, args[1], pass)
}

// bench runs subjects and prints what they do.
type bench struct {
	out  io.Writer // for people
	json *json.Encoder

	rounds       int
	measure      time.Duration
	conns        int
	inFlight     int
	sizes        []int
	openShare    float64
	cpus         string
	compare      string
	subjectNames string

	dir      string // removed at the end
	binary   string // of Oncegate
	null     *program
	subjects []*subject
	programs []*program // all that have to be ended
}

// workloads are what can be measured; sizes is the one that is meant when none
// is named.
var workloads = map[string]func(*bench) error{
	"sizes": (*bench).runSizes, "connections": (*bench).runConnections, "partitions": (*bench).runPartitions,
	"retries": (*bench).runRetries, "producers": (*bench).runProducers, "real": (*bench).runReal,
}

func runBench(what string, args []string) (err error) {
	workload := workloads[what]
	if workload == nil {
		return fmt.Errorf("there is no workload %q", what)
	}
	b := &bench{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&b.rounds, "rounds", 5, "how often each subject is measured")
	flags.DurationVar(&b.measure, "duration", 2*time.Second, "how long each time, after a warm-up of a tenth")
	flags.IntVar(&b.conns, "connections", 8, "producers, a connection each")
	flags.IntVar(&b.inFlight, "in-flight", 5, "requests in flight on each connection")
	sizes := flags.String("sizes", "1024,16384,102400,1048576", "bytes of a record batch")
	flags.Float64Var(&b.openShare, "open", 0.5, "rate of the open loop as a share of what the frame proxy did in the closed one; 0: none")
	flags.StringVar(&b.cpus, "subject-cpus", "", "CPUs that subjects are pinned to, as taskset -c takes them")
	flags.StringVar(&b.compare, "compare", "", "a git revision whose Oncegate is measured as well")
	flags.StringVar(&b.subjectNames, "subjects", "direct,iocopy,frame,track,stamp,haproxy,kafka-proxy", "what is measured")
	results := flags.String("results", "", "write NAME.md and NAME.jsonl, a line for each measurement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, s := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("-sizes: %w", err)
		}
		b.sizes = append(b.sizes, n)
	}
	if b.rounds < 1 || b.inFlight < 1 || b.conns < 1 || b.measure < 100*time.Millisecond {
		return fmt.Errorf("-rounds, -in-flight and -connections are at least 1, -duration at least 100ms")
	}
	b.out, b.json = os.Stdout, json.NewEncoder(io.Discard)
	if *results != "" {
		keep, err := newResults(*results)
		if err != nil {
			return err
		}
		defer func() {
			if e := keep.close(); err == nil {
				err = e
			}
		}()
		b.out, b.json = io.MultiWriter(os.Stdout, keep.text), json.NewEncoder(keep.lines)
	}
	if b.dir, err = os.MkdirTemp("", "oncegate-bench-"); err != nil {
		return err
	}
	defer b.stop()
	b.describe(what, args)
	return workload(b)
}

// describe says how the figures came about.
func (b *bench) describe(what string, args []string) {
	fmt.Fprintf(b.out, "go run ./test/bench %s\n", strings.Join(append([]string{what}, args...), " "))
	revision, _ := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	cores, model := cpus()
	fmt.Fprintf(b.out, "revision %s, %s, Linux %s, %d cores (%s)\n", strings.TrimSpace(string(revision)), runtime.Version(), strings.TrimSpace(string(kernel)), cores, model)
	pinned := "subjects run on CPUs " + b.cpus
	if b.cpus == "" {
		pinned = "subjects are not pinned"
	}
	average, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(b.out, "load and broker run on CPUs %s, %s; load average before: %.14s\n", cpusOf(os.Getpid()), pinned, average)
}

// cpus are the machine's, not only those that this process may use.
func cpus() (cores int, model string) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.NumCPU(), runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "processor":
			cores++
		case "model name":
			model = strings.TrimSpace(value)
		}
	}
	return cores, model
}

// startNull starts the broker for all subjects.
func (b *bench) startNull(partitions int) (string, error) {
	addr, err := freeAddress(1)
	if err != nil {
		return "", err
	}
	cmd, err := self("null", addr, strconv.Itoa(partitions))
	if err != nil {
		return "", err
	}
	if b.null, err = run(cmd, ""); err != nil {
		return "", err
	}
	b.programs = append(b.programs, b.null)
	return addr, b.null.ready(addr, null.Topic)
}

// stopAll ends what was started.
func (b *bench) stopAll() {
	for _, p := range b.programs {
		p.end()
	}
	b.programs, b.subjects, b.null = nil, nil, nil
}

func (b *bench) stop() {
	b.stopAll()
	os.RemoveAll(b.dir)
}

// results are two files.
type results struct{ text, lines *os.File }

func newResults(name string) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	text, err := os.Create(name + ".md")
	if err != nil {
		return nil, err
	}
	lines, err := os.Create(name + ".jsonl")
	if err != nil {
		text.Close()
		return nil, err
	}
	fmt.Fprintf(text, "# %s\n\n```\n", filepath.Base(name))
	return &results{text, lines}, nil
}

func (r *results) close() error {
	fmt.Fprint(r.text, "```\n")
	err := r.text.Close()
	if e := r.lines.Close(); err == nil {
		err = e
	}
	return err
}
