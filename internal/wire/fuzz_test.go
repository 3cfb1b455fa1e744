package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The parsers take any bytes: they return an error or a view that lies within
// the frame, and never more memory than the frame's own size warrants.

func seedProduce(f *testing.F) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		for range 2 {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic = "t"
			for i := range int32(2) {
				part := kmsg.NewProduceRequestTopicPartition()
				part.Partition, part.Records = i, soundBatch(1, 0, 2)
				topic.Partitions = append(topic.Partitions, part)
			}
			req.Topics = append(req.Topics, topic)
		}
		f.Add(encodeRequest(req))
	}
}

func FuzzProduce(f *testing.F) {
	seedProduce(f)
	var p Produce
	f.Fuzz(func(t *testing.T, frame []byte) {
		if p.Peek(frame) != nil {
			return
		}
		for i := range p.Partitions {
			if part := &p.Partitions[i]; part.Start < 0 || part.End < part.Start || part.End > len(frame) {
				t.Fatalf("%+v in a frame of %d bytes", part, len(frame))
			}
		}
		all := p.AppendSplit(nil, frame, func(int) bool { return true })
		var again Produce
		if err := again.Peek(all); err != nil || len(again.Partitions) != len(p.Partitions) {
			t.Fatalf("a split of everything: %v", err)
		}
		var r ProduceResponse
		answer := p.AppendResponse(nil, func(int) PartitionAnswer { return retriable })
		if err := r.Peek(p.Header.Version, answer); err != nil || len(r.Partitions) != len(p.Partitions) {
			t.Fatalf("the answer to it: %v", err)
		}
	})
}

func FuzzRequestHeader(f *testing.F) {
	seedProduce(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if h, err := ParseRequestHeader(frame); err == nil && (h.Len < 0 || h.Len > len(frame)) {
			t.Fatalf("%+v in a frame of %d bytes", h, len(frame))
		}
	})
}

func FuzzProduceResponse(f *testing.F) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "t"
		topic.Partitions = append(topic.Partitions, kmsg.NewProduceRequestTopicPartition())
		req.Topics = append(req.Topics, topic)
		f.Add(version, AppendResponse(nil, 1, answerAll(req)))
	}
	var r ProduceResponse
	f.Fuzz(func(t *testing.T, version int16, frame []byte) {
		if r.Peek(version, frame) != nil {
			return
		}
		for i := range r.Partitions {
			if p := &r.Partitions[i]; p.start < 0 || p.end < p.start || p.end > len(frame) {
				t.Fatalf("%+v in a frame of %d bytes", p, len(frame))
			}
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add(soundBatch(1, 5, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, problem := PeekBatch(b); problem == BatchOK {
			StampBatch(b, 1, 2, 3)
			h, _ := PeekBatch(b)
			if h.CRC != SumBatch(b) || h.ProducerID != 1 || h.ProducerEpoch != 2 || h.BaseSequence != 3 {
				t.Fatalf("%+v", h)
			}
		}
	})
}

func FuzzRewrite(f *testing.F) {
	for key, a := range addressed {
		r := kmsg.ResponseForKey(int16(key))
		r.SetVersion(a.from)
		f.Add(int16(key), a.from, AppendResponse(nil, 1, r))
	}
	f.Fuzz(func(t *testing.T, key, version int16, frame []byte) {
		RewriteAddresses(key, version, frame, func(a Address) (string, int32) { return "h", a.Port })
	})
}

func FuzzApiVersions(f *testing.F) {
	for version := range int16(6) {
		r := kmsg.NewPtrApiVersionsResponse()
		r.Version = version
		r.ApiKeys = append(r.ApiKeys, kmsg.NewApiVersionsResponseApiKey())
		f.Add(version, AppendResponse(nil, 1, r))
	}
	f.Fuzz(func(t *testing.T, version int16, frame []byte) {
		IntersectApiVersions(version, frame)
	})
}
