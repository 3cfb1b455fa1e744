package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of every api key and version are framed as kmsg's own formatter does,
// and their headers are found to end where its bodies begin.
func TestEveryRequestHeader(t *testing.T) {
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("some client"))
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for version := range req.MaxVersion() + 1 {
			if key == int16(kmsg.ControlledShutdown) && version == 0 {
				continue // has a header of its own, see below
			}
			req.SetVersion(version)
			want := formatter.AppendRequest(nil, req, 77)[4:]
			body := req.AppendTo(nil)
			h, err := ParseRequestHeader(want)
			if err != nil || h.Key != key || h.Version != version || h.CorrelationID != 77 || h.Len != len(want)-len(body) {
				t.Errorf("%s v%d: %+v, %v; the body begins at %d", kmsg.NameForKey(key), version, h, err, len(want)-len(body))
			}
			if Flexible(key, version) != req.IsFlexible() {
				t.Errorf("%s v%d: flexible is %v", kmsg.NameForKey(key), version, Flexible(key, version))
			}
			if string(h.ClientID) != "some client" {
				t.Errorf("%s v%d: client id %q", kmsg.NameForKey(key), version, h.ClientID)
			}
			if got := AppendRequest(nil, 77, "some client", req); !bytes.Equal(got, want) {
				t.Errorf("%s v%d:\n%x\nwant\n%x", kmsg.NameForKey(key), version, got, want)
			}
			for n := range h.Len {
				if _, err := ParseRequestHeader(want[:n:n]); err == nil {
					t.Errorf("%s v%d: a header of %d bytes is read from %d", kmsg.NameForKey(key), version, h.Len, n)
				}
			}
		}
	}
}

// ControlledShutdown 0 is the only request whose header has no client id.
func TestHeaderWithoutClientID(t *testing.T) {
	h, err := ParseRequestHeader([]byte{0, 7, 0, 0, 0, 0, 0, 77, 0, 0, 0, 1})
	if err != nil || h.Key != 7 || h.CorrelationID != 77 || h.ClientID != nil || h.Len != 8 {
		t.Errorf("%+v, %v", h, err)
	}
}

// Responses of every api key and version are read back as they were written.
func TestEveryResponseHeader(t *testing.T) {
	for key := range int16(kmsg.MaxKey + 1) {
		r := kmsg.ResponseForKey(key)
		if r == nil {
			continue
		}
		for version := range r.MaxVersion() + 1 {
			r.SetVersion(version)
			frame := AppendResponse(nil, -5, r)
			if id, err := ResponseCorrelationID(frame); id != -5 || err != nil {
				t.Errorf("%s v%d: correlation id %d, %v", kmsg.NameForKey(key), version, id, err)
			}
			got, err := DecodeResponse(key, version, frame)
			if err != nil || !bytes.Equal(got.AppendTo(nil), r.AppendTo(nil)) {
				t.Errorf("%s v%d: %+v, %v", kmsg.NameForKey(key), version, got, err)
			}
		}
	}
}

// A request that nothing is known of passes: key, version and correlation id
// are read, the rest is not judged.
func TestUnknownRequestHeader(t *testing.T) {
	head := func(key, version int16, rest ...byte) []byte {
		frame := binary.BigEndian.AppendUint16(nil, uint16(key))
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		return append(binary.BigEndian.AppendUint32(frame, 9), rest...)
	}
	for name, c := range map[string]struct {
		frame    []byte
		clientID string
	}{
		"a future key":             {head(12345, 3, 0, 1, 'c', 1, 2, 3), "c"},
		"a key without a client":   {head(12345, 0), ""},
		"a length that lies":       {head(12345, 0, 0x7f, 0xff, 'x'), ""},
		"a negative key":           {head(-7, 0, 0, 1, 'c'), "c"},
		"a future version":         {head(3, 999, 0, 1, 'c', 0xff), "c"},
		"a negative version":       {head(3, -1, 0, 1, 'c'), "c"},
		"a future Produce version": {head(0, MaxProduce+1, 0xff, 0xff), ""},
	} {
		h, err := ParseRequestHeader(c.frame)
		if err != nil || h.CorrelationID != 9 || h.Len != -1 || string(h.ClientID) != c.clientID {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	if KnownKey(12345) || KnownKey(-1) || KnownKey(kmsg.MaxKey+1) || !KnownKey(0) || !KnownKey(kmsg.MaxKey) {
		t.Error("the known keys are others than kmsg's")
	}
}
