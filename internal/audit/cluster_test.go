package audit

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/test/kafka"
)

func TestMain(m *testing.M) {
	code := kafka.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// fakeCluster is an embedded broker with a client; both end with the test.
func fakeCluster(t testing.TB, opts ...kfake.Opt) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster, newClient(t, cluster)
}

func newClient(t testing.TB, cluster *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func createTopic(t testing.TB, client *kgo.Client, name string, partitions int32, configs map[string]*string) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(testContext(t), partitions, 1, configs, name); err != nil {
		t.Fatal(err)
	}
}

// produce writes records one batch each, and waits for them.
func produce(t testing.TB, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	for _, r := range records {
		if err := client.ProduceSync(testContext(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func openTopic(t testing.TB, client *kgo.Client, name string, s Selection) *Topic {
	t.Helper()
	topic, err := OpenTopic(testContext(t), client, name, s)
	if err != nil {
		t.Fatal(err)
	}
	topic.patience = 2 * time.Second
	return topic
}

func readAll(t testing.TB, topic *Topic) (es []Entry) {
	t.Helper()
	for e, err := range topic.Entries(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		es = append(es, e)
	}
	return es
}
