package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/test/raw"
)

// load is what producers do: each connection is one producer with a partition
// of its own, and keeps a number of requests in flight (closed loop).
type load struct {
	addr     string
	conns    int
	inFlight int
	size     int           // of a record batch, in bytes
	plain    bool          // without producer ids
	duration time.Duration // measured, after a tenth of it to warm up
}

// measured is what a load came to.
type measured struct {
	Requests int64
	Bytes    int64
	Seconds  float64
	P50, P99 time.Duration
}

func (l *load) run() (measured, error) {
	start := time.Now()
	from, until := start.Add(l.duration/10), start.Add(l.duration/10+l.duration)
	results := make([]connResult, l.conns)
	var all sync.WaitGroup
	for i := range l.conns {
		all.Go(func() { results[i] = l.connection(i, from, until) })
	}
	all.Wait()
	var m measured
	var latencies []time.Duration
	for _, r := range results {
		if r.err != nil {
			return m, r.err
		}
		m.Requests += r.requests
		latencies = append(latencies, r.latencies...)
	}
	m.Bytes, m.Seconds = m.Requests*int64(l.size), l.duration.Seconds()
	if len(latencies) == 0 {
		return m, fmt.Errorf("no request was answered")
	}
	slices.Sort(latencies)
	m.P50, m.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	return m, nil
}

type connResult struct {
	requests  int64
	latencies []time.Duration
	err       error
}

// connection is one producer.
func (l *load) connection(n int, from, until time.Time) (res connResult) {
	setup, err := raw.Dial(l.addr, time.Minute)
	if err != nil {
		res.err = err
		return res
	}
	defer setup.Close()
	pid := int64(-1)
	if !l.plain {
		if pid, res.err = setup.ProducerID(); res.err != nil {
			return res
		}
	}
	conn := setup.Conn
	template, batchAt := l.template(int32(n), pid)
	sent := make(chan time.Time, l.inFlight)
	slots := make(chan struct{}, l.inFlight)
	done := make(chan error, 1)
	go func() { done <- l.write(conn, template, batchAt, pid, until, sent, slots) }()
	buf := make([]byte, 64<<10)
	var answer wire.ProduceResponse
	r, w := 0, 0
	for at := range sent {
		for w-r < 4 || w-r < 4+int(binary.BigEndian.Uint32(buf[r:])) {
			if r > 0 {
				w = copy(buf, buf[r:w])
				r = 0
			}
			m, err := conn.Read(buf[w:])
			if err != nil {
				res.err = err
				conn.Close()
				break
			}
			w += m
		}
		if res.err != nil {
			break
		}
		size := 4 + int(binary.BigEndian.Uint32(buf[r:]))
		if err := answer.Peek(9, buf[r+4:r+size]); err != nil || len(answer.Partitions) != 1 || answer.Partitions[0].ErrorCode != 0 {
			res.err = fmt.Errorf("answer %+v: %v", answer.Partitions, err)
			conn.Close()
			break
		}
		r += size
		now := time.Now()
		<-slots
		if now.After(from) && now.Before(until) {
			res.requests++
			if res.requests%8 == 0 {
				res.latencies = append(res.latencies, now.Sub(at))
			}
		}
	}
	for range sent {
	}
	if err := <-done; err != nil && res.err == nil && err != io.EOF {
		res.err = err
	}
	return res
}

// template is a Produce request with one batch of the size asked for, and where
// the batch lies in it.
func (l *load) template(partition int32, pid int64) (frame []byte, batchAt int) {
	b := &raw.Batch{Topic: benchTopic, Partition: partition, PID: pid, Values: [][]byte{make([]byte, max(1, l.size-wire.BatchHeaderLen-12))}}
	if l.plain {
		b.Epoch, b.First = -1, -1
	}
	body := wire.AppendRequest(nil, 1, "bench", raw.Request(b))
	var p wire.Produce
	if err := p.Peek(body); err != nil {
		panic(err)
	}
	frame = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	return frame, 4 + p.Partitions[0].Start
}

// write sends the template again and again, with rising sequences.
func (l *load) write(conn net.Conn, frame []byte, batchAt int, pid int64, until time.Time, sent chan<- time.Time, slots chan<- struct{}) error {
	defer close(sent)
	for sequence := int32(0); ; sequence++ {
		slots <- struct{}{}
		now := time.Now()
		if now.After(until) {
			return nil
		}
		binary.BigEndian.PutUint32(frame[8:], uint32(sequence))
		if !l.plain {
			wire.StampBatch(frame[batchAt:], pid, 0, sequence)
		}
		sent <- now
		if _, err := conn.Write(frame); err != nil {
			return err
		}
	}
}
