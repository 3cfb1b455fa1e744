package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const lengthPrefix = 4

// frames reads length-prefixed frames from one side of a session. It holds no
// memory while it waits for the first byte of a frame on a plain TCP
// connection.
type frames struct {
	conn    net.Conn
	raw     syscall.RawConn // nil when conn isn't a plain TCP connection
	max     int             // the largest frame that is accepted, in bytes, without its length prefix
	timeout time.Duration   // how long a frame may stay half-sent; 0 = for ever

	// before runs before every read that may block, and before a chunk is let
	// go: what was gathered from it must be written by then.
	before func()

	chunk    *chunk
	r, w     int // unread: chunk.buf[r:w]
	size     int // the next chunk's size
	deadline bool
	stopped  atomic.Bool

	readFD func(fd uintptr) bool
	n      int
	err    error
}

func newFrames(conn net.Conn, max int, timeout time.Duration, before func()) *frames {
	f := &frames{conn: conn, max: max, timeout: timeout, before: before, size: minChunk}
	if tcp, ok := conn.(*net.TCPConn); ok {
		f.raw, _ = tcp.SyscallConn()
	}
	// Memory is taken once there is something to read: a connection that waits
	// costs its goroutine only.
	f.readFD = func(fd uintptr) bool {
		if f.chunk == nil {
			f.chunk = newChunk(f.size)
		}
		for {
			f.n, f.err = syscall.Read(int(fd), f.chunk.buf[f.w:])
			if f.err != syscall.EINTR {
				break
			}
		}
		if f.err == syscall.EAGAIN {
			if f.w == 0 {
				f.drop()
			}
			return false
		}
		return true
	}
	return f
}

// frameError is a frame that can't be taken, told so that a user can act on it.
type frameError struct{ reason string }

func (e *frameError) Error() string { return e.reason }

// head makes the next frame's length and its first four bytes available (api
// key and version, or the correlation id) and returns the length.
func (f *frames) head() (int, error) {
	if err := f.need(lengthPrefix); err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(f.chunk.buf[f.r:])))
	if size < 4 || size > f.max {
		return 0, &frameError{describeBadLength(f.chunk.buf[f.r:f.w], size, f.max)}
	}
	return size, f.need(lengthPrefix + 4)
}

// whole returns the next frame with its length prefix. It stays valid until the
// next call, and beyond that while its chunk is retained.
func (f *frames) whole(size int) (frame []byte, c *chunk, err error) {
	n := lengthPrefix + size
	if err := f.need(n); err != nil {
		return nil, nil, err
	}
	frame = f.chunk.buf[f.r : f.r+n : f.r+n]
	f.r += n
	return frame, f.chunk, nil
}

// buffered says whether the next n bytes can be had without reading.
func (f *frames) buffered(n int) bool { return f.w-f.r >= n }

// stream copies the next frame to dst without keeping it: by splice where both
// are plain TCP connections.
func (f *frames) stream(dst io.Writer, size int) error {
	n := lengthPrefix + size
	have := min(n, f.w-f.r)
	if _, err := dst.Write(f.chunk.buf[f.r : f.r+have]); err != nil {
		return err
	}
	f.r += have
	if n == have {
		return nil
	}
	f.drop()
	_, err := io.CopyN(dst, f.conn, int64(n-have))
	return err
}

// need makes n bytes available in one piece.
func (f *frames) need(n int) error {
	if f.w-f.r >= n {
		return nil
	}
	f.before()
	f.makeRoom(n)
	for f.w-f.r < n {
		if f.timeout > 0 && f.w > f.r && !f.deadline {
			f.deadline = true
			f.conn.SetReadDeadline(time.Now().Add(f.timeout))
		}
		if err := f.read(); err != nil {
			switch {
			case f.stopped.Load():
				return errStopped
			case f.w > f.r && errors.Is(err, os.ErrDeadlineExceeded):
				return &frameError{fmt.Sprintf("a frame stayed half-sent for %v: %d of at least %d bytes came", f.timeout, f.w-f.r, n)}
			case f.w > f.r && err == io.EOF:
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	if f.deadline {
		f.deadline = false
		f.conn.SetReadDeadline(time.Time{})
		if f.stopped.Load() {
			f.conn.SetReadDeadline(past)
		}
	}
	return nil
}

// past is a read deadline that ends every read.
var past = time.Unix(1, 0)

// stop ends reading from another goroutine: frames that have arrived whole are
// still returned, then errStopped.
func (f *frames) stop() {
	f.stopped.Store(true)
	f.conn.SetReadDeadline(past)
}

var errStopped = errors.New("reading was stopped")

// makeRoom sees to it that a chunk can hold n bytes from r on.
func (f *frames) makeRoom(n int) {
	if f.chunk == nil {
		return
	}
	rest := f.chunk.buf[f.r:f.w]
	if len(rest) == 0 {
		if f.chunk.alone() && len(f.chunk.buf) <= readChunk {
			f.r, f.w = 0, 0
		} else {
			f.drop()
		}
		return
	}
	if len(f.chunk.buf)-f.r >= n {
		return
	}
	// A frame larger than a chunk gets one of its own size: the rest of it is
	// then read straight into place.
	c := newChunk(max(n, f.size))
	f.w = copy(c.buf, rest)
	f.r = 0
	f.chunk.release()
	f.chunk = c
}

func (f *frames) read() error {
	if f.raw == nil {
		if f.chunk == nil {
			f.chunk = newChunk(f.size)
		}
		f.n, f.err = f.conn.Read(f.chunk.buf[f.w:])
	} else if err := f.raw.Read(f.readFD); err != nil {
		return err
	}
	n, err := f.n, f.err
	switch {
	case err != nil:
		if f.raw != nil {
			err = os.NewSyscallError("read", err)
		}
		return err
	case n == 0:
		return io.EOF
	}
	f.w += n
	f.size = min(readChunk, max(minChunk, 2*n))
	return nil
}

// drop lets go of the chunk.
func (f *frames) drop() {
	if f.chunk != nil {
		f.chunk.release()
		f.chunk = nil
	}
	f.r, f.w = 0, 0
}

// describeBadLength names what was probably sent instead of a Kafka frame.
func describeBadLength(b []byte, size, limit int) string {
	switch {
	case len(b) >= 3 && b[0] == 0x16 && b[1] == 0x03:
		return "a TLS ClientHello came on a plaintext listener: set security.protocol=PLAINTEXT in the client, or give the listener a certificate"
	case isHTTP(b):
		return fmt.Sprintf("an HTTP request (%q…) came on a Kafka listener: the admin address is another one", b[:min(len(b), 4)])
	case size < 4:
		return fmt.Sprintf("a frame of %d bytes is too short for a Kafka request", size)
	}
	return fmt.Sprintf("a frame of %d bytes is larger than MAX_FRAME_BYTES=%d", size, limit)
}

func isHTTP(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	switch string(b[:4]) {
	case "GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN":
		return true
	}
	return false
}
