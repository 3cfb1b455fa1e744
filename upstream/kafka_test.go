package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/test/kafka"
)

// secureKafka is a real broker that asks for everything: listeners SASL in
// plain text, SECURE with SASL and TLS, MUTUAL with TLS client certificates.
func secureKafka(t *testing.T, ca *authority, sessions time.Duration) *kafka.Cluster {
	t.Helper()
	config := map[string]string{
		"ssl.keystore.type": "PEM", "ssl.keystore.location": ca.keystore(t),
		"ssl.truststore.type": "PEM", "ssl.truststore.location": ca.caFile(),
		"listener.name.mutual.ssl.client.auth": "required",
	}
	modules := "org.apache.kafka.common.security."
	for _, l := range []string{"sasl", "secure"} {
		maps.Copy(config, map[string]string{
			"listener.name." + l + ".sasl.enabled.mechanisms":         "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
			"listener.name." + l + ".plain.sasl.jaas.config":          fmt.Sprintf("%splain.PlainLoginModule required user_%s=%q;", modules, user, secret),
			"listener.name." + l + ".scram-sha-256.sasl.jaas.config":  modules + "scram.ScramLoginModule required;",
			"listener.name." + l + ".scram-sha-512.sasl.jaas.config":  modules + "scram.ScramLoginModule required;",
			"listener.name." + l + ".oauthbearer.sasl.jaas.config":    modules + `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
			"listener.name." + l + ".plain.connections.max.reauth.ms": fmt.Sprint(sessions.Milliseconds()),
		})
	}
	k := kafka.Start(t, kafka.Options{
		Version: kafka.V44, Brokers: 1, Config: config,
		Listeners: map[string]string{"SASL": "SASL_PLAINTEXT", "SECURE": "SASL_SSL", "MUTUAL": "SSL"},
	})
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		altered, err := k.Admin().AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: m, Iterations: 4096, Password: secret}})
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// keystore returns a file with the certificate and key of a broker.
func (a *authority) keystore(t *testing.T) string {
	t.Helper()
	certFile, keyFile := a.issue(t, "kafka", time.Now().Add(time.Hour), "127.0.0.1")
	var all []byte
	for _, f := range []string{keyFile, certFile} {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	file := filepath.Join(a.dir, "keystore.pem")
	writeFile(t, file, string(all))
	return file
}

// Every mechanism against the real broker: with the right secret the connection
// answers, with a wrong one the error says who refused what.
func TestRealKafkaAuthenticates(t *testing.T) {
	const sessions = 3 * time.Second
	ca := newAuthority(t)
	k := secureKafka(t, ca, sessions)
	sasl, secure, mutual := k.Addrs("SASL")[0], k.Addrs("SECURE")[0], k.Addrs("MUTUAL")[0]
	trusted := &TLS{CAFile: ca.caFile()}
	cert, key := ca.issue(t, "client", time.Now().Add(time.Hour))
	password := func(m Mechanism, pass string) SASL {
		return SASL{Mechanism: m, User: user, Password: FixedSecret(pass)}
	}
	token := func(expires time.Time) SASL {
		claims := fmt.Sprintf(`{"sub":"%s","iat":%d,"exp":%d}`, user, time.Now().Add(-time.Hour).Unix(), expires.Unix())
		// The unsecured tokens of RFC 7515 have no signature.
		unsigned := strings.TrimSuffix(jwt(claims), "c2lnbmF0dXJl")
		return SASL{Mechanism: OAuthBearer, Token: func(context.Context) (string, time.Time, error) { return unsigned, time.Now(), nil }}
	}
	for _, c := range []struct {
		name, addr string
		tls        *TLS
		sasl       SASL
		fault      string // empty where it works
	}{
		{"PLAIN", sasl, nil, password(Plain, secret), ""},
		{"PLAIN over TLS", secure, trusted, password(Plain, secret), ""},
		{"SCRAM-SHA-256", sasl, nil, password(ScramSHA256, secret), ""},
		{"SCRAM-SHA-256 over TLS", secure, trusted, password(ScramSHA256, secret), ""},
		{"SCRAM-SHA-512", sasl, nil, password(ScramSHA512, secret), ""},
		{"SCRAM-SHA-512 over TLS", secure, trusted, password(ScramSHA512, secret), ""},
		{"OAUTHBEARER over TLS", secure, trusted, token(time.Now().Add(time.Hour)), ""},
		{"TLS client certificate", mutual, &TLS{CAFile: ca.caFile(), CertFile: cert, KeyFile: key}, SASL{}, ""},

		{"PLAIN, wrong password", secure, trusted, password(Plain, "wrong-one"), "the broker refuses the credentials (Authentication failed: Invalid username or password)"},
		{"SCRAM, wrong password", secure, trusted, password(ScramSHA512, "wrong-one"), "the broker refuses the credentials"},
		{"OAUTHBEARER, expired", secure, trusted, token(time.Now().Add(-time.Minute)), "the broker refuses the credentials"},
		{"AWS_MSK_IAM, not MSK", secure, trusted, SASL{Mechanism: AWSMSKIAM, AWSRegion: "eu-central-1"}, "SASL AWS_MSK_IAM: the broker refuses the credentials"},
		{"SASL to a port without", k.Bootstrap()[0], nil, password(Plain, secret), "asks for no SASL"},
		{"plaintext to TLS", secure, nil, password(Plain, secret), "UPSTREAM_TLS=on"},
		{"TLS to plaintext", sasl, trusted, password(Plain, secret), "UPSTREAM_TLS=off"},
		{"no client certificate", mutual, trusted, SASL{}, "UPSTREAM_TLS_CERT_FILE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong-one")
			cfg, _ := configFor(c.addr)
			cfg.TLS, cfg.SASL = c.tls, c.sasl
			cluster := NewCluster(cfg, NewDialer(cfg))
			defer cluster.close()
			learnt := cluster.learn()
			if c.fault != "" {
				// Whether Dial itself fails depends: a refused client
				// certificate shows at the first request.
				if _, err := dial(t, cluster.dialer, c.addr); err == nil && c.addr != mutual {
					t.Error("Dial authenticated")
				}
				if learnt == nil || !strings.Contains(learnt.Error(), c.fault) || strings.Contains(learnt.Error(), "wrong-one") {
					t.Errorf("got %v, want %q", learnt, c.fault)
				}
				return
			}
			if learnt != nil || len(cluster.Brokers()) != 1 {
				t.Fatalf("brokers %v, %v", cluster.Brokers(), learnt)
			}
			conn, err := dial(t, cluster.dialer, c.addr)
			if err != nil {
				t.Fatal(err)
			}
			if n := brokersOver(t, conn); n != 1 {
				t.Errorf("%d brokers", n)
			}
		})
	}

	t.Run("session", func(t *testing.T) {
		cfg, _ := configFor(secure)
		cfg.TLS, cfg.SASL = trusted, password(Plain, secret)
		cluster := NewCluster(cfg, NewDialer(cfg))
		defer cluster.close()
		if err := cluster.learn(); err != nil {
			t.Fatal(err)
		}
		conn, err := dial(t, cluster.dialer, secure)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := conn.(*Session)
		if !ok {
			t.Fatalf("Dial returned a %T", conn)
		}
		if left := time.Until(s.Ends); left > sessions || left < sessions-time.Second {
			t.Errorf("the session ends in %v, want %v", left, sessions)
		}
		time.Sleep(time.Until(s.Ends) - 300*time.Millisecond)
		brokersOver(t, conn)
		time.Sleep(time.Until(s.Ends) + 300*time.Millisecond)
		if _, err := roundTrip(t.Context(), conn, "test", kmsg.NewPtrMetadataRequest()); err == nil {
			t.Error("the broker still answers after the session's end")
		}
		// The topology authenticates again by itself.
		if err := cluster.learn(); err != nil {
			t.Error(err)
		}
	})
}

// What only the broker knows, asked of the real one.
func TestRealKafkaAnswers(t *testing.T) {
	k := kafka.Start(t, kafka.Options{Version: kafka.V40, Brokers: 2, Controllers: 1})
	const topic = "orders"
	k.CreateTopic(t, topic, 1, nil)
	cfg, _ := configFor(k.Bootstrap()...)
	told := make(chan [16]byte, 100)
	c := run(t, cfg, func(c *Cluster) {
		c.Watch(topic)
		c.OnTopics(func(_ string, id [16]byte) { told <- id })
	})
	ready(t, c)
	if id := <-told; id == [16]byte{} {
		t.Error("the topic has no id")
	}
	if n := len(c.Brokers()); n != 2 {
		t.Errorf("%d brokers", n)
	}
	first, _, err := c.LeaseProducerID()
	if err != nil {
		t.Fatal(err)
	}
	if next, _, err := c.LeaseProducerID(); err != nil || next == first {
		t.Errorf("leased %d and %d, %v", first, next, err)
	}

	producer, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for range 3 {
		if err := producer.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	id, epoch, err := producer.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gotEpoch, last, found, err := c.DescribeProducer(topic, 0, id)
	if err != nil || !found || gotEpoch != epoch || last != 2 {
		t.Errorf("epoch %d, sequence %d, %v, %v; want epoch %d, sequence 2", gotEpoch, last, found, err, epoch)
	}
	if _, _, found, err := c.DescribeProducer(topic, 0, first); found || err != nil {
		t.Errorf("a producer that sent nothing: %v, %v", found, err)
	}
	if _, _, _, err := c.DescribeProducer("nowhere", 0, id); err == nil {
		t.Error("a topic that does not exist was described")
	}
	for leaderEpoch, want := range map[int32]int64{0: 3, 7: -1} {
		if end, err := c.EpochEnd(t.Context(), topic, 0, leaderEpoch); err != nil || end != want {
			t.Errorf("epoch %d ends at %d, want %d: %v", leaderEpoch, end, want, err)
		}
	}

	// The leader dies, and the other is asked.
	before, err := c.LeaderAddr(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range k.Brokers() {
		if b.Addr(kafka.Direct) == before {
			b.Kill()
		}
	}
	eventually(t, "another leader", func() bool {
		addr, err := c.LeaderAddr(topic, 0)
		return err == nil && addr != before
	})
	gotEpoch, last, found, err = c.DescribeProducer(topic, 0, id)
	if err != nil || !found || gotEpoch != epoch || last != 2 {
		t.Errorf("from the new leader: epoch %d, sequence %d, %v, %v", gotEpoch, last, found, err)
	}
	if end, err := c.EpochEnd(t.Context(), topic, 0, 0); err != nil || end != 3 {
		t.Errorf("epoch 0 ends at %d, want 3: %v", end, err)
	}
	var e *DialError
	if _, err := dial(t, c.dialer, before); !errors.As(err, &e) || e.Step != StepConnect {
		t.Errorf("dialling the dead: %v", err)
	}
}
