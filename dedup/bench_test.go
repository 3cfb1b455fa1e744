package dedup

import (
	"fmt"
	"runtime"
	"testing"
)

// One new batch of a known producer: submitted, forwarded, stored.
func submitStored(table *Table, b *Batch, offset int64) {
	v := table.Submit(b, 1)
	table.Stored(v.Ticket, offset, 1, nil)
	b.First = next(b.Last)
	b.Last = b.First
}

func BenchmarkSubmitStored(b *testing.B) {
	for _, producers := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			table := NewTable(Options{})
			batches := make([]Batch, producers)
			for i := range batches {
				batches[i] = Batch{Key: Key{Topic: 1, ProducerID: int64(i)}, Link: 1}
				submitStored(table, &batches[i], 0)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				submitStored(table, &batches[i], 1)
				if i++; i == producers {
					i = 0
				}
			}
		})
	}
}

func BenchmarkDuplicate(b *testing.B) {
	table := NewTable(Options{})
	batch := Batch{Key: Key{Topic: 1, ProducerID: 7}, Link: 1}
	again := batch
	submitStored(table, &batch, 5)
	b.ReportAllocs()
	for b.Loop() {
		if v := table.Submit(&again, 1); v.Kind != Duplicate {
			b.Fatal(v)
		}
	}
}

// The hot path allocates nothing.
func TestHotPathAllocatesNothing(t *testing.T) {
	table := NewTable(Options{})
	batch := Batch{Key: Key{Topic: 1, ProducerID: 7}, Link: 1}
	submitStored(table, &batch, 0)
	if n := testing.AllocsPerRun(1000, func() { submitStored(table, &batch, 1) }); n != 0 {
		t.Errorf("a new batch costs %v allocations", n)
	}
	again := Batch{Key: batch.Key, First: batch.First - 1, Last: batch.First - 1, Link: 1}
	if n := testing.AllocsPerRun(1000, func() { table.Submit(&again, 1) }); n != 0 {
		t.Errorf("a duplicate costs %v allocations", n)
	}
}

// BenchmarkIdleProducers tells what a million idle producers cost.
func BenchmarkIdleProducers(b *testing.B) {
	const producers = 1_000_000
	for b.Loop() {
		before := heap()
		// 64 tables, as the shell shards them.
		tables := make([]*Table, 64)
		for i := range tables {
			tables[i] = NewTable(Options{})
		}
		for i := range producers {
			batch := Batch{Key: Key{Topic: 1, ProducerID: int64(i)}, Link: 1}
			submitStored(tables[i%64], &batch, 0)
		}
		b.ReportMetric(float64(heap()-before)/producers, "B/producer")
		runtime.KeepAlive(tables)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
