package wire

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// MinFrame is the least a request frame can hold: api key, version and
// correlation id.
const MinFrame = 8

// RequestHeader is the header of a request, versions 1 and 2 (flexible,
// KIP-482).
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      []byte // nil when null; aliases the frame
	// Len is the bytes that the header takes: the body starts here. It is −1
	// where the api key or the version is unknown.
	Len int
}

// ErrShortHeader says that a frame ends within its request header.
var ErrShortHeader = errors.New("the frame ends within its request header")

// ParseRequestHeader reads the header of a request. Of one with an unknown api
// key or version only key, version and correlation id are sure, since every
// header has begun with them; the client id is read where one seems to be
// there. Such a request passes, so what follows is never an error.
func ParseRequestHeader(frame []byte) (RequestHeader, error) {
	if len(frame) < MinFrame {
		return RequestHeader{}, ErrShortHeader
	}
	r := reader{b: frame}
	h := RequestHeader{Key: r.int16(), Version: r.int16(), CorrelationID: r.int32()}
	if h.Key == int16(kmsg.ControlledShutdown) && h.Version == 0 {
		h.Len = r.at // header v0 has no client id
		return h, nil
	}
	h.ClientID = r.string(false)
	if !known(h.Key, h.Version) {
		h.Len = -1
		return h, nil
	}
	if Flexible(h.Key, h.Version) {
		r.tags(noTag)
	}
	h.Len = r.at
	if r.fault != nil {
		return h, fmt.Errorf("%w (api key %d, version %d)", ErrShortHeader, h.Key, h.Version)
	}
	return h, nil
}

// apis holds what kmsg knows of each api key, asked once.
var apis = func() (known [kmsg.MaxKey + 1]api) {
	for key := range known {
		req := kmsg.RequestForKey(int16(key))
		if req == nil {
			continue
		}
		a := api{known: true, max: req.MaxVersion(), flexibleFrom: -1}
		for v := range a.max + 1 {
			req.SetVersion(v)
			if req.IsFlexible() {
				a.flexibleFrom = v
				break
			}
		}
		known[key] = a
	}
	return known
}()

type api struct {
	known        bool
	max          int16
	flexibleFrom int16 // −1 for never
}

// KnownKey says whether the codec knows the api key.
func KnownKey(key int16) bool { return key >= 0 && int(key) < len(apis) && apis[key].known }

func known(key, version int16) bool {
	return KnownKey(key) && version >= 0 && version <= apis[key].max
}

// Flexible says whether this version of the api uses tagged fields and compact
// lengths (KIP-482). It is false for unknown keys and versions.
func Flexible(key, version int16) bool {
	return known(key, version) && apis[key].flexibleFrom >= 0 && version >= apis[key].flexibleFrom
}
