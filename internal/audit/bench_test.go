package audit

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

// manyBatches is a topic too large to be kept anywhere: records in batches of
// 500 over 6 partitions, every millionth one written twice.
func manyBatches(records int) iter.Seq[*Batch] {
	return func(yield func(*Batch) bool) {
		const size = 500
		var offsets [6]int64
		for n := 0; n < records; n += size {
			p := int32(n / size % len(offsets))
			first := offsets[p]
			offsets[p] += size
			b := &Batch{
				Partition: p, BaseOffset: first, LastOffset: first + size - 1, ProducerID: int64(p),
				BaseSequence: int32(first), LastSequence: int32(first + size - 1),
			}
			for i := range size {
				id := n + i
				if id%1_000_000 == 999_999 {
					id -= 500_000
				}
				b.Entries = append(b.Entries, Entry{
					Partition: p, Offset: first + int64(i), Timestamp: int64(n), ProducerID: int64(p), Sequence: int32(first + int64(i)),
					Value: fmt.Appendf(nil, `{"order":%d,"amount":%d,"currency":"EUR"}`, id, id%9973),
				})
			}
			if !yield(b) {
				return
			}
		}
	}
}

// BenchmarkAudit looks for duplicates by sequence and by content among 10^7
// records with 64 MiB for the checks, and tells the most memory that the
// process had.
func BenchmarkAudit(b *testing.B) {
	const records, memory = 10_000_000, 64 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memory + memory/4 + 64<<20))
	for b.Loop() {
		a, err := NewAuditor(&Topic{Name: "many"}, Options{Sequence: true, Content: true, Memory: memory, TempDir: b.TempDir(), Keep: 10})
		if err != nil {
			b.Fatal(err)
		}
		for batch := range manyBatches(records) {
			if err := a.Add(batch); err != nil {
				b.Fatal(err)
			}
		}
		r, err := a.Result()
		if err != nil {
			b.Fatal(err)
		}
		if r.Found(DuplicateByContent) != records/1_000_000 || r.Found(DuplicateBySequence) != 0 || r.Spilled == 0 {
			b.Fatal(r)
		}
		b.ReportMetric(float64(r.Spilled)/(1<<20), "MiB-on-disk")
		a.Close()
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(peakMemory(b), "MiB-peak")
}

// peakMemory is the most resident memory of this process, in MiB.
func peakMemory(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not Linux
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	kib, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}
