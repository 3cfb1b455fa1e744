package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest/observer"
)

// versions of Produce that name topics; 13 names ids.
func eachVersion(t *testing.T, test func(t *testing.T, version int16)) {
	for _, version := range []int16{3, 5, 8, 9, 12} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) { test(t, version) })
	}
}

// A retry on a new connection is answered with the original's offset and never
// reaches the broker.
func TestRetryIsAnswered(t *testing.T) {
	eachVersion(t, func(t *testing.T, version int16) {
		r := newRig(t)
		first := r.dial(t)
		pid := first.producerID()
		req := produceRequest(version, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 3})
		expect(t, "original", first.produce(req), []answerOf{{0, 0, 0}})
		expect(t, "next", first.produce(produceRequest(version, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 3, count: 2})), []answerOf{{0, 0, 3}})
		seen := r.countProduces()
		expect(t, "retry", r.dial(t).produce(req), []answerOf{{0, 0, 0}})
		expect(t, "requests that reached the broker", seen(), 0)
		expect(t, "duplicates", r.Stats().Duplicates.Load(), 1)
	})
}

// countProduces counts the Produce requests that reach the broker from now on.
func (r *rig) countProduces() func() int {
	n := make(chan struct{}, 100)
	r.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.KeepControl()
		n <- struct{}{}
		return nil, nil, false
	})
	return func() int { return len(n) }
}

// A request that mixes new batches and duplicates is split, and its answer
// names every partition once, in the request's order.
func TestMixedRequestIsSplitAndMerged(t *testing.T) {
	eachVersion(t, func(t *testing.T, version int16) {
		r := newRig(t)
		c := r.dial(t)
		pid := c.producerID()
		c.produce(produceRequest(version, -1, testBatch{partition: 1, pid: pid, epoch: 0, first: 0, count: 3}))
		got := c.produce(produceRequest(version, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1}, testBatch{partition: 1, pid: pid, epoch: 0, first: 0, count: 3}, testBatch{partition: 2, pid: pid, epoch: 0, first: 0, count: 1}))
		expect(t, "answers", got, []answerOf{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}})
		expect(t, "next of all", c.produce(produceRequest(version, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 1, count: 1}, testBatch{partition: 1, pid: pid, epoch: 0, first: 3, count: 1}, testBatch{partition: 2, pid: pid, epoch: 0, first: 1, count: 1})),
			[]answerOf{{0, 0, 1}, {1, 0, 3}, {2, 0, 1}})
	})
}

// A retry whose original is unanswered waits for it, on whatever connection it
// comes, and both get the original's offset.
func TestRetryWaitsForOriginal(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	pid := c.producerID()
	c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1}))
	release := make(chan struct{})
	r.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.SleepControl(func() { <-release })
		return nil, nil, false
	})
	req := produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 1, count: 2})
	original := c.send(req)
	time.Sleep(50 * time.Millisecond)
	again := r.dial(t)
	retry := again.send(req)
	eventually(t, "the retry waits", func() bool { return r.Stats().Waits.Load() > 0 })
	close(release)
	expect(t, "original", answersOf(c.receive(req, original)), []answerOf{{0, 0, 1}})
	expect(t, "retry", answersOf(again.receive(req, retry)), []answerOf{{0, 0, 1}})
	expect(t, "batches forwarded", r.Stats().Forwarded.Load(), 2)
}

// The connection of the original may be gone: its outcome is still learnt.
func TestRetryWaitsForOriginalOfClosedConnection(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	pid := c.producerID()
	release := make(chan struct{})
	r.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.SleepControl(func() { <-release })
		return nil, nil, false
	})
	req := produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 2})
	c.send(req)
	eventually(t, "the original is forwarded", func() bool { return r.Stats().Forwarded.Load() == 1 })
	c.conn.Close()
	again := r.dial(t)
	retry := again.send(req)
	eventually(t, "the retry waits", func() bool { return r.Stats().Waits.Load() > 0 })
	close(release)
	expect(t, "retry", answersOf(again.receive(req, retry)), []answerOf{{0, 0, 0}})
	expect(t, "batches forwarded", r.Stats().Forwarded.Load(), 1)
}

// Local answers never overtake: a pipelined duplicate is answered in its turn.
func TestAnswersKeepTheOrderOfRequests(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	pid := c.producerID()
	old := produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1})
	c.produce(old)
	next := produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 1, count: 1})
	ids := []int32{c.send(next), c.send(old), c.send(old)}
	expect(t, "new", answersOf(c.receive(next, ids[0])), []answerOf{{0, 0, 1}})
	expect(t, "duplicate", answersOf(c.receive(old, ids[1])), []answerOf{{0, 0, 0}})
	expect(t, "duplicate", answersOf(c.receive(old, ids[2])), []answerOf{{0, 0, 0}})
}

// An old epoch is fenced, a gap is refused, by whoever knows: Oncegate or the
// broker.
func TestEpochsAndGaps(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	pid := c.producerID()
	c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 1, first: 0, count: 2}))
	expect(t, "old epoch", c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 2})), []answerOf{{0, 47, -1}})
	expect(t, "gap", c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 1, first: 9, count: 2}))[0].code, 45)
	expect(t, "overlap", c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 1, first: 1, count: 2}))[0].code, 45)
	expect(t, "next", c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 1, first: 2, count: 2})), []answerOf{{0, 0, 2}})
}

// acks=0 with a producer id is raised to all and still not answered; without
// one it passes as it is.
func TestAcksZero(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Stamp = false })
	c := r.dial(t)
	pid := c.producerID()
	c.send(produceRequest(9, 0, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1}))
	c.send(produceRequest(9, 0, testBatch{partition: 1, pid: -1, epoch: -1, first: -1, count: 1}))
	req := produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 1, count: 1})
	expect(t, "behind both", c.produce(req), []answerOf{{0, 0, 1}})
	expect(t, "raised", r.Stats().AcksRaised.Load(), 1)
	expect(t, "the other partition", c.produce(produceRequest(9, -1, testBatch{partition: 1, pid: -1, epoch: -1, first: -1, count: 1}))[0].offset, 1)
}

// When the broker cuts the connection after the append, Oncegate sends the
// batch again itself; the client sees one answer, and the log holds it once.
func TestUpstreamConnectionIsMended(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(testPartitions, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cut := newCutter(t, broker.ListenAddrs()[0])
	// kfake advertises itself: the cutter stands only where the proxy is told
	// to dial, the bootstrap address.
	r := newRigBefore(t, broker, []string{cut.addr})
	r.addr = r.Addr().String()
	c := r.dial(t)
	pid := c.producerID()
	cut.nextAnswers(3)
	for i := range int32(6) {
		expect(t, "answer", c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: i, count: 1})), []answerOf{{0, 0, int64(i)}})
	}
	if r.Stats().Resent.Load() < 3 || cut.count() < 3 {
		t.Errorf("%d requests were sent again over %d cuts", r.Stats().Resent.Load(), cut.count())
	}
}

// An upstream that stays silent is given up on: the client gets a retriable
// error, never a success.
func TestSilentUpstreamIsGivenUp(t *testing.T) {
	r := newRig(t, func(c *Config) { c.GiveUp = 300 * time.Millisecond })
	c := r.dial(t)
	pid := c.producerID()
	release := make(chan struct{})
	defer close(release)
	r.broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.KeepControl()
		r.broker.SleepControl(func() { <-release })
		return nil, nil, false
	})
	expect(t, "answer", c.produce(produceRequest(9, -1, testBatch{partition: 0, pid: pid, epoch: 0, first: 0, count: 1})), []answerOf{{0, 7, -1}})
	c.mustBeClosed()
}

// A stored range that comes again with other content is answered as a broker
// answers it, counted, and named in the log once per producer; the setting
// refuses it.
func TestReusedSequence(t *testing.T) {
	for name, refuse := range map[string]bool{"broker": false, "reject": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Dedup.RefuseReuse = refuse })
			c := r.dial(t)
			pid := c.producerID()
			c.produce(produceRequest(9, -1, testBatch{pid: pid, values: "a"}))
			want := []answerOf{{0, 0, 0}}
			if refuse {
				want = []answerOf{{0, 87, -1}}
			}
			for range 2 {
				expect(t, "other content", c.produce(produceRequest(9, -1, testBatch{pid: pid, values: "b"})), want)
			}
			expect(t, "counted", r.Stats().Reused.Load(), 2)
			logged := r.logs.Filter(func(e observer.LoggedEntry) bool { return strings.Contains(e.Message, "sequence reused") }).All()
			if len(logged) != 1 {
				t.Fatalf("logged %d times", len(logged))
			}
			for field, want := range map[string]any{"client_id": "test", "topic": testTopic, "partition": int32(0), "producer_id": pid} {
				if got := logged[0].ContextMap()[field]; got != want {
					t.Errorf("%s is %v in the log, want %v", field, got, want)
				}
			}
		})
	}
}

// A duplicate and a new batch in one write: the broker's answer to the second may
// be there before Oncegate's own to the first is written.
func TestPipelinedDuplicateBeforeNew(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	pid := c.producerID()
	old := produceRequest(9, -1, testBatch{pid: pid, count: 1})
	c.produce(old)
	for i := range int32(300) {
		next := produceRequest(9, -1, testBatch{pid: pid, first: i + 1, count: 1})
		repeated := produceRequest(9, -1, testBatch{pid: pid, first: i, count: 1})
		ids := []int32{c.send(repeated), c.send(next)}
		expect(t, "duplicate", answersOf(c.receive(repeated, ids[0])), []answerOf{{0, 0, int64(i)}})
		expect(t, "new", answersOf(c.receive(next, ids[1])), []answerOf{{0, 0, int64(i + 1)}})
	}
}
