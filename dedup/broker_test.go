package dedup

import "slices"

// broker is a small model of what a Kafka partition leader does with batches,
// written from the rules and not from the core: same epoch and exact range of
// one of the five last batches is a duplicate; a lower epoch is fenced; a higher
// one has to start at 0; the same epoch has to go on; without state anything is
// taken.
type broker struct {
	log       []entry
	producers map[int64]*producerState
}

type entry struct {
	pid         int64
	epoch       int16
	first, last int32
	content     uint32
	offset      int64
}

type producerState struct {
	epoch   int16
	batches []entry // at most five, the newest last
}

func newBroker() *broker { return &broker{producers: make(map[int64]*producerState)} }

func (b *broker) append(e entry) (code int16, offset int64) {
	s := b.producers[e.pid]
	if s != nil {
		if s.epoch == e.epoch {
			for _, old := range s.batches {
				if old.first == e.first && old.last == e.last {
					return 0, old.offset
				}
			}
		}
		newest := s.batches[len(s.batches)-1]
		switch {
		case e.epoch < s.epoch:
			return CodeInvalidProducerEpoch, -1
		case e.epoch > s.epoch:
			if e.first != 0 {
				return CodeOutOfOrderSequence, -1
			}
			s.batches = nil
		case newest.last == 1<<31-1 && e.first != 0, newest.last != 1<<31-1 && e.first != newest.last+1:
			return CodeOutOfOrderSequence, -1
		}
	} else {
		s = &producerState{}
		b.producers[e.pid] = s
	}
	e.offset = int64(len(b.log))
	b.log = append(b.log, e)
	s.epoch = e.epoch
	s.batches = append(s.batches, e)
	if len(s.batches) > 5 {
		s.batches = s.batches[1:]
	}
	return 0, e.offset
}

// restart leaves the newest batch of each producer, as a broker's snapshot does.
func (b *broker) restart() {
	for _, s := range b.producers {
		s.batches = s.batches[len(s.batches)-1:]
	}
}

func (b *broker) clone() *broker {
	c := &broker{log: slices.Clone(b.log), producers: make(map[int64]*producerState)}
	for pid, s := range b.producers {
		c.producers[pid] = &producerState{s.epoch, slices.Clone(s.batches)}
	}
	return c
}
