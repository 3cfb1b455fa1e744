package dedup

// window is what the table knows of one producer on one partition. Everything
// in it but flight is a broker's word. Its size is what an idle producer costs:
// batches are stored as an unbroken run, so that a first sequence is told by
// the batch before it.
type window struct {
	key     Key
	flight  *flight            // nil when nothing is in flight or waiting
	offsets [MaxInFlight]int64 // base offsets, oldest first
	lasts   [MaxInFlight]int32 // last sequences
	crcs    [MaxInFlight]uint32
	first   int32  // first sequence of the oldest retained batch
	since   int32  // the run from here to the newest batch was seen stored, unbroken
	used    uint32 // when it was last touched, on the caller's clock
	leader  uint32 // the leadership whose word this is
	epoch   int16
	n       uint8 // retained batches; 0 means that no broker's word is known
	// refused says that the batch at expected was seen, and that the broker did
	// not store it. What lies further ahead in this epoch is then a gap for
	// certain.
	refused bool
}

// expected is the sequence of the batch that would go on in the window's epoch.
// Without a retained batch it is meant only while refused: first then holds it.
func (w *window) expected() int32 {
	if w.n == 0 {
		return w.first
	}
	return next(w.last())
}

// forget drops all that is known.
func (w *window) forget() { w.n, w.refused = 0, false }

// last is the newest stored sequence; n must not be 0.
func (w *window) last() int32 { return w.lasts[w.n-1] }

// firstOf is the first sequence of retained batch i.
func (w *window) firstOf(i int) int32 {
	if i == 0 {
		return w.first
	}
	return next(w.lasts[i-1])
}

// follows says whether b comes right behind the newest stored batch.
func (w *window) follows(b *inFlight, epoch int16) bool {
	return w.n > 0 && epoch == w.epoch && b.first == w.expected()
}

// refuse records the broker's word that b is not stored. A broker without state
// would take the batch behind it, and then refuse b for ever (KAFKA-15591).
func (w *window) refuse(b *inFlight, epoch int16) {
	switch {
	case w.follows(b, epoch):
		w.refused = true
	case w.n == 0 || epoch > w.epoch:
		w.n, w.epoch, w.first, w.refused = 0, epoch, b.first, true
	}
}

// doubt records that b may be stored after all. Where the broker may have no
// state, what comes behind b must still not be taken before it.
func (w *window) doubt(b *inFlight, epoch int16) {
	if w.follows(b, epoch) {
		w.refused = false
	} else {
		w.refuse(b, epoch)
	}
}

// overwritten says that a batch stored at offset shows that the log was
// truncated: it lies where the newest one was.
func (w *window) overwritten(offset int64) bool {
	return offset >= 0 && offset <= w.offsets[w.n-1]
}

// find returns the retained batch with exactly this range, or −1. The newest
// are looked at first: most retries are of them.
func (w *window) find(first, last int32) int {
	for i := int(w.n) - 1; i >= 0; i-- {
		if w.lasts[i] == last && w.firstOf(i) == first {
			return i
		}
	}
	return -1
}

// store records the broker's word that b is in the log at offset.
func (w *window) store(b *inFlight, epoch int16, offset int64, leader uint32) {
	switch {
	case w.n == 0 || epoch != w.epoch:
		w.restart(b, epoch, offset)
	case w.follows(b, epoch) && !w.overwritten(offset):
		w.push(b, offset)
	case w.follows(b, epoch) || ahead(w.last(), b.last) > 0:
		// The broker took it, so it has what lies between, or has lost all that
		// there was. This table hasn't seen it, and claims nothing about it.
		w.restart(b, epoch, offset)
	default:
		// An older batch, answered by the broker's own window. What is
		// retained stays right; a further retry is asked about again.
		return
	}
	w.leader = leader
	w.refused = false
}

func (w *window) restart(b *inFlight, epoch int16, offset int64) {
	w.epoch, w.n = epoch, 0
	w.first, w.since = b.first, b.first
	w.append(b, offset)
}

func (w *window) push(b *inFlight, offset int64) {
	if w.n == MaxInFlight {
		w.first = next(w.lasts[0])
		copy(w.offsets[:], w.offsets[1:])
		copy(w.lasts[:], w.lasts[1:])
		copy(w.crcs[:], w.crcs[1:])
		w.n--
	}
	w.append(b, offset)
	if ahead(w.since, b.last) < 0 {
		w.since = w.first // the run has grown past half the sequence space
	}
}

func (w *window) append(b *inFlight, offset int64) {
	w.offsets[w.n], w.lasts[w.n], w.crcs[w.n] = offset, b.last, b.crc
	w.n++
}

// truncate drops what lies ahead of sequence last, the newest that the broker
// still has. What is left is exact only at batch boundaries; a batch cut in
// half can't be, since brokers truncate whole batches.
func (w *window) truncate(last int32) {
	for w.n > 0 && ahead(last, w.last()) > 0 {
		w.n--
		w.refused = false
	}
}
