package wire

import (
	"encoding/binary"
	"errors"
)

// What can be wrong with a frame.
var (
	ErrTruncated = errors.New("a field or a length points past the end of the frame")
	ErrNull      = errors.New("a field that must not be null is null")
	ErrVarint    = errors.New("a variable-length number takes more than 32 bits")
)

// reader walks a frame. The first fault sticks, later reads return zeros: a
// caller reads straight through and checks once. No length is believed before
// the bytes are known to be there.
type reader struct {
	b     []byte
	at    int
	fault error
}

// fail notes a fault and leaves nothing to read.
func (r *reader) fail(fault error) {
	if r.fault == nil {
		r.fault = fault
	}
	r.at = len(r.b)
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b)-r.at {
		r.fail(ErrTruncated)
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
	switch {
	case n == 0:
		r.fail(ErrTruncated)
		return 0
	case n < 0 || n > 5 || v > 1<<32-1:
		r.fail(ErrVarint)
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

// nullable takes n bytes; −1 stands for null. Empty is not nil.
func (r *reader) nullable(n int) []byte {
	if n == -1 || r.fault != nil {
		return nil
	}
	return r.take(n)
}

// name reads a string that must not be null.
func (r *reader) name(flexible bool) []byte {
	s := r.string(flexible)
	if s == nil {
		r.fail(ErrNull)
	}
	return s
}

// array reads the length of an array that must not be null; see count.
func (r *reader) array(flexible bool) int {
	n := r.count(flexible)
	if n < 0 {
		r.fail(ErrNull)
	}
	return n
}

// count reads the length of an array; null is −1. It is for counting down while
// there is no fault, never for sizing memory.
func (r *reader) count(flexible bool) int {
	var n int
	if flexible {
		n = r.compactLen()
	} else {
		n = int(r.int32())
	}
	if n < -1 {
		r.fail(ErrTruncated)
	}
	return n
}

// tags walks a section of tagged fields (KIP-482) and returns the value of tag
// want, nil where it isn't there.
func (r *reader) tags(want uint32) (value []byte) {
	for n := r.uvarint(); n > 0 && r.fault == nil; n-- {
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
