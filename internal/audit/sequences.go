package audit

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// sequenceMask: sequences are 31 bits wide, and 0 follows 2147483647.
const sequenceMask = 1<<31 - 1

// maxUnseen bounds the memory for one producer, epoch and partition.
const maxUnseen = 1 << 16

// mark is what the sequence checks need of a batch.
type mark struct {
	producer  int64
	offset    int64
	partition int32
	base      int32
	last      int32
	epoch     int16
}

func (m *mark) records() int64 { return int64((m.last-m.base)&sequenceMask) + 1 }

func (m *mark) sequences() *Sequences { return &Sequences{m.producer, m.epoch, m.base, m.last} }

// newMarkSpill sorts by partition and producer; later epochs come first, so
// that a batch of an old epoch can be compared with where a newer one began.
func newMarkSpill(dir string, memory int64) *spill[mark] {
	return &spill[mark]{
		dir: dir, limit: itemsIn(memory, 32), size: 30,
		compare: func(a, b mark) int {
			return cmp.Or(
				cmp.Compare(a.partition, b.partition), cmp.Compare(a.producer, b.producer),
				cmp.Compare(b.epoch, a.epoch), cmp.Compare(a.offset, b.offset))
		},
		encode: func(b []byte, m *mark) {
			binary.BigEndian.PutUint64(b, uint64(m.producer))
			binary.BigEndian.PutUint64(b[8:], uint64(m.offset))
			binary.BigEndian.PutUint32(b[16:], uint32(m.partition))
			binary.BigEndian.PutUint32(b[20:], uint32(m.base))
			binary.BigEndian.PutUint32(b[24:], uint32(m.last))
			binary.BigEndian.PutUint16(b[28:], uint16(m.epoch))
		},
		decode: func(b []byte, m *mark) {
			*m = mark{
				producer:  int64(binary.BigEndian.Uint64(b)),
				offset:    int64(binary.BigEndian.Uint64(b[8:])),
				partition: int32(binary.BigEndian.Uint32(b[16:])),
				base:      int32(binary.BigEndian.Uint32(b[20:])),
				last:      int32(binary.BigEndian.Uint32(b[24:])),
				epoch:     int16(binary.BigEndian.Uint16(b[28:])),
			}
		},
	}
}

// sequenceCheck follows one producer after the other through its batches.
type sequenceCheck struct {
	found *findings
	whole map[int32]bool // partitions where a producer's first batch can't have been removed

	current mark  // the producer, epoch and partition that is followed, and its last batch
	newer   int64 // where the first batch of a newer epoch lies
	next    int64 // the sequence that should come; sequences are unwrapped to 64 bits here
	unseen  []unseen
	recent  [512]stored // to tell where a duplicate's original lies

	batches     int   // of the epoch, up to now
	firstOffset int64 // of the epoch

	sessions int64 // producers × epochs × partitions
	dropped  bool  // unseen was full once
}

// unseen are sequences that no batch had up to now.
type unseen struct {
	from, to int64 // without to
	offset   int64 // of the batch that came after them
	hidden   bool  // it isn't known whether they were ever stored
}

type stored struct{ from, to, offset int64 }

// noOffset is higher than any.
const noOffset = math.MaxInt64

func (s *sequenceCheck) add(m *mark) {
	sameProducer := s.batches > 0 && m.partition == s.current.partition && m.producer == s.current.producer
	if !sameProducer || m.epoch != s.current.epoch {
		first := s.finish()
		if sameProducer {
			s.newer = min(s.newer, first)
		} else {
			s.newer = noOffset
		}
		s.begin(m)
		s.store(int64(m.base), m)
	} else {
		s.follow(m)
	}
	s.batches++
	s.current = *m
	if m.offset > s.newer {
		s.found.add(Finding{Kind: OrderBreak, Place: Place{m.partition, m.offset}, Records: m.records(), Range: m.sequences(),
			Detail: "after a newer epoch"})
	}
}

// begin starts with the first batch of an epoch.
func (s *sequenceCheck) begin(m *mark) {
	s.sessions++
	s.batches, s.firstOffset = 0, m.offset
	from := int64(m.base)
	s.next = from + m.records()
	if !s.whole[m.partition] {
		s.unseen = append(s.unseen[:0], unseen{from - 1<<30, from, m.offset, true})
		return
	}
	// An epoch begins at 0 (KIP-360).
	s.unseen = append(s.unseen[:0], unseen{-1 << 30, 0, m.offset, true})
	if from > 0 {
		s.unseen = append(s.unseen, unseen{0, from, m.offset, false})
	}
}

// follow compares a batch with those before it.
func (s *sequenceCheck) follow(m *mark) {
	// The nearest sequence, up or down, that is base when it is wrapped.
	ahead := (int64(m.base) - s.next) & sequenceMask
	if ahead >= 1<<30 {
		ahead -= 1 << 31
	}
	from := s.next + ahead
	to := from + m.records()
	switch {
	case ahead > 0:
		s.miss(unseen{s.next, from, m.offset, false})
	case ahead < 0:
		s.again(m, from, min(to, s.next))
	}
	s.next = max(s.next, to)
	s.store(from, m)
}

func (s *sequenceCheck) store(from int64, m *mark) {
	s.recent[s.batches%len(s.recent)] = stored{from, from + m.records(), m.offset}
}

func (s *sequenceCheck) miss(u unseen) {
	if len(s.unseen) == maxUnseen {
		s.dropped = true
		s.report(s.unseen[0])
		s.unseen = slices.Delete(s.unseen, 0, 1)
	}
	s.unseen = append(s.unseen, u)
}

// again judges sequences below the ones that came last: they are late where
// none had them before, and duplicates otherwise.
func (s *sequenceCheck) again(m *mark, from, to int64) {
	late := s.seen(from, to)
	if late > 0 {
		s.found.add(Finding{Kind: OrderBreak, Place: Place{m.partition, m.offset}, Records: late, Range: m.sequences(),
			Detail: "after later sequences"})
	}
	if late == to-from {
		return
	}
	f := Finding{Kind: DuplicateBySequence, Place: Place{m.partition, m.offset}, Records: to - from - late, Range: m.sequences()}
	for i := range min(s.batches, len(s.recent)) {
		if r := s.recent[i]; r.from < to && from < r.to && (f.First == nil || r.offset < f.First.Offset) {
			f.First = &Place{m.partition, r.offset}
			f.Detail = ""
			if r.from != from || r.to != to {
				f.Detail = "the batches overlap only in part"
			}
		}
	}
	s.found.add(f)
}

// seen takes sequences out of the unseen ones and says how many of them were
// there.
func (s *sequenceCheck) seen(from, to int64) (n int64) {
	i, _ := slices.BinarySearchFunc(s.unseen, from, func(u unseen, from int64) int {
		if u.to <= from {
			return -1
		}
		return 1
	})
	j := i
	var rest []unseen
	for ; j < len(s.unseen) && s.unseen[j].from < to; j++ {
		u := s.unseen[j]
		n += min(u.to, to) - max(u.from, from)
		if u.from < from {
			rest = append(rest, unseen{u.from, from, u.offset, u.hidden})
		}
		if to < u.to {
			rest = append(rest, unseen{to, u.to, u.offset, u.hidden})
		}
	}
	s.unseen = slices.Replace(s.unseen, i, j, rest...)
	return n
}

// finish reports the gaps of the epoch that was followed, and where its first
// batch lies.
func (s *sequenceCheck) finish() (first int64) {
	if s.batches == 0 {
		return noOffset
	}
	for _, u := range s.unseen {
		s.report(u)
	}
	return s.firstOffset
}

func (s *sequenceCheck) report(u unseen) {
	if u.hidden {
		return
	}
	m := s.current
	f := Finding{Kind: Gap, Place: Place{m.partition, u.offset}, Records: u.to - u.from,
		Range: &Sequences{m.producer, m.epoch, int32(u.from & sequenceMask), int32((u.to - 1) & sequenceMask)}}
	s.found.add(f)
}
