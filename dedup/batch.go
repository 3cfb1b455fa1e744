package dedup

// MaxInFlight is how many batches of one producer and partition may be in
// flight at once, and how many stored ones a window retains. Kafka's brokers
// retain as many (ProducerStateEntry.NUM_BATCHES_TO_RETAIN), and its clients
// cap max.in.flight.requests.per.connection there when idempotent (KIP-98).
const MaxInFlight = 5

// Key names what a window is kept for: one producer id on one partition.
type Key struct {
	// Topic is the caller's handle of one incarnation of a topic. A topic that
	// is deleted and created again must get another handle: it must not
	// inherit a window, or a client that starts again at sequence 0 would have
	// its records taken for duplicates.
	Topic      uint32
	Partition  int32
	ProducerID int64
}

// Link names a client connection together with its upstream connection.
// Order holds on one link only.
type Link uint64

// Batch is what one record batch says of itself, and how it came.
type Batch struct {
	Key
	Epoch int16 // producer epoch
	// First and Last are the sequences of the first and the last record, both
	// in 0 … 2147483647. Last may be less than First: sequence numbers wrap.
	First, Last int32
	// CRC is the batch's own CRC-32C. It never decides whether a batch is a
	// duplicate (brokers don't look at content either, and clients may encode
	// a retry anew); it tells when one range was used for two contents.
	CRC uint32
	// Link is the connection that the batch came on.
	Link Link
	// Leader stands for the leadership that the link's broker has: the caller
	// changes it whenever another broker, or the same one after a broken
	// connection, may have another log. It is never 0.
	Leader uint32
}

// noLeader is a leadership that no batch comes under: the window's word has to
// be verified.
const noLeader = 0

const sequenceMask = 1<<31 - 1

// next is the sequence that follows s; 0 follows 2147483647.
func next(s int32) int32 { return int32((uint32(s) + 1) & sequenceMask) }

// ahead is how far b lies ahead of a, modulo 2^31; negative when b lies behind.
func ahead(a, b int32) int32 {
	d := int32(uint32(b-a) & sequenceMask)
	if d >= 1<<30 {
		return int32(int64(d) - 1<<31)
	}
	return d
}
