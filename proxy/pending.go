package proxy

import (
	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/wire"
)

// reply is what has to be done with the answer to a request.
type reply uint8

const (
	replyPass    reply = iota // written on as it is, uncopied where it is large
	replyProduce              // the dedup core learns from it
	replyRewrite              // it carries addresses, versions or epochs that matter
	replyLocal                // Oncegate has the answer already
)

// pending is a request that the client has not been answered yet. A session
// keeps them in the order of the requests, which is the order of the answers.
type pending struct {
	key, version  int16
	correlationID int32
	reply         reply
	// silent says that the client expects no answer (acks=0) though the
	// upstream gives one.
	silent bool

	// request is the client's frame with its length prefix, and sent what goes
	// upstream: the same bytes, or those of a split request. Both are kept,
	// by chunk, as long as the request may have to be sent again; they are nil
	// where it may not.
	request, sent []byte
	chunk         *chunk
	cost          int64 // bytes taken from the memory budget

	// batches says, for each partition of a Produce request in its order, what
	// became of it.
	batches []batch
	since   int64  // when it came, on the proxy's clock in nanoseconds
	answer  []byte // replyLocal: the whole answer with its length prefix
	split   []byte // memory for sent where it isn't the client's frame
}

// batch is one partition of a Produce request.
type batch struct {
	fate   fate
	shard  *shard
	ticket dedup.Ticket
	answer wire.PartitionAnswer // fateLocal, or own
	own    bool                 // the client gets answer, whatever the upstream said

	// Of batches that came without a producer id:
	st      stamped // its stamp
	partial bool    // it is the rest of a batch of which some records were stored
	claims  []claim // records of it that were a retry of stored ones
	stored  bool    // fateSettled: the broker has it, at offset
	offset  int64
	doubt   *doubt // the client may not learn the outcome
}

// reword makes Oncegate answer for b instead of the upstream.
func (b *batch) reword(code int16) { b.own, b.answer = true, failure(code) }

// fate says who answers for a batch.
type fate uint8

const (
	fateUntracked fate = iota // the upstream; nothing is known of it
	fateForwarded             // the upstream; the ticket awaits its word
	fateSettled               // the upstream has answered, the ticket is used
	fateLocal                 // Oncegate
)

// queue is a first-in first-out of pending requests that re-uses its memory.
type queue struct {
	ring       []*pending
	head, size int
}

func (q *queue) push(p *pending) {
	if q.size == len(q.ring) {
		grown := make([]*pending, max(8, 2*len(q.ring)))
		for i := range q.size {
			grown[i] = q.at(i)
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.size)&(len(q.ring)-1)] = p
	q.size++
}

// at returns the i-th oldest.
func (q *queue) at(i int) *pending { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) pop() *pending {
	p := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.size--
	return p
}
