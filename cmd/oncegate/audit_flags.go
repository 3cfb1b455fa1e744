package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/internal/config"
)

const auditUsage = `oncegate audit reads a topic and reports duplicates, gaps and reordering.

  oncegate audit --brokers localhost:9092 --topic orders
  oncegate audit --topic orders --by sequence,content --since 24h --json

Exit code 0: nothing was found; 1: something was found; 2: it could not run.

`

type auditFlags struct {
	brokers   config.Addresses
	topic     string
	selection audit.Selection
	options   audit.Options
	failOn    map[audit.FindingKind]bool
	json      bool
}

// failOnWords are what --fail-on takes.
var failOnWords = map[string][]audit.FindingKind{
	"dup":   {audit.DuplicateBySequence, audit.DuplicateByKey, audit.DuplicateByContent},
	"gap":   {audit.Gap},
	"order": {audit.OrderBreak},
}

func parseAuditFlags(args []string, stderr io.Writer) (*auditFlags, error) {
	f := &auditFlags{failOn: make(map[audit.FindingKind]bool)}
	memory := config.Bytes(64 << 20)
	set := flag.NewFlagSet("oncegate audit", flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are returned
	set.Func("brokers", "bootstrap `addresses` host:port, separated by commas; default: $UPSTREAM_BROKERS", func(s string) error {
		f.brokers = nil
		return f.brokers.UnmarshalText([]byte(s))
	})
	set.StringVar(&f.topic, "topic", "", "the `topic` to read")
	set.Func("partitions", "`numbers` separated by commas; default: all", f.parsePartitions)
	set.Int64Var(&f.selection.From, "from", 0, "the first `offset` of each partition")
	set.Int64Var(&f.selection.To, "to", 0, "the `offset` to stop before; default: the high watermark at the start")
	set.Func("since", "the `time` to start at: RFC 3339, or a duration back from now such as 24h", parseTime(&f.selection.Since))
	set.Func("until", "the `time` to stop at, likewise", parseTime(&f.selection.Until))
	set.BoolVar(&f.selection.ReadCommitted, "read-committed", false, "stop at the last stable offset instead of the high watermark")
	by := set.String("by", "", "`checks` separated by commas: sequence, content, key; default: sequence, and key with --key-header")
	set.StringVar(&f.options.KeyHeader, "key-header", "", "the `header` whose value names a record")
	set.DurationVar(&f.options.Window, "window", 0, "for content and key: only copies within this `duration` of each other count; default: any")
	set.Func("memory", "`bytes` for the checks, with KiB, MiB or GiB; what doesn't fit is sorted on disk, in $TMPDIR; default: 64MiB", func(s string) error {
		return memory.UnmarshalText([]byte(s))
	})
	set.IntVar(&f.options.Keep, "show", 10, "how many findings of each kind are shown; all are counted")
	failOn := set.String("fail-on", "dup,gap,order", "`findings` that make the exit code 1, separated by commas: dup, gap, order; or none")
	set.BoolVar(&f.json, "json", false, "print one JSON object")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, auditUsage)
			set.SetOutput(stderr)
			set.PrintDefaults()
		}
		return nil, err
	}
	f.options.Memory = int64(memory)
	return f, errors.Join(
		noMore(set), f.orEnvironment(), f.complete(), f.parseBy(*by), f.parseFailOn(*failOn))
}

func noMore(set *flag.FlagSet) error {
	if set.NArg() > 0 {
		return fmt.Errorf("%q is no flag; flags begin with --", set.Arg(0))
	}
	return nil
}

func (f *auditFlags) parsePartitions(s string) error {
	for _, one := range strings.Split(s, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(one), 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a partition number", one)
		}
		f.selection.Partitions = append(f.selection.Partitions, int32(n))
	}
	return nil
}

func parseTime(t *time.Time) func(string) error {
	return func(s string) error {
		if back, err := time.ParseDuration(s); err == nil && back >= 0 {
			*t = time.Now().Add(-back)
			return nil
		}
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return errors.New("not a time such as 2026-01-31T12:00:00Z, nor a duration such as 24h")
		}
		*t = at
		return nil
	}
}

func (f *auditFlags) orEnvironment() error {
	fromEnv := os.Getenv("UPSTREAM_BROKERS")
	switch {
	case len(f.brokers) > 0:
		return nil
	case fromEnv == "":
		return errors.New("--brokers is missing: the cluster's bootstrap addresses, host:port")
	}
	if err := f.brokers.UnmarshalText([]byte(fromEnv)); err != nil {
		return fmt.Errorf("UPSTREAM_BROKERS=%s: %w", fromEnv, err)
	}
	return nil
}

func (f *auditFlags) complete() error {
	s := f.selection
	switch {
	case f.topic == "":
		return errors.New("--topic is missing")
	case s.From < 0 || s.To < 0:
		return errors.New("--from and --to are offsets, which aren't negative")
	case s.To > 0 && s.To <= s.From:
		return fmt.Errorf("--to %d isn't after --from %d: nothing lies between them", s.To, s.From)
	case !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until):
		return errors.New("--until isn't after --since: nothing lies between them")
	case f.options.Keep < 0 || f.options.Window < 0:
		return errors.New("--show and --window aren't negative")
	}
	return nil
}

func (f *auditFlags) parseBy(by string) error {
	if by == "" {
		f.options.Sequence = true
		return nil
	}
	key := false
	for _, word := range strings.Split(by, ",") {
		switch strings.TrimSpace(word) {
		case "sequence":
			f.options.Sequence = true
		case "content":
			f.options.Content = true
		case "key":
			key = true
		default:
			return fmt.Errorf("--by %s: %q isn't sequence, content or key", by, word)
		}
	}
	switch {
	case key && f.options.KeyHeader == "":
		return errors.New("--by key needs --key-header, the name of the header")
	case !key && f.options.KeyHeader != "":
		return fmt.Errorf("--key-header needs key among the checks: --by %s,key", by)
	}
	return nil
}

func (f *auditFlags) parseFailOn(failOn string) error {
	if failOn == "none" {
		return nil
	}
	for _, word := range strings.Split(failOn, ",") {
		kinds, ok := failOnWords[strings.TrimSpace(word)]
		if !ok {
			return fmt.Errorf("--fail-on %s: %q isn't %s or none", failOn, word, strings.Join(slices.Sorted(maps.Keys(failOnWords)), ", "))
		}
		for _, k := range kinds {
			f.failOn[k] = true
		}
	}
	return nil
}
