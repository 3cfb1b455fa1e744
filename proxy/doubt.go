package proxy

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/records"
)

// doubtKey is for whom and where a client's records may come again: a client
// is known by its client id and its address, since its port is another one
// after each loss.
type doubtKey struct {
	client    string
	host      string
	topic     uint32 // handle
	partition int32
}

// doubt is one batch whose outcome its client could not have learnt, or may
// not have: the connection ended around its answer, or the answer was "timed
// out".
type doubt struct {
	records []records.Digest
	taken   []bool // records that a retry has claimed
	born    time.Time
	// answered says that the answer was written before the connection ended.
	// The client may well have read it, so only records with equal timestamps
	// are taken for its retry.
	answered bool

	settled chan struct{} // closed when the outcome is known
	stored  bool
	offset  int64 // of the first record, −1 where unknown
}

func (d *doubt) settle(stored bool, offset int64) {
	select {
	case <-d.settled:
	default:
		d.stored, d.offset = stored, offset
		close(d.settled)
	}
}

// doubts holds all doubts until they are claimed or too old.
type doubts struct {
	ttl  time.Duration
	seed maphash.Seed
	n    atomic.Int64 // how many there are; 0 spares all the rest

	mu    sync.Mutex
	byKey map[doubtKey][]*doubt
}

func newDoubts(ttl time.Duration) *doubts {
	return &doubts{ttl: ttl, seed: maphash.MakeSeed(), byKey: make(map[doubtKey][]*doubt)}
}

func (ds *doubts) add(key doubtKey, d *doubt) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.byKey[key] = append(ds.byKey[key], d)
	ds.n.Add(1)
}

// sweep forgets what is too old.
func (ds *doubts) sweep(now time.Time) {
	if ds.n.Load() == 0 {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for key, all := range ds.byKey {
		ds.keep(key, all, func(d *doubt) bool { return now.Sub(d.born) < ds.ttl })
	}
}

// keep drops the doubts of a key that are not to be kept; mu is held.
func (ds *doubts) keep(key doubtKey, all []*doubt, keep func(*doubt) bool) {
	kept := all[:0]
	for _, d := range all {
		if keep(d) {
			kept = append(kept, d)
		}
	}
	clear(all[len(kept):])
	ds.n.Add(int64(len(kept) - len(all)))
	if len(kept) == 0 {
		delete(ds.byKey, key)
	} else {
		ds.byKey[key] = kept
	}
}

// claim is one record of a batch that is taken for the retry of one in doubt.
type claim struct {
	d *doubt
	i int // which record of d; −1 for none
}

// claim looks for the records of a batch among those in doubt for key, and
// marks what it finds. It returns nil when there is nothing.
//
// A record is claimed in the order of the doubts, once. Its content has to be
// equal. So has its timestamp, except where the whole of a doubt comes again,
// in order, and its client had no answer: some clients stamp every attempt
// anew. Equal records that are not a retry are thus kept apart by their
// timestamps, or by not being a whole unanswered batch.
func (ds *doubts) claim(key doubtKey, batch []records.Digest) (claims []claim) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	all := ds.byKey[key]
	if len(all) == 0 {
		return nil
	}
	found := false
	claims = make([]claim, len(batch))
	for i := range claims {
		claims[i].i = -1
	}
	mark := func(at int, d *doubt, i int) {
		d.taken[i] = true
		claims[at] = claim{d, i}
		found = true
	}
	for at := range batch {
		if d, i := exact(all, batch[at]); d != nil {
			mark(at, d, i)
		}
	}
	for _, d := range all {
		if d.answered {
			continue
		}
		if start, ok := wholeAgain(d, batch, claims); ok {
			for i := range d.records {
				mark(start+i, d, i)
			}
		}
	}
	if !found {
		return nil
	}
	ds.keep(key, all, func(d *doubt) bool {
		for _, taken := range d.taken {
			if !taken {
				return true
			}
		}
		return false
	})
	return claims
}

// exact finds an unclaimed record with the same content and timestamp.
func exact(all []*doubt, r records.Digest) (*doubt, int) {
	for _, d := range all {
		for i := range d.records {
			if !d.taken[i] && d.records[i] == r {
				return d, i
			}
		}
	}
	return nil, -1
}

// wholeAgain says where in the batch all of d's records come again in order,
// whatever their timestamps.
func wholeAgain(d *doubt, batch []records.Digest, claims []claim) (start int, ok bool) {
	for _, taken := range d.taken {
		if taken {
			return 0, false
		}
	}
next:
	for start = 0; start+len(d.records) <= len(batch); start++ {
		for i := range d.records {
			if claims[start+i].d != nil || batch[start+i].Sum != d.records[i].Sum {
				continue next
			}
		}
		return start, true
	}
	return 0, false
}

// unclaim gives claimed records back: their retry was not answered.
func (ds *doubts) unclaim(key doubtKey, claims []claim) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, c := range claims {
		if c.d == nil {
			continue
		}
		c.d.taken[c.i] = false
		held := false
		for _, d := range ds.byKey[key] {
			held = held || d == c.d
		}
		if !held {
			ds.byKey[key] = append(ds.byKey[key], c.d)
			ds.n.Add(1)
		}
	}
}
