package proxy

import (
	"sync"

	"github.com/oncegate/oncegate/internal/wire"
)

// identity is a producer id that the upstream issued to Oncegate. It stamps the
// batches of one session at a time, and numbers each partition by itself.
type identity struct {
	id    int64
	epoch int16

	mu    sync.Mutex
	lanes map[laneKey]*lane
	// spoiled says that what the broker has of some lane is not known: the
	// identity is not used for new batches any more.
	spoiled bool
}

type laneKey struct {
	topic     uint32 // handle
	partition int32
}

// lane numbers the records of one partition.
type lane struct {
	next      int32 // sequence of the next record to be stamped
	confirmed int32 // sequence behind the last record that is stored
	inFlight  int
	// failing says that a batch was refused: those stamped behind it will be
	// refused too, and nothing new is stamped until they have been.
	failing bool
}

// stamped is a batch's place in its lane.
type stamped struct {
	identity *identity
	lane     *lane
	first    int32
	behind   int32 // the sequence that follows its last
}

// take stamps a batch in place if its lane is ready for more.
func (id *identity) take(key laneKey, b []byte, h *wire.BatchHeader) (st stamped, ok bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	l := id.lanes[key]
	if l == nil {
		l = new(lane)
		id.lanes[key] = l
	}
	if l.failing {
		if l.inFlight > 0 {
			return st, false
		}
		l.failing, l.next = false, l.confirmed
	}
	st = stamped{identity: id, lane: l, first: l.next}
	wire.StampBatch(b, id.id, id.epoch, l.next)
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = id.id, id.epoch, l.next
	st.behind = int32((uint32(h.LastSequence()) + 1) & (1<<31 - 1))
	l.next = st.behind
	l.inFlight++
	return st, true
}

// giveBack undoes take for a batch that was not sent; it must be the lane's
// newest.
func (st *stamped) giveBack() {
	st.identity.mu.Lock()
	defer st.identity.mu.Unlock()
	st.lane.inFlight--
	st.lane.next = st.first
}

// stored and refused are the broker's word on the batch. refused returns
// whether it was refused only because one before it was.
func (st *stamped) stored() {
	st.identity.mu.Lock()
	defer st.identity.mu.Unlock()
	st.lane.inFlight--
	st.lane.confirmed = st.behind
}

func (st *stamped) refused() (behindAnother bool) {
	st.identity.mu.Lock()
	defer st.identity.mu.Unlock()
	st.lane.inFlight--
	behindAnother = st.lane.failing
	st.lane.failing = true
	return behindAnother
}

func (id *identity) isSpoiled() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.spoiled
}

// spoil ends the use of the identity for new batches.
func (id *identity) spoil() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.spoiled = true
}

// settled says whether the identity can serve another session: every batch of
// it has been answered.
func (id *identity) settled() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.spoiled {
		return false
	}
	for _, l := range id.lanes {
		if l.inFlight > 0 {
			return false
		}
	}
	return true
}

// identities are those that no session uses. Connections that come and go take
// turns with few producer ids: each costs the brokers memory for a day.
type identities struct {
	mu   sync.Mutex
	free []*identity
}

func (ids *identities) take(lease func() (int64, int16, error)) (*identity, error) {
	ids.mu.Lock()
	if n := len(ids.free); n > 0 {
		id := ids.free[n-1]
		ids.free = ids.free[:n-1]
		ids.mu.Unlock()
		return id, nil
	}
	ids.mu.Unlock()
	producerID, epoch, err := lease()
	if err != nil {
		return nil, err
	}
	return &identity{id: producerID, epoch: epoch, lanes: make(map[laneKey]*lane)}, nil
}

func (ids *identities) put(id *identity) {
	if !id.settled() {
		return
	}
	ids.mu.Lock()
	defer ids.mu.Unlock()
	ids.free = append(ids.free, id)
}
