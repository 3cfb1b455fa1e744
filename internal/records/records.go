// Package records looks into record batches: it decodes their records, tells
// them by digests, and makes a batch of some of another's. Only what a feature
// asks for is decoded; the data path never comes here.
package records

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// Batch is a decoded record batch of magic 2.
type Batch struct {
	header  wire.BatchHeader
	records []kmsg.Record
}

// Digest tells a record by its content. Its timestamp is apart: some clients
// give a retried record another one.
type Digest struct {
	Sum       uint64 // of key, value and headers
	Timestamp int64  // milliseconds
}

var decompressor = kgo.DefaultDecompressor()

// Decode reads the records of one batch, whatever its codec. It copies them.
func Decode(b []byte) (*Batch, error) {
	h, problem := wire.PeekBatch(b)
	if problem != wire.BatchOK {
		return nil, fmt.Errorf("the records are %v", problem)
	}
	raw := b[wire.BatchHeaderLen:]
	if codec := kgo.CompressionCodecType(h.Attributes & 7); codec != 0 {
		var err error
		if raw, err = decompressor.Decompress(raw, codec); err != nil {
			return nil, fmt.Errorf("the records can't be decompressed: %w", err)
		}
	}
	batch := &Batch{header: h}
	for range h.RecordCount {
		length, n := binary.Varint(raw)
		if n <= 0 || length < 0 || length > int64(len(raw)-n) {
			return nil, fmt.Errorf("the batch claims %d records and ends after %d", h.RecordCount, len(batch.records))
		}
		var r kmsg.Record
		if err := r.ReadFrom(raw[:n+int(length)]); err != nil {
			return nil, fmt.Errorf("record %d: %w", len(batch.records), err)
		}
		batch.records = append(batch.records, r)
		raw = raw[n+int(length):]
	}
	return batch, nil
}

// Len is the number of records.
func (b *Batch) Len() int { return len(b.records) }

// Digests returns a digest for each record.
func (b *Batch) Digests(seed maphash.Seed) []Digest {
	var h maphash.Hash
	h.SetSeed(seed)
	digests := make([]Digest, len(b.records))
	for i := range b.records {
		r := &b.records[i]
		h.Reset()
		field(&h, r.Key)
		field(&h, r.Value)
		for _, header := range r.Headers {
			field(&h, []byte(header.Key))
			field(&h, header.Value)
		}
		digests[i] = Digest{Sum: h.Sum64(), Timestamp: b.header.BaseTimestamp + r.TimestampDelta64}
	}
	return digests
}

// field adds b so that no two lists of fields look alike; null and empty
// differ.
func field(h *maphash.Hash, b []byte) {
	n := int64(len(b))
	if b == nil {
		n = -1
	}
	maphash.WriteComparable(h, n)
	h.Write(b)
}

// Subset returns a batch of the records for which keep is true, in the same
// codec, with no producer id. At least one must be kept.
func (b *Batch) Subset(keep func(i int) bool) ([]byte, error) {
	var raw []byte
	count := int32(0)
	for i := range b.records {
		if !keep(i) {
			continue
		}
		r := b.records[i]
		r.OffsetDelta = count
		raw = appendRecord(raw, r)
		count++
	}
	if codec := kgo.CompressionCodecType(b.header.Attributes & 7); codec != 0 {
		var err error
		if raw, err = compress(raw, codec); err != nil {
			return nil, err
		}
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: b.header.LeaderEpoch, Magic: 2, Attributes: b.header.Attributes,
		LastOffsetDelta: count - 1, FirstTimestamp: b.header.BaseTimestamp, MaxTimestamp: b.header.MaxTimestamp,
		NumRecords: count, Records: raw,
	}
	out := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	wire.StampBatch(out, -1, -1, -1)
	return out, nil
}

// appendRecord appends r with its length.
func appendRecord(dst []byte, r kmsg.Record) []byte {
	r.Length = 0
	body := r.AppendTo(nil)[1:] // a length of 0 takes one byte
	dst = binary.AppendVarint(dst, int64(len(body)))
	return append(dst, body...)
}
