package upstream

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestLeaseProducerID(t *testing.T) {
	cfg, _ := configFor(startKafka(t, kfake.NumBrokers(2)).ListenAddrs()...)
	c := run(t, cfg)
	seen := make(map[int64]bool)
	for range 5 {
		id, epoch, err := c.LeaseProducerID()
		if err != nil || epoch != 0 || id < 0 || seen[id] {
			t.Fatalf("id %d, epoch %d, %v after %v", id, epoch, err, seen)
		}
		seen[id] = true
	}
}

func TestLeaseProducerIDErrors(t *testing.T) {
	t.Run("no permission", func(t *testing.T) {
		cfg, _ := configFor(startKafka(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User(string(Plain), user, secret)).ListenAddrs()...)
		cfg.SASL = SASL{Mechanism: Plain, User: user, Password: FixedSecret(secret)}
		_, _, err := run(t, cfg).LeaseProducerID()
		if !errors.Is(err, ErrNoProducerIDs) || !strings.Contains(err.Error(), "IDEMPOTENT_WRITE") || !strings.Contains(err.Error(), "WRITE on a topic") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too old", func(t *testing.T) {
		old := kversion.V0_10_2()
		cfg, _ := configFor(startKafka(t, kfake.MaxVersions(old)).ListenAddrs()...)
		_, _, err := run(t, cfg).LeaseProducerID()
		if !errors.Is(err, ErrNoProducerIDs) || !strings.Contains(err.Error(), "InitProducerId") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		addr := unusedAddr(t)
		cfg, _ := configFor(addr)
		_, _, err := run(t, cfg).LeaseProducerID()
		if err == nil || errors.Is(err, ErrNoProducerIDs) || !strings.Contains(err.Error(), addr) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("for the moment", func(t *testing.T) {
		k := startKafka(t)
		var asked atomic.Int32
		k.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.KeepControl()
			if asked.Add(1) > 2 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ErrorCode = 14 // COORDINATOR_LOAD_IN_PROGRESS
			return resp, nil, true
		})
		cfg, _ := configFor(k.ListenAddrs()...)
		if _, _, err := run(t, cfg).LeaseProducerID(); err != nil || asked.Load() != 3 {
			t.Errorf("%v after asking %d times", err, asked.Load())
		}
	})
	t.Run("refused", func(t *testing.T) {
		k := startKafka(t)
		k.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ErrorCode = 15 // COORDINATOR_NOT_AVAILABLE
			return resp, nil, true
		})
		cfg, _ := configFor(k.ListenAddrs()...)
		c := run(t, cfg)
		if _, _, err := c.LeaseProducerID(); err == nil || errors.Is(err, ErrNoProducerIDs) {
			t.Errorf("got %v", err)
		}
		if _, _, err := c.LeaseProducerID(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		var mute atomic.Bool
		k := startKafka(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return muted{l, &mute}, err
		}))
		cfg, _ := configFor(k.ListenAddrs()...)
		cfg.DialTimeout = 200 * time.Millisecond
		c := run(t, cfg)
		ready(t, c)
		mute.Store(true)
		started := time.Now()
		_, _, err := c.LeaseProducerID()
		if took := time.Since(started); err == nil || took > time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// muted is the listener of a broker whose answers are lost while mute is set.
type muted struct {
	net.Listener
	mute *atomic.Bool
}

func (m muted) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	return mutedConn{conn, m.mute}, err
}

type mutedConn struct {
	net.Conn
	mute *atomic.Bool
}

func (m mutedConn) Write(p []byte) (int, error) {
	if m.mute.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

// The leader is asked, and asked for anew each time: a replica that led before
// would answer too.
func TestLeaderMoves(t *testing.T) {
	k := startKafka(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "orders"))
	cfg, _ := configFor(k.ListenAddrs()...)
	c := run(t, cfg)
	ready(t, c)
	addrs := make(map[int32]string)
	for _, b := range c.Brokers() {
		addrs[b.ID] = b.Addr
	}
	for node := range int32(3) {
		if err := k.MoveTopicPartition("orders", 0, node); err != nil {
			t.Fatal(err)
		}
		addr, err := c.LeaderAddr("orders", 0)
		if err != nil || addr != addrs[node] {
			t.Errorf("the leader is at %s, want %s: %v", addr, addrs[node], err)
		}
		asked := make(chan int32, 10)
		k.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
			asked <- k.CurrentNode()
			return describing(req.(*kmsg.DescribeProducersRequest), 42, 3, 17, 0), nil, true
		})
		epoch, last, found, err := c.DescribeProducer("orders", 0, 42)
		if err != nil || !found || epoch != 3 || last != 17 {
			t.Errorf("epoch %d, sequence %d, %v, %v", epoch, last, found, err)
		}
		if at := <-asked; at != node {
			t.Errorf("asked broker %d, want %d", at, node)
		}
	}
	if _, err := c.LeaderAddr("nowhere", 0); err == nil || !strings.Contains(err.Error(), "nowhere/0") {
		t.Errorf("a topic that does not exist: %v", err)
	}
}

func describing(req *kmsg.DescribeProducersRequest, id int64, epoch, last int32, code int16) *kmsg.DescribeProducersResponse {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	part := kmsg.NewDescribeProducersResponseTopicPartition()
	part.Partition, part.ErrorCode = req.Topics[0].Partitions[0], code
	producer := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
	producer.ProducerID, producer.ProducerEpoch, producer.LastSequence = id, epoch, last
	part.ActiveProducers = append(part.ActiveProducers, producer)
	resp.Topics = []kmsg.DescribeProducersResponseTopic{{Topic: req.Topics[0].Topic, Partitions: []kmsg.DescribeProducersResponseTopicPartition{part}}}
	return resp
}

func TestDescribeProducer(t *testing.T) {
	k := startKafka(t, kfake.SeedTopics(1, "orders"))
	cfg, _ := configFor(k.ListenAddrs()...)
	c := run(t, cfg)
	answer := func(id int64, last int32, code int16) {
		k.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
			return describing(req.(*kmsg.DescribeProducersRequest), id, 0, last, code), nil, true
		})
	}
	answer(41, 9, 0)
	if _, _, found, err := c.DescribeProducer("orders", 0, 42); err != nil || found {
		t.Errorf("another producer's state was taken: %v, %v", found, err)
	}
	// A producer that has only been fenced or ended a transaction has none.
	answer(42, -1, 0)
	if _, _, found, err := c.DescribeProducer("orders", 0, 42); err != nil || found {
		t.Errorf("found %v, %v without a sequence", found, err)
	}
	answer(42, 9, 29)
	if _, _, _, err := c.DescribeProducer("orders", 0, 42); err == nil || !strings.Contains(err.Error(), "orders/0") || !strings.Contains(err.Error(), "authorized") {
		t.Errorf("not authorized: %v", err)
	}
}

func TestEpochEnd(t *testing.T) {
	k := startKafka(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "orders"))
	cfg, _ := configFor(k.ListenAddrs()...)
	c := run(t, cfg)
	var code int16
	k.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		req := r.(*kmsg.OffsetForLeaderEpochRequest)
		if at, leader := k.CurrentNode(), k.LeaderFor("orders", 0); at != leader {
			t.Errorf("asked broker %d, not the leader %d", at, leader)
		}
		asked := req.Topics[0].Partitions[0]
		if req.ReplicaID != -1 || asked.CurrentLeaderEpoch != -1 || asked.LeaderEpoch != 4 {
			t.Errorf("asked %+v", req)
		}
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		part.Partition, part.ErrorCode, part.LeaderEpoch, part.EndOffset = asked.Partition, code, 4, 77
		resp.Topics = []kmsg.OffsetForLeaderEpochResponseTopic{{Topic: req.Topics[0].Topic, Partitions: []kmsg.OffsetForLeaderEpochResponseTopicPartition{part}}}
		return resp, nil, true
	})
	if end, err := c.EpochEnd(t.Context(), "orders", 0, 4); err != nil || end != 77 {
		t.Errorf("%d, %v", end, err)
	}
	code = 6
	if _, err := c.EpochEnd(t.Context(), "orders", 0, 4); err == nil || !strings.Contains(err.Error(), "orders/0") {
		t.Errorf("got %v", err)
	}
}
