package proxy

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// chunk is a piece of memory that frames are read into. Several frames may lie
// in one; it goes back to its pool when its reader and the last request that
// may have to be sent again have let go of it.
type chunk struct {
	buf  []byte
	refs atomic.Int32
}

// Chunk sizes are powers of two. A reader's next chunk follows what its last
// read brought, so that quiet connections hold little.
const (
	minChunkBits = 12 // 4 KiB
	maxChunkBits = 31
	minChunk     = 1 << minChunkBits
	readChunk    = 64 << 10 // the largest that is read into without a known frame size
)

var chunks [maxChunkBits + 1]sync.Pool

// newChunk returns a chunk of at least size bytes with one reference.
func newChunk(size int) *chunk {
	class := max(minChunkBits, bits.Len(uint(size-1)))
	c, _ := chunks[class].Get().(*chunk)
	if c == nil {
		c = &chunk{buf: make([]byte, 1<<class)}
	}
	c.refs.Store(1)
	return c
}

func (c *chunk) retain() { c.refs.Add(1) }

func (c *chunk) release() {
	switch n := c.refs.Add(-1); {
	case n == 0:
		chunks[bits.Len(uint(len(c.buf)-1))].Put(c)
	case n < 0:
		panic("proxy: a chunk was released twice")
	}
}

// alone says whether only its reader holds the chunk.
func (c *chunk) alone() bool { return c.refs.Load() == 1 }
