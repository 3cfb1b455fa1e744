// Package kube shows the chart and the injector in a real API server with
// etcd. There are no nodes: no pod runs, and the test runs the injector as its
// Deployment says.
package kube

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const (
	namespace = "oncegate-system"
	release   = "oncegate"
	injector  = "oncegate-injector"
	chart     = "../../charts/oncegate"
)

// bin has the binaries, of which run.sh knows where they come from.
var bin = os.Getenv("KUBE_BIN")

// server is the API server of all tests.
var server struct {
	config     *rest.Config
	kubeconfig string
	client     client.Client
}

func TestMain(m *testing.M) {
	flag.Parse()
	if bin == "" {
		fmt.Fprintln(os.Stderr, "KUBE_BIN is not set: run test/kube/run.sh, or make kube")
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	log.SetLogger(zap.New(zap.UseDevMode(true)))
	env := &envtest.Environment{BinaryAssetsDirectory: bin}
	arguments := env.ControlPlane.GetAPIServer().Configure()
	// On loopback no Service can have it as endpoint, and there is no
	// controller that would make accounts and their tokens.
	arguments.Set("endpoint-reconciler-type", "none")
	arguments.Set("disable-admission-plugins", "ServiceAccount")
	config, err := env.Start()
	if err != nil {
		fmt.Fprintf(os.Stderr, "the API server does not start: %v\n", err)
		return 1
	}
	defer env.Stop()
	folder, err := os.MkdirTemp("", "kube")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	server.config = config
	server.config.WarningHandler = &warnings
	server.config.QPS = 1000
	server.kubeconfig = filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(server.kubeconfig, env.KubeConfig, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if server.client, err = client.New(config, client.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// warnings holds what the API server warned of last, as kubectl would print it.
var warnings warningLog

type warningLog struct {
	mu   sync.Mutex
	last []string
}

func (w *warningLog) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = append(w.last, text)
}

// taken returns what was warned of since it was called last.
func (w *warningLog) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last
	w.last = nil
	return last
}

// helm runs helm and returns what it printed.
func helm(t *testing.T, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(bin, "helm"), append(arguments, "--namespace", namespace)...)
	c.Env = append(os.Environ(), "KUBECONFIG="+server.kubeconfig)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// until fails the test when it does not come to ok in time.
func until(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not come to this within %s: %s", within, what)
		}
	}
}
