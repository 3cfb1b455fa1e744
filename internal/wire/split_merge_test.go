package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// A split keeps the header and every field of the request, and every byte of
// the partitions that it keeps; topics without partitions are dropped.
func TestSplitKeepsEveryField(t *testing.T) {
	forEachProduce(t, func(t *rapid.T, version int16) {
		req := drawProduce(t, version)
		frame := drawFrame(t, req)
		var p Produce
		if err := p.Peek(frame); err != nil {
			t.Fatal(err)
		}
		kept := drawKept(t, &p)
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
		split := p.AppendSplit([]byte("before"), frame, func(i int) bool { return kept[i] })
		expected := append([]byte("before"), frame[:p.Header.Len]...)
		if expected = want.AppendTo(expected); !bytes.Equal(split, expected) {
			t.Fatalf("split to\n%x\nwant\n%x", split, expected)
		}
	})
}

func drawKept(t *rapid.T, p *Produce) []bool {
	return rapid.SliceOfN(rapid.Bool(), len(p.Partitions), len(p.Partitions)).Draw(t, "kept")
}

func drawOwn(t *rapid.T) PartitionAnswer {
	return PartitionAnswer{
		ErrorCode:      rapid.Int16().Draw(t, "own code"),
		BaseOffset:     rapid.Int64().Draw(t, "own base offset"),
		LogAppendTime:  rapid.Int64().Draw(t, "own append time"),
		LogStartOffset: rapid.Int64().Draw(t, "own start offset"),
		Message:        rapid.SampledFrom([]string{"", "why"}).Draw(t, "own message"),
	}
}

func (a *PartitionAnswer) kmsg(partition int32) kmsg.ProduceResponseTopicPartition {
	out := kmsg.NewProduceResponseTopicPartition()
	out.Partition, out.ErrorCode, out.BaseOffset = partition, a.ErrorCode, a.BaseOffset
	out.LogAppendTime, out.LogStartOffset = a.LogAppendTime, a.LogStartOffset
	if a.Message != "" {
		out.ErrorMessage = &a.Message
	}
	return out
}

// A merged response answers every partition of the request exactly once, in its
// order; it is, byte for byte, what kmsg makes of the upstream's answers and the
// own ones.
func TestMergeAnswersEveryPartitionOnce(t *testing.T) {
	forEachProduce(t, func(t *rapid.T, version int16) {
		req := drawProduce(t, version)
		var p Produce
		if err := p.Peek(drawFrame(t, req)); err != nil {
			t.Fatal(err)
		}
		sent := drawKept(t, &p)
		upstream, answers := drawAnswer(t, req, sent)
		tags := drawHeaderTags(t, version)
		head := func(correlationID int32) []byte {
			return append(binary.BigEndian.AppendUint32(nil, uint32(correlationID)), tags...)
		}
		frame := upstream.AppendTo(head(99))
		var r ProduceResponse
		if err := r.Peek(version, frame); err != nil {
			t.Fatal(err)
		}
		if r.NodeEndpoints != (len(upstream.Brokers) > 0) || r.ThrottleMillis != upstream.ThrottleMillis || r.CorrelationID != 99 {
			t.Fatalf("%+v", r)
		}
		// Some answers of the upstream are overruled.
		own := make(map[int]PartitionAnswer)
		for i := range p.Partitions {
			if !sent[i] || rapid.IntRange(0, 5).Draw(t, "overruled") == 0 {
				own[i] = drawOwn(t)
			}
		}
		merged := p.AppendMerged([]byte("before"), &r, frame, func(i int) (PartitionAnswer, bool) { a, ok := own[i]; return a, ok })

		want := *upstream
		want.Topics = nil
		i := 0
		for _, topic := range req.Topics {
			out := kmsg.NewProduceResponseTopic()
			out.Topic, out.TopicID = topic.Topic, topic.TopicID
			for _, part := range topic.Partitions {
				if answers[i] != nil {
					out.UnknownTags = topicNamed(upstream, topic.Topic).UnknownTags
				}
				switch a, overruled := own[i]; {
				case overruled:
					out.Partitions = append(out.Partitions, a.kmsg(part.Partition))
				case answers[i] != nil:
					out.Partitions = append(out.Partitions, *answers[i])
				default:
					inDoubt := PartitionAnswer{ErrorCode: 7, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1}
					out.Partitions = append(out.Partitions, inDoubt.kmsg(part.Partition))
				}
				i++
			}
			want.Topics = append(want.Topics, out)
		}
		expected := want.AppendTo(append([]byte("before"), head(p.Header.CorrelationID)...))
		if !bytes.Equal(merged, expected) {
			t.Fatalf("merged to\n%x\nwant\n%x", merged, expected)
		}
	})
}

func topicNamed(r *kmsg.ProduceResponse, name string) *kmsg.ProduceResponseTopic {
	for i := range r.Topics {
		if r.Topics[i].Topic == name {
			return &r.Topics[i]
		}
	}
	return nil
}

// A response of Oncegate's own is, byte for byte, what kmsg would make of it.
func TestOwnResponse(t *testing.T) {
	forEachProduce(t, func(t *rapid.T, version int16) {
		req := drawProduce(t, version)
		var p Produce
		if err := p.Peek(drawFrame(t, req)); err != nil {
			t.Fatal(err)
		}
		var answers []PartitionAnswer
		want := kmsg.NewPtrProduceResponse()
		want.Version = version
		for _, topic := range req.Topics {
			out := kmsg.NewProduceResponseTopic()
			out.Topic, out.TopicID = topic.Topic, topic.TopicID
			for _, part := range topic.Partitions {
				a := drawOwn(t)
				answers = append(answers, a)
				out.Partitions = append(out.Partitions, a.kmsg(part.Partition))
			}
			want.Topics = append(want.Topics, out)
		}
		got := p.AppendResponse(nil, func(i int) PartitionAnswer { return answers[i] })
		if expected := AppendResponse(nil, p.Header.CorrelationID, want); !bytes.Equal(got, expected) {
			t.Fatalf("%x\nwant\n%x", got, expected)
		}
	})
}

// The response peeked is the response that kmsg wrote.
func TestResponsePeekAgreesWithKmsg(t *testing.T) {
	forEachProduce(t, func(t *rapid.T, version int16) {
		req := drawProduce(t, version)
		n := 0
		for _, topic := range req.Topics {
			n += len(topic.Partitions)
		}
		upstream, _ := drawAnswer(t, req, allOf(n))
		var r ProduceResponse
		if err := r.Peek(version, AppendResponse(nil, 1, upstream)); err != nil {
			t.Fatal(err)
		}
		i := 0
		for ti, topic := range upstream.Topics {
			for _, part := range topic.Partitions {
				got := &r.Partitions[i]
				i++
				want := ProduceResponsePartition{
					TopicIndex: ti, Index: part.Partition, ErrorCode: part.ErrorCode, BaseOffset: part.BaseOffset,
					LogAppendTime: part.LogAppendTime, LogStartOffset: -1, start: got.start, end: got.end,
				}
				if version >= 5 {
					want.LogStartOffset = part.LogStartOffset
				}
				if version >= produceTopicIDs {
					want.TopicID = topic.TopicID
				} else if string(got.Topic) != topic.Topic {
					t.Fatalf("topic %q, want %q", got.Topic, topic.Topic)
				}
				same := *got
				same.Topic = nil
				if !equalAnswers(&same, &want) {
					t.Fatalf("%+v\nwant\n%+v", same, want)
				}
			}
		}
		if i != len(r.Partitions) {
			t.Fatalf("%d answers, want %d", len(r.Partitions), i)
		}
	})
}

func allOf(n int) []bool {
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	return all
}

func equalAnswers(a, b *ProduceResponsePartition) bool {
	return a.TopicID == b.TopicID && a.TopicIndex == b.TopicIndex && a.Index == b.Index && a.ErrorCode == b.ErrorCode &&
		a.BaseOffset == b.BaseOffset && a.LogAppendTime == b.LogAppendTime && a.LogStartOffset == b.LogStartOffset &&
		a.start == b.start && a.end == b.end
}

// A message longer than a version's length field can say is cut, not mangled.
func TestLongMessage(t *testing.T) {
	for _, version := range []int16{8, 9} {
		req := sampleRequest(version, 1, 2)
		var p Produce
		if err := p.Peek(encodeRequest(req)); err != nil {
			t.Fatal(err)
		}
		frame := p.AppendResponse(nil, func(int) PartitionAnswer { return PartitionAnswer{Message: strings.Repeat("x", 70_000)} })
		r, err := DecodeResponse(0, version, frame)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range r.(*kmsg.ProduceResponse).Topics[0].Partitions {
			if len(*part.ErrorMessage) != math.MaxInt16 {
				t.Errorf("v%d: a message of %d bytes", version, len(*part.ErrorMessage))
			}
		}
	}
}
