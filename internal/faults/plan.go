package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Plan decides what each Produce request suffers. It is a seeded value: the
// same text and the same order of requests give the same faults. Several
// proxies may follow one plan.
type Plan struct {
	Seed  uint64
	Odds  map[Kind]float64 // for each request
	Limit int              // faults by odds, all kinds together; 0: any number
	Delay time.Duration    // DelayAck's

	mu      sync.Mutex
	random  *rand.Rand
	next    []Kind
	drawn   int
	counts  [kinds]int
	stopped bool
}

// Parse reads a plan from a text of the form
//
//	seed=7 limit=40 delay=20ms lose-ack=0.1 cut-after=0.02
//
// where each kind of fault stands with its odds for a request. The limit is for
// all faults together; without it there is none. The delay is DelayAck's.
func Parse(text string) (*Plan, error) {
	p := &Plan{Odds: make(map[Kind]float64)}
	var sum float64
	var err error
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		switch kind := slices.Index(kindNames[:], name); {
		case name == "seed":
			p.Seed, err = strconv.ParseUint(value, 10, 64)
		case name == "limit":
			p.Limit, err = strconv.Atoi(value)
		case name == "delay":
			p.Delay, err = time.ParseDuration(value)
		case kind > int(None):
			p.Odds[Kind(kind)], err = odds(value)
			sum += p.Odds[Kind(kind)]
		default:
			err = fmt.Errorf("it is none of seed, limit, delay and %v", Kinds())
		}
		if err != nil {
			return nil, fmt.Errorf("fault plan %q: %s: %w", text, field, err)
		}
	}
	if sum > 1 {
		return nil, fmt.Errorf("fault plan %q: the odds add up to more than 1", text)
	}
	if p.Odds[DelayAck] > 0 && p.Delay <= 0 {
		return nil, fmt.Errorf("fault plan %q: %v without a delay", text, DelayAck)
	}
	return p, nil
}

func odds(value string) (float64, error) {
	v, err := strconv.ParseFloat(value, 64)
	if err == nil && !(v >= 0 && v <= 1) {
		err = errors.New("odds lie between 0 and 1")
	}
	return v, err
}

// String prints the plan so that Parse reads it again.
func (p *Plan) String() string {
	fields := []string{fmt.Sprintf("seed=%d", p.Seed)}
	if p.Limit > 0 {
		fields = append(fields, fmt.Sprintf("limit=%d", p.Limit))
	}
	if p.Delay > 0 {
		fields = append(fields, fmt.Sprintf("delay=%v", p.Delay))
	}
	for _, k := range Kinds() {
		if p.Odds[k] > 0 {
			fields = append(fields, fmt.Sprintf("%v=%g", k, p.Odds[k]))
		}
	}
	return strings.Join(fields, " ")
}

// Next makes the next Produce requests suffer these kinds, one each, whatever
// the odds say.
func (p *Plan) Next(of ...Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = append(p.next, of...)
}

// Stop ends all faults to come.
func (p *Plan) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// Count returns how many faults of these kinds have happened; of all kinds,
// when none is named.
func (p *Plan) Count(of ...Kind) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, count := range p.counts {
		if len(of) == 0 || slices.Contains(of, Kind(k)) {
			n += count
		}
	}
	return n
}

// Counts lists the faults that have happened, by kind.
func (p *Plan) Counts() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fields []string
	for _, k := range Kinds() {
		if p.counts[k] > 0 {
			fields = append(fields, fmt.Sprintf("%v=%d", k, p.counts[k]))
		}
	}
	return strings.Join(fields, " ")
}

// draw decides about the next Produce request.
func (p *Plan) draw() Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.random == nil {
		p.random = rand.New(rand.NewPCG(p.Seed, 0))
	}
	x := p.random.Float64() // drawn each time, so that Next doesn't shift what follows
	if p.stopped {
		return None
	}
	if len(p.next) > 0 {
		k := p.next[0]
		p.next = p.next[1:]
		return k
	}
	if p.Limit > 0 && p.drawn >= p.Limit {
		return None
	}
	for _, k := range Kinds() {
		if x -= p.Odds[k]; x < 0 {
			p.drawn++
			return k
		}
	}
	return None
}

// happened counts a fault. One that was drawn doesn't happen when its
// connection breaks before its turn.
func (p *Plan) happened(k Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[k]++
}
