package dedup

// Kind is what to do with a batch. The set is closed.
type Kind uint8

const (
	// Forward: send it upstream. The verdict's Ticket must later be given to
	// exactly one of Stored, Failed, Lost or Withdraw.
	Forward Kind = iota + 1
	// Duplicate: a broker has stored it; answer with the verdict's Offset,
	// which is −1 where the range is older than the window.
	Duplicate
	// Wait: something in flight must be settled first. The link is named in
	// the wake list of the event that settles it; submit the batch again then.
	Wait
	// Verify: the window holds the batch as stored, but under a leadership that
	// may have lost it since. Ask the broker for the producer's last sequence
	// (DescribeProducers), call Confirm or Forget, and submit the batch again.
	Verify
	// Refuse: answer with the verdict's Code.
	Refuse
)

// Error codes of the Kafka protocol that the core speaks or listens to.
const (
	CodeUnknownTopicOrPartition = 3
	CodeNotLeader               = 6
	CodeRequestTimedOut         = 7
	CodeNotEnoughAfterAppend    = 20
	CodeOutOfOrderSequence      = 45
	CodeInvalidProducerEpoch    = 47
	CodeUnknownProducerID       = 59
	CodeInvalidRecord           = 87
	CodeUnknownTopicID          = 100
)

// Verdict is the answer to Submit.
type Verdict struct {
	Kind   Kind
	Offset int64 // Duplicate: the base offset of the original, or −1
	Code   int16 // Refuse: the protocol's error code
	// Reused says that the stored batch with this range carried another CRC:
	// a retry that was encoded anew, or a range used for two contents.
	Reused bool
	Ticket Ticket // Forward
}

// Ticket stands for one forwarded batch until the upstream's word on it.
type Ticket struct {
	w  *window
	id uint64
}

// Options are the choices that a user has; the zero value is the default.
type Options struct {
	// RefuseStale answers OUT_OF_ORDER_SEQUENCE_NUMBER to a range that is older
	// than the window though this table saw it stored, as a broker would. The
	// default is to acknowledge it with offset −1.
	RefuseStale bool
	// RefuseReuse answers INVALID_RECORD to a stored range that comes again
	// with another CRC. The default is the broker's: it is a duplicate.
	RefuseReuse bool
	// Recall fetches what Demote gave away; nil means that nothing is kept.
	Recall func(Key) (Snapshot, bool)
	// Demote takes the snapshot of a window that has been idle.
	Demote func(Snapshot)
}
