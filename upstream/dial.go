package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dialer makes connections to brokers that are ready for requests.
type Dialer struct {
	cfg   Config
	certs *certificates // nil for plaintext
	auth  *authenticator
}

// NewDialer returns a dialler. Config.Check tells whether it can work.
func NewDialer(cfg Config) *Dialer {
	d := &Dialer{cfg: cfg.withDefaults(), auth: newAuthenticator(cfg.SASL)}
	if cfg.TLS != nil {
		d.certs = newCertificates(*cfg.TLS, d.cfg.Log)
	}
	return d
}

// Session is a connection whose authentication ends (KIP-368). The broker
// closes it at the first request that comes later.
type Session struct {
	net.Conn
	Ends time.Time
}

// Dial connects to the broker at addr, host:port, with TLS and SASL done. Names
// are resolved anew each time, and files read anew where they changed.
//
// The connection is a *Session when the broker limits how long the
// authentication lasts. Else, and inside the Session, it is a *tls.Conn, or
// without TLS a plain *net.TCPConn. Without SASL nothing has been sent on it.
//
// The error is a *DialError.
func (d *Dialer) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	conn, err := d.connect(ctx, addr)
	if err != nil || d.cfg.SASL.Mechanism == "" {
		return conn, err
	}
	ends, err := d.authenticate(ctx, conn, addr)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if !ends.IsZero() {
		return &Session{Conn: conn, Ends: ends}, nil
	}
	return conn, nil
}

// connect does what comes before SASL.
func (d *Dialer) connect(ctx context.Context, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &DialError{Addr: addr, Step: StepResolve, Err: errors.New("the address is not host:port")}
	}
	// A broker that vanished without a FIN is noticed after half a minute.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, d.explainConnect(addr, err)
	}
	if d.certs == nil {
		return conn, nil
	}
	cfg, err := d.certs.client(host)
	if err != nil {
		conn.Close()
		return nil, &DialError{Addr: addr, Step: StepTLS, Err: err}
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, d.explainTLS(addr, err)
	}
	return secured, nil
}

// Step is a part of making a connection.
type Step string

// The steps, in their order. Dial makes no request; the topology does.
const (
	StepResolve Step = "resolving"
	StepConnect Step = "connecting"
	StepTLS     Step = "TLS"
	StepSASL    Step = "SASL"
	StepRequest Step = "the first request"
)

// DialError says at which step a connection could not be made, why, and what to
// do about it. Its text holds no secret, and is the same whenever the reason is
// the same.
type DialError struct {
	Addr      string
	Step      Step
	Mechanism Mechanism // at StepSASL
	Err       error
	Advice    string // may be empty
}

func (e *DialError) Error() string {
	step := string(e.Step)
	if e.Step == StepSASL {
		step += " " + string(e.Mechanism)
	}
	text := fmt.Sprintf("broker %s: %s: %v", e.Addr, step, e.Err)
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

func (e *DialError) Unwrap() error { return e.Err }
