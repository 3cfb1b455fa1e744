package reference

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/test/bench/load"
	"github.com/oncegate/oncegate/test/bench/null"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both proxies pass on what clients and brokers say, frames larger than their
// buffer included.
func TestPass(t *testing.T) {
	for name, pass := range map[string]Pass{"bytes": Bytes, "frames": Frames} {
		t.Run(name, func(t *testing.T) {
			b, err := null.Start("127.0.0.1:0", 8)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				Serve(l, b.Addr(), pass)
			}()
			defer func() {
				l.Close()
				<-served
			}()
			client, err := kgo.NewClient(kgo.SeedBrokers(l.Addr().String()))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			err = client.Ping(ctx)
			client.Close()
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{100, 70_000, 1 << 20} {
				if _, err := load.Run(load.Load{
					Addr: l.Addr().String(), Topic: null.Topic, Connections: 2, InFlight: 5, BatchBytes: size, Partitions: 1,
					Measure: 500 * time.Millisecond, Begin: func() {}, End: func() {},
				}); err != nil {
					t.Errorf("batches of %d bytes: %v", size, err)
				}
			}
		})
	}
}
