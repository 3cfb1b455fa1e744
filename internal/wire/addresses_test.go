package wire

import (
	"bytes"
	"encoding/binary"
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
	"StreamsGroupHeartbeat.EndpointInformationEpoch":   "a counter",
	"DescribeACLs.Resources.ACLs.Host":                 "the host that a rule is for",
	"DeleteACLs.Results.MatchingACLs.Host":             "the host that a rule is for",
	"DescribeCluster.EndpointType":                     "brokers or controllers",
	"Vote.":                                            "between controllers only",
	"BeginQuorumEpoch.":                                "between controllers only",
	"EndQuorumEpoch.":                                  "between controllers only",
	"FetchSnapshot.":                                   "between controllers only",
	"UpdateRaftVoter.":                                 "to controllers only",
}

func excused(path string) bool {
	for prefix := range notBrokers {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// Every field of any response that kmsg knows whose name or type speaks of an
// address is either rewritten or listed above with the reason why not.
func TestNoAddressIsForgotten(t *testing.T) {
	found := make(map[kmsg.Key]bool)
	var all []string
	for key := range int16(kmsg.MaxKey + 1) {
		r := kmsg.ResponseForKey(key)
		if r == nil {
			continue
		}
		for _, path := range addressFields(reflect.TypeOf(r).Elem(), nameOf(key)) {
			all = append(all, path)
			switch _, ok := addressed[kmsg.Key(key)]; {
			case excused(path):
			case ok:
				found[kmsg.Key(key)] = true
			default:
				t.Errorf("%s looks like a broker's address and is not rewritten", path)
			}
		}
	}
	for key := range addressed {
		if !found[key] {
			t.Errorf("%s is in the table and carries no address", nameOf(int16(key)))
		}
	}
	for prefix := range notBrokers {
		used := false
		for _, path := range all {
			used = used || strings.HasPrefix(path, prefix)
		}
		if !used {
			t.Errorf("%s excuses nothing", prefix)
		}
	}
}

func nameOf(key int16) string { return strings.ReplaceAll(kmsg.NameForKey(key), " ", "") }

// speaksOfAddress says whether a field of this name may be a part of an
// address.
func speaksOfAddress(field string) bool {
	lower := strings.ToLower(field)
	for _, word := range []string{"host", "address", "endpoint", "listener", "url", "server"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return lower == "port" || strings.HasSuffix(field, "Port")
}

// addressFields returns the paths of all fields that may be a part of an
// address.
func addressFields(t reflect.Type, path string) (all []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return addressFields(t.Elem(), path)
	case reflect.Struct:
	default:
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Type == reflect.TypeFor[kmsg.Tags]() {
			continue
		}
		at := path + "." + f.Name
		inside := addressFields(f.Type, at)
		if speaksOfAddress(f.Name) && len(inside) == 0 {
			all = append(all, at)
		}
		all = append(all, inside...)
	}
	return all
}

const (
	brokerHost = "broker-internal.example"
	brokerPort = 0x5eedbeef
	unknownTag = "an unknown tagged field"
)

// filledResponse is a response in which every array has one element, every
// string that speaks of an address is brokerHost, every port is brokerPort, and
// every part that may have one has an unknown tagged field.
func filledResponse(key, version int16) []byte {
	r := kmsg.ResponseForKey(key)
	r.SetVersion(version)
	fill(reflect.ValueOf(r).Elem(), nameOf(key))
	r.SetVersion(version)
	// kmsg writes a tagged field in every flexible version; brokers do so from
	// the version that defined it (KIP-951).
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		if version < 10 {
			r.Brokers = nil
		}
	case *kmsg.FetchResponse:
		if version < 16 {
			r.Brokers = nil
		}
	}
	frame := binary.BigEndian.AppendUint32(nil, 7)
	if flexibleHeader(r) {
		frame = append(frame, 1, 99, byte(len(unknownTag)))
		frame = append(frame, unknownTag...)
	}
	return r.AppendTo(frame)
}

func fill(v reflect.Value, path string) {
	if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
		tags.Set(4242, []byte(unknownTag))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), path+"."+f.Name)
			}
		}
	case reflect.String:
		if field := path[strings.LastIndexByte(path, '.')+1:]; speaksOfAddress(field) && !excused(path) {
			v.SetString(brokerHost)
		}
	case reflect.Int32:
		if strings.HasSuffix(path, ".Port") && !excused(path) {
			v.SetInt(brokerPort)
		}
	}
}

// In no version of any response is a broker's address left: those that are not
// in the table have none in their bytes, and in all others none is left once
// they are rewritten. Everything else in them stays.
func TestEveryVersionIsRewritten(t *testing.T) {
	port := binary.BigEndian.AppendUint32(nil, brokerPort)
	rewritten := 0
	for key := range int16(kmsg.MaxKey + 1) {
		if !KnownKey(key) {
			continue
		}
		for version := range apis[key].max + 1 {
			frame := filledResponse(key, version)
			has := bytes.Contains(frame, []byte(brokerHost))
			if has != CarriesAddresses(key, version) {
				t.Errorf("%s v%d: has an address: %v; the table says %v", nameOf(key), version, has, !has)
			}
			out, err := RewriteAddresses(key, version, frame, func(a Address) (string, int32) {
				if a.Host != brokerHost || a.Port != brokerPort {
					t.Errorf("%s v%d: %+v is to be rewritten", nameOf(key), version, a)
				}
				return "127.0.0.1", 9093
			})
			switch {
			case err != nil:
				t.Errorf("%s v%d: %v", nameOf(key), version, err)
				continue
			case !has:
				if !bytes.Equal(out, frame) {
					t.Errorf("%s v%d has no address and is changed", nameOf(key), version)
				}
				continue
			}
			rewritten++
			if bytes.Contains(out, []byte(brokerHost)) || bytes.Contains(out, port) {
				t.Errorf("%s v%d: an address is left", nameOf(key), version)
			}
			tags := bytes.Count(frame, []byte(unknownTag))
			if key == int16(kmsg.DescribeQuorum) {
				tags-- // of the listener, which is left out
			}
			if got := bytes.Count(out, []byte(unknownTag)); got != tags {
				t.Errorf("%s v%d: %d of %d unknown tagged fields are left", nameOf(key), version, got, tags)
			}
			// Rewritten back, the response is what it was.
			back, err := RewriteAddresses(key, version, out, func(Address) (string, int32) { return brokerHost, brokerPort })
			if err != nil || key != int16(kmsg.DescribeQuorum) && !bytes.Equal(back, frame) {
				t.Errorf("%s v%d: %v\n%x\nwant\n%x", nameOf(key), version, err, back, frame)
			}
		}
	}
	if rewritten < 30 {
		t.Errorf("only %d kinds of response were rewritten", rewritten)
	}
}

// A coordinator that is not there keeps its empty address; an address is
// rewritten even where the broker's id says that nobody is there.
func TestMissingCoordinator(t *testing.T) {
	for version := range apis[kmsg.FindCoordinator].max + 1 {
		for _, host := range []string{"", brokerHost} {
			r := kmsg.NewPtrFindCoordinatorResponse()
			r.Version, r.ErrorCode, r.NodeID, r.Host, r.Port = version, 15, -1, host, -1
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.ErrorCode, c.NodeID, c.Host, c.Port = 15, -1, host, -1
			r.Coordinators = append(r.Coordinators, c)
			frame := AppendResponse(nil, 1, r)
			out, err := RewriteAddresses(int16(kmsg.FindCoordinator), version, frame, func(Address) (string, int32) { return "rewritten", 1 })
			if err != nil {
				t.Fatal(err)
			}
			if host == "" && !bytes.Equal(out, frame) {
				t.Errorf("v%d: a missing coordinator got an address", version)
			}
			if host != "" && (!bytes.Contains(out, []byte("rewritten")) || bytes.Contains(out, []byte(host))) {
				t.Errorf("v%d: an address is left", version)
			}
		}
	}
}

// What can't be read is an error, never passed on with its addresses.
func TestUnreadableResponses(t *testing.T) {
	never := func(Address) (string, int32) { return "", 0 }
	for key, a := range addressed {
		if out, err := RewriteAddresses(int16(key), apis[key].max+1, make([]byte, 200), never); err == nil {
			t.Errorf("a future version of %s passes as %x", nameOf(int16(key)), out)
		}
		frame := filledResponse(int16(key), a.from)
		for _, n := range []int{0, 3, 4, len(frame) / 2} {
			if out, err := RewriteAddresses(int16(key), a.from, frame[:n:n], never); err == nil {
				t.Errorf("%s v%d, %d bytes of %d, passes as %x", nameOf(int16(key)), a.from, n, len(frame), out)
			}
		}
	}
	if _, err := ResponseCorrelationID(make([]byte, 3)); err != ErrTruncated {
		t.Errorf("a correlation id of 3 bytes: %v", err)
	}
}
