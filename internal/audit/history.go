package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Ack is what a client was told about one record.
type Ack struct {
	Client    string
	Seq       int64
	Partition int32
	Offset    int64     // −1: stored, but the client wasn't told where
	Error     string    // not empty: the client was told that it failed
	At        time.Time // zero: now
}

// Record is the record that the answer is about.
func (a Ack) Record() Record { return Record{a.Client, a.Seq} }

// history lines: {"event":"sent",…} and {"event":"ack",…}.
const (
	eventSent = "sent"
	eventAck  = "ack"
)

// event is one line of a history.
type event struct {
	Event     string    `json:"event"`
	Client    string    `json:"client"`
	Seq       int64     `json:"seq"`
	Partition int32     `json:"partition,omitempty"`
	Offset    int64     `json:"offset,omitempty"`
	Error     string    `json:"error,omitempty"`
	At        time.Time `json:"at"`
}

// History is the order of events as a workload saw them: what was sent, what
// was answered. It may be used by many goroutines; the answers of one client
// must be recorded in the order in which they came.
type History struct {
	mu      sync.Mutex
	events  []event // of a history in memory
	path    string  // of a history in a file
	file    *os.File
	out     *bufio.Writer
	flushed time.Time
	err     error // of writing, the first
	torn    bool
}

// NewHistory starts a history that is kept in memory.
func NewHistory() *History { return &History{} }

// CreateHistory starts a history that is written to a new file. A process that
// is killed loses the end of it, about a tenth of a second: what that held
// counts as never sent or unanswered.
func CreateHistory(path string) (*History, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &History{path: path, file: f, out: bufio.NewWriterSize(f, 64<<10), flushed: time.Now()}, nil
}

// LoadHistory opens the history in a file, for checking. The file holds one
// JSON object a line, in the order of the events:
//
//	{"event":"sent","client":"c1","seq":7,"at":"2026-01-02T03:04:05.6Z"}
//	{"event":"ack","client":"c1","seq":7,"partition":2,"offset":40,"at":"…"}
//	{"event":"ack","client":"c1","seq":8,"error":"timed out","at":"…"}
//
// A missing number is 0. Lines are read when they are needed.
func LoadHistory(path string) (*History, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &History{path: path}, nil
}

// Sent records that a client is about to send a record for the first time. A
// workload that records sends must record all of them, each before the record
// can reach the log: what the log holds beyond them is then a fault.
func (h *History) Sent(r Record) {
	h.add(event{Event: eventSent, Client: r.Client, Seq: r.Seq, At: time.Now()})
}

// Ack records an answer.
func (h *History) Ack(a Ack) {
	if a.At.IsZero() {
		a.At = time.Now()
	}
	h.add(event{eventAck, a.Client, a.Seq, a.Partition, a.Offset, a.Error, a.At})
}

func (h *History) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.out != nil:
		h.note(h.write(e))
	case h.path != "":
		h.note(errors.New("history: it is closed, or was loaded for checking"))
	default:
		h.events = append(h.events, e)
	}
}

func (h *History) note(err error) {
	if h.err == nil {
		h.err = err
	}
}

func (h *History) write(e event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if _, err := h.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if e.At.Sub(h.flushed) > 100*time.Millisecond {
		h.flushed = e.At
		return h.flush()
	}
	return nil
}

func (h *History) flush() error {
	if err := h.out.Flush(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Close ends the writing and reports the first error that recording ran into.
// The history can still be checked.
func (h *History) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.out != nil {
		h.note(h.flush())
		h.note(h.file.Close())
		h.out, h.file = nil, nil
	}
	return h.err
}

// Save writes a copy of the history to a new file.
func (h *History) Save(path string) error {
	to, err := CreateHistory(path)
	if err != nil {
		return err
	}
	err = h.each(func(e event) error { return to.write(e) })
	return errors.Join(err, to.Close())
}

// each calls f for each event in order.
func (h *History) each(f func(event) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	if h.path == "" {
		for _, e := range h.events {
			if err := f(e); err != nil {
				return err
			}
		}
		return nil
	}
	if h.out != nil {
		if err := h.flush(); err != nil {
			return err
		}
	}
	return h.eachLine(f)
}

func (h *History) eachLine(f func(event) error) error {
	file, err := os.Open(h.path)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// A workload that was killed leaves half a line.
			h.torn = len(line) > 0
			return nil
		}
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		var e event
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&e); err != nil {
			return fmt.Errorf("history: %s line %d: %w", h.path, n, err)
		}
		if e.Event != eventSent && e.Event != eventAck {
			return fmt.Errorf("history: %s line %d: event %q is neither %q nor %q", h.path, n, e.Event, eventSent, eventAck)
		}
		if err := f(e); err != nil {
			return fmt.Errorf("history: %s line %d: %w", h.path, n, err)
		}
	}
}

// Torn says whether the file that was read last ended in half a line, as it
// does when the workload was killed.
func (h *History) Torn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.torn
}
