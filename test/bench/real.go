package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/test/bench/null"
	"github.com/oncegate/oncegate/test/kafka"
)

// What each client sends to real Kafka in each round.
const (
	realRecords     = 200_000
	realRecordBytes = 1024
	realPartitions  = 8
)

// realRun is one client's run, and a line of the results.
type realRun struct {
	Workload string  `json:"workload"`
	Client   string  `json:"client"`
	Subject  string  `json:"subject"`
	Round    int     `json:"round"`
	Records  int     `json:"records"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	CPU      float64 `json:"cpu_seconds,omitempty"` // Oncegate's
}

func (r *realRun) rate() float64 { return float64(r.Records) / r.Seconds }

// runReal lets clients send to real Kafka, directly and through Oncegate.
func (b *bench) runReal() error {
	tools, err := javaTools()
	if err != nil {
		return err
	}
	cluster, err := kafka.Run(kafka.Options{Version: kafka.V44, Brokers: 1})
	if err != nil {
		return err
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	made, err := cluster.Admin().CreateTopic(ctx, realPartitions, 1, nil, null.Topic)
	if err != nil {
		return fmt.Errorf("making topic %s: %w", made.Topic, err)
	}
	subjects, err := choose(allSubjects(), "direct,track")
	if err != nil {
		return err
	}
	if err := b.startSubjects(subjects, cluster.Bootstrap()[0]); err != nil {
		return err
	}
	clients := []struct {
		name string
		send func(addr string) (realRun, error)
	}{{"franz-go", franzGo}, {"kafka-producer-perf-test", func(addr string) (realRun, error) { return perfTest(tools, addr) }}}
	fmt.Fprintf(b.out, "Kafka %s, 1 broker, %d partitions; %d records of %d bytes in each of %d rounds, idempotent, acks=all\n\n", kafka.V44, realPartitions, realRecords, realRecordBytes, b.rounds)
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\trecords/s direct\tthrough Oncegate\tratio\tp99 ms direct\tthrough Oncegate\tOncegate's CPU µs/record")
	for _, c := range clients {
		// A first run warms the broker up and is not counted.
		if _, err := c.send(cluster.Bootstrap()[0]); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		runs := make([][]realRun, len(b.subjects))
		for round := range b.rounds {
			for i, s := range b.subjects {
				before := time.Duration(0)
				if s.proc != nil {
					before = s.proc.cpu()
				}
				r, err := c.send(s.addr)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, s.name, err)
				}
				if s.proc != nil {
					r.CPU = (s.proc.cpu() - before).Seconds()
				}
				r.Workload, r.Client, r.Subject, r.Round = "real", c.name, s.name, round
				if err := b.json.Encode(r); err != nil {
					return err
				}
				runs[i] = append(runs[i], r)
			}
		}
		b.printReal(w, c.name, runs)
	}
	return w.Flush()
}

// printReal writes a client's line, from runs by subject and round.
func (b *bench) printReal(w *tabwriter.Writer, client string, runs [][]realRun) {
	direct, gate := runs[0], runs[1]
	median := func(of []realRun, f func(*realRun) float64) float64 {
		var all []float64
		for i := range of {
			all = append(all, f(&of[i]))
		}
		return middle(all)
	}
	var ratios []float64
	for i := range direct {
		ratios = append(ratios, gate[i].rate()/direct[i].rate())
	}
	slices.Sort(ratios)
	p99 := func(r *realRun) float64 { return r.P99 }
	fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f (%.2f–%.2f)\t%.1f\t%.1f\t%.2f\n", client, median(direct, (*realRun).rate), median(gate, (*realRun).rate),
		middle(ratios), ratios[0], ratios[len(ratios)-1], median(direct, p99), median(gate, p99),
		median(gate, func(r *realRun) float64 { return r.CPU / float64(r.Records) * 1e6 }))
}

// franzGo sends with franz-go, in this process.
func franzGo(addr string) (realRun, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(null.Topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return realRun{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	value := make([]byte, realRecordBytes)
	var mu sync.Mutex
	var failed error
	latencies := make([]time.Duration, 0, realRecords)
	start := time.Now()
	for range realRecords {
		at := time.Now()
		client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			took := time.Since(at)
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, took)
			if err != nil {
				failed = err
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return realRun{}, err
	}
	seconds := time.Since(start).Seconds()
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		return realRun{}, failed
	}
	slices.Sort(latencies)
	return realRun{
		Records: len(latencies), Seconds: seconds,
		P50: micros(latencies[len(latencies)/2]) / 1e3, P99: micros(latencies[len(latencies)*99/100]) / 1e3,
	}, nil
}

//go:embed pom.xml
var toolsPOM []byte

// javaTools returns the folder of the jars of Kafka's command line tools.
func javaTools() (string, error) {
	return kafka.Cached("kafka-tools-"+kafka.V44, func(dir string) error {
		build, err := os.MkdirTemp("", "oncegate-maven-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(build)
		if err := os.WriteFile(filepath.Join(build, "pom.xml"), toolsPOM, 0o644); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-Dkafka.version="+kafka.V44, "-DoutputDirectory="+dir)
		cmd.Dir = build
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("fetching Kafka's tools through Maven: %w\n%s", err, out)
		}
		return nil
	})
}

// summary is the last line that kafka-producer-perf-test prints.
var summary = regexp.MustCompile(`(\d+) records sent, ([\d.]+) records/sec .* (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th`)

// perfTest sends with the Java client.
func perfTest(jars, addr string) (realRun, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", "-Xmx512m", "-cp", filepath.Join(jars, "*"), "org.apache.kafka.tools.ProducerPerformance",
		"--topic", null.Topic, "--num-records", strconv.Itoa(realRecords), "--record-size", strconv.Itoa(realRecordBytes), "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+addr, "acks=all", "enable.idempotence=true")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return realRun{}, fmt.Errorf("%w\n%s", err, out)
	}
	return parsePerfTest(out)
}

func parsePerfTest(out []byte) (realRun, error) {
	m := summary.FindSubmatch(out)
	if m == nil {
		return realRun{}, fmt.Errorf("no summary in what it printed:\n%s", out)
	}
	number := func(i int) float64 {
		n, _ := strconv.ParseFloat(string(m[i]), 64)
		return n
	}
	if number(1) != realRecords {
		return realRun{}, fmt.Errorf("%s of %d records were sent:\n%s", m[1], realRecords, out)
	}
	return realRun{Records: realRecords, Seconds: realRecords / number(2), P50: number(3), P99: number(5)}, nil
}
