package faults

import (
	"slices"
	"strings"
	"testing"
)

// A plan prints as the text that it was read from, and the same text draws the
// same faults.
func TestPlanIsItsText(t *testing.T) {
	const text = "seed=7 limit=40 delay=20ms cut-before=0.05 lose-ack=0.1 delay-ack=0.2 freeze=0.01"
	draw := func() (drawn []Kind) {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != text {
			t.Errorf("%q prints as %q", text, p)
		}
		for range 1000 {
			drawn = append(drawn, p.draw())
		}
		return drawn
	}
	first := draw()
	if !slices.Equal(first, draw()) {
		t.Error("the same text drew other faults")
	}
	counts := make(map[Kind]int)
	for _, k := range first {
		counts[k]++
	}
	if counts[None] != 1000-40 {
		t.Errorf("%d faults, the limit is 40", 1000-counts[None])
	}
	if counts[LoseAck] == 0 || counts[DelayAck] <= counts[CutBefore] || counts[Mute] > 0 {
		t.Errorf("drawn %v of %s", counts, text)
	}
}

func TestParseNamesTheFault(t *testing.T) {
	for text, part := range map[string]string{
		"seed=x":                     "seed=x",
		"lost-ack=0.1":               "lose-ack",
		"lose-ack=1.5":               "between 0 and 1",
		"lose-ack=0.6 cut-after=0.6": "more than 1",
		"delay-ack=0.1":              "without a delay",
		"none=1":                     "none of",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Commands come first, and leave the seeded draws where they were.
func TestNextComesFirst(t *testing.T) {
	draws := func(commands ...Kind) (drawn []Kind) {
		p := &Plan{Seed: 3, Odds: map[Kind]float64{LoseAck: 0.5}}
		p.Next(commands...)
		for range 50 {
			drawn = append(drawn, p.draw())
		}
		p.Stop()
		if k := p.draw(); k != None {
			t.Errorf("drew %v after Stop", k)
		}
		return drawn
	}
	plain, commanded := draws(), draws(Freeze, CutAfter)
	if commanded[0] != Freeze || commanded[1] != CutAfter {
		t.Errorf("drew %v", commanded[:2])
	}
	if !slices.Equal(plain[2:], commanded[2:]) {
		t.Error("commands shifted the draws")
	}
}
