package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// runNull is a broker that stores nothing and answers at once. Produce answers
// are built in place, many to a write, so that it is never what is measured.
func runNull(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go serveNull(conn, l.Addr().String())
	}
}

// benchTopic has as many partitions as any load asks for.
const (
	benchTopic      = "bench"
	benchPartitions = 4096
)

func serveNull(conn net.Conn, self string) {
	defer conn.Close()
	buf := make([]byte, 256<<10)
	var out []byte
	var req wire.Produce
	offset := int64(0)
	answer := func(int) wire.PartitionAnswer {
		offset++
		return wire.PartitionAnswer{BaseOffset: offset, LogAppendTime: -1}
	}
	r, w := 0, 0
	for {
		for w-r >= 4 {
			n := 4 + int(binary.BigEndian.Uint32(buf[r:]))
			if n > len(buf) {
				grown := make([]byte, n+(64<<10))
				w = copy(grown, buf[r:w])
				buf, r = grown, 0
			}
			if w-r < n {
				break
			}
			frame := buf[r+4 : r+n]
			r += n
			at := len(out)
			out = append(out, 0, 0, 0, 0)
			if binary.BigEndian.Uint16(frame) == uint16(kmsg.Produce) {
				if err := req.Peek(frame); err != nil {
					fmt.Println(err)
					return
				}
				out = req.AppendResponse(out, answer)
			} else {
				var err error
				if out, err = answerNull(out, frame, self); err != nil {
					fmt.Println(err)
					return
				}
			}
			binary.BigEndian.PutUint32(out[at:], uint32(len(out)-at-4))
		}
		if len(out) > 0 {
			if _, err := conn.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		if r == w {
			r, w = 0, 0
		} else if len(buf)-w < 32<<10 {
			w = copy(buf, buf[r:w])
			r = 0
		}
		n, err := conn.Read(buf[w:])
		if err != nil {
			return
		}
		w += n
	}
}

// answerNull answers what a client asks before it produces.
func answerNull(out, frame []byte, self string) ([]byte, error) {
	h, err := wire.ParseRequestHeader(frame)
	if err != nil {
		return nil, err
	}
	req := kmsg.RequestForKey(h.Key)
	if req == nil {
		return nil, fmt.Errorf("the null broker does not know api key %d", h.Key)
	}
	req.SetVersion(h.Version)
	if err := req.ReadFrom(frame[h.Len:]); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		for key, max := range map[kmsg.Key]int16{kmsg.Produce: 12, kmsg.Metadata: 12, kmsg.ApiVersions: 4, kmsg.InitProducerID: 4, kmsg.FindCoordinator: 4} {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = int16(key), max
			r.ApiKeys = append(r.ApiKeys, k)
		}
	case *kmsg.MetadataResponse:
		host, port, _ := net.SplitHostPort(self)
		n, _ := strconv.Atoi(port)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = 0, host, int32(n)
		r.Brokers = append(r.Brokers, b)
		r.ControllerID = 0
		for _, asked := range req.(*kmsg.MetadataRequest).Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.TopicID = asked.Topic, [16]byte{1}
			if asked.Topic == nil || *asked.Topic != benchTopic {
				t.ErrorCode = 3
			} else {
				for p := range int32(benchPartitions) {
					part := kmsg.NewMetadataResponseTopicPartition()
					part.Partition, part.Replicas, part.ISR = p, []int32{0}, []int32{0}
					t.Partitions = append(t.Partitions, part)
				}
			}
			r.Topics = append(r.Topics, t)
		}
	case *kmsg.InitProducerIDResponse:
		r.ProducerID, r.ProducerEpoch = nextPID(), 0
	}
	return wire.AppendResponse(out, h.CorrelationID, resp), nil
}
