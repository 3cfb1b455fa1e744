package wire

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The parsers take any bytes: they return an error or a view that lies within
// the frame, and never more memory than the frame's own size warrants. What
// they accept kmsg, which reads the same formats by other code, understands
// alike. Seeds of hostile frames are in testdata/fuzz.

func FuzzRequestHeader(f *testing.F) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		f.Add(encodeRequest(sampleRequest(version, 1, 1)))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := ParseRequestHeader(frame)
		switch {
		case err != nil:
		case !known(h.Key, h.Version):
			if h.Len != -1 {
				t.Fatalf("%+v", h)
			}
		case h.Len < MinFrame || h.Len > len(frame):
			t.Fatalf("%+v in a frame of %d bytes", h, len(frame))
		}
	})
}

func FuzzProduce(f *testing.F) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		f.Add(encodeRequest(sampleRequest(version, 2, 2)))
	}
	var p, again Produce
	var r ProduceResponse
	f.Fuzz(func(t *testing.T, frame []byte) {
		if p.Peek(frame) != nil {
			return
		}
		checkAgainstKmsg(t, &p, frame)
		all := p.AppendSplit(nil, frame, func(int) bool { return true })
		if err := again.Peek(all); err != nil || len(again.Partitions) != len(p.Partitions) {
			t.Fatalf("a split of everything: %v", err)
		}
		if half := p.AppendSplit(nil, frame, func(i int) bool { return i%2 == 0 }); again.Peek(half) != nil || len(again.Partitions) != (len(p.Partitions)+1)/2 {
			t.Fatalf("a split of half: %x", half)
		}
		answer := p.AppendResponse(nil, func(int) PartitionAnswer { return unanswered })
		if err := r.Peek(p.Header.Version, answer); err != nil || len(r.Partitions) != len(p.Partitions) {
			t.Fatalf("the answer to it: %v", err)
		}
		merged := p.AppendMerged(nil, &r, answer, func(int) (PartitionAnswer, bool) { return PartitionAnswer{}, false })
		if !bytes.Equal(merged, answer) {
			t.Fatalf("merged to\n%x\nwant\n%x", merged, answer)
		}
	})
}

func FuzzProduceResponse(f *testing.F) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		f.Add(version, AppendResponse(nil, 1, sampleResponse(sampleRequest(version, 2, 2))))
	}
	var r, again ProduceResponse
	var p Produce
	f.Fuzz(func(t *testing.T, version int16, frame []byte) {
		if r.Peek(version, frame) != nil {
			return
		}
		decoded, err := DecodeResponse(0, version, frame)
		if err != nil {
			// kmsg also reads tagged fields that it knows, for which the view
			// has no use.
			return
		}
		i := 0
		for _, topic := range decoded.(*kmsg.ProduceResponse).Topics {
			for _, part := range topic.Partitions {
				got := &r.Partitions[i]
				i++
				if got.Index != part.Partition || got.ErrorCode != part.ErrorCode || got.BaseOffset != part.BaseOffset || got.LogAppendTime != part.LogAppendTime ||
					string(got.Topic) != topic.Topic || got.TopicID != topic.TopicID || got.start > got.end || got.end > len(frame) {
					t.Fatalf("%+v, where kmsg has %+v", got, part)
				}
			}
		}
		if i != len(r.Partitions) {
			t.Fatalf("%d answers, where kmsg has %d", len(r.Partitions), i)
		}
		// Any response merges into one that answers what was asked.
		if err := p.Peek(encodeRequest(sampleRequest(version, 2, 2))); err != nil {
			t.Fatal(err)
		}
		merged := p.AppendMerged(nil, &r, frame, func(int) (PartitionAnswer, bool) { return PartitionAnswer{}, false })
		if err := again.Peek(version, merged); err != nil || len(again.Partitions) != len(p.Partitions) {
			t.Fatalf("merged: %v\n%x", err, merged)
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add(soundBatch(1, 5, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, problem := PeekBatch(b)
		if problem != BatchOK {
			return
		}
		if h.RecordCount < 1 || h.LastOffsetDelta < 0 || h.LastSequence() < 0 || int(h.Length)+12 != len(b) {
			t.Fatalf("%+v in %d bytes", h, len(b))
		}
		b = bytes.Clone(b)
		StampBatch(b, 1, 2, 3)
		want := h
		want.CRC, want.ProducerID, want.ProducerEpoch, want.BaseSequence = SumBatch(b), 1, 2, 3
		if got, _ := PeekBatch(b); got != want {
			t.Fatalf("%+v\nwant\n%+v", got, want)
		}
	})
}

func FuzzRewrite(f *testing.F) {
	for key, a := range addressed {
		for version := a.from; version <= apis[key].max; version++ {
			f.Add(int16(key), version, filledResponse(int16(key), version))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, frame []byte) {
		out, err := RewriteAddresses(key, version, frame, func(Address) (string, int32) { return "h", 1 })
		if err != nil || !CarriesAddresses(key, version) {
			return
		}
		again, err := RewriteAddresses(key, version, out, func(a Address) (string, int32) {
			if a.Host != "h" || a.Port != 1 {
				t.Fatalf("%+v was left", a)
			}
			return a.Host, a.Port
		})
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("a second time: %v\n%x\nwant\n%x", err, again, out)
		}
	})
}

func FuzzApiVersions(f *testing.F) {
	for version := range apis[kmsg.ApiVersions].max + 1 {
		f.Add(version, AppendResponse(nil, 1, offering(version, 0, 0, 99)))
	}
	f.Fuzz(func(t *testing.T, version int16, frame []byte) {
		out, err := IntersectApiVersions(version, frame)
		if err != nil {
			return
		}
		again, err := IntersectApiVersions(version, out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("a second time: %v\n%x\nwant\n%x", err, again, out)
		}
	})
}
