package load

import (
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// Held are connections that are open and silent.
type Held []*producer

// Close closes them.
func (h Held) Close() {
	for _, p := range h {
		if p != nil {
			p.conn.Close()
		}
	}
}

// Hold opens connections, sends one request on each, and leaves them open.
func Hold(l Load) (Held, error) {
	producers, err := l.connect()
	held := Held(producers)
	for _, p := range producers {
		if err == nil {
			p.conn.SetDeadline(time.Time{})
			err = p.exchange(&frames{conn: p.conn, buf: make([]byte, 4<<10)}, 0)
		}
	}
	if err != nil {
		held.Close()
		return nil, err
	}
	return held, nil
}

// exchange sends the template as request n and checks the answer.
func (p *producer) exchange(in *frames, n int32) error {
	p.template.set(n, p.load.First)
	if _, err := p.conn.Write(p.template.frame); err != nil {
		return err
	}
	frame, err := in.next()
	if err != nil {
		return err
	}
	p.bases = p.bases[:0]
	return p.check(flight{correlation: n, at: time.Now()}, frame)
}

// Touch sends one batch of each of n producers, whose ids are those from first
// on; they count as issued.
func Touch(l Load, n int, first int64) error {
	producers, err := l.connect()
	defer Held(producers).Close()
	if err != nil {
		return err
	}
	var touching errgroup.Group
	for i, p := range producers {
		touching.Go(func() error {
			in := &frames{conn: p.conn, buf: make([]byte, 4<<10)}
			p.conn.SetDeadline(time.Now().Add(10 * time.Minute))
			for k := i; k < n; k += len(producers) {
				p.template.own(first + int64(k))
				if err := p.exchange(in, int32(k)); err != nil {
					return fmt.Errorf("producer %d of %d: %w", k, n, err)
				}
			}
			return nil
		})
	}
	return touching.Wait()
}
