package dedup

import (
	"flag"
	"hash/maphash"
	"strings"
	"testing"
)

var full = flag.Bool("full", false, "check the whole small world instead of a part that takes seconds")

// check walks every state that can be reached and returns how many there are.
// It stops at the first fault, with the actions that led there.
func check(start *world) (states int, fault string, story []string) {
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{maphash.String(seed, start.key()): {}}
	type step struct {
		w    *world
		prev int
		name string
	}
	steps := []step{{w: start, prev: -1}}
	for at := 0; at < len(steps); at++ {
		w := steps[at].w
		steps[at].w = nil
		for _, a := range w.actions() {
			next := w.clone()
			a.do(next)
			k := maphash.String(seed, next.key())
			if _, known := seen[k]; known {
				continue
			}
			seen[k] = struct{}{}
			if fault := next.fault(); fault != "" {
				story = append(story, a.name)
				for i := at; steps[i].prev >= 0; i = steps[i].prev {
					story = append([]string{steps[i].name}, story...)
				}
				return len(seen), fault, story
			}
			steps = append(steps, step{next, at, a.name})
		}
	}
	return len(seen), "", nil
}

// smallWorld is one producer on one partition.
func smallWorld(batches, tries, cuts, faults, restarts int) *world {
	w := newWorld(1, batches, tries, 2, 5)
	w.cuts, w.faults, w.restarts = cuts, faults, restarts
	return w
}

// In every state of the small world nothing is lost, nothing is stored twice or
// out of order, and nobody waits for ever.
func TestModelCheck(t *testing.T) {
	worlds := []*world{smallWorld(3, 3, 1, 1, 0), smallWorld(2, 3, 2, 0, 1), smallWorld(2, 3, 1, 2, 0)}
	if *full {
		worlds = []*world{smallWorld(4, 3, 2, 1, 0), smallWorld(4, 3, 1, 2, 0), smallWorld(4, 3, 1, 1, 1), smallWorld(3, 3, 2, 1, 1)}
	}
	for _, w := range worlds {
		states, fault, story := check(w)
		t.Logf("%d batches, %d attempts each, %d cuts, %d broker errors, %d restarts: %d states",
			len(w.clients[0].batches), w.clients[0].attempts, w.cuts, w.faults, w.restarts, states)
		if fault != "" {
			t.Fatalf("%s after\n  %s", fault, strings.Join(story, "\n  "))
		}
	}
}

// The check finds what it is there to find.
func TestModelCheckFindsPlantedBugs(t *testing.T) {
	for name, b := range map[string]bug{
		"marked on receipt":            markOnReceipt,
		"acknowledged before stored":   ackBeforeStore,
		"an error counts as stored":    errorIsStored,
		"lost counts as stored":        lostIsStored,
		"a second batch does not wait": nothingWaits,
	} {
		w := smallWorld(3, 3, 1, 1, 0)
		w.bug = b
		states, fault, story := check(w)
		if fault == "" {
			t.Errorf("%s: not found in %d states", name, states)
			continue
		}
		t.Logf("%s: found after %d states: %s\n  %s", name, states, fault, strings.Join(story, "\n  "))
	}
}
