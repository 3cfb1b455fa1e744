package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// notBrokers are fields that look like broker addresses and are none, or that
// no client of a broker's listener can get.
var notBrokers = map[string]string{
	"DescribeGroups.Groups.Members.ClientHost":         "a group member's host",
	"ConsumerGroupDescribe.Groups.Members.ClientHost":  "a group member's host",
	"ShareGroupDescribe.Groups.Members.ClientHost":     "a group member's host",
	"StreamsGroupDescribe.Groups.Members.ClientHost":   "a group member's host",
	"StreamsGroupDescribe.Groups.Members.UserEndpoint": "an application's endpoint",
	"StreamsGroupHeartbeat.PartitionsByUserEndpoint":   "an application's endpoint",
	"DescribeACLs.Resources.ACLs.Host":                 "the host that a rule is for",
	"DeleteACLs.Results.MatchingACLs.Host":             "the host that a rule is for",
	"Vote.":                                            "between controllers only",
	"BeginQuorumEpoch.":                                "between controllers only",
	"EndQuorumEpoch.":                                  "between controllers only",
	"FetchSnapshot.":                                   "between controllers only",
	"UpdateRaftVoter.":                                 "to controllers only",
}

// Every host and port in any response that kmsg knows is either rewritten or
// listed above with the reason why not.
func TestNoAddressIsForgotten(t *testing.T) {
	found := make(map[kmsg.Key]bool)
	for key := range int16(kmsg.MaxKey + 1) {
		r := kmsg.ResponseForKey(key)
		if r == nil {
			continue
		}
		name := strings.ReplaceAll(kmsg.NameForKey(key), " ", "")
		for _, path := range hostFields(reflect.TypeOf(r).Elem(), name) {
			if _, ok := addressed[kmsg.Key(key)]; ok {
				found[kmsg.Key(key)] = true
				continue
			}
			listed := false
			for prefix := range notBrokers {
				listed = listed || strings.HasPrefix(path, prefix)
			}
			if !listed {
				t.Errorf("%s looks like a broker's address and is not rewritten", path)
			}
		}
	}
	for key := range addressed {
		if !found[key] {
			t.Errorf("%s is in the table and carries no address", kmsg.NameForKey(int16(key)))
		}
	}
}

// hostFields returns the paths of all fields whose name speaks of a host, a
// port or an endpoint.
func hostFields(t reflect.Type, path string) (all []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return hostFields(t.Elem(), path)
	case reflect.Struct:
	default:
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		at := path + "." + f.Name
		lower := strings.ToLower(f.Name)
		if (strings.Contains(lower, "host") || lower == "port" || strings.Contains(lower, "address")) && f.Type.Kind() != reflect.Struct {
			all = append(all, at)
		}
		all = append(all, hostFields(f.Type, at)...)
	}
	return all
}

// Every version of every response in the table is rewritten: no original
// address is left in its bytes.
func TestAddressesAreRewritten(t *testing.T) {
	const secret = "broker-internal.example"
	for key, a := range addressed {
		for version := a.from; version <= kmsg.ResponseForKey(int16(key)).MaxVersion(); version++ {
			r := kmsg.ResponseForKey(int16(key))
			r.SetVersion(version)
			fill(reflect.ValueOf(r).Elem(), secret)
			frame := AppendResponse(nil, 7, r)
			if !strings.Contains(string(frame), secret) {
				t.Fatalf("%s v%d: the test puts no address in", kmsg.NameForKey(int16(key)), version)
			}
			out, err := RewriteAddresses(int16(key), version, frame, func(Address) (string, int32) { return "127.0.0.1", 9093 })
			if err != nil {
				t.Fatalf("%s v%d: %v", kmsg.NameForKey(int16(key)), version, err)
			}
			if strings.Contains(string(out), secret) {
				t.Errorf("%s v%d: an address is left", kmsg.NameForKey(int16(key)), version)
			}
			if id, _ := ResponseCorrelationID(out); id != 7 {
				t.Errorf("%s v%d: correlation id %d", kmsg.NameForKey(int16(key)), version, id)
			}
			if _, err := DecodeResponse(int16(key), version, out); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(int16(key)), version, err)
			}
		}
	}
}

// fill puts one element in every array and host into every Host.
func fill(v reflect.Value, host string) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), host)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported() || f.Name == "Version":
			case f.Name == "Host" && f.Type.Kind() == reflect.String:
				v.Field(i).SetString(host)
			default:
				fill(v.Field(i), host)
			}
		}
	}
}

// A coordinator that is not there keeps its empty address.
func TestMissingCoordinatorStaysEmpty(t *testing.T) {
	for version := range int16(7) {
		r := kmsg.NewPtrFindCoordinatorResponse()
		r.Version, r.NodeID, r.Port = version, -1, -1
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.NodeID, c.Port = -1, -1
		r.Coordinators = append(r.Coordinators, c)
		out, err := RewriteAddresses(10, version, AppendResponse(nil, 1, r), func(a Address) (string, int32) { return fmt.Sprint("got ", a), 1 })
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "got ") {
			t.Errorf("v%d: a missing coordinator got an address", version)
		}
	}
}

func TestIntersectApiVersions(t *testing.T) {
	for version := range int16(6) {
		r := kmsg.NewPtrApiVersionsResponse()
		r.Version = version
		for _, k := range []struct{ key, min, max int16 }{{0, 0, 99}, {1, 4, 18}, {3, 0, 99}, {18, 0, 5}, {22, 0, 99}, {999, 3, 77}, {71, 0, 50}} {
			a := kmsg.NewApiVersionsResponseApiKey()
			a.ApiKey, a.MinVersion, a.MaxVersion = k.key, k.min, k.max
			r.ApiKeys = append(r.ApiKeys, a)
		}
		out, err := IntersectApiVersions(version, AppendResponse(nil, 9, r))
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeResponse(18, version, out)
		if err != nil {
			t.Fatal(err)
		}
		want := map[int16][2]int16{0: {0, 13}, 1: {4, 15}, 3: {0, apis[3].max}, 18: {0, 5}, 22: {0, apis[22].max}, 999: {3, 77}, 71: {0, 50}}
		for _, k := range got.(*kmsg.ApiVersionsResponse).ApiKeys {
			if w := want[k.ApiKey]; k.MinVersion != w[0] || k.MaxVersion != w[1] {
				t.Errorf("v%d: key %d is %d–%d, want %v", version, k.ApiKey, k.MinVersion, k.MaxVersion, w)
			}
		}
	}
}

// The answer to an unknown version of ApiVersions comes in format 0.
func TestApiVersionsFallback(t *testing.T) {
	r := kmsg.NewPtrApiVersionsResponse()
	r.ErrorCode = 35
	a := kmsg.NewApiVersionsResponseApiKey()
	a.ApiKey, a.MaxVersion = 18, 4
	r.ApiKeys = append(r.ApiKeys, a)
	frame := AppendResponse(nil, 9, r)
	out, err := IntersectApiVersions(77, frame)
	if err != nil || &out[0] != &frame[0] {
		t.Fatalf("%x, %v", out, err)
	}
}

// The table names each api once and says what becomes of it.
func TestProtocolTable(t *testing.T) {
	byKey := make(map[int16]APIKey)
	for _, k := range Protocol() {
		byKey[k.Key] = k
	}
	for key, want := range map[int16]string{0: "deduplicated", 1: "streamed", 3: "rewritten", 8: "passed", 10: "rewritten", 22: "read", 71: "passed"} {
		if got := byKey[key].Handling; got != want {
			t.Errorf("%s is %s, want %s", byKey[key].Name, got, want)
		}
	}
	for key := range addressed {
		if k := byKey[int16(key)]; k.Addresses == "" && int16(key) != 1 {
			t.Errorf("%s: no addresses named", k.Name)
		}
	}
}
