package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FindingKind says what an auditor found.
type FindingKind string

const (
	DuplicateBySequence FindingKind = "duplicate_by_sequence" // the producer's numbers were stored before
	DuplicateByKey      FindingKind = "duplicate_by_key"      // the header's value was stored before
	DuplicateByContent  FindingKind = "duplicate_by_content"  // key, value and headers were stored before
	Gap                 FindingKind = "gap"                   // numbers that no batch has
	OrderBreak          FindingKind = "order_break"           // stored after later ones of its producer
)

func (k FindingKind) String() string { return strings.ReplaceAll(string(k), "_", " ") }

// FindingKinds are all kinds, in the order of a result.
var FindingKinds = []FindingKind{DuplicateBySequence, DuplicateByKey, DuplicateByContent, Gap, OrderBreak}

// Finding is one thing that an auditor found.
type Finding struct {
	Kind    FindingKind `json:"kind"`
	Place               // where it shows; for a gap, the batch after it
	Records int64       `json:"records"`         // how many records are meant
	First   *Place      `json:"first,omitempty"` // where the earlier copy lies, as far as it is known
	Range   *Sequences  `json:"sequences,omitempty"`
	Detail  string      `json:"detail,omitempty"`
}

// Sequences are a producer's numbers, first and last.
type Sequences struct {
	ProducerID int64 `json:"producer_id"`
	Epoch      int16 `json:"epoch"`
	First      int32 `json:"first"`
	Last       int32 `json:"last"`
}

func (s Sequences) String() string {
	return fmt.Sprintf("producer %d epoch %d sequence %d to %d", s.ProducerID, s.Epoch, s.First, s.Last)
}

func (f Finding) String() string {
	parts := []string{f.Place.String()}
	if f.First != nil {
		parts = append(parts, "first at "+f.First.String())
	}
	if f.Range != nil {
		parts = append(parts, f.Range.String())
	}
	if f.Detail != "" {
		parts = append(parts, f.Detail)
	}
	return strings.Join(parts, "  ")
}

// Count is how often a kind was found, and how many records that is.
type Count struct {
	Found   int64 `json:"found"`
	Records int64 `json:"records"`
}

// findings counts all and keeps the first few of each kind by their place:
// they aren't found in that order.
type findings struct {
	keep   int // of each kind
	counts map[FindingKind]*Count
	kept   map[FindingKind][]Finding
}

func newFindings(keep int) *findings {
	return &findings{keep: keep, counts: make(map[FindingKind]*Count), kept: make(map[FindingKind][]Finding)}
}

// check says that kinds are looked for.
func (f *findings) check(kinds ...FindingKind) {
	for _, k := range kinds {
		f.counts[k] = &Count{}
	}
}

func (f *findings) add(x Finding) {
	c := f.counts[x.Kind]
	c.Found++
	c.Records += x.Records
	if f.keep == 0 {
		return
	}
	kept := append(f.kept[x.Kind], x)
	if len(kept) >= 8*f.keep {
		kept = f.first(kept)
	}
	f.kept[x.Kind] = kept
}

func (f *findings) first(kept []Finding) []Finding {
	slices.SortStableFunc(kept, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return kept[:min(len(kept), f.keep)]
}

// list is what was kept, kind after kind.
func (f *findings) list() []Finding {
	var all []Finding
	for _, k := range FindingKinds {
		all = append(all, f.first(f.kept[k])...)
	}
	return all
}
