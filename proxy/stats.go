package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/dedup/cold"
)

// Stats counts what a proxy does. All of it may be read at any time.
type Stats struct {
	Forwarded          atomic.Uint64 // batches sent upstream, sending again not counted
	Duplicates         atomic.Uint64 // batches answered by Oncegate with their original's outcome
	Refused            atomic.Uint64 // batches answered by Oncegate with an error
	Waits              atomic.Uint64 // times that a request waited for another batch
	Verified           atomic.Uint64 // windows verified with the leader after a change of leadership
	Reused             atomic.Uint64 // stored ranges that came again with another CRC
	AcksRaised         atomic.Uint64 // requests with a producer id whose acks were raised to all
	BytesSaved         atomic.Uint64 // bytes of batches that did not go upstream again
	Reconnects         atomic.Uint64 // upstream connections that broke with requests unanswered
	Resent             atomic.Uint64 // requests sent again after that
	GaveUp             atomic.Uint64 // times that sending again was given up
	BudgetWaits        atomic.Uint64 // times that a client was not read for want of memory
	BadFrames          atomic.Uint64 // connections closed for what they sent
	Doubts             atomic.Uint64 // batches whose outcome a client may not have learnt
	RecordsLeftOut     atomic.Uint64 // records of retries without a producer id that were stored already
	Unresolved         atomic.Int64  // batches in doubt that are being settled now
	Connections        atomic.Int64  // client connections open now
	ConnectionsRefused atomic.Uint64
}

// Stats returns the counters of p.
func (p *Proxy) Stats() *Stats { return &p.stats }

// onceEach remembers for which producers a message has been logged.
type onceEach struct {
	mu   sync.Mutex
	seen map[int64]struct{}
}

// onceEachLimit bounds the memory; past it every producer may log once more.
const onceEachLimit = 1 << 12

func (o *onceEach) first(producerID int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.seen[producerID]; ok {
		return false
	}
	if o.seen == nil || len(o.seen) >= onceEachLimit {
		o.seen = make(map[int64]struct{})
	}
	o.seen[producerID] = struct{}{}
	return true
}

// IdleStats returns the counters of the cold tier.
func (p *Proxy) IdleStats() cold.Stats { return p.idle.Stats() }

// WindowStats returns the counters of the dedup core.
func (p *Proxy) WindowStats() dedup.Stats { return p.windows.stats() }
