package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/oncegate/oncegate/internal/demo"
)

// runDemo loses acknowledgements on purpose, with and without Oncegate, and
// prints what an embedded broker's log holds.
func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("oncegate demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	asJSON := flags.Bool("json", false, "print the result as one JSON object on the last line")
	stay := flags.Bool("stay", false, "keep the embedded broker and Oncegate up until Ctrl-C, for clients of your own")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	d, err := demo.Start()
	if err != nil {
		fmt.Fprintf(stderr, "oncegate demo: %v\n", err)
		return 1
	}
	defer d.Close()
	fmt.Fprintln(stdout, "A producer sends payments over a network that loses acknowledgements, and so sends again.")
	within, cancel := context.WithTimeout(ctx, 50*time.Second)
	defer cancel()
	r, err := d.Run(within, demoProgress(stderr))
	if err != nil {
		fmt.Fprintf(stderr, "oncegate demo: %v\n", err)
		return 1
	}
	printResult(stdout, &r)
	if *stay {
		fmt.Fprintf(stdout, "\nOncegate listens on %s, the embedded broker behind it on %s. Topics are made as you produce. Ctrl-C ends both.\n", d.Oncegate(), d.Broker())
		<-ctx.Done()
	}
	if *asJSON {
		line, err := json.Marshal(r)
		if err != nil {
			fmt.Fprintf(stderr, "oncegate demo: %v\n", err)
			return 1
		}
		fmt.Fprintf(stdout, "%s\n", line)
	}
	return 0
}

// demoProgress shows a line that moves on a terminal, elsewhere one for each
// scenario.
func demoProgress(w io.Writer) demo.Progress {
	terminal := isTerminal(w)
	return func(scenario string, acked, total, lost int) {
		text := fmt.Sprintf("  %-36s%4d of %d payments acknowledged, %3d acknowledgements lost", scenario, acked, total, lost)
		switch {
		case acked == total && terminal:
			fmt.Fprintf(w, "\r%s\n", text)
		case acked == total:
			fmt.Fprintln(w, text)
		case terminal && acked%10 == 0:
			fmt.Fprintf(w, "\r%s", text)
		}
	}
}

func printResult(w io.Writer, r *demo.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nread back from the log\tacknowledged\tacks lost\tstored\tduplicates\tlost\tanswered by Oncegate\t")
	row := func(name string, c demo.Count, answered any) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t\n", name, c.Acked, c.AcksLost, c.Stored, c.Duplicates, c.Lost, answered)
	}
	row("without Oncegate, idempotence off", r.Without, "–")
	row("with Oncegate, idempotence on", r.With.Count, fmt.Sprintf("%d batches", r.With.AnsweredByOncegate))
	row("with Oncegate, idempotence off", r.Stamped.Count, fmt.Sprintf("%d records", r.Stamped.LeftOutByOncegate))
	t.Flush()
}
