package load

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/test/bench/null"
	"github.com/oncegate/oncegate/test/bench/reference"
	"github.com/oncegate/oncegate/test/raw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decode reads a frame with another author's codec and checks all CRCs.
func decode(t *testing.T, frame []byte) (correlation int32, batches []kmsg.RecordBatch) {
	t.Helper()
	if int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
		t.Fatal("the frame's length is wrong")
	}
	h, err := wire.ParseRequestHeader(frame[4:])
	if err != nil || h.Key != int16(kmsg.Produce) {
		t.Fatalf("header %+v, %v", h, err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version = h.Version
	if err := req.ReadFrom(frame[4+h.Len:]); err != nil {
		t.Fatal(err)
	}
	for _, p := range req.Topics[0].Partitions {
		var b kmsg.RecordBatch
		if err := b.ReadFrom(p.Records); err != nil {
			t.Fatal(err)
		}
		if sum := crc32.Checksum(p.Records[21:], crc32.MakeTable(crc32.Castagnoli)); uint32(b.CRC) != sum {
			t.Errorf("sequence %d: CRC %x, not %x", b.FirstSequence, uint32(b.CRC), sum)
		}
		batches = append(batches, b)
	}
	return h.CorrelationID, batches
}

func TestTemplate(t *testing.T) {
	for _, size := range []int{100, 1024, 16 << 10, 100 << 10, 1 << 20} {
		tmpl, err := newTemplate("t", 10, 3, size, 77)
		if err != nil {
			t.Fatal(err)
		}
		if tmpl.size > size || tmpl.size < size-3 {
			t.Errorf("a batch of %d bytes was asked for; it has %d", size, tmpl.size)
		}
		for i, sequence := range []int32{0, 1, 255, 1<<31 - 1, 0x2aaaaaaa, 3} {
			tmpl.set(int32(i), sequence)
			correlation, batches := decode(t, tmpl.frame)
			if correlation != int32(i) || len(batches) != 3 {
				t.Fatalf("correlation id %d, %d batches", correlation, len(batches))
			}
			for _, b := range batches {
				if b.FirstSequence != sequence || b.ProducerID != 77 || b.ProducerEpoch != 0 || b.NumRecords != int32(tmpl.records) {
					t.Errorf("batch %+v", b)
				}
				left := b.Records
				for n := range tmpl.records {
					length, took := binary.Varint(left)
					var r kmsg.Record
					if err := r.ReadFrom(left[:took+int(length)]); err != nil || r.OffsetDelta != int32(n) {
						t.Fatalf("record %d: %+v, %v", n, r, err)
					}
					left = left[took+int(length):]
				}
				if len(left) > 0 {
					t.Errorf("%d bytes follow the records", len(left))
				}
			}
		}
	}
	if _, err := newTemplate("t", 0, 1, 60, 1); err == nil {
		t.Error("a batch of 60 bytes, less than a header")
	}
}

func TestOwn(t *testing.T) {
	tmpl, err := newTemplate("t", 0, 2, 200, 1)
	if err != nil {
		t.Fatal(err)
	}
	tmpl.own(1 << 40)
	tmpl.set(1, 99)
	_, batches := decode(t, tmpl.frame)
	if batches[1].ProducerID != 1<<40 || batches[1].FirstSequence != 99 {
		t.Errorf("%+v", batches[1])
	}
}

func TestTemplateWithoutProducerID(t *testing.T) {
	tmpl, err := newTemplate("t", 0, 1, 2048, -1)
	if err != nil {
		t.Fatal(err)
	}
	tmpl.correlate(5)
	correlation, batches := decode(t, tmpl.frame)
	if b := batches[0]; correlation != 5 || b.ProducerID != -1 || b.ProducerEpoch != -1 || b.FirstSequence != -1 {
		t.Errorf("%d %+v", correlation, b)
	}
}

// Sequences go on from 2147483647 to 0.
func TestSequencesWrap(t *testing.T) {
	p := &producer{load: &Load{First: 1<<31 - 3}, template: &template{records: 2}}
	for batch, want := range []int32{1<<31 - 3, 1<<31 - 1, 1, 3} {
		if got := p.sequence(int64(batch)); got != want {
			t.Errorf("batch %d has sequence %d, not %d", batch, got, want)
		}
	}
}

func ready(addr string) Load {
	return Load{
		Addr: addr, Topic: null.Topic, Connections: 3, InFlight: 5, BatchBytes: 2000, Partitions: 2,
		Warmup: 20 * time.Millisecond, Measure: 100 * time.Millisecond, Begin: func() {}, End: func() {},
	}
}

func TestRun(t *testing.T) {
	b, err := null.Start("127.0.0.1:0", 100)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for name, change := range map[string]func(*Load){
		"closed":         func(*Load) {},
		"advertised":     func(l *Load) { l.Advertised = true },
		"one in flight":  func(l *Load) { l.InFlight = 1 },
		"plain":          func(l *Load) { l.Plain = true },
		"wrap":           func(l *Load) { l.First = 1<<31 - 10 },
		"retries":        func(l *Load) { l.Retries = 0.25 },
		"only retries":   func(l *Load) { l.Retries = 1 },
		"open":           func(l *Load) { l.Rate = 500 },
		"many":           func(l *Load) { l.Partitions = 30 },
		"longer batches": func(l *Load) { l.BatchBytes, l.Measure = 200_000, time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			l := ready(b.Addr())
			change(&l)
			r, err := Run(l)
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests == 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 || r.Bytes < r.Requests*int64(l.Partitions*(l.BatchBytes-3)) {
				t.Errorf("%+v", r)
			}
			if got := float64(r.Retries) / float64(r.Requests); got < l.Retries*0.8 || got > l.Retries*1.2 {
				t.Errorf("a share of %.2f are retries", got)
			}
			if l.Rate > 0 && (r.Requests < 25 || r.Requests > 60) {
				t.Errorf("%d requests in 100 ms at %.0f a second", r.Requests, l.Rate)
			}
		})
	}
}

// A load whose answers are wrong fails: the null broker stores retries again,
// which Dedups says it must not.
func TestDuplicatesAreNoticed(t *testing.T) {
	b, err := null.Start("127.0.0.1:0", 100)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := ready(b.Addr())
	l.Retries, l.Dedups = 0.1, true
	if _, err := Run(l); err == nil || !strings.Contains(err.Error(), "offset") {
		t.Errorf("retries were stored again: %v", err)
	}
}

func TestErrorsAreNoticed(t *testing.T) {
	b, err := null.Start("127.0.0.1:0", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := Run(ready(b.Addr())); err == nil || !strings.Contains(err.Error(), "error 3") {
		t.Errorf("six partitions, of which the broker has three: %v", err)
	}
	l := ready(b.Addr())
	l.Connections, l.Topic = 1, "other"
	if _, err := Run(l); err == nil {
		t.Error("an unknown topic")
	}
	l.Advertised = true
	if _, err := Run(l); err == nil {
		t.Error("an unknown topic whose leader is asked for")
	}
}

// Answers in the wrong order end the load.
func TestOrderIsChecked(t *testing.T) {
	p := &producer{load: &Load{Partitions: 1}, template: &template{records: 1}}
	req := raw.Request(&raw.Batch{Topic: "t", Values: [][]byte{nil}})
	var view wire.Produce
	if err := view.Peek(wire.AppendRequest(nil, 4, "", req)); err != nil {
		t.Fatal(err)
	}
	frame := view.AppendResponse(nil, func(int) wire.PartitionAnswer { return wire.PartitionAnswer{} })
	if err := p.check(flight{correlation: 3}, frame); err == nil {
		t.Error("the answer to request 4 was taken for that to request 3")
	}
	if err := p.check(flight{correlation: 4}, frame); err != nil {
		t.Error(err)
	}
}

// In an open loop, time that a request waited to be sent counts: a subject
// that stands still for a while delays all that was due meanwhile.
func TestNoCoordinatedOmission(t *testing.T) {
	b, err := null.Start("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const stall = 150 * time.Millisecond
	served := make(chan struct{})
	var stalled atomic.Bool
	go func() {
		defer close(served)
		reference.Serve(listener, b.Addr(), func(dst, src net.Conn) error {
			// Some way into the load, nothing passes for a while.
			buf := make([]byte, 1<<10)
			for n := 0; ; n++ {
				m, err := src.Read(buf)
				if err != nil {
					return err
				}
				if n == 50 && stalled.CompareAndSwap(false, true) {
					time.Sleep(stall)
				}
				if _, err := dst.Write(buf[:m]); err != nil {
					return err
				}
			}
		})
	}()
	l := ready(listener.Addr().String())
	l.Connections, l.InFlight, l.Partitions, l.BatchBytes = 1, 1, 1, 100
	l.Warmup, l.Measure, l.Rate = 0, 500*time.Millisecond, 200
	r, err := Run(l)
	listener.Close()
	<-served
	if err != nil {
		t.Fatal(err)
	}
	// Of 100 requests, the 30 due during a stall waited for a part of it; in a
	// closed loop only one would have.
	if r.Max < stall || r.P99 < stall*8/10 {
		t.Errorf("%+v", r)
	}
}

func TestHoldAndTouch(t *testing.T) {
	b, err := null.Start("127.0.0.1:0", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := ready(b.Addr())
	l.Connections, l.Partitions = 4, 1
	held, err := Hold(l)
	if err != nil {
		t.Fatal(err)
	}
	if len(held) != 4 {
		t.Errorf("%d connections are held", len(held))
	}
	held.Close()
	if err := Touch(l, 50, 1<<40); err != nil {
		t.Fatal(err)
	}
}
