package wire

import (
	"encoding/binary"
	"slices"

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
// librdkafka would do without compression otherwise. An api of which no version
// is left isn't offered.
//
// It returns the frame itself where nothing has to change. A response to a
// version that the upstream does not know comes in format 0 with
// UNSUPPORTED_VERSION (KIP-511). A version that it knows and the codec does not
// gets the same from here, so that the client asks again with one that both do.
func IntersectApiVersions(version int16, frame []byte) ([]byte, error) {
	if len(frame) < 6 {
		return nil, ErrTruncated
	}
	correlationID := int32(binary.BigEndian.Uint32(frame))
	if binary.BigEndian.Uint16(frame[4:]) == codeUnsupportedVersion {
		version = 0
	} else if !known(int16(kmsg.ApiVersions), version) {
		return AppendResponse(nil, correlationID, unsupportedApiVersions()), nil
	}
	decoded, err := DecodeResponse(int16(kmsg.ApiVersions), version, frame)
	if err != nil {
		return nil, err
	}
	r := decoded.(*kmsg.ApiVersionsResponse)
	if !limitVersions(r, highest) {
		return frame, nil
	}
	return AppendResponse(make([]byte, 0, len(frame)), correlationID, r), nil
}

// unsupportedApiVersions is the answer to a version of ApiVersions that is not
// known. As from a broker it tells the versions of this one api.
func unsupportedApiVersions() *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.ErrorCode = codeUnsupportedVersion
	self := kmsg.NewApiVersionsResponseApiKey()
	self.ApiKey = int16(kmsg.ApiVersions)
	self.MaxVersion = apis[kmsg.ApiVersions].max
	r.ApiKeys = append(r.ApiKeys, self)
	return r
}

// limitVersions lowers the versions offered to those that highest names.
func limitVersions(r *kmsg.ApiVersionsResponse, highest func(key int16) (int16, bool)) (changed bool) {
	for i := range r.ApiKeys {
		k := &r.ApiKeys[i]
		limit, ok := highest(k.ApiKey)
		if !ok || k.MaxVersion <= limit {
			continue
		}
		k.MaxVersion = limit
		changed = true
		if k.ApiKey == int16(kmsg.Produce) && limit < implicitAdds {
			limitTransactions(r)
		}
	}
	r.ApiKeys = slices.DeleteFunc(r.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		_, ours := highest(k.ApiKey)
		return ours && k.MaxVersion < k.MinVersion
	})
	return changed
}

// implicitAdds is the Produce version that adds partitions to a transaction
// (KIP-890). A client that sees transaction.version 2 leaves that to Produce,
// so where Produce is offered below it the feature can't be offered either.
const implicitAdds = 12

// limitTransactions limits the feature transaction.version to 1.
func limitTransactions(r *kmsg.ApiVersionsResponse) {
	const feature = "transaction.version"
	for i := range r.SupportedFeatures {
		if f := &r.SupportedFeatures[i]; f.Name == feature {
			f.MinVersion, f.MaxVersion = min(f.MinVersion, 1), min(f.MaxVersion, 1)
		}
	}
	for i := range r.FinalizedFeatures {
		if f := &r.FinalizedFeatures[i]; f.Name == feature {
			f.MinVersionLevel, f.MaxVersionLevel = min(f.MinVersionLevel, 1), min(f.MaxVersionLevel, 1)
		}
	}
}
