package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// reach remembers which addresses can't be reached and why, so that each change
// is logged once.
type reach struct {
	log *zap.Logger

	mu      sync.Mutex
	failing map[string]failure
}

type failure struct {
	reason string
	// later says that connecting worked, and what came after it did not.
	later bool
}

func newReach(log *zap.Logger) *reach { return &reach{log: log, failing: make(map[string]failure)} }

// connected records how connecting to addr went, TLS included.
func (r *reach) connected(addr string, err error) {
	r.mu.Lock()
	before, failed := r.failing[addr]
	r.mu.Unlock()
	if err != nil || failed && !before.later {
		r.note(addr, err, false)
	}
}

// probed records whether the broker at addr answers requests.
func (r *reach) probed(addr string, err error) {
	var e *DialError
	r.note(addr, err, errors.As(err, &e) && (e.Step == StepSASL || e.Step == StepRequest))
}

func (r *reach) note(addr string, err error, later bool) {
	r.mu.Lock()
	before, failed := r.failing[addr]
	if err == nil {
		delete(r.failing, addr)
	} else {
		r.failing[addr] = failure{err.Error(), later}
	}
	r.mu.Unlock()
	switch {
	case err == nil && failed:
		r.log.Info("a broker can be reached again", zap.String("address", addr))
	case err != nil && before.reason != err.Error():
		r.log.Warn("a broker can't be reached", zap.String("address", addr), zap.Error(err))
	}
}

// answered records that the topology was learnt: what failed after connecting
// is over.
func (r *reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.failing, func(_ string, f failure) bool { return f.later })
}

// keep forgets every address but these.
func (r *reach) keep(addrs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for addr := range r.failing {
		if !slices.Contains(addrs, addr) {
			delete(r.failing, addr)
		}
	}
}

// describe puts the bootstrap addresses and the reason of each to sarama's
// summary, which says only that no broker was left to try.
func (c *Cluster) describe(err error) error {
	if !errors.Is(err, sarama.ErrOutOfBrokers) && !errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
		return err
	}
	errs := make([]error, len(c.cfg.Brokers))
	var asking sync.WaitGroup
	for i, addr := range c.cfg.Brokers {
		asking.Go(func() {
			errs[i] = c.probe(addr)
			c.reach.probed(addr, errs[i])
		})
	}
	asking.Wait()
	if all := errors.Join(errs...); all != nil {
		return all
	}
	return fmt.Errorf("%w: %w", errReachable, err)
}

var errReachable = errors.New("the bootstrap addresses answer, but no broker told the topology")

// probe asks the broker at addr for its api versions, which every broker tells
// everybody, and says why that fails.
func (c *Cluster) probe(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.DialTimeout)
	defer cancel()
	conn, err := c.dialer.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = roundTrip(ctx, conn, c.cfg.ClientID, kmsg.NewPtrApiVersionsRequest())
	if err == nil {
		return nil
	}
	e := &DialError{Addr: addr, Step: StepRequest, Err: reason(err)}
	switch {
	case errors.Is(err, errTLSAlert):
		e.Err = errTLSAlert
		e.Advice = "the port speaks TLS: set UPSTREAM_TLS=on, or use the broker's plaintext port"
	case closed(err):
		e.Err = errors.New("the broker accepts the connection and closes it")
		e.Advice = "its port may speak TLS (UPSTREAM_TLS=on), or no Kafka at all"
		if c.cfg.TLS != nil {
			e.Advice = "it may want a client certificate (UPSTREAM_TLS_CERT_FILE), or its port speaks no Kafka"
		}
	case timedOut(err):
		e.Err = errors.New("the broker accepts the connection and does not answer")
		e.Advice = "check whether it hangs, and whether the port speaks Kafka"
	default:
		e.Advice = adviceOnAlert(err)
	}
	return e
}

// errTLSAlert is an answer that is no frame but the alert of a TLS server.
var errTLSAlert = errors.New("the answer is TLS")

// answerLimit bounds the answers to Oncegate's own questions, in bytes.
const answerLimit = 64 << 20

// roundTrip sends one request and reads its answer.
func roundTrip(ctx context.Context, conn net.Conn, clientID string, req kmsg.Request) (kmsg.Response, error) {
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	const correlation = 1
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, correlation)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:5]); err != nil {
		return nil, err
	}
	// As a length a TLS alert would be 352 MB or more.
	if head[0] == 0x15 && head[1] == 0x03 {
		return nil, errTLSAlert
	}
	if _, err := io.ReadFull(conn, head[5:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < 4 || size > answerLimit {
		return nil, fmt.Errorf("the answer of %d bytes is no Kafka answer", size)
	}
	if got := binary.BigEndian.Uint32(head[4:]); got != correlation {
		return nil, fmt.Errorf("the answer is to request %d, not to %d", got, correlation)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	// The header of ApiVersions' response has no tags in any version (KIP-511).
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("the answer's header holds tags that are not known")
		}
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}
