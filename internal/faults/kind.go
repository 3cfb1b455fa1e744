package faults

// Kind is what goes wrong with one Produce request.
type Kind int

const (
	// None lets the request be.
	None Kind = iota
	// CutBefore closes the connection before the request is passed on.
	CutBefore
	// CutAfter passes the request on and closes the client's connection without
	// waiting for the answer.
	CutAfter
	// LoseAck waits for the answer, swallows it, and closes the client's
	// connection: the broker has stored the batch, and the client can't know.
	LoseAck
	// ResetAck is LoseAck with a TCP reset instead of an orderly close.
	ResetAck
	// DelayAck holds the answer, and what follows it, back for a while.
	DelayAck
	// Mute swallows the answer and all that follow it. The connection stays
	// open, and requests still arrive.
	Mute
	// Freeze passes the request on, and from then on nothing moves in either
	// direction. The connection stays open.
	Freeze
	kinds
)

var kindNames = [kinds]string{"none", "cut-before", "cut-after", "lose-ack", "reset-ack", "delay-ack", "mute", "freeze"}

func (k Kind) String() string { return kindNames[k] }

// Kinds returns all kinds of faults.
func Kinds() (all []Kind) {
	for k := CutBefore; k < kinds; k++ {
		all = append(all, k)
	}
	return all
}
