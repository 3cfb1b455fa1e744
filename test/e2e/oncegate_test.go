package e2e

import (
	"bytes"
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
	"testing"
	"time"

	"github.com/oncegate/oncegate/test/kafka"
	"github.com/oncegate/oncegate/test/process"
)

// brokerPorts is how many ports are kept for the brokers' listeners: node ids
// start at 1.
const brokerPorts = 5

// oncegate is an Oncegate process that keeps its ports over restarts.
type oncegate struct {
	*process.Process
	env   []string
	port  int // of the bootstrap listener; brokers follow
	admin string
	log   string
}

// startOncegate runs the binary in front of upstream until the test ends.
// Clients are told to come to FaultyHost, where fault proxies may stand.
func startOncegate(t *testing.T, upstream []string, advertise string, env ...string) *oncegate {
	t.Helper()
	first, err := kafka.FreePorts(brokerPorts + 2)
	if err != nil {
		t.Fatal(err)
	}
	o := &oncegate{port: first, admin: fmt.Sprintf("127.0.0.1:%d", first+brokerPorts+1), log: filepath.Join(t.TempDir(), "oncegate.log")}
	o.env = append([]string{
		"UPSTREAM_BROKERS=" + strings.Join(upstream, ","),
		fmt.Sprintf("LISTEN_ADDRESS=127.0.0.1:%d", first),
		fmt.Sprintf("BROKER_LISTEN_BASE=%d", first+1),
		fmt.Sprintf("BROKER_LISTEN_COUNT=%d", brokerPorts),
		"ADVERTISED_HOST=" + advertise,
		"ADMIN_ADDRESS=" + o.admin,
		"LOG_FORMAT=console", "LOG_LEVEL=debug",
	}, env...)
	t.Cleanup(func() { o.end(t) })
	o.start(t)
	return o
}

// start runs the process and waits until it is ready.
func (o *oncegate) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(o.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), o.env...)
	cmd.Stdout, cmd.Stderr = log, log
	o.Process, err = process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if r, err := http.Get("http://" + o.admin + "/readyz"); err == nil {
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatal("oncegate does not become ready")
}

// end stops the process in order and looks for what must never be in its log.
func (o *oncegate) end(t *testing.T) {
	if o.Process == nil {
		return
	}
	if !o.Running() {
		t.Errorf("oncegate has ended by itself: %v", o.Err())
	} else if !o.Terminate(30 * time.Second) {
		o.Kill()
		t.Error("oncegate does not end after SIGTERM")
	} else if o.Err() != nil {
		t.Errorf("oncegate ends with %v after SIGTERM", o.Err())
	}
	text, err := os.ReadFile(o.log)
	if err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if at := bytes.Index(text, []byte(bad)); at >= 0 {
			t.Errorf("oncegate's log holds %q:\n%s", bad, text[at:min(len(text), at+8000)])
		}
	}
	if t.Failed() {
		t.Logf("the end of oncegate's log:\n%s", text[max(0, len(text)-8000):])
	}
}

// bootstrap is the address for clients that no fault proxy stands before.
func (o *oncegate) bootstrap() string { return fmt.Sprintf("127.0.0.1:%d", o.port) }

// metric reads one of the process's metrics.
func (o *oncegate) metric(t *testing.T, name string) int {
	t.Helper()
	r, err := http.Get("http://" + o.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no metric %s in\n%s", name, text)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(v)
}

// answered is how many retries Oncegate answered by itself.
func (o *oncegate) answered(t *testing.T) int {
	return o.metric(t, `oncegate_batches_total{result="duplicate"}`)
}

// resent is how many requests Oncegate sent to a broker again.
func (o *oncegate) resent(t *testing.T) int { return o.metric(t, "oncegate_upstream_resends_total") }

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
