package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// flexibleHeader says whether responses of this kind have tagged fields in
// their header. ApiVersions never has: a client reads it before it knows what
// the broker speaks (KIP-511).
func flexibleHeader(r kmsg.Response) bool {
	return r.IsFlexible() && r.Key() != int16(kmsg.ApiVersions)
}

// ResponseCorrelationID reads the correlation id of a response frame.
func ResponseCorrelationID(frame []byte) (int32, error) {
	if len(frame) < 4 {
		return 0, ErrTruncated
	}
	return int32(binary.BigEndian.Uint32(frame)), nil
}

// DecodeResponse decodes a response frame, its header included. What it returns
// aliases the frame, strings too: clone what outlives it.
func DecodeResponse(key, version int16, frame []byte) (kmsg.Response, error) {
	r, _, err := decodeResponse(key, version, frame)
	return r, err
}

// decodeResponse also returns where the body begins.
func decodeResponse(key, version int16, frame []byte) (r kmsg.Response, body int, err error) {
	r = kmsg.ResponseForKey(key)
	if r == nil || version < 0 || version > r.MaxVersion() {
		return nil, 0, fmt.Errorf("%s version %d (api key %d) is unknown to this build", kmsg.NameForKey(key), version, key)
	}
	r.SetVersion(version)
	h := reader{b: frame}
	h.int32()
	if flexibleHeader(r) {
		h.tags(noTag)
	}
	if h.fault != nil {
		return nil, 0, fmt.Errorf("%s version %d: the response header: %w", kmsg.NameForKey(key), version, h.fault)
	}
	if err := readFrom(r, frame[h.at:]); err != nil {
		return nil, 0, fmt.Errorf("%s version %d: %w", kmsg.NameForKey(key), version, err)
	}
	return r, h.at, nil
}

// readFrom decodes without copying strings and bytes where kmsg offers that.
func readFrom(m kmsg.Response, b []byte) error {
	if unsafe, ok := m.(interface{ UnsafeReadFrom([]byte) error }); ok {
		return unsafe.UnsafeReadFrom(b)
	}
	return m.ReadFrom(b)
}

// AppendResponse appends a response frame.
func AppendResponse(dst []byte, correlationID int32, r kmsg.Response) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexibleHeader(r) {
		dst = append(dst, 0)
	}
	return r.AppendTo(dst)
}

// AppendRequest appends a request frame with a header of version 1 or 2; the
// client id may be 32767 bytes long.
func AppendRequest(dst []byte, correlationID int32, clientID string, r kmsg.Request) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if r.IsFlexible() {
		dst = append(dst, 0)
	}
	return r.AppendTo(dst)
}
