// Package faults is a proxy that breaks connections between a Kafka client and
// what it talks to, at chosen points of a Produce request's way.
package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Kind is what goes wrong with one Produce request.
type Kind int

const (
	// None lets the request be.
	None Kind = iota
	// CutBefore closes both sides before the request is passed on.
	CutBefore
	// CutAfter passes the request on and closes both sides without waiting
	// for the answer.
	CutAfter
	// LoseAck waits for the answer, swallows it, and closes both sides: the
	// broker has stored the batch, and the client can't know.
	LoseAck
	// ResetAck is LoseAck with a TCP reset instead of an orderly close.
	ResetAck
	// DelayAck holds the answer back for a while.
	DelayAck
	// HalfOpen swallows the answer and everything after it, and leaves both
	// sides open.
	HalfOpen
	kinds
)

func (k Kind) String() string {
	return [...]string{"none", "cut-before", "cut-after", "lose-ack", "reset-ack", "delay-ack", "half-open"}[k]
}

// Plan decides which Produce requests suffer what. It is a seeded value: the
// same seed and the same order of requests give the same faults.
type Plan struct {
	Seed  uint64
	Odds  map[Kind]float64 // for each request
	Delay time.Duration    // of DelayAck
	Limit int              // faults in all; 0 = no limit

	mu     sync.Mutex
	random *rand.Rand
	counts [kinds]int
	off    bool
}

// String prints the plan so that it can be repeated.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed=%d", p.Seed)
	for k := CutBefore; k < kinds; k++ {
		if odds := p.Odds[k]; odds > 0 {
			fmt.Fprintf(&b, " %v=%g", k, odds)
		}
	}
	return b.String()
}

// Stop ends all faults to come.
func (p *Plan) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
}

// Count returns how many faults of the kinds were injected, of all without
// kinds.
func (p *Plan) Count(of ...Kind) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(of) == 0 {
		for k := CutBefore; k < kinds; k++ {
			of = append(of, k)
		}
	}
	for _, k := range of {
		n += p.counts[k]
	}
	return n
}

func (p *Plan) draw() Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.random == nil {
		p.random = rand.New(rand.NewPCG(p.Seed, p.Seed))
	}
	x := p.random.Float64()
	total := 0
	for _, n := range p.counts {
		total += n
	}
	if p.off || p.Limit > 0 && total >= p.Limit {
		return None
	}
	for k := CutBefore; k < kinds; k++ {
		if x -= p.Odds[k]; x < 0 {
			p.counts[k]++
			return k
		}
	}
	return None
}
