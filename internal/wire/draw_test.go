package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// forEachProduce checks a property for each version that is read in place.
func forEachProduce(t *testing.T, property func(t *rapid.T, version int16)) {
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, version) })
		})
	}
}

// drawProduce draws a Produce request: topics that are empty, that occur twice,
// that have an empty name; partitions in any order; tagged fields everywhere.
func drawProduce(t *rapid.T, version int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	req.Acks = rapid.SampledFrom([]int16{-1, 0, 1}).Draw(t, "acks")
	req.TimeoutMillis = rapid.Int32().Draw(t, "timeout")
	if rapid.Bool().Draw(t, "transactional") {
		id := rapid.StringN(0, 10, 20).Draw(t, "transactional id")
		req.TransactionID = &id
	}
	left := make(map[string][]int32) // partition numbers that a topic has not used yet
	for range rapid.IntRange(0, 4).Draw(t, "topics") {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = rapid.SampledFrom([]string{"", "a", "b", "orders"}).Draw(t, "topic")
		topic.TopicID = idOf(topic.Topic)
		if left[topic.Topic] == nil {
			left[topic.Topic] = rapid.Permutation([]int32{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 700, 1<<31 - 1}).Draw(t, "numbers")
		}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = left[topic.Topic][0]
			left[topic.Topic] = left[topic.Topic][1:]
			part.Records = drawRecords(t)
			drawTags(t, version, &part.UnknownTags)
			topic.Partitions = append(topic.Partitions, part)
		}
		drawTags(t, version, &topic.UnknownTags)
		req.Topics = append(req.Topics, topic)
	}
	drawTags(t, version, &req.UnknownTags)
	return req
}

func idOf(topic string) (id [16]byte) {
	copy(id[:], "id of "+topic)
	return id
}

// drawTags draws up to two unknown tagged fields.
func drawTags(t *rapid.T, version int16, tags *kmsg.Tags) {
	if version < produceFlexible {
		return
	}
	for range rapid.IntRange(-3, 2).Draw(t, "tagged") {
		tags.Set(rapid.Uint32Range(70, 1<<32-1).Draw(t, "tag"), rapid.SliceOfN(rapid.Byte(), 0, 150).Draw(t, "value"))
	}
}

func drawRecords(t *rapid.T) []byte {
	switch rapid.IntRange(0, 5).Draw(t, "records") {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "junk")
	}
	return soundBatch(rapid.Int64Range(-1, 9).Draw(t, "pid"), rapid.Int32Range(0, 1<<31-1).Draw(t, "sequence"), rapid.Int32Range(1, 5).Draw(t, "count"))
}

// drawFrame encodes a request with a header of any kind.
func drawFrame(t *rapid.T, req *kmsg.ProduceRequest) []byte {
	var frame []byte
	frame = binary.BigEndian.AppendUint16(frame, uint16(req.Key()))
	frame = binary.BigEndian.AppendUint16(frame, uint16(req.Version))
	frame = binary.BigEndian.AppendUint32(frame, uint32(rapid.Int32().Draw(t, "correlation id")))
	if rapid.Bool().Draw(t, "client id is null") {
		frame = append(frame, 0xff, 0xff)
	} else {
		id := rapid.StringN(0, 12, 20).Draw(t, "client id")
		frame = binary.BigEndian.AppendUint16(frame, uint16(len(id)))
		frame = append(frame, id...)
	}
	return req.AppendTo(append(frame, drawHeaderTags(t, req.Version)...))
}

// drawHeaderTags draws the tagged fields of a header, empty before version 9.
func drawHeaderTags(t *rapid.T, version int16) []byte {
	if version < produceFlexible {
		return nil
	}
	var tags kmsg.Tags
	drawTags(t, version, &tags)
	return tags.AppendEach(binary.AppendUvarint(nil, uint64(tags.Len())))
}

// drawAnswer draws what a broker may answer to the partitions that were sent:
// in an order of its own, with everything that a response can hold, and some of
// them not at all. answers has what it says of each.
func drawAnswer(t *rapid.T, req *kmsg.ProduceRequest, sent []bool) (r *kmsg.ProduceResponse, answers map[int]*kmsg.ProduceResponseTopicPartition) {
	r = kmsg.NewPtrProduceResponse()
	r.Version, r.ThrottleMillis = req.Version, rapid.Int32Range(0, 1000).Draw(t, "throttle")
	answers = make(map[int]*kmsg.ProduceResponseTopicPartition)
	topics := make(map[string]*kmsg.ProduceResponseTopic)
	topicOf := func(name string) *kmsg.ProduceResponseTopic {
		if topics[name] == nil {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = name, idOf(name)
			drawTags(t, req.Version, &topic.UnknownTags)
			topics[name] = &topic
		}
		return topics[name]
	}
	i := 0
	for _, asked := range req.Topics {
		for _, part := range asked.Partitions {
			if sent[i] && rapid.IntRange(0, 9).Draw(t, "left out") > 0 {
				answer := drawPartitionAnswer(t, req.Version, part.Partition)
				answers[i] = &answer
				topic := topicOf(asked.Topic)
				topic.Partitions = append(topic.Partitions, answer)
			}
			i++
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "an answer too many") == 0 {
		topic := topicOf(rapid.SampledFrom([]string{"a", "stranger"}).Draw(t, "topic"))
		topic.Partitions = append(topic.Partitions, drawPartitionAnswer(t, req.Version, 12345))
	}
	for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(topics))).Draw(t, "order of topics") {
		topic := topics[name]
		topic.Partitions = rapid.Permutation(topic.Partitions).Draw(t, "order of partitions")
		r.Topics = append(r.Topics, *topic)
	}
	if req.Version >= 10 && rapid.Bool().Draw(t, "endpoints") {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port = 2, "broker", 9092
		r.Brokers = append(r.Brokers, b)
	}
	drawTags(t, req.Version, &r.UnknownTags)
	return r, answers
}

func drawPartitionAnswer(t *rapid.T, version int16, partition int32) kmsg.ProduceResponseTopicPartition {
	answer := kmsg.NewProduceResponseTopicPartition()
	answer.Partition = partition
	answer.ErrorCode = rapid.SampledFrom([]int16{0, 6, 45}).Draw(t, "code")
	answer.BaseOffset = rapid.Int64().Draw(t, "base offset")
	answer.LogAppendTime = rapid.Int64().Draw(t, "append time")
	answer.LogStartOffset = rapid.Int64().Draw(t, "start offset")
	if version >= 8 && answer.ErrorCode != 0 {
		text := rapid.StringN(0, 10, -1).Draw(t, "message")
		answer.ErrorMessage = &text
		for range rapid.IntRange(0, 2).Draw(t, "record errors") {
			e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			e.RelativeOffset, e.ErrorMessage = 3, &text
			drawTags(t, version, &e.UnknownTags)
			answer.ErrorRecords = append(answer.ErrorRecords, e)
		}
	}
	if version >= 10 && answer.ErrorCode == 6 {
		answer.CurrentLeader.LeaderID, answer.CurrentLeader.LeaderEpoch = 2, 9
	}
	drawTags(t, version, &answer.UnknownTags)
	return answer
}

// soundBatch is a batch as a client would send it, made without the code that
// is under test.
func soundBatch(pid int64, sequence, count int32) []byte {
	b := kmsg.RecordBatch{Magic: 2, LastOffsetDelta: count - 1, ProducerID: pid, FirstSequence: sequence, NumRecords: count}
	for range count {
		b.Records = append(b.Records, 12, 0, 0, 0, 1, 0, 0)
	}
	return encodeBatch(&b)
}

// encodeBatch encodes b with the length and the CRC that it should have.
func encodeBatch(b *kmsg.RecordBatch) []byte {
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// sampleRequest is a request as a client would send it.
func sampleRequest(version int16, topics, partitions int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 30_000
	for ti := range topics {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = fmt.Sprint("topic-", ti)
		topic.TopicID = idOf(topic.Topic)
		for pi := range partitions {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition, part.Records = int32(pi), soundBatch(7, 5, 3)
			topic.Partitions = append(topic.Partitions, part)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// sampleResponse answers it with success.
func sampleResponse(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	r := kmsg.NewPtrProduceResponse()
	r.Version = req.Version
	for _, topic := range req.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = topic.Topic, topic.TopicID
		for _, part := range topic.Partitions {
			answer := kmsg.NewProduceResponseTopicPartition()
			answer.Partition = part.Partition
			out.Partitions = append(out.Partitions, answer)
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

func encodeRequest(req kmsg.Request) []byte { return AppendRequest(nil, 42, "client", req) }
