package wire

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// What Peek sees is what kmsg sees.
func TestPeekAgreesWithKmsg(t *testing.T) {
	forEachProduce(t, func(t *rapid.T, version int16) {
		frame := drawFrame(t, drawProduce(t, version))
		var p Produce
		if err := p.Peek(frame); err != nil {
			t.Fatal(err)
		}
		checkAgainstKmsg(t, &p, frame)
	})
}

// checkAgainstKmsg compares a view with what kmsg decodes of the same frame.
func checkAgainstKmsg(t interface{ Fatalf(string, ...any) }, p *Produce, frame []byte) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = p.Header.Version
	if err := req.ReadFrom(frame[p.Header.Len:]); err != nil {
		t.Fatalf("kmsg can't read what Peek can: %v", err)
	}
	if p.Acks != req.Acks || p.TimeoutMillis != req.TimeoutMillis {
		t.Fatalf("acks %d, timeout %d; kmsg has %d and %d", p.Acks, p.TimeoutMillis, req.Acks, req.TimeoutMillis)
	}
	if (p.TransactionalID == nil) != (req.TransactionID == nil) || p.TransactionalID != nil && string(p.TransactionalID) != *req.TransactionID {
		t.Fatalf("transactional id %q", p.TransactionalID)
	}
	i := 0
	for ti, topic := range req.Topics {
		for _, part := range topic.Partitions {
			if i == len(p.Partitions) {
				t.Fatalf("only %d partitions", i)
			}
			got := &p.Partitions[i]
			if got.TopicIndex != ti || got.Index != part.Partition || !bytes.Equal(frame[got.Start:got.End], part.Records) {
				t.Fatalf("partition %d: %+v", i, got)
			}
			if string(got.Topic) != topic.Topic || got.TopicID != topic.TopicID {
				t.Fatalf("topic of partition %d: %+v", i, got)
			}
			if found := p.Find(got.Topic, got.TopicID, got.Index); found != i {
				t.Fatalf("partition %d is found at %d", i, found)
			}
			i++
		}
	}
	if i != len(p.Partitions) {
		t.Fatalf("%d partitions, want %d", len(p.Partitions), i)
	}
}

// SetAcks changes the acks and nothing else.
func TestSetAcks(t *testing.T) {
	forEachProduce(t, func(t *rapid.T, version int16) {
		req := drawProduce(t, version)
		frame := drawFrame(t, req)
		var p Produce
		if err := p.Peek(frame); err != nil {
			t.Fatal(err)
		}
		p.SetAcks(frame, -1)
		req.Acks = -1
		if p.Acks != -1 || !bytes.Equal(frame[p.Header.Len:], req.AppendTo(nil)) {
			t.Fatalf("acks %d, %x", p.Acks, frame)
		}
	})
}

// A frame that is cut off anywhere, or that has one byte too many, is an error.
func TestTruncatedProduce(t *testing.T) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		req := sampleRequest(version, 2, 2)
		frame, answer := encodeRequest(req), AppendResponse(nil, 1, sampleResponse(req))
		var p Produce
		var r ProduceResponse
		for n := range frame {
			if p.Peek(frame[:n:n]) == nil {
				t.Errorf("v%d: a request of %d bytes is read from %d", version, len(frame), n)
			}
		}
		for n := range answer {
			if r.Peek(version, answer[:n:n]) == nil {
				t.Errorf("v%d: a response of %d bytes is read from %d", version, len(answer), n)
			}
		}
		if p.Peek(append(frame, 0)) == nil || r.Peek(version, append(answer, 0)) == nil {
			t.Errorf("v%d: a byte too many is not noticed", version)
		}
	}
}

func TestOtherFramesAreRefused(t *testing.T) {
	var p Produce
	var r ProduceResponse
	metadata := kmsg.NewPtrMetadataRequest()
	if p.Peek(encodeRequest(metadata)) == nil {
		t.Error("a Metadata request is taken for Produce")
	}
	for _, version := range []int16{-1, 0, 2, MaxProduce + 1, 1<<15 - 1} {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		if p.Peek(encodeRequest(req)) == nil || r.Peek(version, make([]byte, 64)) == nil {
			t.Errorf("version %d is read", version)
		}
	}
}

// Null stands for a topic's name or an array only where Kafka allows it.
func TestNullFieldsAreRefused(t *testing.T) {
	var p Produce
	head := func(version int16) []byte {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		frame := encodeRequest(req)
		if version >= produceFlexible {
			return frame[:len(frame)-2] // the count of topics, and the tags
		}
		return frame[:len(frame)-4]
	}
	for name, frame := range map[string][]byte{
		"v9 topics":     append(head(9), 0, 0),
		"v9 name":       append(head(9), 2, 0, 1, 0, 0),
		"v9 partitions": append(head(9), 2, 2, 't', 0, 0, 0),
		"v3 topics":     append(head(3), 0xff, 0xff, 0xff, 0xff),
		"v3 name":       append(head(3), 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0),
		"v3 partitions": append(head(3), 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff),
	} {
		if err := p.Peek(frame); err != ErrNull {
			t.Errorf("%s: %v, want %v", name, err, ErrNull)
		}
	}
	for name, frame := range map[string][]byte{"v9": append(head(9), 2, 1, 1, 0, 0), "v3": append(head(3), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)} {
		if err := p.Peek(frame); err != nil {
			t.Errorf("an empty topic of %s: %v", name, err)
		}
	}
}

// No length is below −1.
func TestNegativeLengths(t *testing.T) {
	var p Produce
	var r ProduceResponse
	request := encodeRequest(sampleRequest(3, 0, 0))
	if err := p.Peek(overlay(request, len(request)-4, []byte{0xff, 0xff, 0xff, 0xfe})); err != ErrTruncated {
		t.Errorf("a request of −2 topics: %v", err)
	}
	answer := AppendResponse(nil, 1, sampleResponse(sampleRequest(3, 0, 0)))
	if err := r.Peek(3, overlay(answer, 4, []byte{0xff, 0xff, 0xff, 0xfe})); err != ErrTruncated {
		t.Errorf("a response of −2 topics: %v", err)
	}
}

// A length takes 32 bits at most.
func TestLongVarints(t *testing.T) {
	head := encodeRequest(sampleRequest(9, 0, 0))
	head = head[:len(head)-2] // the count of topics, and the tags
	var p Produce
	for name, c := range map[string]struct {
		varint []byte
		want   error
	}{
		"the longest":  {[]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, ErrTruncated},
		"33 bits":      {[]byte{0xff, 0xff, 0xff, 0xff, 0x1f}, ErrVarint},
		"six bytes":    {[]byte{0x81, 0x80, 0x80, 0x80, 0x80, 0}, ErrVarint},
		"eleven bytes": {[]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, ErrVarint},
		"cut off":      {[]byte{0x80}, ErrTruncated},
	} {
		if err := p.Peek(append(head[:len(head):len(head)], c.varint...)); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A length is not believed before its bytes are there: whatever a short frame
// claims, reading it takes no memory to speak of and ends at once.
func TestLyingLengths(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2³² − 1
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		req := sampleRequest(version, 1, 1)
		frame, answer := encodeRequest(req), AppendResponse(nil, 1, sampleResponse(req))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for at := range frame {
			for _, lie := range [][]byte{huge, {0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xfe}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80}} {
				var p Produce
				p.Peek(overlay(frame, at, lie))
				ParseRequestHeader(overlay(frame, at, lie))
				if at < len(answer) {
					var r ProduceResponse
					r.Peek(version, overlay(answer, at, lie))
				}
			}
		}
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > uint64(len(frame))*4*(8<<10) {
			t.Errorf("v%d: %d bytes allocated", version, spent)
		}
	}
}

// overlay returns b with other bytes from at on.
func overlay(b []byte, at int, with []byte) []byte {
	out := bytes.Clone(b)
	copy(out[at:], with)
	return out
}

// Many partitions without records are refused, since a view takes far more
// memory than they do; as many with records are not.
func TestTooManyPartitions(t *testing.T) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		var p Produce
		full := sampleRequest(version, 3, 2000)
		if err := p.Peek(encodeRequest(full)); err != nil || len(p.Partitions) != 6000 {
			t.Errorf("v%d: %v", version, err)
		}
		empty := sampleRequest(version, 1, 2000)
		for i := range empty.Topics[0].Partitions {
			empty.Topics[0].Partitions[i].Records = nil
		}
		if err := p.Peek(encodeRequest(empty)); err != ErrTooManyPartitions {
			t.Errorf("v%d, partitions without records: %v", version, err)
		}
		if err := p.Peek(encodeRequest(sampleRequest(version, 2000, 0))); err != ErrTooManyPartitions {
			t.Errorf("v%d, topics without partitions: %v", version, err)
		}
	}
}

// The memory that one very large request took is given back.
func TestLargeRequestsAreForgotten(t *testing.T) {
	var p Produce
	var r ProduceResponse
	large, small := sampleRequest(9, 1, 3*keptPartitions), sampleRequest(9, 1, 2)
	for _, req := range []*kmsg.ProduceRequest{large, small} {
		if err := errors.Join(p.Peek(encodeRequest(req)), r.Peek(9, AppendResponse(nil, 1, sampleResponse(req)))); err != nil {
			t.Fatal(err)
		}
	}
	if cap(p.Partitions) > keptPartitions || cap(p.byPartition) > keptPartitions || cap(r.Partitions) > keptPartitions {
		t.Errorf("room for %d partitions, %d answers is kept", cap(p.Partitions), cap(r.Partitions))
	}
}

// A partition that is named twice is found wherever it stands, and what only
// looks alike is not.
func TestDuplicatePartitionIsRefused(t *testing.T) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		for _, n := range []int{1, 2, 40} {
			var p Produce
			twice := sampleRequest(version, 2, n)
			topic := &twice.Topics[1]
			topic.Partitions = append(topic.Partitions, topic.Partitions[0])
			if err := p.Peek(encodeRequest(twice)); err != ErrDuplicatePartition {
				t.Errorf("v%d, in one topic of %d partitions: %v", version, n, err)
			}
			apart := sampleRequest(version, 3, n)
			apart.Topics[2].Topic, apart.Topics[2].TopicID = apart.Topics[0].Topic, apart.Topics[0].TopicID
			if err := p.Peek(encodeRequest(apart)); err != ErrDuplicatePartition {
				t.Errorf("v%d, in two entries of a topic of %d partitions: %v", version, n, err)
			}
			for i := range apart.Topics[2].Partitions {
				apart.Topics[2].Partitions[i].Partition += int32(n)
			}
			if err := p.Peek(encodeRequest(apart)); err != nil {
				t.Errorf("v%d, two entries of one topic: %v", version, err)
			}
		}
	}
}

func TestFindNothing(t *testing.T) {
	var p Produce
	if got := p.Find([]byte("topic-0"), [16]byte{}, 0); got != -1 {
		t.Errorf("found %d in nothing", got)
	}
	if err := p.Peek(encodeRequest(sampleRequest(9, 2, 3))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		topic string
		index int32
		want  int
	}{{"topic-1", 2, 5}, {"topic-1", 3, -1}, {"topic-1", -1, -1}, {"topic-2", 0, -1}, {"", 0, -1}} {
		if got := p.Find([]byte(c.topic), [16]byte{}, c.index); got != c.want {
			t.Errorf("%s/%d is found at %d, want %d", c.topic, c.index, got, c.want)
		}
	}
}
