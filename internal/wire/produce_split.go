package wire

import "encoding/binary"

// AppendSplit appends to dst the peeked request with only those partitions for
// which keep is true. Everything else in it, tagged fields included, stays byte
// for byte. Topics that are left without partitions are dropped. keep is asked
// more than once for a partition and has to say the same.
func (p *Produce) AppendSplit(dst, frame []byte, keep func(i int) bool) []byte {
	flexible := p.Header.Version >= produceFlexible
	dst = append(dst, frame[:p.topicsAt]...)
	topics := 0
	for i := range p.topics {
		if p.topics[i].kept(keep) > 0 {
			topics++
		}
	}
	dst = appendCount(dst, topics, flexible)
	for i := range p.topics {
		t := &p.topics[i]
		n := t.kept(keep)
		if n == 0 {
			continue
		}
		dst = append(dst, frame[t.start:t.partitionsAt]...)
		dst = appendCount(dst, n, flexible)
		behind := t.end
		for j := t.first; j < t.first+t.n; j++ {
			part := &p.Partitions[j]
			if keep(j) {
				dst = append(dst, frame[part.start:part.end]...)
			}
			behind = part.end
		}
		dst = append(dst, frame[behind:t.end]...)
	}
	return append(dst, frame[p.end:]...)
}

func (t *produceTopic) kept(keep func(int) bool) (n int) {
	for i := t.first; i < t.first+t.n; i++ {
		if keep(i) {
			n++
		}
	}
	return n
}

// appendCount appends the length of an array.
func appendCount(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}
