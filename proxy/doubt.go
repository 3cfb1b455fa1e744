package proxy

import (
	"hash/maphash"
	"slices"
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
	claimed []claimState // of each record
	born    time.Time
	// answered says that the answer was written before the connection ended.
	// The client may well have read it, so only records with equal timestamps
	// are taken for its retry.
	answered bool

	settled chan struct{} // closed when the outcome is known
	stored  bool
	offset  int64 // of the first record, −1 where unknown
}

// claimState says which session has taken a record for the retry of this one.
type claimState struct {
	by     *session
	learnt bool // and the client has the answer to that
}

// free says whether a retry may still be matched with record i: it was not yet,
// or by a session that came to nothing.
func (d *doubt) free(i int) bool {
	c := &d.claimed[i]
	return !c.learnt && (c.by == nil || c.by.abandoned.Load())
}

func (d *doubt) settle(stored bool, offset int64) {
	select {
	case <-d.settled:
	default:
		d.stored, d.offset = stored, offset
		close(d.settled)
	}
}

// doubts holds all doubts until their client has learnt the outcome, or they
// are too old.
type doubts struct {
	ttl  time.Duration
	seed maphash.Seed
	n    atomic.Int64 // how many there are; 0 spares all the rest

	mu    sync.Mutex
	byKey map[doubtKey]*keyDoubts
}

// keyDoubts are the doubts of one client about one partition.
type keyDoubts struct {
	all   []*doubt           // in the order in which they arose
	bySum map[uint64][]claim // every record of them
}

func newDoubts(ttl time.Duration) *doubts {
	return &doubts{ttl: ttl, seed: maphash.MakeSeed(), byKey: make(map[doubtKey]*keyDoubts)}
}

func (ds *doubts) add(key doubtKey, d *doubt) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	kd := ds.byKey[key]
	if kd == nil {
		kd = &keyDoubts{bySum: make(map[uint64][]claim)}
		ds.byKey[key] = kd
	}
	kd.all = append(kd.all, d)
	for i, r := range d.records {
		kd.bySum[r.Sum] = append(kd.bySum[r.Sum], claim{d, i})
	}
	ds.n.Add(1)
}

// about says whether there is any doubt for key.
func (ds *doubts) about(key doubtKey) bool {
	if ds.n.Load() == 0 {
		return false
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.byKey[key] != nil
}

// sweep forgets what is too old.
func (ds *doubts) sweep(now time.Time) {
	if ds.n.Load() == 0 {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for key := range ds.byKey {
		ds.drop(key, func(d *doubt) bool { return now.Sub(d.born) >= ds.ttl })
	}
}

// drop removes doubts of a key; mu is held.
func (ds *doubts) drop(key doubtKey, gone func(*doubt) bool) {
	kd := ds.byKey[key]
	before := len(kd.all)
	kd.all = slices.DeleteFunc(kd.all, gone)
	if len(kd.all) == before {
		return
	}
	ds.n.Add(int64(len(kd.all) - before))
	if len(kd.all) == 0 {
		delete(ds.byKey, key)
		return
	}
	for sum, refs := range kd.bySum {
		refs = slices.DeleteFunc(refs, func(c claim) bool { return gone(c.d) })
		if len(refs) == 0 {
			delete(kd.bySum, sum)
		} else {
			kd.bySum[sum] = refs
		}
	}
}

// claim is one record of a batch that is taken for the retry of one in doubt.
type claim struct {
	d *doubt // nil for none
	i int    // which record of d
}

// claim looks for the records of a batch among those in doubt for key, and
// marks what it finds as claimed by the session. It returns nil when there is
// nothing.
//
// A record is claimed once. Its content has to be equal. So has its timestamp,
// except where the whole of a doubt comes again, in order, and its client had
// no answer: some clients stamp every attempt anew. Equal records that are not
// a retry are thus kept apart by their timestamps, or by not being a whole
// unanswered batch.
func (ds *doubts) claim(key doubtKey, by *session, batch []records.Digest) (claims []claim) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	kd := ds.byKey[key]
	if kd == nil {
		return nil
	}
	claims = make([]claim, len(batch))
	found := false
	mark := func(at int, c claim) {
		c.d.claimed[c.i].by = by
		claims[at] = c
		found = true
	}
	for at, r := range batch {
		for _, c := range kd.bySum[r.Sum] {
			if c.d.records[c.i] == r && c.d.free(c.i) {
				mark(at, c)
				break
			}
		}
	}
	for _, d := range kd.all {
		if d.answered {
			continue
		}
		if start, ok := wholeAgain(d, batch, claims); ok {
			for i := range d.records {
				mark(start+i, claim{d, i})
			}
		}
	}
	if !found {
		return nil
	}
	return claims
}

// wholeAgain says where in the batch all of d's records come again in order,
// whatever their timestamps.
func wholeAgain(d *doubt, batch []records.Digest, claims []claim) (start int, ok bool) {
	for i := range d.records {
		if !d.free(i) {
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

// unclaim gives a session's claims back: the client may not have its answer.
func (ds *doubts) unclaim(by *session, claims []claim) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, c := range claims {
		if c.d != nil && c.d.claimed[c.i].by == by {
			c.d.claimed[c.i].by = nil
		}
	}
}

// learnt says that the client has the answer to a session's claims: it will not
// send those records again.
func (ds *doubts) learnt(key doubtKey, by *session, claims []claim) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, c := range claims {
		if c.d != nil && c.d.claimed[c.i].by == by {
			c.d.claimed[c.i] = claimState{learnt: true}
		}
	}
	if ds.byKey[key] != nil {
		ds.drop(key, func(d *doubt) bool {
			return !slices.ContainsFunc(d.claimed, func(c claimState) bool { return !c.learnt })
		})
	}
}
