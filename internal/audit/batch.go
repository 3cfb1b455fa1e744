package audit

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/internal/wire"
)

// Batch is a record batch as the log holds it, or a message of magic 0 or 1.
type Batch struct {
	Partition    int32
	BaseOffset   int64
	LastOffset   int64
	ProducerID   int64 // −1 for none
	Epoch        int16
	BaseSequence int32 // −1 for none
	// LastSequence is the sequence that the last record had when the batch was
	// written: compaction may have taken records away.
	LastSequence int32

	Transactional bool
	Marker        Marker
	Aborted       bool // the transaction was aborted
	Open          bool // the transaction wasn't over at the last stable offset

	// Entries are the records within the range that is read. They are valid
	// until the next batch is asked for.
	Entries []Entry
}

// Marker is what a control batch does to its producer's transaction.
type Marker uint8

const (
	NoMarker    Marker = iota // records of a producer
	Commit                    // the transaction is committed
	Abort                     // the transaction is aborted
	OtherMarker               // a control batch of another kind
)

// sequenced says that the producer numbered the batch.
func (b *Batch) sequenced() bool {
	return b.Marker == NoMarker && b.BaseSequence >= 0
}

const (
	offsetAndLength = 12
	magicAt         = 16
)

// cutBatch cuts the first batch off what a broker sent. A broker may cut the
// last batch short: then ok is false.
func cutBatch(raw []byte) (batch, rest []byte, ok bool) {
	if len(raw) <= magicAt {
		return nil, nil, false
	}
	size := int64(offsetAndLength) + int64(int32(binary.BigEndian.Uint32(raw[8:])))
	if size <= magicAt || size > int64(len(raw)) {
		return nil, nil, false
	}
	return raw[:size], raw[size:], true
}

// lastOffset is the offset of the last record of a batch; for messages of magic
// 0 and 1 the first field already says that.
func lastOffset(batch []byte) int64 {
	first := int64(binary.BigEndian.Uint64(batch))
	if batch[magicAt] < 2 || len(batch) < wire.BatchHeaderLen {
		return first
	}
	return first + int64(int32(binary.BigEndian.Uint32(batch[23:])))
}

// decoder turns bytes into batches of one partition.
type decoder struct {
	r       Range
	topic   string
	plain   kgo.Decompressor
	aborted map[int64][]int64 // first offsets of aborted transactions by producer, rising
	decided bool              // the broker told which transactions are aborted
	entries []Entry
}

// decode checks the CRC and reads the records.
func (d *decoder) decode(raw []byte) (*Batch, error) {
	b := &Batch{Partition: d.r.Partition, LastOffset: lastOffset(raw), ProducerID: -1, Epoch: -1, BaseSequence: -1, LastSequence: -1}
	b.BaseOffset = b.LastOffset
	control := false
	if raw[magicAt] >= 2 {
		h, problem := wire.PeekBatch(raw)
		// After compaction a batch has fewer records than offsets.
		if problem != wire.BatchOK && problem != wire.BatchBadCount {
			return nil, fmt.Errorf("partition %d offset %d: %v", d.r.Partition, b.LastOffset, problem)
		}
		b.BaseOffset = h.BaseOffset
		// Some clients number their records from 0 in each batch when they have
		// no producer id; that says nothing.
		if h.ProducerID >= 0 && h.BaseSequence >= 0 {
			b.BaseSequence, b.LastSequence = h.BaseSequence, h.LastSequence()
		}
		b.ProducerID, b.Epoch = h.ProducerID, h.ProducerEpoch
		b.Transactional, control = h.Transactional(), h.Control()
	}
	records, err := d.records(raw, b)
	if err != nil {
		return nil, err
	}
	switch {
	case control:
		b.Marker = marker(records)
		d.endTransaction(b)
	case b.Transactional && !d.decided:
		b.Open = true
	case b.Transactional:
		first := d.aborted[b.ProducerID]
		b.Aborted = len(first) > 0 && first[0] <= b.BaseOffset
	}
	d.entries = d.entries[:0]
	if !control {
		for _, r := range records {
			d.add(b, r)
		}
	}
	b.Entries = d.entries
	return b, nil
}

func (d *decoder) records(raw []byte, b *Batch) ([]*kgo.Record, error) {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = d.r.Partition
	p.RecordBatches = raw
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true,
		Topic:              d.topic,
		Partition:          d.r.Partition,
	}, &p, d.plain, nil)
	if got.Err == nil && next != b.LastOffset+1 {
		got.Err = fmt.Errorf("its records end at offset %d, its header says %d", next-1, b.LastOffset)
	}
	if got.Err != nil {
		return nil, fmt.Errorf("partition %d, the batch at offset %d is damaged: %w", d.r.Partition, b.BaseOffset, got.Err)
	}
	return got.Records, nil
}

// marker reads the kind from a control record's key: version int16, type int16.
func marker(records []*kgo.Record) Marker {
	if len(records) == 0 || len(records[0].Key) < 4 {
		return OtherMarker
	}
	switch binary.BigEndian.Uint16(records[0].Key[2:]) {
	case 0:
		return Abort
	case 1:
		return Commit
	}
	return OtherMarker
}

func (d *decoder) endTransaction(b *Batch) {
	if first := d.aborted[b.ProducerID]; b.Marker == Abort && len(first) > 0 && first[0] <= b.BaseOffset {
		d.aborted[b.ProducerID] = first[1:]
	}
}

func (d *decoder) add(b *Batch, r *kgo.Record) {
	if r.Offset < d.r.Start || r.Offset >= d.r.End {
		return
	}
	e := Entry{
		Partition: d.r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(),
		Key: r.Key, Value: r.Value,
		ProducerID: b.ProducerID, Epoch: b.Epoch, Sequence: -1,
		Aborted: b.Aborted, Open: b.Open,
	}
	if b.BaseSequence >= 0 {
		// 0 follows 2147483647.
		e.Sequence = int32((int64(b.BaseSequence) + r.Offset - b.BaseOffset) & (1<<31 - 1))
	}
	for _, h := range r.Headers {
		e.Headers = append(e.Headers, Header(h))
	}
	d.entries = append(d.entries, e)
}
