package wire

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const codeUnsupportedVersion = 35

// streamedFetch is the newest Fetch version that carries no broker addresses,
// so that answers, which may be tens of megabytes, pass without being held.
// What version 16 adds for consumers is the new leader's address in an error
// (KIP-951); without it they ask for metadata.
const streamedFetch = 15

// highest returns the newest version of an api that clients may use, given
// that the codec has to read it. ok is false for what is merely passed on.
func highest(key int16) (version int16, ok bool) {
	switch kmsg.Key(key) {
	case kmsg.Produce:
		return MaxProduce, true
	case kmsg.Fetch:
		return streamedFetch, true
	case kmsg.ApiVersions, kmsg.InitProducerID, kmsg.EndTxn:
		return apis[key].max, true
	}
	if _, ok := addressed[kmsg.Key(key)]; ok {
		return apis[key].max, true
	}
	return 0, false
}

// IntersectApiVersions limits what an upstream's ApiVersions response offers to
// what the codec can read, for those apis that it has to read. All others pass
// untouched, those unknown to it included. The minima stay as advertised:
// brokers offer Produce from version 0, which they no longer serve, since
// librdkafka would do without compression otherwise.
//
// It returns the frame itself where nothing has to change. A response to an
// unknown request version comes in format 0 with UNSUPPORTED_VERSION (KIP-511).
func IntersectApiVersions(version int16, frame []byte) ([]byte, error) {
	if len(frame) >= 6 && binary.BigEndian.Uint16(frame[4:]) == codeUnsupportedVersion {
		version = 0
	}
	decoded, err := DecodeResponse(int16(kmsg.ApiVersions), version, frame)
	if err != nil {
		return nil, err
	}
	r := decoded.(*kmsg.ApiVersionsResponse)
	changed := false
	for i := range r.ApiKeys {
		k := &r.ApiKeys[i]
		if limit, ok := highest(k.ApiKey); ok && k.MaxVersion > limit {
			k.MaxVersion = limit
			changed = true
		}
	}
	if !changed {
		return frame, nil
	}
	return AppendResponse(make([]byte, 0, len(frame)), int32(binary.BigEndian.Uint32(frame)), r), nil
}
