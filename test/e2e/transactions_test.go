package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/audit"
	"github.com/oncegate/oncegate/test/java"
)

// abortedOneIn is how many of produceTransactions' transactions are aborted.
const abortedOneIn = 4

// produceTransactions writes in transactions of ten records. In a control run,
// where idempotence is off, there can't be any.
func produceTransactions(ctx context.Context, w workload) error {
	if !w.idempotent {
		return produceJava(ctx, w)
	}
	for i := range w.count {
		w.answers.Sent(audit.Record{Client: w.client, Seq: int64(i)})
	}
	program := java.Program{Name: "transactions", Args: map[string]string{
		"bootstrap.servers": strings.Join(w.bootstrap, ","), "topic": w.topic, "client": w.client, "transactional.id": w.topic,
		"count": fmt.Sprint(w.count), "partitions": fmt.Sprint(partitions), "size": "10", "abort": fmt.Sprint(abortedOneIn),
		"request.timeout.ms": fmt.Sprint(requestTimeout.Milliseconds()),
	}}
	return program.Run(ctx, func(e java.Event) { answerJava(w.answers, e) })
}

// Transactions pass through Oncegate while acknowledgements get lost on both
// hops: what was committed is stored once, what was aborted is seen by nobody.
func TestTransactions(t *testing.T) {
	const records = 1200
	s := scenario{
		cluster: newest.Get(t), clients: []string{"transactions"}, records: records, aborted: records / abortedOneIn,
		near: lostAcks, far: lostAcks,
	}
	s.control(t)
	s.through(t, "oncegate", nil)
}

// A second producer with the same transactional id fences the first, through
// Oncegate too.
func TestZombieIsFenced(t *testing.T) {
	c := newest.Get(t)
	o := startOncegate(t, c.Bootstrap(), "127.0.0.1")
	topic := newTopic(t, c)
	a := newAnswers(t)
	const size = 10
	for i := range 2 * size {
		a.Sent(audit.Record{Client: "f", Seq: int64(i)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fenced := 0
	program := java.Program{Name: "fence", Args: map[string]string{
		"bootstrap.servers": o.bootstrap(), "topic": topic, "client": "f", "transactional.id": topic, "size": fmt.Sprint(size),
	}}
	err := program.Run(ctx, func(e java.Event) {
		answerJava(a, e)
		if e.Event == "fenced" {
			fenced++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if fenced != 1 {
		t.Errorf("%d producers were fenced", fenced)
	}
	r := checkLog(t, c, topic, a.History)
	mustBeClean(t, r, 2*size, size)
	if r.Aborted != size {
		t.Errorf("%d records of the zombie are stored and aborted, not %d", r.Aborted, size)
	}
}
