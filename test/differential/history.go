// Package differential plays random histories of idempotent producers into a
// real Kafka partition, and through Oncegate into another, and compares answer
// by answer and log by log.
package differential

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// op is one thing that a producer does.
type op struct {
	kind     kind
	producer int
	epoch    int16
	first    int32
	count    int32
	// swapped: the batch that follows is sent first, on the same connection.
	next *op
}

type kind int

const (
	send    kind = iota // send a batch and read its answer
	lose                // send it, lose the connection before the answer, and send it again
	swap                // pipeline two batches in the wrong order
	restart             // Oncegate forgets everything
	evict               // Oncegate gives its idle windows away
)

func (o op) String() string {
	batch := fmt.Sprintf("pid=%d epoch=%d seq=%d..%d", o.producer, o.epoch, o.first, o.last())
	switch o.kind {
	case lose:
		return "lose " + batch
	case swap:
		return "swap " + batch + " behind " + o.next.String()
	case restart:
		return "restart"
	case evict:
		return "evict"
	}
	return "batch " + batch
}

func (o op) last() int32 { return int32((uint32(o.first) + uint32(o.count) - 1) & (1<<31 - 1)) }

type history []op

func (h history) String() string {
	var lines []string
	for _, o := range h {
		lines = append(lines, o.String())
	}
	return strings.Join(lines, "\n")
}

// producer is what the generator believes of a producer: enough to draw
// batches that are mostly right and sometimes wrong in an interesting way.
type producer struct {
	epoch int16
	next  int32
	sent  []op
}

// draw makes a history of n operations.
func draw(t *rapid.T, n int) history {
	producers := make([]producer, rapid.IntRange(1, 3).Draw(t, "producers"))
	for i := range producers {
		// Close to the wrap in some.
		producers[i].next = rapid.SampledFrom([]int32{0, 0, 1<<31 - 5}).Draw(t, "start")
	}
	var h history
	for range n {
		h = append(h, drawOp(t, producers))
	}
	return h
}

func drawOp(t *rapid.T, producers []producer) op {
	i := rapid.IntRange(0, len(producers)-1).Draw(t, "producer")
	p := &producers[i]
	fresh := func() op {
		o := op{producer: i, epoch: p.epoch, first: p.next, count: rapid.Int32Range(1, 4).Draw(t, "count")}
		p.next = int32((uint32(o.last()) + 1) & (1<<31 - 1))
		p.sent = append(p.sent, o)
		return o
	}
	switch rapid.SampledFrom([]string{"new", "new", "new", "new", "retry", "retry", "old", "lose", "swap", "gap", "overlap", "bump", "bad bump", "zombie", "restart", "evict"}).Draw(t, "what") {
	case "retry", "old":
		if len(p.sent) == 0 {
			return fresh()
		}
		back := rapid.IntRange(1, min(len(p.sent), 9)).Draw(t, "back")
		o := p.sent[len(p.sent)-back]
		return o
	case "lose":
		o := fresh()
		o.kind = lose
		return o
	case "swap":
		first := fresh()
		second := fresh()
		first.kind, first.next = swap, &second
		return first
	case "gap":
		return op{producer: i, epoch: p.epoch, first: int32((uint32(p.next) + 7) & (1<<31 - 1)), count: 2}
	case "overlap":
		if len(p.sent) == 0 {
			return fresh()
		}
		o := p.sent[len(p.sent)-1]
		o.count += rapid.Int32Range(1, 2).Draw(t, "more")
		return o
	case "bump":
		p.epoch++
		p.next, p.sent = 0, nil
		return fresh()
	case "bad bump":
		return op{producer: i, epoch: p.epoch + 1, first: 5, count: 1}
	case "zombie":
		if p.epoch == 0 {
			return fresh()
		}
		return op{producer: i, epoch: p.epoch - 1, first: p.next, count: 1}
	case "restart":
		return op{kind: restart}
	case "evict":
		return op{kind: evict}
	}
	return fresh()
}
