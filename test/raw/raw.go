// Package raw is a Kafka client for tests that say byte by byte what is sent
// when: it writes frames and reads frames, and retries nothing.
package raw

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// Conn is one connection.
type Conn struct {
	net.Conn
	ClientID string
	next     int32
}

// Dial connects to addr; every exchange has to end within limit.
func Dial(addr string, limit time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(limit))
	return &Conn{Conn: c, ClientID: "raw"}, nil
}

// Send writes a request and returns its correlation id.
func (c *Conn) Send(req kmsg.Request) (int32, error) {
	c.next++
	frame := wire.AppendRequest(make([]byte, 4), c.next, c.ClientID, req)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_, err := c.Write(frame)
	return c.next, err
}

// Receive reads the answer to a request, which has to be the next.
func (c *Conn) Receive(req kmsg.Request, correlationID int32) (kmsg.Response, error) {
	var n [4]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(n[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		return nil, err
	}
	if got, err := wire.ResponseCorrelationID(frame); err != nil || got != correlationID {
		return nil, fmt.Errorf("the answer to request %d came where that to %d was due (%v)", got, correlationID, err)
	}
	return wire.DecodeResponse(req.Key(), req.GetVersion(), frame)
}

// Ask sends a request and reads its answer.
func (c *Conn) Ask(req kmsg.Request) (kmsg.Response, error) {
	id, err := c.Send(req)
	if err != nil {
		return nil, err
	}
	return c.Receive(req, id)
}

// ProducerID gets a producer id, waiting while the broker is starting up.
func (c *Conn) ProducerID() (int64, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	for {
		r, err := c.Ask(req)
		if err != nil {
			return 0, err
		}
		switch code := r.(*kmsg.InitProducerIDResponse).ErrorCode; code {
		case 0:
			return r.(*kmsg.InitProducerIDResponse).ProducerID, nil
		case 14, 15: // COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE
			time.Sleep(50 * time.Millisecond)
		default:
			return 0, fmt.Errorf("InitProducerId: error %d", code)
		}
	}
}

// Batch is one record batch of one partition.
type Batch struct {
	Topic     string
	Partition int32
	PID       int64
	Epoch     int16
	First     int32
	Values    [][]byte
}

// Last is the last sequence.
func (b *Batch) Last() int32 {
	return int32((uint32(b.First) + uint32(len(b.Values)) - 1) & (1<<31 - 1))
}

// Encode returns the batch's bytes.
func (b *Batch) Encode() []byte {
	var records []byte
	for i, v := range b.Values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: v}
		body := r.AppendTo(nil)[1:]
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(b.Values) - 1), FirstTimestamp: now, MaxTimestamp: now,
		NumRecords: int32(len(b.Values)), Records: records,
	}
	out := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	wire.StampBatch(out, b.PID, b.Epoch, b.First)
	return out
}

// Request is a Produce request with acks=all for the batches, which all go to
// one topic.
func Request(batches ...*Batch) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 10_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = batches[0].Topic
	for _, b := range batches {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = b.Partition, b.Encode()
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

// Answer is what was said of one batch.
type Answer struct {
	Code   int16
	Offset int64
}

// AnswerOf returns the answer for the first partition of a response.
func AnswerOf(r kmsg.Response) Answer {
	p := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return Answer{p.ErrorCode, p.BaseOffset}
}
