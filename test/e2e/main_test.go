// Package e2e tests Oncegate's own binary between real clients and real Kafka.
// Every fault test has a control run, straight to Kafka with idempotence off,
// that must show duplicates: a fault that bites nobody proves nothing.
package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/test/kafka"
)

// newest is the cluster of all tests but those that name another.
var newest = kafka.SharedCluster{Options: kafka.Options{Version: kafka.V44, Brokers: 3}}

func TestMain(m *testing.M) {
	remove, err := buildBinary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := kafka.Main(m)
	remove()
	os.Exit(code)
}

// newTopic makes a topic of the test's own: three partitions on three brokers,
// of which two must have a record before it counts as stored.
func newTopic(t *testing.T, c *kafka.Cluster) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	name = fmt.Sprintf("%s-%d", name, time.Now().UnixNano()%1e6) // -count=2
	c.CreateTopic(t, name, partitions, nil)
	return name
}

const partitions = 3
