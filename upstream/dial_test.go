package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sys/unix"
)

// Without TLS and SASL the data path gets the socket itself, on which the
// kernel can splice, and nothing has been asked of the broker.
func TestPlaintextIsTheSocketItself(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, _ := configFor()
	// The listener accepts nothing: a round trip would never end.
	conn, err := dial(t, NewDialer(cfg), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	socket, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("Dial returned a %T", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		for name, option := range map[string][2]int{
			"TCP_NODELAY":  {syscall.IPPROTO_TCP, syscall.TCP_NODELAY},
			"SO_KEEPALIVE": {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
		} {
			if v, err := unix.GetsockoptInt(int(fd), option[0], option[1]); err != nil || v == 0 {
				t.Errorf("%s is %d (%v)", name, v, err)
			}
		}
	})
}

func TestDialErrorsSayStepAndRemedy(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	plain := startKafka(t).ListenAddrs()[0]
	secured := startKafka(t, kfake.TLS(ca.server(t))).ListenAddrs()[0]

	expired := ca.server(t)
	pair, err := tls.LoadX509KeyPair(ca.issue(t, "expired", time.Now().Add(-time.Hour), "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	expired.Certificates = []tls.Certificate{pair}
	outdated := startKafka(t, kfake.TLS(expired)).ListenAddrs()[0]

	old := ca.server(t)
	old.MaxVersion = tls.VersionTLS12
	oldTLS := startKafka(t, kfake.TLS(old)).ListenAddrs()[0]

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	for _, c := range []struct {
		name, addr string
		tls        *TLS
		step       Step
		says       []string
	}{
		{"no port", "kafka", nil, StepResolve, []string{"not host:port"}},
		{"unknown name", "no-such-broker.invalid:9092", nil, StepResolve, []string{"UPSTREAM_BROKERS"}},
		{"nothing listens", unusedAddr(t), nil, StepConnect, []string{"connection refused", "whether the broker runs"}},
		{"plaintext port", plain, &TLS{CAFile: ca.caFile()}, StepTLS, []string{"UPSTREAM_TLS=off"}},
		{"no answer", silent.Addr().String(), &TLS{CAFile: ca.caFile()}, StepTLS, []string{"UPSTREAM_DIAL_TIMEOUT=300ms"}},
		{"unknown CA", secured, &TLS{CAFile: other.caFile()}, StepTLS, []string{"UPSTREAM_TLS_CA_FILE"}},
		{"wrong name", secured, &TLS{CAFile: ca.caFile(), ServerName: "elsewhere.test"}, StepTLS, []string{"UPSTREAM_TLS_SERVER_NAME"}},
		{"expired", outdated, &TLS{CAFile: ca.caFile()}, StepTLS, []string{"expired", "clock"}},
		{"too old", oldTLS, &TLS{CAFile: ca.caFile(), MinVersion: tls.VersionTLS13}, StepTLS, []string{"UPSTREAM_TLS_MIN_VERSION"}},
		{"no CA file", secured, &TLS{CAFile: "/nowhere/ca.pem"}, StepTLS, []string{"UPSTREAM_TLS_CA_FILE", "/nowhere/ca.pem"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, _ := configFor()
			cfg.TLS = c.tls
			if c.addr == plain || c.addr == silent.Addr().String() {
				cfg.DialTimeout = 300 * time.Millisecond // they never answer a TLS hello
			}
			d := NewDialer(cfg)
			_, err := dial(t, d, c.addr)
			var e *DialError
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Step != c.step || e.Addr != c.addr {
				t.Errorf("step %s at %s, want %s at %s: %v", e.Step, e.Addr, c.step, c.addr, err)
			}
			for _, want := range append(c.says, c.addr) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			// The same fault reads the same, so that it can be logged once.
			if _, again := dial(t, d, c.addr); again == nil || again.Error() != err.Error() {
				t.Errorf("first %q, then %q", err, again)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cfg, _ := configFor()
	cfg.DialTimeout = time.Minute
	cfg.SASL = SASL{Mechanism: Plain, User: "u", Password: FixedSecret("p")}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	started := time.Now()
	if _, err := NewDialer(cfg).Dial(ctx, silent.Addr().String()); err == nil {
		t.Fatal("a broker that says nothing authenticated")
	}
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// Names are resolved by each dial; a test can only show that a name works.
func TestNamesAreResolved(t *testing.T) {
	_, port, _ := net.SplitHostPort(startKafka(t).ListenAddrs()[0])
	cfg, _ := configFor()
	conn, err := dial(t, NewDialer(cfg), net.JoinHostPort("localhost", port))
	if err != nil {
		t.Fatal(err)
	}
	if n := brokersOver(t, conn); n != 1 {
		t.Errorf("%d brokers", n)
	}
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	server := ca.server(t)
	server.ClientAuth = tls.RequireAndVerifyClientCert
	server.ClientCAs = x509.NewCertPool()
	server.ClientCAs.AddCert(ca.cert)
	addr := startKafka(t, kfake.TLS(server)).ListenAddrs()[0]
	cert, key := ca.issue(t, "client", time.Now().Add(time.Hour))

	cfg, _ := configFor(addr)
	cfg.TLS = &TLS{CAFile: ca.caFile(), CertFile: cert, KeyFile: key, ServerName: "kafka.test"}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	conn, err := dial(t, NewDialer(cfg), addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := conn.(*tls.Conn); !ok {
		t.Errorf("Dial returned a %T", conn)
	}
	if n := brokersOver(t, conn); n != 1 {
		t.Errorf("%d brokers", n)
	}

	// TLS 1.3 refuses a client only after the handshake: the topology says it.
	cfg.TLS = &TLS{CAFile: ca.caFile()}
	cluster := NewCluster(cfg, NewDialer(cfg))
	defer cluster.close()
	if err := cluster.learn(); err == nil || !strings.Contains(err.Error(), "UPSTREAM_TLS_CERT_FILE") {
		t.Errorf("without a client certificate: %v", err)
	}
}

func TestCheckReportsEverything(t *testing.T) {
	cfg, _ := configFor()
	cfg.TLS = &TLS{CAFile: "/nowhere/ca.pem", CertFile: "/nowhere/cert.pem"}
	cfg.SASL = SASL{Mechanism: ScramSHA256}
	err := cfg.Check()
	if err == nil {
		t.Fatal("nothing reported")
	}
	for _, want := range []string{"UPSTREAM_TLS_CA_FILE", "UPSTREAM_TLS_KEY_FILE", "UPSTREAM_SASL_USER", "UPSTREAM_SASL_PASSWORD_FILE"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not said in %v", want, err)
		}
	}
}

func TestFilesAreReloaded(t *testing.T) {
	ca, next := newAuthority(t), newAuthority(t)
	first := startKafka(t, kfake.TLS(ca.server(t))).ListenAddrs()[0]
	second := startKafka(t, kfake.TLS(next.server(t))).ListenAddrs()[0]
	cert, key := ca.issue(t, "client", time.Now().Add(time.Hour))

	cfg, logs := configFor()
	cfg.TLS = &TLS{CAFile: ca.caFile(), CertFile: cert, KeyFile: key}
	d := NewDialer(cfg)
	conn, err := dial(t, d, first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, d, second); err == nil {
		t.Fatal("a broker of another CA was taken")
	}

	// Half a rotation: the new certificate does not fit the old key.
	newCert, newKey := next.issue(t, "client", time.Now().Add(time.Hour))
	copyFile(t, newCert, cert)
	for range 2 {
		if _, err := dial(t, d, first); err != nil {
			t.Fatalf("in the middle of a rotation: %v", err)
		}
	}
	if n := logs.FilterMessageSnippet("the ones read before stay in use").Len(); n != 1 {
		t.Errorf("said %d times that the files don't fit, want once", n)
	}

	// The whole of it.
	copyFile(t, newKey, key)
	copyFile(t, next.caFile(), ca.caFile())
	if _, err := dial(t, d, second); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	if _, err := dial(t, d, first); err == nil {
		t.Error("a broker of the CA that was replaced is still taken")
	}
	got, err := d.certs.client("x")
	if err != nil {
		t.Fatal(err)
	}
	want, err := tls.LoadX509KeyPair(newCert, newKey)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Certificates[0].Certificate[0]) != string(want.Certificate[0]) {
		t.Error("the old client certificate is still in use")
	}

	// The connection that existed lives on.
	if n := brokersOver(t, conn); n != 1 {
		t.Errorf("%d brokers over the old connection", n)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	s, err := SecretFile(from)()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, s+"\n")
}
