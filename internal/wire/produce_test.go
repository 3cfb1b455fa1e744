package wire

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// drawProduce draws a Produce request of any version that is read in place.
func drawProduce(t *rapid.T) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = rapid.Int16Range(MinProduce, MaxProduce).Draw(t, "version")
	req.Acks = rapid.SampledFrom([]int16{-1, 0, 1}).Draw(t, "acks")
	req.TimeoutMillis = rapid.Int32().Draw(t, "timeout")
	if rapid.Bool().Draw(t, "transactional") {
		id := rapid.StringN(0, 10, 20).Draw(t, "transactional id")
		req.TransactionID = &id
	}
	for ti := range rapid.IntRange(0, 4).Draw(t, "topics") {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = fmt.Sprintf("topic-%d", ti)
		topic.TopicID = [16]byte{byte(ti + 1)}
		for pi := range rapid.IntRange(0, 4).Draw(t, "partitions") {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = int32(pi * 3)
			part.Records = drawRecords(t)
			topic.Partitions = append(topic.Partitions, part)
			if req.Version >= 9 && rapid.Bool().Draw(t, "tagged") {
				topic.Partitions[pi].UnknownTags.Set(77, []byte("p"))
			}
		}
		if req.Version >= 9 && rapid.Bool().Draw(t, "tagged") {
			topic.UnknownTags.Set(78, []byte("topic"))
		}
		req.Topics = append(req.Topics, topic)
	}
	if req.Version >= 9 && rapid.Bool().Draw(t, "tagged") {
		req.UnknownTags.Set(79, []byte("request"))
	}
	return req
}

func drawRecords(t *rapid.T) []byte {
	switch rapid.IntRange(0, 3).Draw(t, "records") {
	case 0:
		return nil
	case 1:
		return rapid.SliceOfN(rapid.Byte(), 1, 90).Draw(t, "junk")
	}
	return soundBatch(rapid.Int64Range(-1, 9).Draw(t, "pid"), rapid.Int32Range(0, 1<<31-1).Draw(t, "sequence"), rapid.Int32Range(1, 5).Draw(t, "count"))
}

func soundBatch(pid int64, sequence, count int32) []byte {
	b := kmsg.RecordBatch{Magic: 2, LastOffsetDelta: count - 1, ProducerID: pid, FirstSequence: sequence, NumRecords: count, Records: bytes.Repeat([]byte{1}, int(count))}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	out := b.AppendTo(nil)
	StampBatch(out, pid, 0, sequence)
	return out
}

func encodeRequest(req kmsg.Request) []byte { return AppendRequest(nil, 42, "client", req) }

// What Peek sees is what kmsg sees.
func TestPeekAgreesWithKmsg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := drawProduce(t)
		frame := encodeRequest(req)
		var p Produce
		if err := p.Peek(frame); err != nil {
			t.Fatal(err)
		}
		if p.Header.CorrelationID != 42 || string(p.Header.ClientID) != "client" || p.Acks != req.Acks || p.TimeoutMillis != req.TimeoutMillis {
			t.Fatalf("%+v", p)
		}
		if (p.TransactionalID == nil) != (req.TransactionID == nil) {
			t.Fatalf("transactional id %q", p.TransactionalID)
		}
		i := 0
		for ti, topic := range req.Topics {
			for _, part := range topic.Partitions {
				got := &p.Partitions[i]
				i++
				if got.TopicIndex != ti || got.Index != part.Partition || !bytes.Equal(frame[got.Start:got.End], part.Records) {
					t.Fatalf("partition %d: %+v", i, got)
				}
				if req.Version < 13 && string(got.Topic) != topic.Topic || req.Version >= 13 && got.TopicID != topic.TopicID {
					t.Fatalf("topic of partition %d: %+v", i, got)
				}
			}
		}
		if i != len(p.Partitions) {
			t.Fatalf("%d partitions, want %d", len(p.Partitions), i)
		}
	})
}

// A split keeps every field of the request and every byte of what it keeps; a
// merged answer names every partition once, in the request's order.
func TestSplitAndMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := drawProduce(t)
		frame := encodeRequest(req)
		var p Produce
		if err := p.Peek(frame); err != nil {
			t.Fatal(err)
		}
		kept := make([]bool, len(p.Partitions))
		for i := range kept {
			kept[i] = rapid.Bool().Draw(t, "keep")
		}
		split := p.AppendSplit(nil, frame, func(i int) bool { return kept[i] })
		checkSplit(t, req, kept, split)

		upstream := answerTo(t, req, kept)
		respFrame := AppendResponse(nil, 42, upstream)
		var r ProduceResponse
		if err := r.Peek(req.Version, respFrame); err != nil {
			t.Fatal(err)
		}
		own := PartitionAnswer{ErrorCode: 0, BaseOffset: 1234, LogAppendTime: -1, LogStartOffset: -1}
		merged := p.AppendMerged(nil, &r, respFrame, func(i int) (PartitionAnswer, bool) { return own, !kept[i] })
		checkMerged(t, req, kept, upstream, merged)
	})
}

func checkSplit(t *rapid.T, req *kmsg.ProduceRequest, kept []bool, split []byte) {
	h, err := ParseRequestHeader(split)
	if err != nil {
		t.Fatal(err)
	}
	got := kmsg.NewPtrProduceRequest()
	got.Version = req.Version
	if err := got.ReadFrom(split[h.Len:]); err != nil {
		t.Fatal(err)
	}
	want := *req
	want.Topics = nil
	i := 0
	for _, topic := range req.Topics {
		left := topic
		left.Partitions = nil
		for _, part := range topic.Partitions {
			if kept[i] {
				left.Partitions = append(left.Partitions, part)
			}
			i++
		}
		if len(left.Partitions) > 0 {
			want.Topics = append(want.Topics, left)
		}
	}
	if !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
		t.Fatalf("split to\n%+v\nwant\n%+v", got, want)
	}
}

// answerTo answers the kept partitions as a broker would, topics in reverse.
func answerTo(t *rapid.T, req *kmsg.ProduceRequest, kept []bool) *kmsg.ProduceResponse {
	r := kmsg.NewPtrProduceResponse()
	r.Version, r.ThrottleMillis = req.Version, rapid.Int32Range(0, 1000).Draw(t, "throttle")
	i := 0
	for _, topic := range req.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = topic.Topic, topic.TopicID
		for _, part := range topic.Partitions {
			if kept[i] {
				answer := kmsg.NewProduceResponseTopicPartition()
				answer.Partition, answer.BaseOffset = part.Partition, int64(1000+i)
				answer.ErrorCode = rapid.SampledFrom([]int16{0, 6, 45}).Draw(t, "code")
				if req.Version >= 8 && answer.ErrorCode != 0 {
					text := "why"
					answer.ErrorMessage = &text
					e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
					e.RelativeOffset, e.ErrorMessage = 3, &text
					answer.ErrorRecords = append(answer.ErrorRecords, e)
				}
				if req.Version >= 10 && answer.ErrorCode == 6 {
					answer.CurrentLeader.LeaderID, answer.CurrentLeader.LeaderEpoch = 2, 9
				}
				out.Partitions = append(out.Partitions, answer)
			}
			i++
		}
		if len(out.Partitions) > 0 {
			r.Topics = append([]kmsg.ProduceResponseTopic{out}, r.Topics...)
		}
	}
	if req.Version >= 10 && rapid.Bool().Draw(t, "endpoints") {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port = 2, "broker", 9092
		r.Brokers = append(r.Brokers, b)
	}
	return r
}

func checkMerged(t *rapid.T, req *kmsg.ProduceRequest, kept []bool, upstream *kmsg.ProduceResponse, merged []byte) {
	decoded, err := DecodeResponse(0, req.Version, merged)
	if err != nil {
		t.Fatal(err)
	}
	got := decoded.(*kmsg.ProduceResponse)
	if got.ThrottleMillis != upstream.ThrottleMillis || !reflect.DeepEqual(got.Brokers, upstream.Brokers) {
		t.Fatalf("throttle %d, endpoints %+v", got.ThrottleMillis, got.Brokers)
	}
	if len(got.Topics) != len(req.Topics) {
		t.Fatalf("%d topics, want %d", len(got.Topics), len(req.Topics))
	}
	i := 0
	for ti, topic := range req.Topics {
		if len(got.Topics[ti].Partitions) != len(topic.Partitions) {
			t.Fatalf("topic %d: %d partitions, want %d", ti, len(got.Topics[ti].Partitions), len(topic.Partitions))
		}
		for pi, part := range topic.Partitions {
			answer := got.Topics[ti].Partitions[pi]
			switch {
			case answer.Partition != part.Partition:
				t.Fatalf("partition %d stands where %d was asked", answer.Partition, part.Partition)
			case kept[i] && !reflect.DeepEqual(answer, find(upstream, topic, part.Partition)):
				t.Fatalf("the upstream's answer became %+v", answer)
			case !kept[i] && (answer.BaseOffset != 1234 || answer.ErrorCode != 0):
				t.Fatalf("the own answer became %+v", answer)
			}
			i++
		}
	}
}

func find(r *kmsg.ProduceResponse, topic kmsg.ProduceRequestTopic, partition int32) kmsg.ProduceResponseTopicPartition {
	for _, t := range r.Topics {
		if r.Version < 13 && t.Topic != topic.Topic || r.Version >= 13 && t.TopicID != topic.TopicID {
			continue
		}
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return p
			}
		}
	}
	return kmsg.ProduceResponseTopicPartition{}
}

// A partition that nobody answered for is in doubt: never a success.
func TestMergeOfAMissingAnswer(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	topic.Partitions = append(topic.Partitions, kmsg.NewProduceRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	var p Produce
	if err := p.Peek(encodeRequest(req)); err != nil {
		t.Fatal(err)
	}
	empty := kmsg.NewPtrProduceResponse()
	empty.Version = 9
	frame := AppendResponse(nil, 42, empty)
	var r ProduceResponse
	if err := r.Peek(9, frame); err != nil {
		t.Fatal(err)
	}
	merged, err := DecodeResponse(0, 9, p.AppendMerged(nil, &r, frame, func(int) (PartitionAnswer, bool) { return PartitionAnswer{}, false }))
	if err != nil {
		t.Fatal(err)
	}
	if code := merged.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 7 {
		t.Errorf("error %d, want 7", code)
	}
}

func TestDuplicatePartitionIsRefused(t *testing.T) {
	for _, n := range []int32{1, 40} {
		req := kmsg.NewPtrProduceRequest()
		req.Version = 9
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "t"
		for i := range n {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = i
			topic.Partitions = append(topic.Partitions, part)
		}
		topic.Partitions = append(topic.Partitions, topic.Partitions[0])
		req.Topics = append(req.Topics, topic)
		var p Produce
		if err := p.Peek(encodeRequest(req)); err != ErrDuplicatePartition {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
}

// A stamp is what kmsg reads back, and its CRC is the one that an independent
// computation gives.
func TestStampBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := soundBatch(-1, -1&(1<<31-1), rapid.Int32Range(1, 50).Draw(t, "count"))
		pid, epoch := rapid.Int64().Draw(t, "pid"), rapid.Int16().Draw(t, "epoch")
		sequence := rapid.Int32Range(0, 1<<31-1).Draw(t, "sequence")
		StampBatch(b, pid, epoch, sequence)
		var got kmsg.RecordBatch
		if err := got.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		if got.ProducerID != pid || got.ProducerEpoch != epoch || got.FirstSequence != sequence {
			t.Fatalf("%+v", got)
		}
		want := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))
		if uint32(got.CRC) != want {
			t.Fatalf("CRC %x, want %x", uint32(got.CRC), want)
		}
	})
}

func TestLastSequenceWraps(t *testing.T) {
	for _, c := range []struct{ first, delta, last int32 }{{0, 0, 0}, {5, 4, 9}, {1<<31 - 1, 0, 1<<31 - 1}, {1<<31 - 1, 1, 0}, {1<<31 - 3, 9, 6}} {
		h := BatchHeader{BaseSequence: c.first, LastOffsetDelta: c.delta}
		if got := h.LastSequence(); got != c.last {
			t.Errorf("%d + %d = %d, want %d", c.first, c.delta, got, c.last)
		}
	}
}

// Each fault of a records field has its name.
func TestBatchProblems(t *testing.T) {
	sound := soundBatch(1, 0, 2)
	edit := func(at int, b byte) []byte {
		out := bytes.Clone(sound)
		out[at] = b
		return out
	}
	for _, c := range []struct {
		b    []byte
		want BatchProblem
	}{
		{sound, BatchOK}, {nil, BatchEmpty}, {sound[:10], BatchTruncated}, {sound[:40], BatchTruncated}, {sound[:len(sound)-1], BatchTruncated},
		{edit(16, 1), BatchOldMagic}, {edit(16, 0), BatchOldMagic}, {edit(16, 3), BatchBadMagic},
		{append(bytes.Clone(sound), sound...), BatchMany}, {edit(26, 5), BatchBadCount}, {edit(8, 0xff), BatchTruncated},
	} {
		if _, got := PeekBatch(c.b); got != c.want {
			t.Errorf("%x: %v, want %v", c.b, got, c.want)
		}
	}
}

// The data path allocates nothing.
func TestNoAllocations(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = soundBatch(1, 0, 3)
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	frame := encodeRequest(req)
	resp := AppendResponse(nil, 1, answerAll(req))
	var p Produce
	var r ProduceResponse
	var sink RequestHeader
	for name, f := range map[string]func(){
		"ParseRequestHeader":   func() { sink, _ = ParseRequestHeader(frame) },
		"Produce.Peek":         func() { p.Peek(frame) },
		"ProduceResponse.Peek": func() { r.Peek(9, resp) },
		"StampBatch":           func() { StampBatch(part.Records, 1, 2, 3) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	_ = sink
}

func answerAll(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	r := kmsg.NewPtrProduceResponse()
	r.Version = req.Version
	for _, topic := range req.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic = topic.Topic
		for range topic.Partitions {
			out.Partitions = append(out.Partitions, kmsg.NewProduceResponseTopicPartition())
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

func BenchmarkPeek(b *testing.B) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = soundBatch(1, 0, 3)
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	frame := encodeRequest(req)
	var p Produce
	b.ReportAllocs()
	for b.Loop() {
		if p.Peek(frame) != nil {
			b.Fatal("peek")
		}
	}
}
