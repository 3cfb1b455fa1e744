// Package e2e tests Oncegate's own binary between real clients and real Kafka.
// Every fault test has a control run without Oncegate that must show
// duplicates: a fault that bites nobody proves nothing.
package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/faults"
	"github.com/oncegate/oncegate/test/kafka"
)

// brokerPorts is how many ports are kept for the brokers' listeners: node ids
// start at 1.
const brokerPorts = 5

// oncegate is a running Oncegate process.
type oncegate struct {
	env   []string
	port  int // of the bootstrap listener; brokers follow, the admin address is last
	admin string
	log   string
	cmd   *exec.Cmd
	gone  chan struct{}
}

// startOncegate runs the binary in front of upstream until the test ends. env
// adds to its environment.
func startOncegate(tb testing.TB, upstream []string, env ...string) *oncegate {
	tb.Helper()
	first, err := kafka.FreePorts(brokerPorts + 2)
	if err != nil {
		tb.Fatal(err)
	}
	o := &oncegate{port: first, admin: fmt.Sprintf("127.0.0.1:%d", first+brokerPorts+1), log: filepath.Join(tb.TempDir(), "oncegate.log")}
	o.env = append([]string{
		"UPSTREAM_BROKERS=" + strings.Join(upstream, ","),
		fmt.Sprintf("LISTEN_ADDRESS=127.0.0.1:%d", first),
		fmt.Sprintf("BROKER_LISTEN_BASE=%d", first+1),
		fmt.Sprintf("BROKER_LISTEN_COUNT=%d", brokerPorts),
		"ADMIN_ADDRESS=" + o.admin,
		"LOG_FORMAT=console", "LOG_LEVEL=debug",
	}, env...)
	tb.Cleanup(func() {
		o.kill()
		if tb.Failed() {
			text, _ := os.ReadFile(o.log)
			tb.Logf("oncegate's log:\n%s", text[max(0, len(text)-8000):])
		}
	})
	o.start(tb)
	return o
}

func (o *oncegate) start(tb testing.TB) {
	tb.Helper()
	log, err := os.OpenFile(o.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), o.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		cmd.Wait()
		close(gone)
	}()
	o.cmd, o.gone = cmd, gone
	for range 300 {
		if r, err := http.Get("http://" + o.admin + "/readyz"); err == nil {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	tb.Fatal("oncegate does not become ready")
}

// kill ends the process at once.
func (o *oncegate) kill() {
	o.cmd.Process.Signal(syscall.SIGKILL)
	<-o.gone
}

// terminate asks the process to end, and returns its exit code.
func (o *oncegate) terminate(tb testing.TB) int {
	tb.Helper()
	o.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.gone:
	case <-time.After(30 * time.Second):
		tb.Fatal("oncegate does not end after SIGTERM")
	}
	return o.cmd.ProcessState.ExitCode()
}

// bootstrap is the address for clients.
func (o *oncegate) bootstrap() string { return fmt.Sprintf("127.0.0.1:%d", o.port) }

// metric reads one of the process's metrics.
func (o *oncegate) metric(tb testing.TB, name string) int {
	tb.Helper()
	r, err := http.Get("http://" + o.admin + "/metrics")
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		tb.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		tb.Fatalf("no metric %s in\n%s", name, text)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		tb.Fatal(err)
	}
	return int(v)
}

func (o *oncegate) duplicates(tb testing.TB) int {
	return o.metric(tb, `oncegate_batches_total{result="duplicate"}`)
}

// faultsBefore puts fault proxies before all of Oncegate's listeners, and
// returns the address for clients. Oncegate must have been started with
// ADVERTISED_HOST=kafka.FaultyHost.
func (o *oncegate) faultsBefore(tb testing.TB, plan *faults.Plan) string {
	tb.Helper()
	for port := o.port; port <= o.port+brokerPorts; port++ {
		listenFaulty(tb, port, plan)
	}
	return fmt.Sprintf("%s:%d", kafka.FaultyHost, o.port)
}

// faultsBeforeKafka puts fault proxies before all brokers, and returns their
// addresses.
func faultsBeforeKafka(tb testing.TB, c *kafka.Cluster, plan *faults.Plan) []string {
	tb.Helper()
	for _, b := range c.Brokers() {
		listenFaulty(tb, b.Port(kafka.Faulty), plan)
	}
	return c.FaultyBootstrap()
}

func listenFaulty(tb testing.TB, port int, plan *faults.Plan) {
	tb.Helper()
	p, err := faults.Listen(fmt.Sprintf("%s:%d", kafka.FaultyHost, port), fmt.Sprintf("127.0.0.1:%d", port), plan)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
}

// binary is Oncegate's, built once for the package.
var binary string

func buildBinary() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "oncegate-e2e-")
	if err != nil {
		return nil, err
	}
	binary = filepath.Join(dir, "oncegate")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "build", "-race", "-o", binary, "github.com/oncegate/oncegate/cmd/oncegate").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building oncegate: %w\n%s", err, out)
	}
	return func() { os.RemoveAll(dir) }, nil
}
