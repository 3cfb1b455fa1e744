package proxy

import (
	"sync"

	"github.com/oncegate/oncegate/dedup"
)

// shardCount divides the windows so that connections seldom meet at a lock. A
// window belongs to one shard for good.
const shardCount = 64

// windows is the shell around the dedup core: it owns the locks, and knows whom
// to wake.
type windows struct {
	shards [shardCount]shard
	links  sync.Map // dedup.Link → *session, for those that may wait

	fenceMu sync.Mutex
	fences  *dedup.Fences
}

type shard struct {
	mu    sync.Mutex
	table *dedup.Table
	wake  []dedup.Link // scratch, used under mu
	_     [64]byte     // keeps two shards' locks off one cache line
}

func newWindows(opts dedup.Options) *windows {
	w := &windows{fences: dedup.NewFences(fencedProducers)}
	for i := range w.shards {
		w.shards[i].table = dedup.NewTable(opts)
	}
	return w
}

// fencedProducers bounds how many transactional producers' epochs are kept:
// 10 bytes and a map's overhead each.
const fencedProducers = 1 << 16

func (w *windows) shard(k *dedup.Key) *shard {
	h := uint64(k.ProducerID)*0x9e3779b97f4a7c15 ^ uint64(uint32(k.Partition))*0xc2b2ae3d27d4eb4f ^ uint64(k.Topic)*0x165667b19e3779f9
	return &w.shards[h>>(64-6)]
}

func (w *windows) submit(b *dedup.Batch, now uint32) (*shard, dedup.Verdict) {
	s := w.shard(&b.Key)
	s.mu.Lock()
	v := s.table.Submit(b, now)
	s.mu.Unlock()
	return s, v
}

// fenced turns a duplicate of a finished transaction into what a broker says of
// it.
func (w *windows) fenced(b *dedup.Batch) bool {
	w.fenceMu.Lock()
	defer w.fenceMu.Unlock()
	return w.fences.Fenced(b.ProducerID, b.Epoch)
}

func (w *windows) fence(producerID int64, epoch int16) {
	w.fenceMu.Lock()
	defer w.fenceMu.Unlock()
	w.fences.Raise(producerID, epoch)
}

func (w *windows) stored(s *shard, k dedup.Ticket, offset int64, now uint32) {
	s.mu.Lock()
	w.wakeAndUnlock(s, s.table.Stored(k, offset, now, s.wake[:0]))
}

func (w *windows) failed(s *shard, k dedup.Ticket, code int16, now uint32) {
	s.mu.Lock()
	w.wakeAndUnlock(s, s.table.Failed(k, code, now, s.wake[:0]))
}

func (w *windows) lost(s *shard, k dedup.Ticket, now uint32) {
	s.mu.Lock()
	w.wakeAndUnlock(s, s.table.Lost(k, now, s.wake[:0]))
}

func (w *windows) withdraw(s *shard, k dedup.Ticket, now uint32) {
	s.mu.Lock()
	w.wakeAndUnlock(s, s.table.Withdraw(k, now, s.wake[:0]))
}

// wakeAndUnlock wakes under the lock: a wake-up is a send that never blocks.
func (w *windows) wakeAndUnlock(s *shard, wake []dedup.Link) {
	for _, link := range wake {
		if waiting, ok := w.links.Load(link); ok {
			waiting.(*session).wakeUp()
		}
	}
	s.wake = wake[:0]
	s.mu.Unlock()
}

func (w *windows) confirm(k dedup.Key, leader uint32, epoch int16, last int32) {
	s := w.shard(&k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Confirm(k, leader, epoch, last)
}

func (w *windows) forget(k dedup.Key) {
	s := w.shard(&k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Forget(k)
}

// sweep gives idle windows to the cold tier, a bounded number of each shard at
// a time so that no request waits long.
func (w *windows) sweep(before uint32) {
	const limit = 4096
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		s.table.Sweep(before, limit)
		s.mu.Unlock()
	}
}

func (w *windows) stats() dedup.Stats {
	var sum dedup.Stats
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		one := s.table.Stats()
		s.mu.Unlock()
		sum.Windows += one.Windows
		sum.Hits += one.Hits
		sum.Recalls += one.Recalls
		sum.Misses += one.Misses
	}
	return sum
}

// Evict gives all windows without work in flight to the cold tier at once, as
// if their producers had idled for long. Tests use it.
func (p *Proxy) Evict() { p.windows.sweep(1<<32 - 1) }
