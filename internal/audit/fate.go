package audit

import "iter"

// fate is all that is known of one record.
type fate struct {
	sent, acked, failed bool
	copies              int32
	first               Place  // the first copy; valid when there is one
	answer              answer // the first one; valid when acked
}

// answer is a place that an acknowledgement named.
type answer struct {
	place Place
	true  bool // the log holds a copy there
}

// Sequence numbers are mostly dense, so fates lie in chunks.
const (
	chunkBits = 9
	chunkMask = 1<<chunkBits - 1
)

// client is what is known of one client's records.
type client struct {
	chunks map[int64]*[1 << chunkBits]fate
	more   map[int64][]answer // second and later answers, by sequence number
}

func (c *Checker) client(r Record) *client {
	cl := c.clients[r.Client]
	if cl == nil {
		cl = &client{chunks: make(map[int64]*[1 << chunkBits]fate), more: make(map[int64][]answer)}
		c.clients[r.Client] = cl
	}
	return cl
}

// fate finds or makes the entry of a record.
func (c *Checker) fate(r Record) *fate {
	cl := c.client(r)
	chunk := cl.chunks[r.Seq>>chunkBits]
	if chunk == nil {
		chunk = new([1 << chunkBits]fate)
		cl.chunks[r.Seq>>chunkBits] = chunk
	}
	return &chunk[r.Seq&chunkMask]
}

// answers are all places that were named for a record.
func (cl *client) answers(f *fate, seq int64) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		if f.acked && !yield(&f.answer) {
			return
		}
		more := cl.more[seq]
		for i := range more {
			if !yield(&more[i]) {
				return
			}
		}
	}
}
