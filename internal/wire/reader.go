package wire

import (
	"encoding/binary"
	"errors"
)

// ErrTruncated says that a length in a frame points past its end, or that a
// field is cut off.
var ErrTruncated = errors.New("a field or a length points past the end of the frame")

// reader walks a frame. The first fault sticks, later reads return zeros: a
// caller reads straight through and checks once. No length is believed before
// the bytes are known to be there.
type reader struct {
	b   []byte
	at  int
	bad bool
}

func (r *reader) err() error {
	if r.bad {
		return ErrTruncated
	}
	return nil
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b)-r.at {
		r.bad = true
		r.at = len(r.b)
		return nil
	}
	b := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits.
func (r *reader) uvarint() uint32 {
	// Most are one byte.
	if r.at < len(r.b) && r.b[r.at] < 0x80 {
		v := r.b[r.at]
		r.at++
		return uint32(v)
	}
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 || n > 5 || v > 1<<32-1 {
		r.bad = true
		r.at = len(r.b)
		return 0
	}
	r.at += n
	return uint32(v)
}

// compactLen reads the length of a compact string, byte string or array, −1
// standing for null.
func (r *reader) compactLen() int { return int(r.uvarint()) - 1 }

// string reads a string; null gives nil.
func (r *reader) string(flexible bool) []byte {
	var n int
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int16())
	}
	return r.nullable(n)
}

// bytes reads a byte string; null gives nil.
func (r *reader) bytes(flexible bool) []byte {
	var n int
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int32())
	}
	return r.nullable(n)
}

func (r *reader) nullable(n int) []byte {
	if n < -1 {
		r.bad = true
		return nil
	}
	if n == -1 || r.bad {
		return nil
	}
	return r.take(n)
}

// count reads the length of an array whose elements take at least least bytes
// each, so that a lying count ends here. Null counts as empty.
func (r *reader) count(flexible bool, least int) int {
	var n int
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int32())
	}
	if n < -1 || n > (len(r.b)-r.at)/least {
		r.bad = true
		return 0
	}
	return max(n, 0)
}

// tags walks a section of tagged fields (KIP-482) and returns the value of tag
// want, nil where it isn't there.
func (r *reader) tags(want uint32) (value []byte) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag := r.uvarint()
		v := r.take(int(r.uvarint()))
		if tag == want {
			value = v
		}
	}
	return value
}

// noTag is a tag that no message uses: tags are then only walked.
const noTag = 1<<32 - 1
