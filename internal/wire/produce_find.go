package wire

import (
	"bytes"
	"cmp"
	"slices"
)

// sort makes Find possible, and returns an error where a partition is named
// twice.
func (p *Produce) sort() error {
	p.byTopic, p.byPartition = p.byTopic[:0], p.byPartition[:0]
	for i := range p.topics {
		p.byTopic = append(p.byTopic, int32(i))
	}
	slices.SortFunc(p.byTopic, func(a, b int32) int { return p.topics[a].compare(p.topics[b].name, &p.topics[b].id) })
	for at, i := range p.byTopic {
		t := &p.topics[i]
		t.rank = int32(at)
		if at > 0 {
			if before := &p.topics[p.byTopic[at-1]]; t.compare(before.name, &before.id) == 0 {
				t.rank = before.rank
			}
		}
	}
	for i := range p.Partitions {
		p.byPartition = append(p.byPartition, int32(i))
	}
	slices.SortFunc(p.byPartition, func(a, b int32) int {
		return p.compare(a, p.topics[p.Partitions[b].TopicIndex].rank, p.Partitions[b].Index)
	})
	for at := 1; at < len(p.byPartition); at++ {
		i := &p.Partitions[p.byPartition[at]]
		if p.compare(p.byPartition[at-1], p.topics[i.TopicIndex].rank, i.Index) == 0 {
			return ErrDuplicatePartition
		}
	}
	return nil
}

// Find returns which of Partitions is this one, −1 where none is. A topic is
// told by its name up to version 12 and by its id from version 13.
func (p *Produce) Find(topic []byte, id [16]byte, index int32) int {
	at, ok := slices.BinarySearchFunc(p.byTopic, topic, func(t int32, topic []byte) int { return p.topics[t].compare(topic, &id) })
	if !ok {
		return -1
	}
	rank := p.topics[p.byTopic[at]].rank
	at, ok = slices.BinarySearchFunc(p.byPartition, index, func(i, index int32) int { return p.compare(i, rank, index) })
	if !ok {
		return -1
	}
	return int(p.byPartition[at])
}

func (t *produceTopic) compare(name []byte, id *[16]byte) int {
	if c := bytes.Compare(t.name, name); c != 0 {
		return c
	}
	return bytes.Compare(t.id[:], id[:])
}

// compare compares partition i with the one of this number in the topic of this
// rank.
func (p *Produce) compare(i, rank, index int32) int {
	part := &p.Partitions[i]
	if c := cmp.Compare(p.topics[part.TopicIndex].rank, rank); c != 0 {
		return c
	}
	return cmp.Compare(part.Index, index)
}
