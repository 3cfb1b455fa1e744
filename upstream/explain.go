package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// explainConnect turns the error of a TCP dial into a DialError.
func (d *Dialer) explainConnect(addr string, err error) error {
	e := &DialError{Addr: addr, Step: StepConnect, Err: reason(err)}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Step, e.Advice = StepResolve, "check the name in UPSTREAM_BROKERS, or in the broker's advertised.listeners"
	case errors.As(err, &dns):
		e.Step, e.Advice = StepResolve, "check this machine's name server"
	case errors.Is(err, context.Canceled):
	case timedOut(err):
		e.Advice = fmt.Sprintf("no answer within UPSTREAM_DIAL_TIMEOUT=%v: check routes, firewalls and network policies", d.cfg.DialTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Advice = "nothing listens there: check the port, and whether the broker runs"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		e.Advice = "no route: check the address, routes and network policies"
	}
	return e
}

// explainTLS turns the error of a TLS handshake into a DialError.
func (d *Dialer) explainTLS(addr string, err error) error {
	e := &DialError{Addr: addr, Step: StepTLS, Err: reason(err)}
	var (
		unknown   x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		notRecord tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		e.Advice = "if the broker's CA is a private one, name its certificate in UPSTREAM_TLS_CA_FILE"
	case errors.As(err, &host):
		e.Advice = "connect by a name that the certificate holds, or give one in UPSTREAM_TLS_SERVER_NAME"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.Advice = "renew the broker's certificate, or correct this machine's clock"
	case errors.As(err, &notRecord):
		e.Advice = "the port does not speak TLS: use the broker's TLS port, or UPSTREAM_TLS=off"
	case timedOut(err):
		e.Advice = fmt.Sprintf("no answer within UPSTREAM_DIAL_TIMEOUT=%v: use the broker's TLS port, or UPSTREAM_TLS=off", d.cfg.DialTimeout)
	case closed(err):
		e.Advice = "the broker closed the connection: use its TLS port, or UPSTREAM_TLS=off"
	default:
		e.Advice = adviceOnAlert(err)
	}
	return e
}

// adviceOnAlert tells what to do about the TLS alerts (RFC 8446, section 6) that
// brokers send. With TLS 1.3 a refused client certificate shows only at the
// first read. crypto/tls keeps the alert's type to itself, so it is known by
// its text.
func adviceOnAlert(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return ""
	}
	switch op.Err.Error() {
	case "tls: certificate required", "tls: handshake failure":
		return "the broker may want a client certificate: set UPSTREAM_TLS_CERT_FILE and UPSTREAM_TLS_KEY_FILE"
	case "tls: protocol version not supported":
		return "the broker speaks no TLS version that UPSTREAM_TLS_MIN_VERSION lets pass"
	}
	if strings.Contains(op.Err.Error(), "certificate") {
		return "the broker refuses the client certificate: check UPSTREAM_TLS_CERT_FILE against the broker's truststore"
	}
	return ""
}

// reason is err without what net puts around it: the address is named already,
// and a local port would make every repetition look new.
func reason(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return errors.New("no such host")
	case errors.As(err, &dns) && dns.IsTimeout:
		return errors.New("the name server does not answer")
	case errors.As(err, &dns):
		return errors.New("the name server fails")
	case timedOut(err):
		return os.ErrDeadlineExceeded
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// scrubbed is err with each secret in its text blanked, also where it is escaped
// for a URL. The original is not kept, since a caller might print it.
func scrubbed(err error, secrets ...string) error {
	text := err.Error()
	clean := text
	for _, s := range secrets {
		if s != "" {
			clean = strings.NewReplacer(s, "[redacted]", url.QueryEscape(s), "[redacted]").Replace(clean)
		}
	}
	if clean == text {
		return err
	}
	return errors.New(clean)
}
