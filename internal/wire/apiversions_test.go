package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offering is an ApiVersions response that offers one api, transactions of
// version 2, and a feature that nobody knows.
func offering(version, key, low, high int16) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.Version = version
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = key, low, high
	r.ApiKeys = append(r.ApiKeys, k)
	for _, name := range []string{"transaction.version", "future.version"} {
		supported := kmsg.NewApiVersionsResponseSupportedFeature()
		supported.Name, supported.MaxVersion = name, 2
		r.SupportedFeatures = append(r.SupportedFeatures, supported)
		finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
		finalized.Name, finalized.MaxVersionLevel, finalized.MinVersionLevel = name, 2, 2
		r.FinalizedFeatures = append(r.FinalizedFeatures, finalized)
	}
	r.FinalizedFeaturesEpoch = 5
	return r
}

// The header of an ApiVersions response has no tagged fields in any version: the
// error code follows the correlation id.
func TestApiVersionsHeader(t *testing.T) {
	for version := range apis[kmsg.ApiVersions].max + 1 {
		r := offering(version, 0, 0, 1)
		r.ErrorCode = 0x1234
		if frame := AppendResponse(nil, 9, r); string(frame[:6]) != "\x00\x00\x00\x09\x12\x34" {
			t.Errorf("v%d: %x", version, frame)
		}
	}
}

func TestIntersectApiVersions(t *testing.T) {
	last := func(key kmsg.Key) int16 { return apis[key].max }
	for _, c := range []struct {
		name              string
		key, low, high    int16
		wantLow, wantHigh int16
		left              bool
		unchanged         bool
	}{
		{name: "Produce as of Kafka 4", key: 0, low: 0, high: 13, wantHigh: 13, left: true, unchanged: true},
		{name: "a future Produce", key: 0, low: 0, high: 99, wantHigh: 13, left: true},
		{name: "no Produce in common", key: 0, low: 14, high: 99},
		{name: "Fetch", key: 1, low: 4, high: 18, wantLow: 4, wantHigh: 15, left: true},
		{name: "a future Metadata", key: 3, low: 0, high: 99, wantHigh: last(kmsg.Metadata), left: true},
		{name: "a future FindCoordinator", key: 10, low: 0, high: 99, wantHigh: last(kmsg.FindCoordinator), left: true},
		{name: "a future ApiVersions", key: 18, low: 0, high: 6, wantHigh: 5, left: true},
		{name: "a future InitProducerId", key: 22, low: 0, high: 99, wantHigh: 5, left: true},
		{name: "an old InitProducerId", key: 22, low: 0, high: 1, wantHigh: 1, left: true, unchanged: true},
		{name: "an api that passes", key: 71, low: 0, high: 99, wantHigh: 99, left: true, unchanged: true},
		{name: "a future api", key: 999, low: 3, high: 77, wantLow: 3, wantHigh: 77, left: true, unchanged: true},
	} {
		for version := range last(kmsg.ApiVersions) + 1 {
			frame := AppendResponse(nil, 9, offering(version, c.key, c.low, c.high))
			out, err := IntersectApiVersions(version, frame)
			if err != nil {
				t.Fatalf("%s, v%d: %v", c.name, version, err)
			}
			if same := &out[0] == &frame[0]; same != c.unchanged {
				t.Errorf("%s, v%d: the frame itself is returned: %v", c.name, version, same)
			}
			decoded, err := DecodeResponse(int16(kmsg.ApiVersions), version, out)
			if err != nil {
				t.Fatalf("%s, v%d: %v", c.name, version, err)
			}
			r := decoded.(*kmsg.ApiVersionsResponse)
			if !c.left {
				if len(r.ApiKeys) != 0 {
					t.Errorf("%s, v%d: %+v is offered", c.name, version, r.ApiKeys[0])
				}
			} else if k := r.ApiKeys[0]; k.ApiKey != c.key || k.MinVersion != c.wantLow || k.MaxVersion != c.wantHigh {
				t.Errorf("%s, v%d: offers %d–%d", c.name, version, k.MinVersion, k.MaxVersion)
			}
			if version >= 3 && (r.FinalizedFeaturesEpoch != 5 || r.FinalizedFeatures[0].MaxVersionLevel != 2 || r.SupportedFeatures[0].MaxVersion != 2) {
				t.Errorf("%s, v%d: the features became %+v", c.name, version, r.FinalizedFeatures)
			}
		}
	}
}

// Where Produce is offered below version 12, transactions that need it are not.
func TestTransactionsFollowProduce(t *testing.T) {
	for limit, want := range map[int16]int16{11: 1, 12: 2, 13: 2} {
		r := offering(3, int16(kmsg.Produce), 0, 13)
		limitVersions(r, func(key int16) (int16, bool) { return limit, key == int16(kmsg.Produce) })
		if got := r.ApiKeys[0].MaxVersion; got != limit {
			t.Errorf("Produce is offered up to %d, want %d", got, limit)
		}
		if got := []int16{r.SupportedFeatures[0].MaxVersion, r.FinalizedFeatures[0].MaxVersionLevel, r.FinalizedFeatures[0].MinVersionLevel}; got[0] != want || got[1] != want || got[2] != want {
			t.Errorf("Produce up to %d: transaction.version is offered as %v, want %d", limit, got, want)
		}
		if got := r.FinalizedFeatures[1].MaxVersionLevel; got != 2 {
			t.Errorf("another feature became %d", got)
		}
	}
}

// The answer to a version of ApiVersions that the upstream does not know comes
// in format 0, and passes.
func TestApiVersionsFallback(t *testing.T) {
	r := kmsg.NewPtrApiVersionsResponse()
	r.ErrorCode = 35
	a := kmsg.NewApiVersionsResponseApiKey()
	a.ApiKey, a.MaxVersion = 18, 4
	r.ApiKeys = append(r.ApiKeys, a)
	frame := AppendResponse(nil, 9, r)
	for _, version := range []int16{5, 77} {
		out, err := IntersectApiVersions(version, frame)
		if err != nil || &out[0] != &frame[0] {
			t.Fatalf("v%d: %x, %v", version, out, err)
		}
	}
}

// A version that only the upstream knows is answered as a broker would that
// does not know it, so that the client falls back to one that can be read.
func TestApiVersionsUnknownToTheCodec(t *testing.T) {
	for _, version := range []int16{apis[kmsg.ApiVersions].max + 1, 1<<15 - 1, -1} {
		frame := []byte{0, 0, 0, 9, 0, 0, 0xff, 0xff, 0xff} // nothing that could be read
		out, err := IntersectApiVersions(version, frame)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := DecodeResponse(int16(kmsg.ApiVersions), 0, out)
		if err != nil {
			t.Fatal(err)
		}
		r := decoded.(*kmsg.ApiVersionsResponse)
		id, _ := ResponseCorrelationID(out)
		if id != 9 || r.ErrorCode != 35 || len(r.ApiKeys) != 1 || r.ApiKeys[0].ApiKey != 18 || r.ApiKeys[0].MinVersion != 0 || r.ApiKeys[0].MaxVersion != apis[kmsg.ApiVersions].max {
			t.Errorf("v%d: correlation id %d, %+v", version, id, r)
		}
	}
	if _, err := IntersectApiVersions(3, []byte{0, 0, 0, 9, 0}); err == nil {
		t.Error("a response of 5 bytes is read")
	}
}
