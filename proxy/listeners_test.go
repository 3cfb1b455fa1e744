package proxy

import (
	"net"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/upstream"
)

// A broker's listener stays where it is when the broker comes back at another
// address, goes away, or others are added; its sessions go to the new address.
func TestListenersAreSticky(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BrokerCount = 4 })
	base := r.cfg.BrokerBase
	r.listeners.update([]upstream.Broker{{ID: 1, Addr: "127.0.0.1:1"}, {ID: 77, Addr: "127.0.0.1:2"}})
	_, one := r.listeners.advertise(1, "127.0.0.1", 1)
	_, far := r.listeners.advertise(77, "127.0.0.1", 2)
	expect(t, "ports", []int32{one, far}, []int32{int32(base + 1), int32(base + 3)})

	addr := r.broker.ListenAddrs()[0]
	r.listeners.update([]upstream.Broker{{ID: 1, Addr: addr}})
	_, again := r.listeners.advertise(1, "127.0.0.1", int32(portOf(t, addr)))
	expect(t, "port after the change of address", again, one)
	r.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(one)))
	c := r.dial(t)
	expect(t, "served by the new address", c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: c.producerID(), count: 1}))[0].code, 0)
}

// A range that is too small, and a port that is taken, are said with the
// variable to change.
func TestPortTroubleIsSaid(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BrokerCount = 2 })
	// If this fails another process has the port, which is as good.
	if taken, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.cfg.BrokerBase+1))); err == nil {
		defer taken.Close()
	}
	r.listeners.update([]upstream.Broker{{ID: 1, Addr: "127.0.0.1:1"}, {ID: 2, Addr: "127.0.0.1:2"}})
	r.logged(t, "set BROKER_LISTEN_BASE to a free range")
	r.logged(t, "raise BROKER_LISTEN_COUNT")
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}
