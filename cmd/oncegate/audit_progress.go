package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/audit"
)

// progress shows how far reading has come: a bar on a terminal, elsewhere a
// line now and then.
type progress struct {
	out      io.Writer
	terminal bool
	every    time.Duration
	started  time.Time
	shown    time.Time
	total    int64 // offsets
	done     int64
	next     map[int32]int64 // the offset to come, by partition
}

func newProgress(out io.Writer, total int64) *progress {
	p := &progress{out: out, terminal: isTerminal(out), every: 10 * time.Second, total: total, started: time.Now(), next: make(map[int32]int64)}
	if p.terminal {
		p.every = 200 * time.Millisecond
	}
	p.shown = p.started
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) read(b *audit.Batch) {
	next, ok := p.next[b.Partition]
	if !ok {
		next = b.BaseOffset
	}
	p.done += b.LastOffset + 1 - next
	p.next[b.Partition] = b.LastOffset + 1
	if now := time.Now(); now.Sub(p.shown) >= p.every {
		p.shown = now
		p.show(now)
	}
}

func (p *progress) show(now time.Time) {
	spent := now.Sub(p.started)
	share := float64(min(p.done, p.total)) / float64(max(p.total, 1))
	text := fmt.Sprintf("%3.0f%%  %d of %d offsets, %.0f a second", 100*share, p.done, p.total, float64(p.done)/spent.Seconds())
	if share > 0 {
		left := time.Duration(float64(spent) * (1 - share) / share)
		text += fmt.Sprintf(", %v to go", left.Round(time.Second))
	}
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	const width = 30
	full := int(share * width)
	fmt.Fprintf(p.out, "\r[%s%s] %s\x1b[K", strings.Repeat("#", full), strings.Repeat(".", width-full), text)
}

// comparing says that all is read.
func (p *progress) comparing() {
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\rcomparing what %d offsets hold\x1b[K", p.done)
	case time.Since(p.started) >= p.every:
		fmt.Fprintf(p.out, "comparing what %d offsets hold\n", p.done)
	}
}

// end clears the bar away.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
