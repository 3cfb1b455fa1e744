// Package cold keeps the snapshots of idle producers within a bound of bytes.
//
// It is a Ristretto cache, which may drop, refuse or evict any entry at any
// time. All of that is harmless here: what is missing is asked of the broker,
// and a snapshot says only what stays true however old it is.
//
// Ristretto takes some 230 bytes for an entry of its own, five times a
// snapshot. So an entry is a page of many snapshots, chosen by the key's hash.
package cold

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/oncegate/oncegate/dedup"
)

const (
	pageSnapshots = 64
	// PageBytes is what a full page costs, Ristretto's share included.
	PageBytes = pageSnapshots*int64(unsafe.Sizeof(dedup.Snapshot{})) + 300
)

// Cache is the cold tier. Its methods may be called by many goroutines.
type Cache struct {
	cache *ristretto.Cache[uint64, *page]
	pages uint64

	hits, misses, replaced, lost atomic.Uint64
	entries                      atomic.Int64

	// fresh holds pages that Ristretto has queued and not taken in yet: it
	// would not find them, and a second Set of the same key would be lost.
	mu    sync.Mutex
	fresh map[uint64]*page
}

// page holds snapshots whose keys have the same hash modulo the number of
// pages; when it is full they make room in turn.
type page struct {
	mu        sync.Mutex
	snapshots []dedup.Snapshot
	oldest    int // which makes room next
	gone      bool
}

// Stats counts what a cache did.
type Stats struct {
	Hits, Misses uint64
	Evicted      uint64 // snapshots that made room for others, alone or with their page
	Rejected     uint64 // pages that Ristretto refused or dropped
	Entries      int64  // snapshots held
	Bytes        int64
}

// New returns a cache of at most limit bytes.
func New(limit int64) (*Cache, error) {
	pages := max(16, limit/PageBytes)
	c := &Cache{pages: uint64(pages), fresh: make(map[uint64]*page)}
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, *page]{
		NumCounters: 10 * pages,
		MaxCost:     pages, // every page costs 1
		BufferItems: 64,
		Metrics:     true,
		// Otherwise Ristretto counts 56 bytes of its own as 56 pages.
		IgnoreInternalCost: true,
		OnExit:             c.leave,
	})
	if err != nil {
		return nil, fmt.Errorf("a cache of %d bytes can't be made: %w", limit, err)
	}
	c.cache = cache
	return c, nil
}

// leave is told of every page that Ristretto lets go of or never took.
func (c *Cache) leave(p *page) {
	if p == nil {
		return
	}
	p.mu.Lock()
	n := len(p.snapshots)
	p.snapshots, p.gone = nil, true
	p.mu.Unlock()
	c.entries.Add(-int64(n))
	c.lost.Add(uint64(n))
}

// Demote keeps s, or does not.
func (c *Cache) Demote(s dedup.Snapshot) {
	n := hash(s.Key) % c.pages
	p := c.page(n)
	if p == nil {
		p = new(page)
		c.mu.Lock()
		c.fresh[n] = p
		c.mu.Unlock()
		p.add(c, s)
		if !c.cache.Set(n, p, 1) {
			c.forgetFresh(n, p)
			c.leave(p)
		}
		return
	}
	p.add(c, s)
}

func (p *page) add(c *Cache, s dedup.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	for i := range p.snapshots {
		if p.snapshots[i].Key == s.Key {
			p.snapshots[i] = s
			return
		}
	}
	if len(p.snapshots) < pageSnapshots {
		p.snapshots = append(p.snapshots, s)
		c.entries.Add(1)
		return
	}
	p.oldest %= pageSnapshots
	p.snapshots[p.oldest] = s
	p.oldest++
	c.replaced.Add(1)
}

// Recall takes back what was kept for the key. It is returned once: by the time
// that it could be asked for again a broker may have lost what it tells of.
func (c *Cache) Recall(k dedup.Key) (dedup.Snapshot, bool) {
	if p := c.page(hash(k) % c.pages); p != nil {
		if s, ok := p.take(k); ok {
			c.hits.Add(1)
			c.entries.Add(-1)
			return s, true
		}
	}
	c.misses.Add(1)
	return dedup.Snapshot{}, false
}

// take removes and returns the snapshot of a key.
func (p *page) take(k dedup.Key) (dedup.Snapshot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.snapshots {
		if p.snapshots[i].Key == k {
			s := p.snapshots[i]
			end := len(p.snapshots) - 1
			p.snapshots[i] = p.snapshots[end]
			p.snapshots = p.snapshots[:end]
			return s, true
		}
	}
	return dedup.Snapshot{}, false
}

// page finds a page that is held, or queued.
func (c *Cache) page(n uint64) *page {
	p, ok := c.cache.Get(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		delete(c.fresh, n)
		return p
	}
	return c.fresh[n]
}

func (c *Cache) forgetFresh(n uint64, p *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fresh[n] == p {
		delete(c.fresh, n)
	}
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	m := c.cache.Metrics
	return Stats{
		Hits: c.hits.Load(), Misses: c.misses.Load(),
		Evicted:  c.replaced.Load() + c.lost.Load(),
		Rejected: m.SetsRejected() + m.SetsDropped(),
		Entries:  c.entries.Load(),
		Bytes:    c.entries.Load()*int64(unsafe.Sizeof(dedup.Snapshot{})) + int64(m.KeysAdded()-m.KeysEvicted())*300,
	}
}

// Close ends the cache's goroutines.
func (c *Cache) Close() { c.cache.Close() }

// hash spreads keys over pages.
func hash(k dedup.Key) uint64 {
	h := uint64(k.ProducerID)*0x9e3779b97f4a7c15 ^ uint64(k.Topic)<<32 ^ uint64(uint32(k.Partition))
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}
