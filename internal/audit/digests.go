package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"
)

// digest stands for a record in the checks by key and by content. 128 bits of
// SHA-256 are enough that two records with the same digest are the same.
type digest struct {
	high, low uint64
	time      int64 // milliseconds
	offset    int64
	partition int32
}

func (d *digest) place() Place { return Place{d.partition, d.offset} }

// newDigestSpill sorts equal records next to each other, the oldest first.
func newDigestSpill(dir string, memory int64) *spill[digest] {
	return &spill[digest]{
		dir: dir, limit: itemsIn(memory, 40), size: 36,
		compare: func(a, b digest) int {
			if c := cmp.Compare(a.high, b.high); c != 0 { // nearly always
				return c
			}
			return cmp.Or(
				cmp.Compare(a.low, b.low), cmp.Compare(a.time, b.time),
				cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
		},
		encode: func(b []byte, d *digest) {
			binary.BigEndian.PutUint64(b, d.high)
			binary.BigEndian.PutUint64(b[8:], d.low)
			binary.BigEndian.PutUint64(b[16:], uint64(d.time))
			binary.BigEndian.PutUint64(b[24:], uint64(d.offset))
			binary.BigEndian.PutUint32(b[32:], uint32(d.partition))
		},
		decode: func(b []byte, d *digest) {
			*d = digest{
				high:      binary.BigEndian.Uint64(b),
				low:       binary.BigEndian.Uint64(b[8:]),
				time:      int64(binary.BigEndian.Uint64(b[16:])),
				offset:    int64(binary.BigEndian.Uint64(b[24:])),
				partition: int32(binary.BigEndian.Uint32(b[32:])),
			}
		},
	}
}

// digestCheck looks at sorted digests.
type digestCheck struct {
	kind   FindingKind
	window time.Duration // 0: any time apart
	found  *findings
	last   digest
	any    bool
}

func (c *digestCheck) add(d *digest) {
	same := c.any && d.high == c.last.high && d.low == c.last.low
	if same && (c.window == 0 || d.time-c.last.time <= c.window.Milliseconds()) {
		first := c.last.place()
		c.found.add(Finding{Kind: c.kind, Place: d.place(), Records: 1, First: &first})
		if c.window > 0 {
			c.last = *d
		}
		return
	}
	c.last, c.any = *d, true
}

// hasher computes digests.
type hasher struct {
	hash hash.Hash
	buf  []byte
}

func newHasher() *hasher { return &hasher{hash: sha256.New()} }

func (h *hasher) sum(e *Entry) digest {
	h.hash.Reset()
	h.hash.Write(h.buf)
	var sum [sha256.Size]byte
	h.hash.Sum(sum[:0])
	return digest{
		high: binary.BigEndian.Uint64(sum[:]), low: binary.BigEndian.Uint64(sum[8:]),
		time: e.Timestamp, offset: e.Offset, partition: e.Partition,
	}
}

// content is the digest of key, value and headers.
func (h *hasher) content(e *Entry) digest {
	h.buf = h.buf[:0]
	h.part(e.Key)
	h.part(e.Value)
	for i := range e.Headers {
		h.part([]byte(e.Headers[i].Key))
		h.part(e.Headers[i].Value)
	}
	return h.sum(e)
}

// part appends bytes so that no two lists of parts look the same: null is not
// empty, and lengths come first.
func (h *hasher) part(b []byte) {
	n := uint64(len(b)) + 1
	if b == nil {
		n = 0
	}
	h.buf = binary.AppendUvarint(h.buf, n)
	h.buf = append(h.buf, b...)
}

// key is the digest of a header's value; of several with the name the last one
// counts, as in Kafka's own Headers.lastHeader.
func (h *hasher) key(e *Entry, name string) (digest, bool) {
	for i := len(e.Headers) - 1; i >= 0; i-- {
		if e.Headers[i].Key == name && e.Headers[i].Value != nil {
			h.buf = append(h.buf[:0], e.Headers[i].Value...)
			return h.sum(e), true
		}
	}
	return digest{}, false
}
