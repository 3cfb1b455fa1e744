package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// BatchHeaderLen is the length of a record batch's header in bytes.
//
// A record batch of magic 2 (KIP-98), all integers big-endian:
//
//	at  0  baseOffset            int64
//	at  8  batchLength           int32   bytes that follow this field
//	at 12  partitionLeaderEpoch  int32
//	at 16  magic                 int8    2
//	at 17  crc                   uint32  CRC-32C of everything from attributes on
//	at 21  attributes            int16   0–2 compression, 3 timestamp type,
//	                                     4 transactional, 5 control, 6 delete horizon
//	at 23  lastOffsetDelta       int32   offset of the last record − baseOffset
//	at 27  baseTimestamp         int64   milliseconds
//	at 35  maxTimestamp          int64   milliseconds
//	at 43  producerId            int64   −1 for none
//	at 51  producerEpoch         int16   −1 for none
//	at 53  baseSequence          int32   −1 for none
//	at 57  recordCount           int32
//	at 61  records
const BatchHeaderLen = 61

const (
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchAttributesAt = 21
	batchProducerAt   = 43
	batchLengthEnd    = 12 // batchLength counts from here
)

const (
	attributeTransactional = 1 << 4
	attributeControl       = 1 << 5
)

// BatchHeader is the header of a record batch.
type BatchHeader struct {
	BaseOffset      int64
	Length          int32 // of the batch in bytes, less 12
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64 // milliseconds
	MaxTimestamp    int64 // milliseconds
	ProducerID      int64 // −1 for none
	ProducerEpoch   int16
	BaseSequence    int32
	RecordCount     int32
}

// LastSequence is the sequence of the batch's last record; 0 follows
// 2147483647. The record count would not do: compaction lowers it.
func (h *BatchHeader) LastSequence() int32 {
	return int32((uint32(h.BaseSequence) + uint32(h.LastOffsetDelta)) & (1<<31 - 1))
}

// Transactional says whether the batch is part of a transaction.
func (h *BatchHeader) Transactional() bool { return h.Attributes&attributeTransactional != 0 }

// Control says whether the batch is a transaction marker.
func (h *BatchHeader) Control() bool { return h.Attributes&attributeControl != 0 }

// BatchProblem says why a records field is not one sound batch.
type BatchProblem uint8

const (
	BatchOK        BatchProblem = iota
	BatchEmpty                  // null or empty
	BatchTruncated              // shorter than a header, or than its own length
	BatchOldMagic               // a message set of magic 0 or 1
	BatchBadMagic               // a magic that does not exist
	BatchMany                   // more bytes than one batch: two or more batches
	BatchBadCount               // a record count that is not the last offset delta + 1
)

func (p BatchProblem) String() string {
	switch p {
	case BatchOK:
		return "sound"
	case BatchEmpty:
		return "no batch"
	case BatchTruncated:
		return "a truncated batch"
	case BatchOldMagic:
		return "a message set of magic 0 or 1"
	case BatchBadMagic:
		return "a batch of unknown magic"
	case BatchMany:
		return "more than one batch"
	case BatchBadCount:
		return "a batch with an impossible record count"
	}
	return "unknown"
}

// PeekBatch reads the header of the one batch that a records field should hold.
// The CRC is not checked; the broker does.
func PeekBatch(b []byte) (BatchHeader, BatchProblem) {
	switch {
	case len(b) == 0:
		return BatchHeader{}, BatchEmpty
	case len(b) <= batchMagicAt:
		return BatchHeader{}, BatchTruncated
	case b[batchMagicAt] < 2:
		return BatchHeader{}, BatchOldMagic
	case b[batchMagicAt] > 2:
		return BatchHeader{}, BatchBadMagic
	case len(b) < BatchHeaderLen:
		return BatchHeader{}, BatchTruncated
	}
	_ = b[BatchHeaderLen-1]
	h := BatchHeader{
		BaseOffset:      int64(binary.BigEndian.Uint64(b[0:])),
		Length:          int32(binary.BigEndian.Uint32(b[8:])),
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[12:])),
		Magic:           int8(b[batchMagicAt]),
		CRC:             binary.BigEndian.Uint32(b[batchCRCAt:]),
		Attributes:      int16(binary.BigEndian.Uint16(b[batchAttributesAt:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[23:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[27:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[35:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[batchProducerAt:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[51:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[53:])),
		RecordCount:     int32(binary.BigEndian.Uint32(b[57:])),
	}
	size := int64(batchLengthEnd) + int64(h.Length)
	switch {
	case h.Length < BatchHeaderLen-batchLengthEnd || size > int64(len(b)):
		return h, BatchTruncated
	case size < int64(len(b)):
		return h, BatchMany
	case h.LastOffsetDelta < 0 || int64(h.RecordCount) != int64(h.LastOffsetDelta)+1:
		return h, BatchBadCount
	}
	return h, BatchOK
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SumBatch computes the CRC-32C that the batch should carry.
func SumBatch(b []byte) uint32 { return crc32.Checksum(b[batchAttributesAt:], castagnoli) }

// StampBatch writes producer id, epoch and base sequence into a batch, in
// place, and renews its CRC. b must be one sound batch (BatchOK).
func StampBatch(b []byte, producerID int64, epoch int16, baseSequence int32) {
	stamp := b[batchProducerAt : batchProducerAt+14]
	binary.BigEndian.PutUint64(stamp, uint64(producerID))
	binary.BigEndian.PutUint16(stamp[8:], uint16(epoch))
	binary.BigEndian.PutUint32(stamp[10:], uint32(baseSequence))
	binary.BigEndian.PutUint32(b[batchCRCAt:], SumBatch(b))
}
