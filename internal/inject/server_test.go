package inject

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
)

// apiServer is the part of an API server that an injector talks to.
type apiServer struct {
	mu       sync.Mutex
	version  int
	data     map[string][]byte
	bundle   []byte
	conflict int // how often the next writes meet a newer version
	missing  bool
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer token" {
		http.Error(w, `{"message":"who are you"}`, http.StatusUnauthorized)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /api/v1/namespaces/there/secrets/injector":
		if a.missing {
			http.Error(w, `{"message":"secrets \"injector\" not found"}`, http.StatusNotFound)
			return
		}
		json.NewEncoder(w).Encode(secret{"v1", "Secret", fmt.Appendf(nil, `{"name":"injector","resourceVersion":"%d"}`, a.version), "Opaque", a.data})
	case "PUT /api/v1/namespaces/there/secrets/injector":
		var s secret
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if a.conflict > 0 || !strings.Contains(string(s.Metadata), fmt.Sprintf(`"resourceVersion":"%d"`, a.version)) {
			a.conflict--
			http.Error(w, `{"message":"changed"}`, http.StatusConflict)
			return
		}
		a.version++
		a.data = s.Data
	case "GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/injector":
		fmt.Fprintf(w, `{"webhooks":[{"name":"a.b.c","clientConfig":{"caBundle":%s}},{"name":"d.e.f","clientConfig":{"caBundle":%[1]s}}]}`, asJSON(a.bundle))
	case "PATCH /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/injector":
		var hooks webhooks
		if err := json.NewDecoder(r.Body).Decode(&hooks); err != nil || len(hooks.Webhooks) != 2 || hooks.Webhooks[1].Name != "d.e.f" {
			http.Error(w, fmt.Sprint(err, hooks), http.StatusBadRequest)
			return
		}
		a.bundle = trustedBy(&hooks)
	default:
		http.Error(w, `{"message":"forbidden"}`, http.StatusForbidden)
	}
}

func asJSON(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}

func (a *apiServer) trusted() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.bundle)
	return pool
}

// account starts a and returns a cluster that talks to it.
func account(t *testing.T, a *apiServer) *cluster {
	t.Helper()
	s := httptest.NewTLSServer(a)
	t.Cleanup(s.Close)
	folder := t.TempDir()
	for name, text := range map[string][]byte{
		"token": []byte("token\n"), "namespace": []byte("there"),
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	c, err := newCluster(folder, func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// start runs an injector and returns its address, and what ends it and tells
// how it ended.
func start(t *testing.T, i *injector) (address string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.serve(ctx, listener, 0) }()
	return listener.Addr().String(), sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

const reviewOfPod = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","namespace":"n","object":%s}}`

// post sends a review as the API server does, over a new connection.
func post(address, path, body string, roots *x509.CertPool) (*response, int, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "injector.there.svc"}}}
	r, err := client.Post("https://"+address+path, "application/json", strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	var out review
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &out)
	}
	return out.Response, r.StatusCode, err
}

// Two replicas with certificates that live for seconds answer every review,
// whatever is asked when: nobody notices that certificates change.
func TestCertificatesChangeUnderLoad(t *testing.T) {
	a := &apiServer{}
	var addresses [2]string
	var stops [2]func() error
	var served [2]*keeper
	for n := range addresses {
		i := &injector{sidecar: sidecarOf(t, small), log: zap.NewNop(), keeper: selfMade(account(t, a), "injector", "injector", "injector", 3*time.Second, zap.NewNop())}
		served[n] = i.keeper
		addresses[n], stops[n] = start(t, i)
		defer stops[n]()
	}
	for n := range addresses {
		until(t, func() bool { return served[n].serving.Load() != nil })
	}
	body := fmt.Sprintf(reviewOfPod, `{"metadata":{"annotations":{"oncegate.io/inject":"true","oncegate.io/upstream-brokers":"k:1"}},"spec":{"containers":[{"name":"app"}]}}`)
	seen := make(map[string]bool)
	reviews := 0
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
		for n := range addresses {
			roots := a.trusted()
			r, code, err := post(addresses[n], "/pods", body, roots)
			if err != nil || code != http.StatusOK || !r.Allowed || r.UID != "u" || len(r.Patch) == 0 {
				t.Fatalf("replica %d, after %d reviews: %v %d %+v", n, reviews, err, code, r)
			}
			reviews++
			seen[string(served[n].serving.Load().Certificate[0])] = true
		}
		time.Sleep(20 * time.Millisecond)
	}
	if len(seen) < 3 {
		t.Errorf("%d certificates in six seconds: nothing was shown", len(seen))
	}
	for n := range stops {
		if err := stops[n](); err != nil {
			t.Errorf("replica %d: %v", n, err)
		}
	}
	t.Logf("%d reviews over %d certificates", reviews, len(seen))
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not come to that in 5 s")
}

func TestAnotherReplicaIsFaster(t *testing.T) {
	a := &apiServer{conflict: 2}
	k := selfMade(account(t, a), "injector", "injector", "injector", time.Hour, zap.NewNop())
	if _, err := k.renew(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.bundle, a.data[keyCertificate]) {
		t.Error("what is kept is not what is trusted")
	}
	a.conflict, a.data = attempts, nil
	if _, err := k.renew(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "changed by others") {
		t.Errorf("%v", err)
	}
}

// A certificate goes on being served when the Secret is gone or the API server
// does not answer.
func TestServesOnWithoutTheAPIServer(t *testing.T) {
	a := &apiServer{}
	k := selfMade(account(t, a), "injector", "injector", "injector", time.Hour, zap.NewNop())
	k.look(t.Context())
	before := k.serving.Load()
	a.mu.Lock()
	a.missing = true
	a.mu.Unlock()
	k.look(t.Context())
	if before == nil || k.serving.Load() != before {
		t.Error("it serves something else")
	}
	if _, err := k.renew(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), `secrets "injector" not found`) {
		t.Errorf("%v", err)
	}
}

func TestServer(t *testing.T) {
	folder := t.TempDir()
	p, err := newPair(time.Now(), time.Hour, []string{"injector.there.svc"})
	if err != nil {
		t.Fatal(err)
	}
	i := &injector{sidecar: sidecarOf(t, small), log: zap.NewNop(), keeper: fromFolder(folder, zap.NewNop())}
	i.keeper.interval = 10 * time.Millisecond
	address, stop := start(t, i)
	defer stop()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.certificate)

	if _, _, err := post(address, "/pods", "{}", roots); err == nil {
		t.Error("it answers without a certificate")
	}
	// cert-manager writes it later, and another one after that.
	for name, text := range map[string][]byte{keyKey: p.key, keyCertificate: p.certificate} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() bool { return i.keeper.serving.Load() != nil })

	for name, c := range map[string]struct {
		path, object string
		allowed      bool
		patch        string
		says         string
	}{
		"a pod that does not say true": {"/pods", `{"metadata":{"annotations":{"oncegate.io/inject":"on"}}}`, false, "", `is "on": accepted is true or false`},
		"a pod of a namespace":         {"/pods-of-namespace", `{"metadata":{"annotations":{"oncegate.io/upstream-brokers":"k:1"}},"spec":{"containers":[{"name":"app"}]}}`, true, `/spec/initContainers`, ""},
		"a namespace":                  {"/namespaces", `{"metadata":{"annotations":{"oncegate.io/inject":"true"},"labels":{"a":"b"}}}`, true, `[{"op":"add","path":"/metadata/labels/oncegate.io~1inject","value":"true"}]`, ""},
		"a namespace no more":          {"/namespaces", `{"metadata":{"labels":{"oncegate.io/inject":"true"}}}`, true, `[{"op":"remove","path":"/metadata/labels/oncegate.io~1inject"}]`, ""},
		"a namespace with a typo":      {"/namespaces", `{"metadata":{"annotations":{"oncegate.io/inject":"True"}}}`, false, "", `is "True": accepted is true or false`},
		"a namespace that is labelled": {"/namespaces", `{"metadata":{"annotations":{"oncegate.io/inject":"true"},"labels":{"oncegate.io/inject":"true"}}}`, true, "", ""},
		"no object":                    {"/pods", `[]`, false, "", "cannot unmarshal"},
	} {
		r, code, err := post(address, c.path, fmt.Sprintf(reviewOfPod, c.object), roots)
		switch {
		case err != nil || code != http.StatusOK:
			t.Errorf("%s: %d %v", name, code, err)
		case r.UID != "u" || r.Allowed != c.allowed || !strings.Contains(string(r.Patch), c.patch) || c.patch == "" && r.Patch != nil:
			t.Errorf("%s: %+v %s", name, r, r.Patch)
		case !c.allowed && !strings.Contains(r.Status.Message, c.says):
			t.Errorf("%s: %s", name, r.Status.Message)
		}
	}
	for _, body := range []string{"", "{}", `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`} {
		if _, code, err := post(address, "/pods", body, roots); err != nil || code != http.StatusBadRequest {
			t.Errorf("%q: %d %v", body, code, err)
		}
	}
	for path, says := range map[string]string{
		"/livez":   "ok",
		"/readyz":  "ready",
		"/metrics": `oncegate_injector_reviews_total{result="refused"} 3`,
	} {
		if text := read(t, address, path, roots); !strings.Contains(text, says) {
			t.Errorf("%s: %s", path, text)
		}
	}
	if text := read(t, address, "/metrics", roots); !strings.Contains(text, "oncegate_injector_certificate_expiry_timestamp_seconds 1.") {
		t.Errorf("the certificate's end is not told: %s", text)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, address, path string, roots *x509.CertPool) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "injector.there.svc"}}}
	r, err := client.Get("https://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
