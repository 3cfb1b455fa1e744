package proxy

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A producer without a producer id loses its connection before the answer, and
// sends the same records again: they are stored once, with the offsets of the
// original, whatever timestamps the retry has.
func TestUnansweredRetryWithoutProducerID(t *testing.T) {
	for name, again := range map[string]testBatch{
		"same bytes":       plain(0, "ab", 7),
		"other timestamps": plain(0, "ab", 8),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.dial(t)
			release := make(chan struct{})
			r.holdProduce(release)
			c.send(produceRequest(9, 1, plain(0, "ab", 7)))
			eventually(t, "the original is forwarded", func() bool { return r.Stats().Forwarded.Load() == 1 })
			c.conn.Close()
			retry := r.dial(t)
			id := retry.send(produceRequest(9, 1, again))
			time.Sleep(50 * time.Millisecond)
			close(release)
			expect(t, "retry", answersOf(retry.receive(produceRequest(9, 1), id)), []answerOf{{0, 0, 0}})
			expect(t, "log end", retry.end(0), 2)
			expect(t, "records left out", r.Stats().RecordsLeftOut.Load(), 2)
			expect(t, "more", retry.produce(produceRequest(9, 1, plain(0, "c", 9))), []answerOf{{0, 0, 2}})
		})
	}
}

// A retry may hold more, fewer or other records than the original: only those
// that are stored are left out.
func TestRegroupedRetryWithoutProducerID(t *testing.T) {
	for name, c := range map[string]struct {
		retries []testBatch
		end     int64
	}{
		"joined with new ones": {[]testBatch{plain(0, "abcd", 7)}, 4},
		"split":                {[]testBatch{plain(0, "a", 7), plain(0, "bc", 7)}, 3},
		"shifted":              {[]testBatch{plain(0, "zab", 7), plain(0, "c", 7)}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			first := r.dial(t)
			release := make(chan struct{})
			r.holdProduce(release)
			first.send(produceRequest(9, 1, plain(0, "abc", 7)))
			eventually(t, "the original is forwarded", func() bool { return r.Stats().Forwarded.Load() == 1 })
			first.conn.Close()
			close(release)
			retry := r.dial(t)
			for _, b := range c.retries {
				expect(t, "error", retry.produce(produceRequest(9, 1, b))[0].code, 0)
			}
			expect(t, "log end", retry.end(0), c.end)
		})
	}
}

// Equal records that are no retry are all stored.
func TestEqualRecordsAreNotMerged(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	for i := range int64(3) {
		expect(t, "on one connection", c.produce(produceRequest(9, 1, plain(0, "aa", 7)))[0].offset, 2*i)
	}
	c.conn.Close()
	c = r.dial(t)
	expect(t, "after an answer, another time", c.produce(produceRequest(9, 1, plain(0, "aa", 8)))[0].offset, 6)
	expect(t, "log end", c.end(0), 8)
}

// An answer may be lost behind Oncegate's back: the last answers before the end
// of a connection are remembered, and records with equal timestamps left out.
func TestAnsweredRetryWithoutProducerID(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	expect(t, "original", c.produce(produceRequest(9, 1, plain(0, "ab", 7))), []answerOf{{0, 0, 0}})
	c.conn.Close()
	for range 2 { // the answer to the retry may be lost as well
		retry := r.dial(t)
		expect(t, "retry", retry.produce(produceRequest(9, 1, plain(0, "ab", 7))), []answerOf{{0, 0, 0}})
		expect(t, "log end", retry.end(0), 2)
		retry.conn.Close()
	}
}

// Another client's equal records are its own.
func TestClientsAreToldApart(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	c.produce(produceRequest(9, 1, plain(0, "ab", 7)))
	c.conn.Close()
	other := r.dial(t)
	other.name = "another"
	expect(t, "another client", other.produce(produceRequest(9, 1, plain(0, "ab", 7)))[0].offset, 2)
}

// Producers with and without producer id share a connection and a request.
func TestStampedAndTrackedTogether(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	pid := c.producerID()
	for i := range int32(3) {
		got := c.produce(produceRequest(9, 1, testBatch{partition: 0, pid: pid, first: i, count: 1}, plain(1, "xy", 7)))
		expect(t, "answers", got, []answerOf{{0, 0, int64(i)}, {1, 0, 2 * int64(i)}})
	}
	c.send(produceRequest(9, 0, plain(2, "x", 7)))
	expect(t, "behind acks=0", c.produce(produceRequest(9, 1, plain(2, "y", 7)))[0].offset, 1)
}

// When the broker refuses a batch, those stamped behind it are refused with it;
// the client is told what it can act on, and its lane goes on.
func TestRefusedStampsAreRetriable(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	c.produce(produceRequest(9, 1, plain(0, "a", 1)))
	refuse := true
	r.broker.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if !refuse {
			return nil, nil, false
		}
		refuse = false
		r.broker.KeepControl()
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = testTopic
		part := kmsg.NewProduceResponseTopicPartition()
		part.ErrorCode, part.BaseOffset = 10, -1
		topic.Partitions = append(topic.Partitions, part)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	reqs := []*kmsg.ProduceRequest{produceRequest(9, 1, plain(0, "b", 2)), produceRequest(9, 1, plain(0, "c", 3)), produceRequest(9, 1, plain(0, "d", 4))}
	var ids []int32
	for _, req := range reqs {
		ids = append(ids, c.send(req))
	}
	expect(t, "refused", answersOf(c.receive(reqs[0], ids[0]))[0].code, 10)
	for i := 1; i < len(reqs); i++ {
		if code := answersOf(c.receive(reqs[i], ids[i]))[0].code; code != 0 && code != 19 {
			t.Errorf("a batch behind a refused one got error %d", code)
		}
	}
	before := c.end(0)
	expect(t, "goes on", c.produce(produceRequest(9, 1, plain(0, "e", 5))), []answerOf{{0, 0, before}})
}

// The client was told "timed out" and its connection closed: Oncegate goes on
// until it knows, and the retry gets the original's offset.
func TestGivenUpBatchIsResolved(t *testing.T) {
	r := newRig(t, func(c *Config) { c.GiveUp = 300 * time.Millisecond })
	c := r.dial(t)
	release := make(chan struct{})
	r.holdProduce(release)
	expect(t, "answer", c.produce(produceRequest(9, 1, plain(0, "ab", 7))), []answerOf{{0, 7, -1}})
	close(release)
	eventually(t, "the outcome is known", func() bool { return r.Stats().Unresolved.Load() == 0 })
	retry := r.dial(t)
	expect(t, "retry", retry.produce(produceRequest(9, 1, plain(0, "ab", 9))), []answerOf{{0, 0, 0}})
	expect(t, "log end", retry.end(0), 2)
}

// The answer to a retry that was partly new is lost as well: everything in it
// is known when it comes a third time.
func TestPartialRetryComesAgain(t *testing.T) {
	r := newRig(t)
	c := r.dial(t)
	c.produce(produceRequest(9, 1, plain(0, "ab", 7)))
	for range 3 {
		c.conn.Close()
		c = r.dial(t)
		expect(t, "error", c.produce(produceRequest(9, 1, plain(0, "abc", 7)))[0].code, 0)
		expect(t, "log end", c.end(0), 3)
	}
}
