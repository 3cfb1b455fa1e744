// Package upstream is the broker side of Oncegate: dialling and authenticating,
// the cluster's topology, and the questions that only a broker can answer.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"
)

// Config says how the upstream is reached.
type Config struct {
	Brokers     []string // bootstrap addresses, host:port
	ClientID    string   // of Oncegate's own requests
	DialTimeout time.Duration
	// TLS is nil for plaintext. Its ServerName may be empty: it is then the
	// host that is dialled.
	TLS *tls.Config
	// SASL sets the authentication on a sarama configuration; nil means none,
	// and the clients' own SASL passes through to the broker.
	SASL func(*sarama.Config) error
	// RefreshInterval is how often the topology is asked for.
	RefreshInterval time.Duration
	Log             *zap.Logger
}

// Dialer makes connections to brokers that are ready for requests.
type Dialer struct {
	cfg Config
}

// NewDialer returns a dialer.
func NewDialer(cfg Config) *Dialer { return &Dialer{cfg: cfg} }

// Dial connects to the broker at addr, host:port, with TLS and SASL done. Names
// are resolved anew each time. Without TLS it is a plain *net.TCPConn. An error
// names the address and the step that failed.
func (d *Dialer) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	conn, err := d.dialTLS(ctx, addr)
	if err != nil || d.cfg.SASL == nil {
		return conn, err
	}
	if err := d.authenticate(ctx, conn, addr); err != nil {
		conn.Close()
		return nil, fmt.Errorf("broker %s, SASL: %w", addr, err)
	}
	return conn, nil
}

func (d *Dialer) dialTLS(ctx context.Context, addr string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("broker %s: %w", addr, reason(err))
	}
	if d.cfg.TLS == nil {
		return conn, nil
	}
	cfg := d.cfg.TLS
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			conn.Close()
			return nil, fmt.Errorf("broker address %q is not host:port: %w", addr, err)
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("broker %s, TLS: %w", addr, err)
	}
	return secured, nil
}

// reason takes the step apart that net's error hides behind its own words.
func reason(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return fmt.Errorf("its name can't be resolved: %w", dns)
	}
	return err
}

// authenticate lets sarama do the SASL handshake on conn, and takes the
// connection back afterwards.
func (d *Dialer) authenticate(ctx context.Context, conn net.Conn, addr string) error {
	cfg, err := d.cfg.sarama()
	if err != nil {
		return err
	}
	lent := &lentConn{Conn: conn}
	cfg.Net.Proxy.Enable = true
	cfg.Net.Proxy.Dialer = lent
	cfg.ApiVersionsRequest = false
	broker := sarama.NewBroker(addr)
	if err := broker.Open(cfg); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	_, err = broker.Connected()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	lent.takeBack()
	if cerr := broker.Close(); err == nil && cerr != nil && !errors.Is(cerr, sarama.ErrNotConnected) {
		err = cerr
	}
	if err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// sarama returns the configuration of Oncegate's own connections.
func (c *Config) sarama() (*sarama.Config, error) {
	cfg := sarama.NewConfig()
	cfg.ClientID = c.ClientID
	cfg.Version = sarama.V2_8_0_0
	cfg.Net.DialTimeout = c.DialTimeout
	cfg.Net.ReadTimeout = c.DialTimeout
	cfg.Net.WriteTimeout = c.DialTimeout
	cfg.Metadata.Full = false
	cfg.Metadata.AllowAutoTopicCreation = false
	cfg.Metadata.RefreshFrequency = 0
	cfg.Metadata.Retry.Max = 1
	cfg.Metadata.Retry.Backoff = 100 * time.Millisecond
	if c.SASL != nil {
		if err := c.SASL(cfg); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// lentConn is a connection that is dialled already, lent to sarama. After
// takeBack sarama's Close leaves it open.
type lentConn struct {
	net.Conn
	mu    sync.Mutex
	taken bool
}

// Dial is the proxy.Dialer that sarama asks for its connection.
func (c *lentConn) Dial(string, string) (net.Conn, error) { return c, nil }

func (c *lentConn) takeBack() {
	c.mu.Lock()
	c.taken = true
	c.mu.Unlock()
}

func (c *lentConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return nil
	}
	return c.Conn.Close()
}
