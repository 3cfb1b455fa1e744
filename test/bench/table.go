package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// table holds measurements of all subjects under one load, by round.
type table struct {
	subjects []*subject
	rows     [][]measurement
}

type figure = func(*measurement) float64

// index returns where a subject is, −1 where it isn't measured.
func (t *table) index(name string) int {
	return slices.IndexFunc(t.subjects, func(s *subject) bool { return s.name == name })
}

// median is 0 for a subject that isn't measured.
func (t *table) median(i int, of figure) float64 {
	if i < 0 {
		return 0
	}
	var all []float64
	for r := range t.rows[i] {
		all = append(all, of(&t.rows[i][r]))
	}
	return middle(all)
}

// middle is the median.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// ratios are of each round, sorted.
func (t *table) ratios(i, base int, of figure) []float64 {
	var all []float64
	if base < 0 {
		return nil
	}
	for r := range t.rows[i] {
		if b := of(&t.rows[base][r]); b > 0 {
			all = append(all, of(&t.rows[i][r])/b)
		}
	}
	slices.Sort(all)
	return all
}

// ratio is the median of ratios of the same round, with the least and the most.
func (t *table) ratio(i, base int, of figure) string {
	all := t.ratios(i, base, of)
	if len(all) == 0 || all[len(all)-1] == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", middle(all), all[0], all[len(all)-1])
}

// print writes a line for each subject. Ratios are medians of rounds, with the
// least and the most.
func (t *table) print(out io.Writer) error {
	direct, frame := t.index("direct"), t.index("frame")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t\t\tto direct\tto the frame proxy\t\t\t\tCPU\t\tpeak")
	fmt.Fprintln(w, "\tMB/s\trequests/s\tthroughput\tthroughput\tp50\tp99\tCPU/GB\ts/GB\tµs/request\tMiB\tp50 µs\tp99 µs")
	for i, s := range t.subjects {
		rate := (*measurement).bytesPerSecond
		fmt.Fprintf(w, "%s\t%.1f\t%.0f\t%s\t%s\t%s\t%s\t%s", s.name, t.median(i, rate)/1e6, t.median(i, (*measurement).requestsPerSecond),
			t.ratio(i, direct, rate), t.ratio(i, frame, rate), t.ratio(i, frame, (*measurement).p50), t.ratio(i, frame, (*measurement).p99), t.ratio(i, frame, (*measurement).cpuPerGB))
		if s.proc == nil {
			fmt.Fprint(w, "\t–\t–\t–")
		} else {
			rss := func(m *measurement) float64 { return float64(m.PeakRSS) / (1 << 20) }
			fmt.Fprintf(w, "\t%.2f\t%.2f\t%.0f", t.median(i, (*measurement).cpuPerGB), t.median(i, (*measurement).cpuPerRequest), t.median(i, rss))
		}
		fmt.Fprintf(w, "\t%.0f\t%.0f\n", t.median(i, (*measurement).p50), t.median(i, (*measurement).p99))
	}
	return w.Flush()
}

// goals holds the measured ratios to the frame proxy against what is asked for.
func (t *table) goals(out io.Writer) {
	frame := t.index("frame")
	check := func(name, what string, of figure, limit float64, least bool) {
		i := t.index(name)
		if i < 0 || frame < 0 {
			return
		}
		got, sign := middle(t.ratios(i, frame, of)), "≤"
		met := got <= limit
		if least {
			met, sign = got >= limit, "≥"
		}
		verdict := "met"
		if !met {
			verdict = "MISSED"
		}
		fmt.Fprintf(out, "goal: %s %s %s %.2f × the frame proxy's: %.3f, %s\n", name, what, sign, limit, got, verdict)
	}
	check("track", "throughput", (*measurement).bytesPerSecond, 0.98, true)
	check("track", "CPU per GB", (*measurement).cpuPerGB, 1.05, false)
	check("track", "p99", (*measurement).p99, 1.10, false)
	check("stamp", "throughput", (*measurement).bytesPerSecond, 0.95, true)
	if haproxy, track := t.index("haproxy"), t.index("track"); haproxy >= 0 && track >= 0 {
		fmt.Fprintf(out, "track to haproxy: throughput %s, CPU per request %s\n",
			t.ratio(track, haproxy, (*measurement).bytesPerSecond), t.ratio(track, haproxy, (*measurement).cpuPerRequest))
	}
	if kafkaProxy, track := t.index("kafka-proxy"), t.index("track"); kafkaProxy >= 0 && track >= 0 {
		fmt.Fprintf(out, "track to kafka-proxy: throughput %s (goal ≥ 5)\n", t.ratio(track, kafkaProxy, (*measurement).bytesPerSecond))
	}
	for i, s := range t.subjects {
		base := t.index(s.name[:min(5, len(s.name))])
		if len(s.name) > 5 && base >= 0 {
			fmt.Fprintf(out, "%s to %s: throughput %s, CPU per GB %s, p99 %s\n", t.subjects[base].name, s.name,
				t.ratio(base, i, (*measurement).bytesPerSecond), t.ratio(base, i, (*measurement).cpuPerGB), t.ratio(base, i, (*measurement).p99))
		}
	}
}
