package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/test/raw"
)

// producer is one connection. One goroutine writes, one reads.
type producer struct {
	load     *Load
	conn     net.Conn
	template *template

	start       time.Time
	from, until time.Time      // what counts
	due         chan time.Time // nil in a closed loop

	slots   chan struct{} // filled by the writer, emptied by the reader
	flights chan flight   // what waits for an answer; closed by the writer
	acked   atomic.Int64  // batches below this number have been answered

	// The reader's.
	bases     []int64 // offset of batch 0 for each partition
	answer    wire.ProduceResponse
	latencies []time.Duration
	requests  int64
	retries   int64
}

// flight is a request that waits for its answer.
type flight struct {
	at          time.Time // when it was due
	correlation int32
	batch       int64 // which one, counted from 0; a retry repeats a number
	retry       bool
}

func (l *Load) newProducer(addr string, n int) (*producer, error) {
	c, err := raw.Dial(addr, time.Minute)
	if err != nil {
		return nil, err
	}
	p := &producer{load: l, conn: c.Conn, slots: make(chan struct{}, l.InFlight), flights: make(chan flight, l.InFlight)}
	pid := int64(-1)
	if !l.Plain {
		if pid, err = c.ProducerID(); err != nil {
			return p, err
		}
	}
	p.template, err = newTemplate(l.Topic, n*l.Partitions, l.Partitions, l.BatchBytes, pid)
	return p, err
}

// run returns once the last answer is there.
func (p *producer) run() error {
	writing := make(chan error, 1)
	go func() {
		defer close(p.flights)
		writing <- p.write()
	}()
	err := p.read()
	if err != nil {
		p.conn.Close()
		for range p.flights {
			<-p.slots // for a writer that waits for one; its next write fails
		}
	}
	return errors.Join(err, <-writing)
}

// write sends requests until time is up.
func (p *producer) write() error {
	time.Sleep(time.Until(p.start))
	batches, retries := int64(0), 0.0
	for n := int32(0); ; n++ {
		f := flight{correlation: n}
		if p.due != nil {
			open := false
			if f.at, open = <-p.due; !open {
				return nil
			}
		}
		p.slots <- struct{}{}
		if p.due == nil {
			if f.at = time.Now(); f.at.After(p.until) {
				return nil
			}
		}
		retries += p.load.Retries
		if acked := p.acked.Load(); retries >= 1 && acked > 0 {
			// The newest that was answered is among the five that are known:
			// at most four can have followed it.
			retries, f.retry, f.batch = retries-1, true, acked-1
		} else {
			f.batch = batches
			batches++
		}
		if p.load.Plain {
			p.template.correlate(n)
		} else {
			p.template.set(n, p.sequence(f.batch))
		}
		p.flights <- f
		if _, err := p.conn.Write(p.template.frame); err != nil {
			return err
		}
	}
}

// sequence is the first of a batch; 0 follows 2147483647.
func (p *producer) sequence(batch int64) int32 {
	return int32((int64(p.load.First) + batch*int64(p.template.records)) & (1<<31 - 1))
}

// read checks the answers to all that was sent.
func (p *producer) read() error {
	in := &frames{conn: p.conn, buf: make([]byte, 4<<10)}
	for f := range p.flights {
		frame, err := in.next()
		if err == nil {
			err = p.check(f, frame)
		}
		<-p.slots
		if err != nil {
			return fmt.Errorf("request %d of a producer, batch %d (retry: %v): %w", f.correlation, f.batch, f.retry, err)
		}
	}
	return nil
}

// check looks at every answer: its place in the order, its error codes, and
// its offsets.
func (p *producer) check(f flight, frame []byte) error {
	if err := p.answer.Peek(version, frame); err != nil {
		return err
	}
	if p.answer.CorrelationID != f.correlation {
		return fmt.Errorf("the answer to request %d came in its place", p.answer.CorrelationID)
	}
	if len(p.answer.Partitions) != p.load.Partitions {
		return fmt.Errorf("%d partitions were answered for, not %d", len(p.answer.Partitions), p.load.Partitions)
	}
	for i, a := range p.answer.Partitions {
		if a.ErrorCode != 0 {
			return fmt.Errorf("error %d for partition %d", a.ErrorCode, a.Index)
		}
		if len(p.bases) == i {
			p.bases = append(p.bases, a.BaseOffset)
		}
		// Who stores retries again has other offsets for all that follows.
		if p.load.Retries > 0 && !p.load.Dedups {
			continue
		}
		if want := p.bases[i] + f.batch*int64(p.template.records); a.BaseOffset != want {
			return fmt.Errorf("offset %d for partition %d, not %d", a.BaseOffset, a.Index, want)
		}
	}
	if !f.retry {
		p.acked.Store(f.batch + 1)
	}
	p.count(f, time.Now())
	return nil
}

// count takes an answer into the result: throughput is of answers in the time
// measured. In an open loop, latencies are of all that was due in it, however
// late the answer: leaving out the latest would be kind to whoever stalls.
func (p *producer) count(f flight, now time.Time) {
	within := func(t time.Time) bool { return t.After(p.from) && t.Before(p.until) }
	if within(now) {
		p.requests++
		if f.retry {
			p.retries++
		}
	}
	if p.due == nil && within(now) || p.due != nil && within(f.at) {
		p.latencies = append(p.latencies, now.Sub(f.at))
	}
}

// frames reads responses; they are small.
type frames struct {
	conn io.Reader
	buf  []byte
	r, w int
}

const maxAnswer = 1 << 20

// next returns the next frame, which is valid until the following call.
func (f *frames) next() ([]byte, error) {
	for {
		if held := f.buf[f.r:f.w]; len(held) >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(held))
			if size > maxAnswer {
				return nil, fmt.Errorf("an answer of %d bytes", size-4)
			}
			if len(held) >= size {
				f.r += size
				return held[4:size], nil
			}
			if size > len(f.buf) {
				f.buf = append(f.buf, make([]byte, size)...)
			}
		}
		f.r, f.w = 0, copy(f.buf, f.buf[f.r:f.w])
		n, err := f.conn.Read(f.buf[f.w:])
		if err != nil {
			return nil, err
		}
		f.w += n
	}
}
