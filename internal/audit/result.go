package audit

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Result is an auditor's verdict.
type Result struct {
	Topic   string  `json:"topic"`
	Cleanup string  `json:"cleanup_policy"` // empty: the broker didn't tell
	Ranges  []Range `json:"partitions"`

	Batches     int64 `json:"batches"`
	Records     int64 `json:"records"`     // markers aside
	Markers     int64 `json:"markers"`     // control batches: ends of transactions
	Sessions    int64 `json:"sessions"`    // producer ids × epochs × partitions that were followed
	Unsequenced int64 `json:"unsequenced"` // records whose producer didn't number them
	Aborted     int64 `json:"aborted"`     // records of aborted transactions; left out of the checks by key and content
	Open        int64 `json:"open"`        // records of transactions not yet over; left out as well
	Keyless     int64 `json:"keyless"`     // records without the key header, where that was looked at
	Moved       int64 `json:"removed"`     // offsets that retention removed while they were about to be read

	Counts   map[FindingKind]*Count `json:"found"` // what was looked for
	Findings []Finding              `json:"findings,omitempty"`
	Notes    []string               `json:"notes,omitempty"`

	Spilled  int64 `json:"spilled_bytes"` // written to temporary files
	manyGaps bool
}

// Compacted says whether gaps are normal.
func (r *Result) Compacted() bool { return strings.Contains(r.Cleanup, "compact") }

// Found says how often a kind was found that shouldn't be there. Gaps of a
// compacted topic don't count.
func (r *Result) Found(k FindingKind) int64 {
	c := r.Counts[k]
	if c == nil || k == Gap && r.Compacted() {
		return 0
	}
	return c.Found
}

// note tells of all that limits what the numbers mean.
func (r *Result) note(o Options) {
	note := func(yes bool, format string, args ...any) {
		if yes {
			r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
		}
	}
	truncated := 0
	for _, p := range r.Ranges {
		if p.Start > 0 {
			truncated++
		}
	}
	note(o.Sequence && r.Unsequenced > 0 && !o.Content && o.KeyHeader == "",
		"records without a sequence: %d (their producers had no idempotence); look for their duplicates by content or by key", r.Unsequenced)
	note(o.Sequence && r.Unsequenced > 0 && (o.Content || o.KeyHeader != ""),
		"records without a sequence: %d (their producers had no idempotence); they are checked by the other means only", r.Unsequenced)
	note(o.Sequence && r.Compacted(), "the topic is compacted: gaps are normal and don't count")
	note(o.Sequence && r.Cleanup == "", "the broker doesn't tell the topic's cleanup.policy (permission DescribeConfigs): if it is compacted, gaps are normal")
	note(o.Sequence && truncated > 0, "partitions that are read from an offset above 0: %d; what came before isn't known", truncated)
	note(r.Aborted > 0 && (o.Content || o.KeyHeader != ""), "records of aborted transactions: %d; they were left out of the checks by key and content, since writing them again is no duplicate", r.Aborted)
	note(r.Open > 0 && (o.Content || o.KeyHeader != ""), "records of transactions that weren't over: %d; they were left out of the checks by key and content", r.Open)
	note(o.KeyHeader != "" && r.Keyless > 0, "records without the header %q: %d", o.KeyHeader, r.Keyless)
	note(r.Found(DuplicateByContent) > 0, "equal content need not be a mistake: a sensor may send the same reading twice")
	note(r.Moved > 0, "offsets that retention removed before they were read: %d", r.Moved)
	note(r.manyGaps, "a producer left more than %d gaps open: a late batch in the oldest of them counts as a duplicate", maxUnseen)
}

// String is a table for people.
func (r *Result) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "topic %s: records: %d, batches: %d, partitions: %d", r.Topic, r.Records, r.Batches, len(r.Ranges))
	if r.Markers > 0 {
		fmt.Fprintf(&b, ", transaction markers: %d", r.Markers)
	}
	b.WriteString("\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tfound\trecords\t\n")
	for _, k := range FindingKinds {
		if c := r.Counts[k]; c != nil {
			fmt.Fprintf(w, "%s\t%d\t%d\t\n", k, c.Found, c.Records)
		}
	}
	w.Flush()
	for i, f := range r.Findings {
		if i == 0 || f.Kind != r.Findings[i-1].Kind {
			fmt.Fprintf(&b, "\n%s, at partition/offset:\n", f.Kind)
		}
		fmt.Fprintf(&b, "  %v\n", f)
		left := r.Counts[f.Kind].Found
		for _, g := range r.Findings {
			left -= count(g.Kind == f.Kind)
		}
		if last := i+1 == len(r.Findings) || r.Findings[i+1].Kind != f.Kind; last && left > 0 {
			fmt.Fprintf(&b, "  and %d more\n", left)
		}
	}
	for i, n := range r.Notes {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return trimLines(b.String())
}
