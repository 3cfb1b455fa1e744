package upstream

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest/observer"
)

// run runs a cluster for the time of the test.
func run(t *testing.T, cfg Config, prepare ...func(*Cluster)) *Cluster {
	t.Helper()
	c := NewCluster(cfg, NewDialer(cfg))
	for _, p := range prepare {
		p(c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return c
}

func ready(t *testing.T, c *Cluster) {
	t.Helper()
	select {
	case <-c.Ready():
	case <-time.After(10 * time.Second):
		t.Fatalf("not ready: %v", c.Err())
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func warnings(logs *observer.ObservedLogs, about string) (n int) {
	for _, e := range logs.All() {
		if strings.Contains(e.Message, about) {
			n++
		}
	}
	return n
}

// One address that leads nowhere does not matter, wherever it stands.
func TestUnreachableBootstrapAmongReachable(t *testing.T) {
	live := startKafka(t, kfake.NumBrokers(3)).ListenAddrs()
	for i := range 6 {
		cfg, _ := configFor(unusedAddr(t), unusedAddr(t), live[i%3])
		c := run(t, cfg)
		ready(t, c)
		if err := c.Err(); err != nil {
			t.Errorf("ready, but %v", err)
		}
		brokers := c.Brokers()
		if len(brokers) != 3 || !slices.IsSortedFunc(brokers, func(a, b Broker) int { return int(a.ID - b.ID) }) {
			t.Errorf("brokers %v", brokers)
		}
		for _, b := range brokers {
			if !slices.Contains(live, b.Addr) {
				t.Errorf("broker %d is told to be at %s, not at one of %v", b.ID, b.Addr, live)
			}
		}
	}
}

// While nobody answers, the reason is told for every address and logged once;
// afterwards the topology is there without a restart.
func TestKeepsTrying(t *testing.T) {
	addr, dead := unusedAddr(t), unusedAddr(t)
	cfg, logs := configFor(addr, dead)
	c := run(t, cfg)
	eventually(t, "a reason for both addresses", func() bool {
		err := c.Err().Error()
		return strings.Contains(err, addr+": connecting: connect: connection refused") && strings.Contains(err, dead)
	})
	time.Sleep(time.Second) // for some more attempts
	if n := warnings(logs, "a broker can't be reached"); n != 2 {
		t.Errorf("%d messages about 2 addresses", n)
	}
	if n := warnings(logs, "the upstream can't be reached"); n != 1 {
		t.Errorf("%d messages about the upstream", n)
	}
	select {
	case <-c.Ready():
		t.Fatal("ready without an upstream")
	default:
	}

	_, port, _ := net.SplitHostPort(addr)
	p, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	k := startKafka(t, kfake.Ports(p))
	ready(t, c)
	eventually(t, "a message that the upstream answers", func() bool { return warnings(logs, "the upstream answers") == 1 })

	// And it says when the upstream goes.
	k.Close()
	c.Refresh()
	eventually(t, "an error after the upstream has gone", func() bool { return c.Err() != nil })
}

// The same for what goes wrong after connecting.
func TestRefusedCredentialsAreSaidOnce(t *testing.T) {
	k := saslKafka(t)
	addr := k.ListenAddrs()[0]
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "wrong")
	cfg, logs := configFor(addr)
	cfg.SASL = SASL{Mechanism: ScramSHA256, User: user, Password: SecretFile(file)}
	c := run(t, cfg)
	eventually(t, "a reason", func() bool { return strings.Contains(c.Err().Error(), "SASL SCRAM-SHA-256") })
	time.Sleep(time.Second) // for some more attempts
	writeFile(t, file, secret)
	ready(t, c)
	eventually(t, "word that it answers", func() bool { return warnings(logs, "the upstream answers") == 1 })
	for _, about := range []string{"a broker can't be reached", "the upstream can't be reached"} {
		if n := warnings(logs, about); n != 1 {
			t.Errorf("%d messages that %s, want 1", n, about)
		}
	}
}

// Whoever asks about a broker that does not speak the protocol learns why.
func TestProbeNamesTheFault(t *testing.T) {
	ca := newAuthority(t)
	secured := startKafka(t, kfake.TLS(ca.server(t))).ListenAddrs()[0]
	talk := func(answer string, wait bool) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer conn.Close()
					conn.Write([]byte(answer))
					conn.SetReadDeadline(time.Now().Add(time.Second))
					for b := make([]byte, 1024); wait; {
						if _, err := conn.Read(b); err != nil {
							return
						}
					}
				})
			}
		})
		t.Cleanup(func() { l.Close(); serving.Wait() })
		return l.Addr().String()
	}
	for _, c := range []struct{ name, addr, says string }{
		{"TLS", secured, "UPSTREAM_TLS=on"},
		{"closes", talk("", false), "no Kafka at all"},
		{"silent", talk("", true), "does not answer"},
		{"HTTP", talk("HTTP/1.1 400 Bad Request\r\n\r\n", true), "no Kafka answer"},
	} {
		cfg, _ := configFor(c.addr)
		if c.name == "silent" {
			cfg.DialTimeout = 300 * time.Millisecond
		}
		err := NewCluster(cfg, NewDialer(cfg)).probe(c.addr)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.addr) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Brokers that come, go and move are told, one list at a time and each once.
func TestBrokersChange(t *testing.T) {
	k := startKafka(t, kfake.NumBrokers(3))
	cfg, _ := configFor(k.ListenAddrs()...)
	var mu sync.Mutex
	var told [][]Broker
	c := run(t, cfg, func(c *Cluster) {
		c.Subscribe(func(b []Broker) {
			if !mu.TryLock() {
				t.Error("told two lists at once")
				return
			}
			defer mu.Unlock()
			told = append(told, b)
		})
	})
	ready(t, c)
	last := func() []Broker {
		mu.Lock()
		defer mu.Unlock()
		return told[len(told)-1]
	}
	ids := func(b []Broker) (ids []int32) {
		for _, b := range b {
			ids = append(ids, b.ID)
		}
		return ids
	}
	if got := ids(last()); !slices.Equal(got, []int32{0, 1, 2}) {
		t.Fatalf("told %v", got)
	}
	c.Refresh()
	time.Sleep(4 * soon) // which finds nothing new

	if _, _, err := k.AddNode(7, 0); err != nil {
		t.Fatal(err)
	}
	c.Refresh()
	eventually(t, "an added broker", func() bool { return slices.Equal(ids(last()), []int32{0, 1, 2, 7}) })

	before := last()[1].Addr
	if err := k.RemoveNode(1); err != nil {
		t.Fatal(err)
	}
	c.Refresh()
	eventually(t, "a removed broker", func() bool { return slices.Equal(ids(last()), []int32{0, 2, 7}) })

	if _, _, err := k.AddNode(1, 0); err != nil {
		t.Fatal(err)
	}
	c.Refresh()
	eventually(t, "the broker at another address", func() bool {
		return len(last()) == 4 && last()[1].ID == 1 && last()[1].Addr != before
	})
	if !slices.Equal(last(), c.Brokers()) {
		t.Errorf("told %v, but Brokers says %v", last(), c.Brokers())
	}
	mu.Lock()
	defer mu.Unlock()
	for i := 1; i < len(told); i++ {
		if slices.Equal(told[i-1], told[i]) {
			t.Errorf("told twice: %v", told[i])
		}
	}
}

// All that asks at once is one refresh.
func TestRefreshesAreCoalesced(t *testing.T) {
	k := startKafka(t, kfake.SeedTopics(1, "orders"))
	cfg, _ := configFor(k.ListenAddrs()...)
	c := run(t, cfg, func(c *Cluster) { c.Watch("orders") })
	ready(t, c)
	var n atomic.Int32
	k.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	for range 100 {
		c.Refresh()
	}
	time.Sleep(10 * soon)
	// One for the brokers, and one for the topic's id.
	if n := n.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// A topic that is created again has another id, and whoever watches it is told.
func TestTopicIDs(t *testing.T) {
	k := startKafka(t, kfake.SeedTopics(3, "orders", "others"))
	cfg, _ := configFor(k.ListenAddrs()...)
	type told struct {
		name string
		id   [16]byte
	}
	ids := make(chan told, 100)
	c := run(t, cfg, func(c *Cluster) {
		c.Watch("orders")
		c.Watch("nowhere")
		c.OnTopics(func(name string, id [16]byte) { ids <- told{name, id} })
	})
	ready(t, c)
	first := <-ids
	if want := k.TopicInfo("orders").TopicID; first.name != "orders" || first.id != want {
		t.Fatalf("told %v, want orders %v", first, want)
	}
	if id, ok := c.TopicID("orders"); !ok || id != first.id {
		t.Errorf("TopicID says %v, %v", id, ok)
	}
	for index := range int32(3) {
		if leader, ok := c.Leader("orders", index); !ok || leader != k.LeaderFor("orders", index) {
			t.Errorf("leader of %d: %d, %v", index, leader, ok)
		}
	}
	for _, unknown := range []string{"nowhere", "others"} {
		if id, ok := c.TopicID(unknown); ok {
			t.Errorf("%s has the id %v", unknown, id)
		}
	}
	if err := k.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	if err := k.CreateTopic("orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	c.Refresh()
	eventually(t, "the new id", func() bool {
		next := <-ids
		return next.name == "orders" && next.id != first.id && next.id == k.TopicInfo("orders").TopicID
	})
}

// After Run the cluster is of no use, and makes no connections any more.
func TestNothingAfterRun(t *testing.T) {
	cfg, _ := configFor(startKafka(t).ListenAddrs()...)
	c := NewCluster(cfg, NewDialer(cfg))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Run(ctx)
	if _, _, err := c.LeaseProducerID(); err == nil {
		t.Error("a producer id was leased")
	}
}
