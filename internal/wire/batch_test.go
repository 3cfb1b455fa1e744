package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func drawBatch(t *rapid.T) *kmsg.RecordBatch {
	count := rapid.Int32Range(1, math.MaxInt32).Draw(t, "count")
	return &kmsg.RecordBatch{
		FirstOffset:          rapid.Int64().Draw(t, "base offset"),
		PartitionLeaderEpoch: rapid.Int32().Draw(t, "leader epoch"),
		Magic:                2,
		Attributes:           rapid.Int16().Draw(t, "attributes"),
		LastOffsetDelta:      count - 1,
		FirstTimestamp:       rapid.Int64().Draw(t, "base timestamp"),
		MaxTimestamp:         rapid.Int64().Draw(t, "max timestamp"),
		ProducerID:           rapid.Int64().Draw(t, "producer id"),
		ProducerEpoch:        rapid.Int16().Draw(t, "epoch"),
		FirstSequence:        rapid.Int32().Draw(t, "sequence"),
		NumRecords:           count,
		Records:              rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "records"),
	}
}

// What PeekBatch sees is what kmsg wrote.
func TestPeekBatchAgreesWithKmsg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		raw := encodeBatch(b)
		got, problem := PeekBatch(raw)
		want := BatchHeader{
			BaseOffset: b.FirstOffset, Length: b.Length, LeaderEpoch: b.PartitionLeaderEpoch, Magic: b.Magic, CRC: uint32(b.CRC),
			Attributes: b.Attributes, LastOffsetDelta: b.LastOffsetDelta, BaseTimestamp: b.FirstTimestamp, MaxTimestamp: b.MaxTimestamp,
			ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.FirstSequence, RecordCount: b.NumRecords,
		}
		if problem != BatchOK || got != want {
			t.Fatalf("%v, %+v\nwant\n%+v", problem, got, want)
		}
		if got.Transactional() != (b.Attributes&0x10 != 0) || got.Control() != (b.Attributes&0x20 != 0) {
			t.Fatalf("attributes %b", b.Attributes)
		}
		if got := SumBatch(raw); got != uint32(b.CRC) {
			t.Fatalf("CRC %08x, want %08x", got, uint32(b.CRC))
		}
	})
}

// A stamped batch is, byte for byte, what kmsg and an independent CRC-32C make
// of the batch with that producer id, epoch and sequence.
func TestStampBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		got := encodeBatch(b)
		b.ProducerID = rapid.Int64().Draw(t, "stamped id")
		b.ProducerEpoch = rapid.Int16().Draw(t, "stamped epoch")
		b.FirstSequence = rapid.Int32().Draw(t, "stamped sequence")
		StampBatch(got, b.ProducerID, b.ProducerEpoch, b.FirstSequence)
		if want := encodeBatch(b); !bytes.Equal(got, want) {
			t.Fatalf("%x\nwant\n%x", got, want)
		}
	})
}

func TestLastSequenceWraps(t *testing.T) {
	for _, c := range []struct{ first, delta, last int32 }{{0, 0, 0}, {5, 4, 9}, {1<<31 - 1, 0, 1<<31 - 1}, {1<<31 - 1, 1, 0}, {1<<31 - 3, 9, 6}, {1<<31 - 1, 1<<31 - 1, 1<<31 - 2}} {
		h := BatchHeader{BaseSequence: c.first, LastOffsetDelta: c.delta}
		if got := h.LastSequence(); got != c.last {
			t.Errorf("%d + %d = %d, want %d", c.first, c.delta, got, c.last)
		}
	}
}

// Each fault of a records field has its name.
func TestBatchProblems(t *testing.T) {
	sound := soundBatch(1, 0, 2)
	byteAt := func(at int, b byte) []byte { return overlay(sound, at, []byte{b}) }
	int32At := func(at int, v int32) []byte { return overlay(sound, at, binary.BigEndian.AppendUint32(nil, uint32(v))) }
	overflowing := overlay(int32At(23, math.MaxInt32), 57, []byte{0x80, 0, 0, 0})
	for name, c := range map[string]struct {
		b    []byte
		want BatchProblem
	}{
		"sound":                     {sound, BatchOK},
		"null":                      {nil, BatchEmpty},
		"empty":                     {[]byte{}, BatchEmpty},
		"without a magic":           {sound[:16], BatchTruncated},
		"without a whole header":    {sound[:60], BatchTruncated},
		"a byte short":              {sound[:len(sound)-1], BatchTruncated},
		"magic 0":                   {byteAt(16, 0), BatchOldMagic},
		"magic 1, short":            {byteAt(16, 1)[:30], BatchOldMagic},
		"magic 3":                   {byteAt(16, 3), BatchBadMagic},
		"magic -1":                  {byteAt(16, 0xff), BatchBadMagic},
		"two":                       {append(bytes.Clone(sound), sound...), BatchMany},
		"one and a byte":            {append(bytes.Clone(sound), 0), BatchMany},
		"negative length":           {int32At(8, -1), BatchTruncated},
		"length of half a header":   {int32At(8, 20), BatchTruncated},
		"greatest length":           {int32At(8, math.MaxInt32), BatchTruncated},
		"delta too large":           {int32At(23, 5), BatchBadCount},
		"negative delta":            {int32At(23, -1), BatchBadCount},
		"no records":                {overlay(int32At(23, -1), 57, []byte{0, 0, 0, 0}), BatchBadCount},
		"a delta whose sum is < 0":  {overflowing, BatchBadCount},
		"a count that is too large": {int32At(57, 3), BatchBadCount},
	} {
		if _, got := PeekBatch(c.b); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	seen := make(map[string]bool)
	for p := BatchOK; p <= BatchBadCount+1; p++ {
		if p.String() == "" || seen[p.String()] {
			t.Errorf("problem %d is called %q, as another is", p, p)
		}
		seen[p.String()] = true
	}
}
