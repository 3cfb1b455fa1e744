package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The table has one line for each api key that kmsg knows, in their order, and
// says what becomes of it.
func TestProtocolTable(t *testing.T) {
	byKey := make(map[int16]APIKey)
	before := int16(-1)
	for _, k := range Protocol() {
		if k.Key <= before {
			t.Errorf("key %d comes after %d", k.Key, before)
		}
		before = k.Key
		byKey[k.Key] = k
	}
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		line, ok := byKey[key]
		if ok != (req != nil) {
			t.Errorf("key %d is in the table: %v", key, ok)
			continue
		}
		if req == nil {
			continue
		}
		limit, reads := highest(key)
		switch {
		case line.Name != kmsg.NameForKey(key):
			t.Errorf("key %d is called %s", key, line.Name)
		case reads == (line.Handling == "passed"):
			t.Errorf("%s is %s, and the codec reads it: %v", line.Name, line.Handling, reads)
		case reads && line.Max != limit || !reads && line.Max != req.MaxVersion():
			t.Errorf("%s is offered up to %d", line.Name, line.Max)
		case (line.Addresses != "") != CarriesAddresses(key, line.Max):
			t.Errorf("%s has the address fields %q", line.Name, line.Addresses)
		case line.Min > line.Max:
			t.Errorf("%s is served from %d to %d", line.Name, line.Min, line.Max)
		}
	}
	for key, want := range map[kmsg.Key]string{
		kmsg.Produce: "deduplicated", kmsg.Fetch: "streamed", kmsg.Metadata: "rewritten", kmsg.ApiVersions: "rewritten",
		kmsg.InitProducerID: "read", kmsg.EndTxn: "read", kmsg.OffsetCommit: "passed", kmsg.PushTelemetry: "passed",
	} {
		if got := byKey[int16(key)].Handling; got != want {
			t.Errorf("%s is %s, want %s", nameOf(int16(key)), got, want)
		}
	}
	if got := byKey[0]; got.Min != 3 || got.Max != 13 {
		t.Errorf("Produce is served from %d to %d, want 3 to 13", got.Min, got.Max)
	}
}
