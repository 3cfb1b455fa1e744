package demo

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Lost acknowledgements make duplicates without Oncegate and none with it, and
// nothing is lost either way.
func TestDemo(t *testing.T) {
	defer goleak.VerifyNone(t)
	d, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var told int
	r, err := d.Run(ctx, func(string, int, int, int) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	with := r.With.Count
	if r.Without.AcksLost == 0 || r.Without.Duplicates == 0 || r.Without.Stored != payments+r.Without.Duplicates {
		t.Errorf("the control run shows no duplicates: %+v", r.Without)
	}
	if with.AcksLost == 0 || with.Duplicates != 0 || with.Stored != payments || r.With.AnsweredByOncegate < with.AcksLost {
		t.Errorf("with Oncegate: %+v", r.With)
	}
	for name, c := range map[string]Count{"without": r.Without, "with": with} {
		if c.Acked != payments || c.Lost != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if told < 2*payments {
		t.Errorf("progress was told %d times", told)
	}
}

func TestDemoEndsWithItsContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	d, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err = d.Run(ctx, func(_ string, acked, _, _ int) {
		if acked == 100 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
