package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// authenticate has sarama do the SASL handshake on conn, and takes the
// connection back afterwards. ends is when the broker will end the session,
// zero for never.
func (d *Dialer) authenticate(ctx context.Context, conn net.Conn, addr string) (ends time.Time, err error) {
	cfg := d.cfg.sarama()
	secrets, err := d.auth.configure(ctx, cfg, false)
	if err != nil {
		return time.Time{}, &DialError{Addr: addr, Step: StepSASL, Mechanism: d.cfg.SASL.Mechanism, Err: err}
	}
	lent := &lentConn{Conn: conn}
	cfg.Net.Proxy.Dialer = lent
	broker := sarama.NewBroker(addr)
	if err := broker.Open(cfg); err != nil {
		return time.Time{}, &DialError{Addr: addr, Step: StepSASL, Mechanism: d.cfg.SASL.Mechanism, Err: err}
	}
	// Open goes on by itself and Connected waits for it. A Kerberos server that
	// does not answer would hold it beyond ctx.
	done := make(chan error, 1)
	go func() {
		_, err := broker.Connected()
		lent.takeBack(err == nil)
		broker.Close()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		return time.Time{}, d.explainSASL(addr, err, lent.story(), secrets)
	}
	// sarama sets deadlines and leaves them.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return time.Time{}, &DialError{Addr: addr, Step: StepSASL, Mechanism: d.cfg.SASL.Mechanism, Err: reason(err)}
	}
	return lent.story().ends, nil
}

// explainSASL turns the error of a handshake into a DialError.
func (d *Dialer) explainSASL(addr string, err error, s story, secrets []string) error {
	e := &DialError{Addr: addr, Step: StepSASL, Mechanism: d.cfg.SASL.Mechanism, Err: scrubbed(reason(err), secrets...)}
	switch {
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		e.Err = errors.New("the broker does not offer the mechanism")
		e.Advice = "set UPSTREAM_SASL_MECHANISM to one that it offers: " + strings.Join(s.offered, ", ")
	case errors.Is(err, sarama.ErrIllegalSASLState):
		e.Err = errors.New("the broker's listener asks for no SASL")
		e.Advice = "use its SASL port, or unset UPSTREAM_SASL_MECHANISM"
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed), closed(err) && s.authenticating:
		if closed(err) {
			e.Err = errors.New("the broker closed the connection while authenticating")
		} else {
			e.Err = errors.New("the broker refuses the credentials")
			if s.refusal != "" {
				e.Err = scrubbed(fmt.Errorf("%w (%s)", e.Err, s.refusal), secrets...)
			}
		}
		e.Advice = d.auth.advice()
		if d.auth.tokens != nil && len(secrets) > 0 {
			d.auth.tokens.refused(secrets[len(secrets)-1])
		}
	case closed(err):
		e.Err = errors.New("the broker closed the connection at the first request")
		e.Advice = "its port may speak TLS (UPSTREAM_TLS=on), or no Kafka at all"
	case timedOut(err):
		e.Advice = fmt.Sprintf("not done within UPSTREAM_DIAL_TIMEOUT=%v", d.cfg.DialTimeout)
	case d.cfg.SASL.Mechanism == GSSAPI:
		e.Advice = d.auth.advice()
	default:
		e.Advice = adviceOnAlert(err)
	}
	return e
}

// advice says what to check when credentials are refused.
func (a *authenticator) advice() string {
	switch a.cfg.Mechanism {
	case OAuthBearer:
		return "check the token's issuer, audience and expiry against the broker's settings"
	case AWSMSKIAM:
		return "check UPSTREAM_SASL_AWS_REGION, and kafka-cluster:Connect in the policy of the AWS principal"
	case GSSAPI:
		return "check UPSTREAM_SASL_USER, its key, UPSTREAM_SASL_KERBEROS_REALM and the clocks"
	}
	return "check UPSTREAM_SASL_USER and its password, and that the user exists for this mechanism"
}

// lentConn is a connection that is dialled already, lent to sarama. It keeps
// what passes, since sarama keeps to itself how long the session lasts, and
// which mechanisms the broker offers. After takeBack sarama's Close leaves the
// connection open.
type lentConn struct {
	net.Conn
	mu             sync.Mutex
	taken          bool
	sent, received []byte
	last           time.Time // of what was received
}

// storyLimit bounds what is kept of a handshake. One is of a few kilobytes,
// Kerberos tickets included.
const storyLimit = 1 << 20

// Dial is the proxy.Dialer that sarama asks for its connection.
func (c *lentConn) Dial(string, string) (net.Conn, error) { return c, nil }

func (c *lentConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.received)+n <= storyLimit {
		c.received = append(c.received, p[:n]...)
	}
	c.last = time.Now()
	return n, err
}

func (c *lentConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent)+n <= storyLimit {
		c.sent = append(c.sent, p[:n]...)
	}
	return n, err
}

func (c *lentConn) takeBack(taken bool) {
	c.mu.Lock()
	c.taken = taken
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

// story is what passed in a handshake.
type story struct {
	offered        []string  // mechanisms, when the broker does not take the one it was asked for
	authenticating bool      // SaslAuthenticate was sent
	refusal        string    // the broker's words
	ends           time.Time // of the session; zero for never
}

// story reads the frames that passed. A frame that can't be read tells nothing:
// with SaslHandshake v0 tokens follow that are no Kafka messages.
func (c *lentConn) story() (s story) {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests, responses := frames(c.sent), frames(c.received)
	for i, r := range requests {
		if len(r) < 8 {
			return s
		}
		key, version := int16(binary.BigEndian.Uint16(r)), int16(binary.BigEndian.Uint16(r[2:]))
		s.authenticating = s.authenticating || key == int16(kmsg.SASLAuthenticate)
		if i >= len(responses) || len(responses[i]) < 4 {
			return s
		}
		body := responses[i][4:]
		switch kmsg.Key(key) {
		case kmsg.SASLHandshake:
			m := kmsg.NewPtrSASLHandshakeResponse()
			if m.SetVersion(version); m.ReadFrom(body) == nil && m.ErrorCode != 0 {
				s.offered = m.SupportedMechanisms
			}
		case kmsg.SASLAuthenticate:
			m := kmsg.NewPtrSASLAuthenticateResponse()
			if m.SetVersion(version); m.IsFlexible() && len(body) > 0 {
				body = body[1:] // the response header's tags: none
			}
			if m.ReadFrom(body) != nil {
				return s
			}
			if m.ErrorMessage != nil {
				s.refusal = *m.ErrorMessage
			}
			if m.SessionLifetimeMillis > 0 {
				s.ends = c.last.Add(time.Duration(m.SessionLifetimeMillis) * time.Millisecond)
			}
		}
	}
	return s
}

// frames splits what passed in one direction, leaving out an unfinished end.
func frames(b []byte) (all [][]byte) {
	for len(b) >= 4 {
		n := int(binary.BigEndian.Uint32(b))
		if n < 0 || len(b)-4 < n {
			break
		}
		all = append(all, b[4:4+n])
		b = b[4+n:]
	}
	return all
}
