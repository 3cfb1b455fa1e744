package dedup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The dialogues in testdata are the rules. Each command is an event, the
// expected text is what the table decides. "batch" submits; a batch that waits
// is submitted again when the table wakes its link, and its new verdict is
// printed below the event that woke it.
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		d := newDialogue()
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			return d.run(t, td)
		})
	})
}

// dialogue is the caller of a table, as a text tells it.
type dialogue struct {
	table *Table
	cold  map[Key]Snapshot
	fence *Fences
	said  []*said
	now   uint32
}

// said is a batch of the dialogue, #1 and so on.
type said struct {
	n      int
	batch  Batch
	ticket Ticket
	state  string // forwarded, waiting or done
}

func newDialogue() *dialogue {
	return &dialogue{table: NewTable(Options{}), cold: make(map[Key]Snapshot), fence: NewFences(8)}
}

var codes = map[string]int16{
	"CORRUPT_MESSAGE": 2, "UNKNOWN_TOPIC_OR_PARTITION": 3, "NOT_LEADER_OR_FOLLOWER": 6, "REQUEST_TIMED_OUT": 7,
	"MESSAGE_TOO_LARGE": 10, "NOT_ENOUGH_REPLICAS": 19, "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
	"OUT_OF_ORDER_SEQUENCE_NUMBER": 45, "INVALID_PRODUCER_EPOCH": 47, "UNKNOWN_PRODUCER_ID": 59,
	"INVALID_RECORD": 87, "UNKNOWN_TOPIC_ID": 100,
}

func codeName(code int16) string {
	for name, c := range codes {
		if c == code {
			return name
		}
	}
	return strconv.Itoa(int(code))
}

func (d *dialogue) run(t *testing.T, td *datadriven.TestData) string {
	args := make(map[string]string)
	var words []string
	for _, a := range td.CmdArgs {
		if len(a.Vals) > 0 {
			args[a.Key] = a.Vals[0]
		} else {
			words = append(words, a.Key)
		}
	}
	number := func(key string, otherwise int64) int64 {
		v, ok := args[key]
		if !ok {
			return otherwise
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			td.Fatalf(t, "%s=%s: %v", key, v, err)
		}
		return n
	}
	named := func() *said {
		if len(words) > 0 && strings.HasPrefix(words[0], "#") {
			if n, err := strconv.Atoi(words[0][1:]); err == nil && n >= 1 && n <= len(d.said) {
				return d.said[n-1]
			}
		}
		td.Fatalf(t, "no batch named in %v", words)
		return nil
	}
	key := Key{Topic: uint32(number("topic", 1)), Partition: int32(number("partition", 0)), ProducerID: number("pid", 7)}
	var out strings.Builder
	switch td.Cmd {
	case "options":
		o := Options{RefuseStale: args["stale"] == "reject", RefuseReuse: args["reuse"] == "reject"}
		if slices.Contains(words, "cold") {
			o.Demote = func(s Snapshot) { d.cold[s.Key] = s }
			o.Recall = func(k Key) (Snapshot, bool) {
				s, ok := d.cold[k]
				delete(d.cold, k)
				return s, ok
			}
		}
		d.table = NewTable(o)
	case "batch":
		first, last, ok := strings.Cut(args["seq"], "..")
		if !ok {
			td.Fatalf(t, "seq=%s is not first..last", args["seq"])
		}
		link := "A"
		if l, ok := args["link"]; ok {
			link = l
		}
		b := Batch{
			Key: key, Epoch: int16(number("epoch", 0)), First: parse32(first), Last: parse32(last),
			CRC: uint32(number("crc", 1)), Link: Link(link[0]), Leader: uint32(number("leader", 1)),
		}
		s := &said{n: len(d.said) + 1, batch: b}
		d.said = append(d.said, s)
		d.submit(s, &out)
	case "stored":
		s := d.forwarded(t, td, named())
		d.woken(d.table.Stored(s.ticket, number("offset", -1), d.now, nil), &out)
	case "failed":
		s := d.forwarded(t, td, named())
		code, ok := codes[words[1]]
		if !ok {
			td.Fatalf(t, "no error is named %s", words[1])
		}
		d.woken(d.table.Failed(s.ticket, code, d.now, nil), &out)
	case "lost":
		s := d.forwarded(t, td, named())
		d.woken(d.table.Lost(s.ticket, d.now, nil), &out)
	case "withdraw":
		s := d.forwarded(t, td, named())
		d.woken(d.table.Withdraw(s.ticket, d.now, nil), &out)
	case "died": // a link: all that it has in flight is lost
		for _, s := range d.said {
			if s.state == "forwarded" && s.batch.Link == Link(words[0][0]) {
				s.state = "done"
				fmt.Fprintf(&out, "#%d is in doubt\n", s.n)
				d.woken(d.table.Lost(s.ticket, d.now, nil), &out)
			}
		}
	case "confirm":
		d.table.Confirm(key, uint32(number("leader", 1)), int16(number("epoch", 0)), int32(number("last", 0)))
	case "forget":
		d.table.Forget(key)
	case "time":
		d.now = uint32(number("now", 0))
	case "sweep":
		fmt.Fprintf(&out, "%d windows given away\n", d.table.Sweep(uint32(number("before", 0)), 100))
	case "fence":
		d.fence.Raise(key.ProducerID, int16(number("epoch", 0)))
	case "fenced":
		fmt.Fprintln(&out, d.fence.Fenced(key.ProducerID, int16(number("epoch", 0))))
	case "window":
		w := d.table.windows[key]
		if w == nil {
			return "nothing known\n"
		}
		fmt.Fprintf(&out, "epoch=%d", w.epoch)
		for i := range int(w.n) {
			fmt.Fprintf(&out, " %d..%d@%d", w.firstOf(i), w.lasts[i], w.offsets[i])
		}
		if w.n > 0 {
			fmt.Fprintf(&out, " since=%d", w.since)
		}
		if w.flight != nil {
			fmt.Fprintf(&out, " in flight=%d waiting=%d", w.flight.n, len(w.flight.waiting))
		}
		fmt.Fprintln(&out)
	default:
		td.Fatalf(t, "no command is named %s", td.Cmd)
	}
	if out.Len() == 0 {
		return "ok\n"
	}
	return out.String()
}

func parse32(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		panic(err)
	}
	return int32(n)
}

func (d *dialogue) forwarded(t *testing.T, td *datadriven.TestData, s *said) *said {
	if s.state != "forwarded" {
		td.Fatalf(t, "#%d is not forwarded: %s", s.n, s.state)
	}
	s.state = "done"
	return s
}

func (d *dialogue) submit(s *said, out *strings.Builder) {
	v := d.table.Submit(&s.batch, d.now)
	s.state = "done"
	switch v.Kind {
	case Forward:
		s.state, s.ticket = "forwarded", v.Ticket
		note := ""
		if s.ticket.w.flight.asking {
			note = " and ask"
		}
		fmt.Fprintf(out, "#%d forward%s\n", s.n, note)
	case Duplicate:
		fmt.Fprintf(out, "#%d duplicate offset=%d%s\n", s.n, v.Offset, reused(v))
	case Wait:
		s.state = "waiting"
		fmt.Fprintf(out, "#%d wait\n", s.n)
	case Verify:
		fmt.Fprintf(out, "#%d verify\n", s.n)
	case Refuse:
		fmt.Fprintf(out, "#%d refuse %s%s\n", s.n, codeName(v.Code), reused(v))
	}
}

func reused(v Verdict) string {
	if v.Reused {
		return " (sequence reused)"
	}
	return ""
}

// woken submits what waited on the woken links again.
func (d *dialogue) woken(links []Link, out *strings.Builder) {
	for _, s := range d.said {
		if s.state == "waiting" && slices.Contains(links, s.batch.Link) {
			d.submit(s, out)
		}
	}
}
