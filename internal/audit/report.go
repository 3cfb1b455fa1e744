package audit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// FaultKind says what is wrong with a record.
type FaultKind string

const (
	Lost             FaultKind = "lost"                // acknowledged, but not in the log
	Duplicated       FaultKind = "duplicated"          // a copy beyond the first
	Reordered        FaultKind = "reordered"           // stored after a later record of its client and partition
	WrongOffset      FaultKind = "wrong_offset"        // stored, but not where the answer said
	AnswerOutOfOrder FaultKind = "answer_out_of_order" // acknowledged after a later record of its client and partition
	Corrupt          FaultKind = "corrupt"             // the value was changed
	NeverSent        FaultKind = "never_sent"          // stored or answered, but the history has no send
)

func (k FaultKind) String() string { return strings.ReplaceAll(string(k), "_", " ") }

// FaultKinds are all kinds, in the order of a report.
var FaultKinds = []FaultKind{Lost, Duplicated, Reordered, WrongOffset, AnswerOutOfOrder, Corrupt, NeverSent}

// Fault is one thing that is wrong.
type Fault struct {
	Kind FaultKind `json:"kind"`
	Record
	Acked  *Place  `json:"acked,omitempty"`  // what the client was told; its offset −1 when it wasn't told
	Stored []Place `json:"stored,omitempty"` // where the log holds it: the first copy, and the copy that is meant
	Detail string  `json:"detail,omitempty"`
}

func (f Fault) String() string {
	s := f.Record.String()
	if f.Acked != nil {
		s += " acknowledged at " + f.Acked.String()
	}
	for i, p := range f.Stored {
		s += []string{" stored at ", " and "}[min(i, 1)] + p.String()
	}
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}

// keptFaults is how many faults of each kind a report names; all are counted.
const keptFaults = 20

// Report is a checker's verdict. Numbers are records unless said otherwise.
type Report struct {
	Clients    int64 `json:"clients"`
	Sent       int64 `json:"sent"` // where the history has no sends: answered
	Acked      int64 `json:"acked"`
	Failed     int64 `json:"failed"`     // the client was told so, and never the contrary
	Unanswered int64 `json:"unanswered"` // sent, neither acked nor failed

	Stored   int64 `json:"stored"`   // copies in the log, aborted ones left out
	Distinct int64 `json:"distinct"` // records with at least one copy
	Aborted  int64 `json:"aborted"`  // copies in aborted transactions
	Foreign  int64 `json:"foreign"`  // records in the log that aren't of this workload

	UnackedStored int64 `json:"unacked_stored"` // stored, yet not acknowledged: that is allowed
	UnknownOffset int64 `json:"unknown_offset"` // acknowledgements with offset −1 of stored records

	Lost              int64 `json:"lost"`
	Duplicated        int64 `json:"duplicated"` // copies beyond the first
	Reordered         int64 `json:"reordered"`
	WrongOffset       int64 `json:"wrong_offset"` // acknowledgements
	AnswersOutOfOrder int64 `json:"answers_out_of_order"`
	Corrupt           int64 `json:"corrupt"` // copies
	NeverSent         int64 `json:"never_sent"`

	HistoryTorn bool    `json:"history_torn,omitempty"` // the workload was killed while it wrote
	Faults      []Fault `json:"faults,omitempty"`       // the first few of each kind
}

// Number is how many faults of a kind there are.
func (r *Report) Number(k FaultKind) int64 { return *r.number(k) }

func (r *Report) number(k FaultKind) *int64 {
	switch k {
	case Lost:
		return &r.Lost
	case Duplicated:
		return &r.Duplicated
	case Reordered:
		return &r.Reordered
	case WrongOffset:
		return &r.WrongOffset
	case AnswerOutOfOrder:
		return &r.AnswersOutOfOrder
	case Corrupt:
		return &r.Corrupt
	case NeverSent:
		return &r.NeverSent
	}
	panic("audit: no fault kind " + string(k))
}

// OK says that nothing is wrong.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(FaultKinds, func(k FaultKind) bool { return r.Number(k) > 0 })
}

func (r *Report) add(f Fault) {
	n := r.number(f.Kind)
	*n++
	if *n <= keptFaults {
		r.Faults = append(r.Faults, f)
	}
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Faults, func(a, b Fault) int {
		return cmp.Compare(slices.Index(FaultKinds, a.Kind), slices.Index(FaultKinds, b.Kind))
	})
}

// String is a table for people.
func (r *Report) String() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name string, n int64, note string) { fmt.Fprintf(w, "%s\t%d\t%s\n", name, n, note) }
	row("sent", r.Sent, fmt.Sprintf("records of %d clients", r.Clients))
	row("acknowledged", r.Acked, fmt.Sprintf("%d of them without an offset", r.UnknownOffset))
	row("failed", r.Failed, "the client was told so")
	row("unanswered", r.Unanswered, "")
	row("stored", r.Stored, fmt.Sprintf("%d distinct, %d unacknowledged", r.Distinct, r.UnackedStored))
	if r.Aborted > 0 {
		row("aborted", r.Aborted, "not counted as stored")
	}
	if r.Foreign > 0 {
		row("foreign", r.Foreign, "records that aren't of this workload")
	}
	for _, k := range FaultKinds {
		row(k.String(), r.Number(k), "")
	}
	w.Flush()
	if r.HistoryTorn {
		b.WriteString("the history ends in half a line: the workload was killed\n")
	}
	for i, f := range r.Faults {
		if i == 0 || f.Kind != r.Faults[i-1].Kind {
			fmt.Fprintf(&b, "\n%s (partition/offset):\n", f.Kind)
		}
		fmt.Fprintf(&b, "  %v\n", f)
		last := i+1 == len(r.Faults) || r.Faults[i+1].Kind != f.Kind
		if more := r.Number(f.Kind) - keptFaults; last && more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	return trimLines(b.String())
}

// trimLines takes away the blanks that tabwriter leaves at the ends of lines.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
