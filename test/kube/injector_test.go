package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// process is a replica of the injector, as its Deployment says.
type process struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startInjector runs the container of the chart's Deployment: its arguments,
// but for where it listens and, where it is not empty, how long certificates
// live, and its service account with the rights that the chart gives it.
func startInjector(t *testing.T, port int, validity string) *process {
	t.Helper()
	var d appsv1.Deployment
	get(t, namespace, injector, &d)
	arguments := slices.Clone(d.Spec.Template.Spec.Containers[0].Args)
	folder := t.TempDir()
	for i, a := range arguments {
		switch name, _, _ := strings.Cut(a, "="); name {
		case "--listen":
			arguments[i] = fmt.Sprintf("--listen=127.0.0.1:%d", port)
		case "--sidecar":
			arguments[i] = "--sidecar=" + filepath.Join(folder, "sidecar.json")
		case "--validity":
			if validity != "" {
				arguments[i] = "--validity=" + validity
			}
		}
	}
	var sidecar corev1.ConfigMap
	get(t, namespace, d.Spec.Template.Spec.Volumes[0].ConfigMap.Name, &sidecar)

	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, d.Spec.Template.Spec.ServiceAccountName
	token := &authenticationv1.TokenRequest{}
	if err := server.client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"sidecar.json": []byte(sidecar.Data["sidecar.json"]),
		"ca.crt":       server.config.CAData, "namespace": []byte(namespace), "token": []byte(token.Status.Token),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, err := url.Parse(server.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if address.Host == "" { // host:port without a scheme
		address.Host = server.config.Host
	}
	host, apiPort, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(filepath.Join(bin, "oncegate"), append(arguments, "--account="+folder, "--linger=1s")...)}
	p.cmd.Env = []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + apiPort}
	p.cmd.Stderr = &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("injector at %d:\n%s", port, p.log.String())
		}
	})
	return p
}

// stop ends it as Kubernetes does.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(15 * time.Second):
		t.Error("it did not end within 15 s after SIGTERM")
	}
}

// reachable leads the chart's Service to this machine: there is no network of
// pods. It takes the place of kube-proxy.
func reachable(t *testing.T) {
	t.Helper()
	s := &corev1.Service{}
	s.Namespace, s.Name = namespace, injector
	patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"type": "ExternalName", "externalName": "localhost", "clusterIP": nil, "clusterIPs": nil, "selector": nil}})
	if err := server.client.Patch(t.Context(), s, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, namespace, name string, into client.Object) {
	t.Helper()
	if err := server.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

// as returns a client that acts as the injector's service account.
func as(t *testing.T, account string) client.Client {
	t.Helper()
	config := *server.config
	config.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + account
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	c, err := client.New(&config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
