package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// Address is where a broker says that it can be reached.
type Address struct {
	Node int32
	Host string
	Port int32
}

// Rewrite returns what a client is to be told instead of an address, whose host
// aliases the frame: it is valid during the call only.
type Rewrite func(Address) (host string, port int32)

// addressed lists the responses that carry broker addresses. One that is not
// rewritten sends clients past Oncegate; a test walks all of kmsg's responses
// for hosts and ports that are missing here.
var addressed = map[kmsg.Key]struct {
	from   int16 // the first version that does
	fields string
	apply  func(kmsg.Response, Rewrite)
}{
	kmsg.Produce: {10, "NodeEndpoints", func(r kmsg.Response, to Rewrite) {
		for i := range r.(*kmsg.ProduceResponse).Brokers {
			b := &r.(*kmsg.ProduceResponse).Brokers[i]
			b.Host, b.Port = to(Address{b.NodeID, b.Host, b.Port})
		}
	}},
	kmsg.Fetch: {16, "NodeEndpoints", func(r kmsg.Response, to Rewrite) {
		for i := range r.(*kmsg.FetchResponse).Brokers {
			b := &r.(*kmsg.FetchResponse).Brokers[i]
			b.Host, b.Port = to(Address{b.NodeID, b.Host, b.Port})
		}
	}},
	kmsg.Metadata: {0, "Brokers", func(r kmsg.Response, to Rewrite) {
		for i := range r.(*kmsg.MetadataResponse).Brokers {
			b := &r.(*kmsg.MetadataResponse).Brokers[i]
			b.Host, b.Port = to(Address{b.NodeID, b.Host, b.Port})
		}
	}},
	kmsg.FindCoordinator: {0, "Host, Port; Coordinators from v4", func(r kmsg.Response, to Rewrite) {
		f := r.(*kmsg.FindCoordinatorResponse)
		// Without a coordinator there is no address: node −1, empty host. A
		// host is rewritten whatever the node is said to be.
		if f.Host != "" {
			f.Host, f.Port = to(Address{f.NodeID, f.Host, f.Port})
		}
		for i := range f.Coordinators {
			if c := &f.Coordinators[i]; c.Host != "" {
				c.Host, c.Port = to(Address{c.NodeID, c.Host, c.Port})
			}
		}
	}},
	kmsg.DescribeQuorum: {2, "Nodes.Listeners (left out)", func(r kmsg.Response, _ Rewrite) {
		// Controllers are not reached through Oncegate, and no client connects
		// to what stands here: it is for people to read.
		for i := range r.(*kmsg.DescribeQuorumResponse).Nodes {
			r.(*kmsg.DescribeQuorumResponse).Nodes[i].Listeners = nil
		}
	}},
	kmsg.DescribeCluster: {0, "Brokers", func(r kmsg.Response, to Rewrite) {
		for i := range r.(*kmsg.DescribeClusterResponse).Brokers {
			b := &r.(*kmsg.DescribeClusterResponse).Brokers[i]
			b.Host, b.Port = to(Address{b.NodeID, b.Host, b.Port})
		}
	}},
	kmsg.ShareFetch: {0, "NodeEndpoints", func(r kmsg.Response, to Rewrite) {
		for i := range r.(*kmsg.ShareFetchResponse).NodeEndpoints {
			b := &r.(*kmsg.ShareFetchResponse).NodeEndpoints[i]
			b.Host, b.Port = to(Address{b.NodeID, b.Host, b.Port})
		}
	}},
	kmsg.ShareAcknowledge: {0, "NodeEndpoints", func(r kmsg.Response, to Rewrite) {
		for i := range r.(*kmsg.ShareAcknowledgeResponse).NodeEndpoints {
			b := &r.(*kmsg.ShareAcknowledgeResponse).NodeEndpoints[i]
			b.Host, b.Port = to(Address{b.NodeID, b.Host, b.Port})
		}
	}},
}

// CarriesAddresses says whether responses of this key and version may hold
// broker addresses.
func CarriesAddresses(key, version int16) bool {
	a, ok := addressed[kmsg.Key(key)]
	return ok && version >= a.from
}

// RewriteAddresses returns the response frame with every broker address
// replaced. Unknown tagged fields survive, those of the header included. Where
// this kind of response carries no addresses it returns the frame itself.
func RewriteAddresses(key, version int16, frame []byte, to Rewrite) ([]byte, error) {
	if !CarriesAddresses(key, version) {
		return frame, nil
	}
	r, body, err := decodeResponse(key, version, frame)
	if err != nil {
		return nil, err
	}
	addressed[kmsg.Key(key)].apply(r, to)
	out := append(make([]byte, 0, len(frame)+64), frame[:body]...)
	return r.AppendTo(out), nil
}
