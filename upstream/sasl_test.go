package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	user   = "alice"
	secret = "tr0ub4dor&3"
)

func saslKafka(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts = append(opts, kfake.EnableSASL())
	for _, m := range []Mechanism{Plain, ScramSHA256, ScramSHA512} {
		opts = append(opts, kfake.Superuser(string(m), user, secret))
	}
	return startKafka(t, opts...)
}

// After SASL the connection is the caller's, ready for its raw requests.
func TestSASL(t *testing.T) {
	ca := newAuthority(t)
	plain := saslKafka(t).ListenAddrs()[0]
	secured := saslKafka(t, kfake.TLS(ca.server(t))).ListenAddrs()[0]
	for _, m := range []Mechanism{Plain, ScramSHA256, ScramSHA512} {
		t.Run(string(m), func(t *testing.T) {
			cfg, _ := configFor(plain)
			cfg.SASL = SASL{Mechanism: m, User: user, Password: FixedSecret(secret)}
			conn, err := dial(t, NewDialer(cfg), plain)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := conn.(*net.TCPConn); !ok {
				t.Errorf("Dial returned a %T where the session has no end", conn)
			}
			if n := brokersOver(t, conn); n != 1 {
				t.Errorf("%d brokers", n)
			}
			cfg.TLS = &TLS{CAFile: ca.caFile()}
			conn, err = dial(t, NewDialer(cfg), secured)
			if err != nil {
				t.Fatal(err)
			}
			if n := brokersOver(t, conn); n != 1 {
				t.Errorf("%d brokers over TLS", n)
			}
		})
	}
}

// Whatever goes wrong is told with the step and what to do, and without any
// secret.
func TestSASLErrors(t *testing.T) {
	const wrong = "not-the-password"
	kafka := saslKafka(t)
	plainOnly := answering(t, func(req *kmsg.SASLHandshakeRequest, resp *kmsg.SASLHandshakeResponse) {
		resp.ErrorCode, resp.SupportedMechanisms = 33, []string{"PLAIN", "GSSAPI"}
	}, nil)
	withoutSASL := answering(t, func(_ *kmsg.SASLHandshakeRequest, resp *kmsg.SASLHandshakeResponse) { resp.ErrorCode = 34 }, nil)
	// A broker that repeats what it was sent, the worst there could be.
	refusing := answering(t, nil, func(req *kmsg.SASLAuthenticateRequest, resp *kmsg.SASLAuthenticateResponse) {
		resp.ErrorCode = 58
		resp.ErrorMessage = kmsg.StringPtr("no, not with " + string(bytes.ReplaceAll(req.SASLAuthBytes, []byte{0}, []byte{' '})))
	})
	password := func(m Mechanism, pass string) SASL {
		return SASL{Mechanism: m, User: user, Password: FixedSecret(pass)}
	}
	for _, c := range []struct {
		name, addr string
		sasl       SASL
		says       []string
	}{
		{"PLAIN, closed", kafka.ListenAddrs()[0], password(Plain, wrong), []string{"closed the connection while authenticating", "UPSTREAM_SASL_USER"}},
		{"SCRAM, closed", kafka.ListenAddrs()[0], password(ScramSHA256, wrong), []string{"closed the connection while authenticating"}},
		{"refused", refusing, password(Plain, wrong), []string{"refuses the credentials", "no, not with", "[redacted]"}},
		{"token refused", refusing, SASL{Mechanism: OAuthBearer, Token: TokenFromCommand("echo " + wrong)}, []string{"refuses the credentials", "audience"}},
		{"not offered", plainOnly, password(ScramSHA512, wrong), []string{"does not offer", "UPSTREAM_SASL_MECHANISM", "PLAIN, GSSAPI"}},
		{"no SASL there", withoutSASL, password(Plain, wrong), []string{"asks for no SASL"}},
		{"no password", kafka.ListenAddrs()[0], SASL{Mechanism: Plain, User: user}, []string{"UPSTREAM_SASL_PASSWORD_FILE"}},
		{"password file gone", kafka.ListenAddrs()[0], SASL{Mechanism: Plain, User: user, Password: SecretFile("/nowhere/password")}, []string{"/nowhere/password"}},
		{"no token", kafka.ListenAddrs()[0], SASL{Mechanism: OAuthBearer, Token: TokenFromFile("/nowhere/token")}, []string{"/nowhere/token"}},
		{"unknown mechanism", kafka.ListenAddrs()[0], SASL{Mechanism: "DIGEST-MD5"}, []string{"SCRAM-SHA-512"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, logs := configFor(c.addr)
			cfg.SASL = c.sasl
			_, err := dial(t, NewDialer(cfg), c.addr)
			var e *DialError
			if !errors.As(err, &e) || e.Step != StepSASL || e.Mechanism != c.sasl.Mechanism {
				t.Fatalf("got %v", err)
			}
			cluster := NewCluster(cfg, NewDialer(cfg))
			defer cluster.close()
			learnt := cluster.learn()
			if learnt == nil {
				t.Fatal("the topology was learnt")
			}
			cluster.note(learnt)
			for _, err := range []error{err, learnt} {
				for _, want := range append(c.says, string(c.sasl.Mechanism)) {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			}
			all := fmt.Sprintf("%v %+v %#v %v %v", err, err, e.Err, learnt, cfg)
			for _, entry := range logs.All() {
				fields, _ := json.Marshal(entry.ContextMap())
				all += entry.Message + string(fields)
			}
			if strings.Contains(all, wrong) {
				t.Errorf("a secret is told: %s", all)
			}
		})
	}
}

// answering returns the address of a broker that answers as told. Without an
// answer of its own it takes the mechanism, or the credentials.
func answering(t *testing.T, handshake func(*kmsg.SASLHandshakeRequest, *kmsg.SASLHandshakeResponse), auth func(*kmsg.SASLAuthenticateRequest, *kmsg.SASLAuthenticateResponse)) string {
	t.Helper()
	k := startKafka(t)
	k.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		switch req := req.(type) {
		case *kmsg.SASLHandshakeRequest:
			resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
			if handshake != nil {
				handshake(req, resp)
			}
			return resp, nil, true
		case *kmsg.SASLAuthenticateRequest:
			resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			if auth != nil {
				auth(req, resp)
			}
			return resp, nil, true
		}
		return nil, nil, false
	})
	return k.ListenAddrs()[0]
}

// A password that is rotated in its file is used by the next connection, and by
// the topology.
func TestPasswordFileIsRotated(t *testing.T) {
	addr := saslKafka(t).ListenAddrs()[0]
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "old\n")
	cfg, _ := configFor(addr)
	cfg.SASL = SASL{Mechanism: ScramSHA512, User: user, Password: SecretFile(file)}
	d := NewDialer(cfg)
	cluster := NewCluster(cfg, d)
	defer cluster.close()
	if _, err := dial(t, d, addr); err == nil {
		t.Fatal("the old password works")
	}
	if err := cluster.learn(); err == nil {
		t.Fatal("the old password works for the topology")
	}
	// What has read the password before it is rotated does not stand in the way.
	if _, err := cluster.connected(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, secret+"\n")
	conn, err := dial(t, d, addr)
	if err != nil {
		t.Fatal(err)
	}
	brokersOver(t, conn)
	if err := cluster.learn(); err != nil {
		t.Fatal(err)
	}
}

// The broker says how long the authentication lasts (KIP-368), and closes the
// connection at the first request that comes later.
func TestSessionLifetime(t *testing.T) {
	const lifetime = 1500 * time.Millisecond
	var accepted atomic.Int32
	k := saslKafka(t, kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "1500"}), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return counted{l, &accepted}, err
	}))
	addr := k.ListenAddrs()[0]
	for _, m := range []Mechanism{Plain, ScramSHA256} {
		cfg, _ := configFor(addr)
		cfg.SASL = SASL{Mechanism: m, User: user, Password: FixedSecret(secret)}
		before := time.Now()
		conn, err := dial(t, NewDialer(cfg), addr)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := conn.(*Session)
		if !ok {
			t.Fatalf("%s: Dial returned a %T", m, conn)
		}
		if s.Ends.Before(before.Add(lifetime)) || s.Ends.After(time.Now().Add(lifetime)) {
			t.Errorf("%s: the session ends in %v, want %v", m, time.Until(s.Ends), lifetime)
		}
		if _, ok := s.Conn.(*net.TCPConn); !ok {
			t.Errorf("%s: the session holds a %T", m, s.Conn)
		}
		brokersOver(t, conn)
	}

	// The topology's own connections authenticate again, and stay.
	cfg, _ := configFor(addr)
	cfg.SASL = SASL{Mechanism: Plain, User: user, Password: FixedSecret(secret)}
	cluster := NewCluster(cfg, NewDialer(cfg))
	defer cluster.close()
	if err := cluster.learn(); err != nil {
		t.Fatal(err)
	}
	connections := accepted.Load()
	time.Sleep(lifetime)
	if err := cluster.learn(); err != nil {
		t.Fatal(err)
	}
	if n := accepted.Load() - connections; n != 0 {
		t.Errorf("%d more connections after the session's end", n)
	}
}

// counted is a listener that counts its connections.
type counted struct {
	net.Listener
	n *atomic.Int32
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

func TestOAuthBearer(t *testing.T) {
	got := make(chan string, 10)
	addr := answering(t, func(req *kmsg.SASLHandshakeRequest, resp *kmsg.SASLHandshakeResponse) {
		if req.Mechanism != "OAUTHBEARER" {
			resp.ErrorCode = 33
		}
	}, func(req *kmsg.SASLAuthenticateRequest, resp *kmsg.SASLAuthenticateResponse) {
		got <- string(req.SASLAuthBytes)
		resp.SessionLifetimeMillis = 60_000
	})
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "token-1\n")
	cfg, _ := configFor(addr)
	cfg.SASL = SASL{Mechanism: OAuthBearer, Token: TokenFromFile(file), Extensions: map[string]string{"logicalCluster": "lkc-1"}}
	d := NewDialer(cfg)
	for _, token := range []string{"token-1", "token-2"} {
		writeFile(t, file, token+"\n")
		conn, err := dial(t, d, addr)
		if err != nil {
			t.Fatal(err)
		}
		// RFC 7628, section 3.1, and KIP-342.
		if sent, want := <-got, "n,,\x01auth=Bearer "+token+"\x01logicalCluster=lkc-1\x01\x01"; sent != want {
			t.Errorf("sent %q, want %q", sent, want)
		}
		if s, ok := conn.(*Session); !ok || time.Until(s.Ends) > time.Minute || time.Until(s.Ends) < 50*time.Second {
			t.Errorf("got %#v", conn)
		}
		brokersOver(t, conn)
	}
}

// A token that a broker refused is not used again, however long it says that it
// is valid.
func TestRefusedTokenIsForgotten(t *testing.T) {
	addr := answering(t, nil, func(req *kmsg.SASLAuthenticateRequest, resp *kmsg.SASLAuthenticateResponse) {
		if !bytes.Contains(req.SASLAuthBytes, []byte("token-2")) {
			resp.ErrorCode = 58
		}
	})
	asked := 0
	cfg, _ := configFor(addr)
	cfg.SASL = SASL{Mechanism: OAuthBearer, Token: func(context.Context) (string, time.Time, error) {
		asked++
		return fmt.Sprintf("token-%d", asked), time.Now().Add(time.Hour), nil
	}}
	d := NewDialer(cfg)
	if _, err := dial(t, d, addr); err == nil {
		t.Fatal("the first token was taken")
	}
	for range 2 {
		if _, err := dial(t, d, addr); err != nil {
			t.Error(err)
		}
	}
	if asked != 2 {
		t.Errorf("asked for %d tokens, want 2", asked)
	}
}

// A Kerberos that can't be used is told by name, and never hangs.
func TestKerberosErrors(t *testing.T) {
	addr := answering(t, nil, nil)
	dir := t.TempDir()
	conf := filepath.Join(dir, "krb5.conf")
	writeFile(t, conf, "[libdefaults]\ndefault_realm = TEST\n[realms]\nTEST = {\n kdc = "+unusedAddr(t)+"\n}\n")
	cfg, _ := configFor(addr)
	cfg.SASL = SASL{Mechanism: GSSAPI, User: user, Password: FixedSecret(secret), Kerberos: Kerberos{Service: "kafka", Realm: "TEST", ConfigFile: conf}}
	_, err := dial(t, NewDialer(cfg), addr)
	var e *DialError
	if !errors.As(err, &e) || e.Mechanism != GSSAPI || strings.Contains(err.Error(), secret) {
		t.Errorf("no Kerberos server: %v", err)
	}
	cfg.SASL.Kerberos.ConfigFile = filepath.Join(dir, "none.conf")
	if _, err := dial(t, NewDialer(cfg), addr); err == nil || !strings.Contains(err.Error(), "none.conf") {
		t.Errorf("no krb5.conf: %v", err)
	}
	cfg.SASL.Kerberos = Kerberos{Service: "kafka"}
	if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "UPSTREAM_SASL_KERBEROS_REALM") {
		t.Errorf("no realm: %v", err)
	}
}
