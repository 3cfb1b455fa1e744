package null

import (
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// offered are the apis and their versions. Produce's minimum is a broker's:
// it offers versions that it no longer serves.
var offered = []struct {
	key      kmsg.Key
	min, max int16
}{
	{kmsg.Produce, 0, 13},
	{kmsg.Metadata, 0, 13},
	{kmsg.FindCoordinator, 0, 4},
	{kmsg.ApiVersions, 0, 4},
	{kmsg.InitProducerID, 0, 5},
	{kmsg.DescribeProducers, 0, 0},
}

func isOffered(key, version int16) bool {
	for _, o := range offered {
		if int16(o.key) == key {
			return version >= o.min && version <= o.max
		}
	}
	return false
}

// answerOther answers what a client asks before it produces.
func (b *Broker) answerOther(out, frame []byte) ([]byte, error) {
	h, err := wire.ParseRequestHeader(frame)
	if err != nil {
		return nil, err
	}
	if !isOffered(h.Key, h.Version) {
		if kmsg.Key(h.Key) != kmsg.ApiVersions {
			return nil, fmt.Errorf("%w: %d version %d", errUnknownRequest, h.Key, h.Version)
		}
		// KIP-511: the client is told what there is in version 0.
		r := apiVersions(0)
		r.ErrorCode = 35 // UNSUPPORTED_VERSION
		return wire.AppendResponse(out, h.CorrelationID, r), nil
	}
	req := kmsg.RequestForKey(h.Key)
	req.SetVersion(h.Version)
	if err := req.ReadFrom(frame[h.Len:]); err != nil {
		return nil, fmt.Errorf("%T version %d: %w", req, h.Version, err)
	}
	var resp kmsg.Response
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp = apiVersions(h.Version)
	case *kmsg.MetadataRequest:
		resp = b.metadata(req)
	case *kmsg.FindCoordinatorRequest:
		resp = b.coordinator(req)
	case *kmsg.InitProducerIDRequest:
		r := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		r.ProducerID, r.ProducerEpoch = b.producers.Add(1), 0
		resp = r
	case *kmsg.DescribeProducersRequest:
		resp = describeProducers(req)
	}
	return wire.AppendResponse(out, h.CorrelationID, resp), nil
}

func apiVersions(version int16) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.Version = version
	for _, o := range offered {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = int16(o.key), o.min, o.max
		r.ApiKeys = append(r.ApiKeys, k)
	}
	return r
}

func (b *Broker) address() (string, int32) {
	host, port, _ := net.SplitHostPort(b.Addr())
	n, _ := strconv.Atoi(port)
	return host, int32(n)
}

func (b *Broker) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	r := req.ResponseKind().(*kmsg.MetadataResponse)
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID = NodeID
	broker.Host, broker.Port = b.address()
	r.Brokers = append(r.Brokers, broker)
	r.ClusterID, r.ControllerID = kmsg.StringPtr("null"), NodeID
	asked := req.Topics
	if asked == nil || req.Version == 0 && len(asked) == 0 {
		all := kmsg.NewMetadataRequestTopic()
		all.Topic = kmsg.StringPtr(Topic)
		asked = append(asked, all)
	}
	for _, a := range asked {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = a.Topic, a.TopicID
		if a.Topic != nil && *a.Topic == Topic || a.Topic == nil && a.TopicID == TopicID {
			t.Topic, t.TopicID = kmsg.StringPtr(Topic), TopicID
			for i := range b.partitions {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader, p.Replicas, p.ISR = int32(i), NodeID, []int32{NodeID}, []int32{NodeID}
				t.Partitions = append(t.Partitions, p)
			}
		} else {
			t.ErrorCode = errUnknownTopic
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (b *Broker) coordinator(req *kmsg.FindCoordinatorRequest) kmsg.Response {
	r := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	r.NodeID = NodeID
	r.Host, r.Port = b.address()
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port = key, NodeID, r.Host, r.Port
		r.Coordinators = append(r.Coordinators, c)
	}
	return r
}

// describeProducers says what is so: nothing is stored, so no producer is known.
func describeProducers(req *kmsg.DescribeProducersRequest) kmsg.Response {
	r := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, asked := range req.Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = asked.Topic
		for _, i := range asked.Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition = i
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}
