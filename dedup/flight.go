package dedup

// inFlight is a batch that was forwarded and not answered yet.
type inFlight struct {
	id          uint64
	first, last int32
	crc         uint32
}

// flight is the part of a window that exists only while something is in
// flight: it pins the window. All its batches share one epoch and one link,
// since order holds nowhere else.
type flight struct {
	batches [MaxInFlight]inFlight // in the order of forwarding
	n       int
	epoch   int16
	link    Link
	leader  uint32
	// asking says that the one batch in flight is a question to the broker:
	// until it is answered nothing may follow.
	asking  bool
	waiting []Link // links whose batch waits for a change here
}

// find returns the batch in flight with exactly this range, or −1.
func (f *flight) find(first, last int32) int {
	for i := range f.batches[:f.n] {
		if f.batches[i].first == first && f.batches[i].last == last {
			return i
		}
	}
	return -1
}

// take removes and returns the batch with this id.
func (f *flight) take(id uint64) inFlight {
	for i := range f.batches[:f.n] {
		if f.batches[i].id == id {
			b := f.batches[i]
			copy(f.batches[i:], f.batches[i+1:f.n])
			f.n--
			return b
		}
	}
	panic("dedup: a ticket was used twice")
}
