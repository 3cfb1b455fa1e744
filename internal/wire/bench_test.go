package wire

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The data path allocates nothing, whatever the version and however many
// partitions a request has.
func TestNoAllocations(t *testing.T) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		for _, n := range []int{1, 3, 60} {
			req := sampleRequest(version, n, n)
			frame, answer := encodeRequest(req), AppendResponse(nil, 1, sampleResponse(req))
			var p Produce
			var r ProduceResponse
			var h RequestHeader
			var err error
			must := func() {
				if err != nil {
					t.Fatal(err)
				}
			}
			buffer := make([]byte, 0, 2*len(frame))
			none := func(int) (PartitionAnswer, bool) { return PartitionAnswer{}, false }
			for _, c := range []struct {
				name string
				run  func()
			}{
				{"ParseRequestHeader", func() { h, err = ParseRequestHeader(frame); must() }},
				{"Produce.Peek", func() { err = p.Peek(frame); must() }},
				{"ProduceResponse.Peek", func() { err = r.Peek(version, answer); must() }},
				{"Produce.SetAcks", func() { p.SetAcks(frame, -1) }},
				{"Produce.AppendSplit", func() { p.AppendSplit(buffer, frame, func(i int) bool { return i > 0 }) }},
				{"Produce.AppendMerged", func() { p.AppendMerged(buffer, &r, answer, none) }},
				{"StampBatch", func() { StampBatch(frame[p.Partitions[0].Start:p.Partitions[0].End], 1, 2, 3) }},
			} {
				if got := testing.AllocsPerRun(20, c.run); got != 0 {
					t.Errorf("v%d, %d × %d partitions: %s allocates %v times", version, n, n, c.name, got)
				}
			}
			_ = h
		}
	}
}

func BenchmarkPeek(b *testing.B) {
	for _, version := range []int16{3, 9, 13} {
		for _, n := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("v%d/%d", version, n), func(b *testing.B) {
				frame := encodeRequest(sampleRequest(version, 1, n))
				var p Produce
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Peek(frame); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkPeekResponse(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("v9/%d", n), func(b *testing.B) {
			answer := AppendResponse(nil, 1, sampleResponse(sampleRequest(9, 1, n)))
			var r ProduceResponse
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Peek(9, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStampBatch(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			batch := encodeBatch(&kmsg.RecordBatch{Magic: 2, NumRecords: 1, Records: make([]byte, size)})
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				StampBatch(batch, 1, 2, 3)
			}
		})
	}
}
