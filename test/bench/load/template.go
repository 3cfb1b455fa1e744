package load

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/oncegate/oncegate/internal/wire"
	"github.com/oncegate/oncegate/test/raw"
)

// Where the fields lie that change from request to request; see
// wire.BatchHeaderLen for the batch's.
const (
	correlationAt = 4 + 4
	crcAt         = 17
	crcFrom       = 21
	sequenceAt    = 53
)

// version of Produce that is sent: the first flexible one.
const version = 9

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// template is a Produce request of which only the correlation id, the base
// sequences and the CRCs are written again for each use.
type template struct {
	frame   []byte
	records int // in each batch
	size    int // of each batch, in bytes
	batches []batch
	// crcBits is by how much each bit of the base sequence changes a batch's
	// CRC. A CRC is linear: the changes of several bits add up (xor).
	crcBits [32]uint32
}

type batch struct {
	at  int    // in the frame
	crc uint32 // at sequence 0
}

// newTemplate makes a request with a batch of the given size for each of the
// partitions from first on. pid −1 makes batches of no idempotent producer.
func newTemplate(topic string, first, partitions, size int, pid int64) (*template, error) {
	records := max(1, size/1024)
	values, err := valuesFor(size, records)
	if err != nil {
		return nil, err
	}
	var batches []*raw.Batch
	for i := range partitions {
		b := &raw.Batch{Topic: topic, Partition: int32(first + i), PID: pid, Values: values}
		if pid < 0 {
			b.Epoch, b.First = -1, -1
		}
		batches = append(batches, b)
	}
	body := wire.AppendRequest(nil, 0, "bench", raw.Request(batches...))
	var p wire.Produce
	if err := p.Peek(body); err != nil {
		return nil, err
	}
	t := &template{frame: append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), records: records}
	for _, part := range p.Partitions {
		t.size = part.End - part.Start
		b := batch{at: 4 + part.Start}
		b.crc = crc32.Checksum(t.frame[b.at+crcFrom:4+part.End], castagnoli)
		t.batches = append(t.batches, b)
	}
	if pid >= 0 {
		t.learnBits(t.frame[t.batches[0].at:][:t.size], t.batches[0].crc)
	}
	return t, nil
}

// learnBits fills crcBits from one batch, whose sequence is 0.
func (t *template) learnBits(b []byte, crc uint32) {
	for i := range t.crcBits {
		binary.BigEndian.PutUint32(b[sequenceAt:], 1<<i)
		t.crcBits[i] = crc32.Checksum(b[crcFrom:], castagnoli) ^ crc
	}
	binary.BigEndian.PutUint32(b[sequenceAt:], 0)
}

// set makes the frame request number correlation, whose batches begin at this
// sequence.
func (t *template) set(correlation, sequence int32) {
	t.correlate(correlation)
	change := uint32(0)
	for s := uint32(sequence); s != 0; s &= s - 1 {
		change ^= t.crcBits[bits.TrailingZeros32(s)]
	}
	for _, b := range t.batches {
		binary.BigEndian.PutUint32(t.frame[b.at+sequenceAt:], uint32(sequence))
		binary.BigEndian.PutUint32(t.frame[b.at+crcAt:], b.crc^change)
	}
}

func (t *template) correlate(id int32) {
	binary.BigEndian.PutUint32(t.frame[correlationAt:], uint32(id))
}

// valuesFor makes values that fill a batch of a size, but for a few bytes that
// the lengths of lengths may leave.
func valuesFor(size, records int) ([][]byte, error) {
	values := make([][]byte, records)
	length := func() int { return len((&raw.Batch{Values: values}).Encode()) }
	empty := length()
	if empty > size {
		return nil, fmt.Errorf("%d records take %d bytes, more than the batch's %d", records, empty, size)
	}
	for i := range values {
		values[i] = make([]byte, max(0, (size-empty)/records-4))
		for j := range values[i] {
			values[i][j] = byte(i*31 + j*7)
		}
	}
	last := &values[records-1]
	*last = append(*last, make([]byte, size-length())...)
	for length() > size {
		*last = (*last)[:len(*last)-1]
	}
	return values, nil
}

// own makes another producer the batches'.
func (t *template) own(pid int64) {
	for i := range t.batches {
		b := &t.batches[i]
		all := t.frame[b.at:][:t.size]
		wire.StampBatch(all, pid, 0, 0)
		b.crc = binary.BigEndian.Uint32(all[crcAt:])
	}
}
