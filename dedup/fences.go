package dedup

// Fences remembers the producer epochs that ended transactions left behind.
// With transactions v2 (KIP-890) every commit and abort raises the producer's
// epoch, and the partitions learn of it through markers that a proxy never
// sees. A late retry from the finished transaction is then not a duplicate to
// be acknowledged: it is answered INVALID_PRODUCER_EPOCH, as a broker does.
//
// It holds at most limit producers. Beyond that the older half is dropped: such
// a retry then gets its original's offset, which is true as well.
type Fences struct {
	limit      int
	young, old map[int64]int16
}

// NewFences returns an empty set for at most limit producers.
func NewFences(limit int) *Fences {
	return &Fences{limit: limit, young: make(map[int64]int16), old: make(map[int64]int16)}
}

// Raise records that producerID continues at epoch.
func (f *Fences) Raise(producerID int64, epoch int16) {
	if f.Fenced(producerID, epoch) {
		return
	}
	if len(f.young) >= f.limit/2 {
		f.young, f.old = make(map[int64]int16), f.young
	}
	f.young[producerID] = epoch
}

// Fenced says whether producerID is known to continue at a higher epoch.
func (f *Fences) Fenced(producerID int64, epoch int16) bool {
	at, ok := f.young[producerID]
	if !ok {
		at, ok = f.old[producerID]
	}
	return ok && epoch < at
}
