// Package upstream is the broker side of Oncegate: dialling and authenticating,
// the cluster's topology, and the questions that only a broker can answer.
//
// Dialer makes the connections that the data path uses. Cluster keeps the
// brokers' addresses and asks the questions through a sarama client of its own,
// which dials and authenticates in the same way.
package upstream

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
	"go.uber.org/zap"
)

func init() {
	// sarama measures every request; Oncegate reads none of it.
	metrics.UseNilMetrics = true
}

// Config says how the upstream is reached.
type Config struct {
	Brokers     []string      // bootstrap addresses, host:port
	ClientID    string        // client.id of Oncegate's own requests
	DialTimeout time.Duration // of one attempt: resolving, connecting, TLS and SASL together
	TLS         *TLS          // nil for plaintext
	SASL        SASL          // the zero value leaves SASL to the clients: theirs passes through to the broker
	// RefreshInterval is how often the topology is asked for when nobody asks
	// for it sooner.
	RefreshInterval time.Duration
	Log             *zap.Logger // nil for none
}

// Check reads all that the configuration names, files included, and reports
// everything that can't be used. It makes no connection. A dialler works
// without it, but then tells such faults only when it dials.
func (c *Config) Check() error {
	var errs []error
	if c.TLS != nil {
		errs = append(errs, c.TLS.check())
	}
	return errors.Join(append(errs, c.SASL.check()...)...)
}

func (c Config) withDefaults() Config {
	if c.DialTimeout <= 0 {
		c.DialTimeout = 10 * time.Second
	}
	if c.RefreshInterval <= 0 {
		c.RefreshInterval = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// sarama returns the configuration of Oncegate's own connections, without SASL.
func (c *Config) sarama() *sarama.Config {
	cfg := sarama.NewConfig()
	cfg.ClientID = c.ClientID
	// The oldest version whose requests hold all that is asked for: topic ids
	// and DescribeProducers. Each request is lowered to what its broker speaks.
	cfg.Version = sarama.V2_8_0_0
	cfg.Net.DialTimeout = c.DialTimeout
	cfg.Net.ReadTimeout = c.DialTimeout
	cfg.Net.WriteTimeout = c.DialTimeout
	cfg.Metadata.Full = false
	cfg.Metadata.AllowAutoTopicCreation = false
	cfg.Metadata.RefreshFrequency = 0
	cfg.Metadata.Retry.Max = 1
	cfg.Metadata.Retry.Backoff = 5 * time.Millisecond // the cluster itself tries on
	cfg.Net.Proxy.Enable = true
	return cfg
}
