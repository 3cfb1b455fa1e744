package audit

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// Record names one record of a workload. Its value is the text
//
//	client:seq            or
//	client:seq:padding
//
// where the padding is "client:seq:" again and again, cut off where the value
// ends. That is easy to write in any language, and shows when bytes of one
// record end up in another.
type Record struct {
	Client string `json:"client"` // not empty, without a colon
	Seq    int64  `json:"seq"`    // rises with each record of the client; not negative
}

func (r Record) String() string { return r.Client + " #" + strconv.FormatInt(r.Seq, 10) }

// Value returns the record's value, padded to size bytes; it is longer where
// the name alone takes more.
func (r Record) Value(size int) []byte {
	unit := r.unit()
	if size < len(unit) {
		return unit[:len(unit)-1]
	}
	v := make([]byte, size)
	for n := 0; n < size; {
		n += copy(v[n:], unit)
	}
	return v
}

// unit is what the value repeats.
func (r Record) unit() []byte {
	b := make([]byte, 0, len(r.Client)+22)
	b = append(b, r.Client...)
	b = append(b, ':')
	b = strconv.AppendInt(b, r.Seq, 10)
	return append(b, ':')
}

// ParseRecord reads the name from a value and checks the padding. When only
// the padding is wrong the record is returned with the error.
func ParseRecord(value []byte) (Record, error) {
	client, rest, ok := bytes.Cut(value, []byte{':'})
	digits, padding, padded := bytes.Cut(rest, []byte{':'})
	seq, valid := parseSeq(digits)
	if !ok || len(client) == 0 || !valid {
		return Record{}, fmt.Errorf("%.40q is not client:seq[:padding]", value)
	}
	r := Record{string(client), seq}
	if !padded {
		return r, nil
	}
	unit := value[:len(client)+len(digits)+2]
	for at := 0; at < len(padding); at += len(unit) {
		part := padding[at:min(at+len(unit), len(padding))]
		if !bytes.Equal(part, unit[:len(part)]) {
			return r, fmt.Errorf("%v: the padding at byte %d is %.40q, not %q repeated", r, len(unit)+at, part, unit)
		}
	}
	return r, nil
}

// parseSeq takes the one form that strconv writes: no sign, no leading zero.
func parseSeq(digits []byte) (int64, bool) {
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	var n int64
	for _, d := range digits {
		if d < '0' || d > '9' || n > (math.MaxInt64-int64(d-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, true
}
