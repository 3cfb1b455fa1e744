package cold

import (
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/dedup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newCache(tb testing.TB, limit int64) *Cache {
	tb.Helper()
	c, err := New(limit)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func snapshot(pid int64, last int32) dedup.Snapshot {
	return dedup.Snapshot{Key: dedup.Key{Topic: 1, ProducerID: pid}, First: last, Last: last, Since: last, Offset: int64(last)}
}

// settle waits until Ristretto has taken in what was set.
func (c *Cache) settle() { c.cache.Wait() }

func key(pid int64) dedup.Key { return dedup.Key{Topic: 1, ProducerID: pid} }

// Ristretto loses a second Set of a key whose first is still queued, and keeps
// the older value. Here the newer snapshot wins, at once and later.
func TestNewerSnapshotWins(t *testing.T) {
	c := newCache(t, 1<<20)
	for pid := range int64(1000) {
		c.Demote(snapshot(pid, 1))
		c.Demote(snapshot(pid, 2))
		if s, ok := c.Recall(key(pid)); ok && s.Last != 2 {
			t.Fatalf("producer %d: got %+v, %v", pid, s, ok)
		}
	}
	c.settle()
	for pid := range int64(1000) {
		c.Demote(snapshot(pid, 3))
		if s, ok := c.Recall(key(pid)); ok && s.Last != 3 {
			t.Fatalf("producer %d: got %+v, %v", pid, s, ok)
		}
	}
}

// A Get straight after a Set misses in Ristretto: the raw behaviour that the
// cache works around. If it changes, the workaround can go.
func TestRistrettoQueuesSets(t *testing.T) {
	c := newCache(t, 1<<20)
	missed, older := 0, 0
	for n := range uint64(100) {
		first, second := new(page), new(page)
		c.cache.Set(n, first, 1)
		if _, ok := c.cache.Get(n); !ok {
			missed++
		}
		c.cache.Set(n, second, 1)
		c.settle()
		if p, _ := c.cache.Get(n); p == first {
			older++
		}
	}
	if missed == 0 || older == 0 {
		t.Errorf("%d of 100 Gets missed and %d of 100 second Sets were lost: Ristretto does better now", missed, older)
	}
}

// What was recalled is not kept: a broker may lose it meanwhile, and the table
// then must not hear of it again.
func TestRecallTakes(t *testing.T) {
	c := newCache(t, 1<<20)
	c.Demote(snapshot(1, 1))
	c.Demote(snapshot(2, 1))
	c.settle()
	if _, ok := c.Recall(key(1)); !ok {
		t.Fatal("not kept")
	}
	if s, ok := c.Recall(key(1)); ok {
		t.Errorf("recalled a second time: %+v", s)
	}
	if _, ok := c.Recall(key(2)); !ok {
		t.Error("another was taken along")
	}
	if n := c.Stats().Entries; n != 0 {
		t.Errorf("%d entries", n)
	}
}

// Keys that share a page, or a hash, are told apart.
func TestKeysAreCompared(t *testing.T) {
	c := newCache(t, 0) // 16 pages
	for pid := range int64(200) {
		c.Demote(snapshot(pid, int32(pid)))
	}
	c.settle()
	found := 0
	for pid := range int64(400) {
		s, ok := c.Recall(key(pid))
		if !ok {
			continue
		}
		found++
		if s.Key != key(pid) || s.Last != int32(pid) {
			t.Fatalf("producer %d got %+v", pid, s)
		}
	}
	if found == 0 || found > 200 {
		t.Errorf("%d found", found)
	}
}

// The bound holds: what is beyond it is evicted or refused, and counted.
func TestBound(t *testing.T) {
	const pages = 100
	c := newCache(t, pages*PageBytes)
	for pid := range int64(20 * pages * pageSnapshots) {
		c.Demote(snapshot(pid, 1))
	}
	c.settle()
	s := c.Stats()
	if s.Entries > pages*pageSnapshots || s.Entries < pages*pageSnapshots/2 {
		t.Errorf("%d snapshots, want at most and about %d", s.Entries, pages*pageSnapshots)
	}
	if s.Evicted < 15*pages*pageSnapshots {
		t.Errorf("%d evicted of %d", s.Evicted, 20*pages*pageSnapshots)
	}
	if s.Bytes > pages*PageBytes {
		t.Errorf("%d bytes, the bound is %d", s.Bytes, pages*PageBytes)
	}
}

// A page that Ristretto refuses or drops takes its snapshots along, and they
// are no longer counted.
func TestRefusedPagesAreCounted(t *testing.T) {
	c := newCache(t, 1<<20)
	c.Demote(snapshot(1, 1))
	c.settle()
	p := c.page(hash(key(1)) % c.pages)
	c.leave(p)
	if s := c.Stats(); s.Entries != 0 || s.Evicted != 1 {
		t.Errorf("%+v", s)
	}
	c.Demote(snapshot(1, 2)) // into a page that has gone: dropped, and no harm
	if _, ok := c.Recall(key(1)); ok {
		t.Error("a page that has gone still answers")
	}
}

// A producer that was idle goes on without an error, whether its snapshot was
// kept or not.
func TestIdleProducerReturns(t *testing.T) {
	for _, limit := range []int64{1 << 20, 0} {
		c := newCache(t, limit)
		table := dedup.NewTable(dedup.Options{Demote: c.Demote, Recall: c.Recall})
		for pid := range int64(500) {
			b := dedup.Batch{Key: dedup.Key{Topic: 1, ProducerID: pid}, Last: 9}
			table.Stored(table.Submit(&b, 0).Ticket, 100, 0, nil)
		}
		if n := table.Sweep(10, 1000); n != 500 {
			t.Fatalf("%d swept", n)
		}
		c.settle()
		for pid := range int64(500) {
			b := dedup.Batch{Key: dedup.Key{Topic: 1, ProducerID: pid}, First: 10, Last: 19, Link: 1}
			if v := table.Submit(&b, 20); v.Kind != dedup.Forward {
				t.Fatalf("producer %d: %+v", pid, v)
			}
		}
		s := table.Stats()
		t.Logf("limit %d: %d recalled, %d asked about", limit, s.Recalls, s.Misses-500)
	}
}

// BenchmarkEntry tells what an idle producer costs in the cold tier.
func BenchmarkEntry(b *testing.B) {
	const entries = 1_000_000
	for b.Loop() {
		before := heap()
		c, err := New(entries * PageBytes / pageSnapshots * 5 / 4)
		if err != nil {
			b.Fatal(err)
		}
		for pid := range int64(entries) {
			c.Demote(snapshot(pid, 1))
			if pid%1000 == 0 {
				c.settle()
			}
		}
		c.settle()
		held := c.Stats().Entries
		b.ReportMetric(float64(heap()-before)/float64(held), "B/producer")
		b.ReportMetric(float64(held), "producers")
		c.Close()
	}
}

func heap() uint64 {
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
