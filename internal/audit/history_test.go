package audit

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A history that went through a file is judged as the one in memory is.
func TestHistoryThroughFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	file, err := CreateHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	memory := NewHistory()
	var clients sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		clients.Go(func() {
			for seq := range int64(500) {
				for _, h := range []*History{file, memory} {
					h.Sent(Record{name, seq})
					h.Ack(Ack{Client: name, Seq: seq, Offset: seq, Error: strings.Repeat("no", int(seq%2)), At: time.Unix(seq, 5)})
				}
			}
		})
	}
	clients.Wait()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "copy.jsonl")
	if err := memory.Save(saved); err != nil {
		t.Fatal(err)
	}
	again, err := LoadHistory(saved)
	if err != nil {
		t.Fatal(err)
	}
	log := entries(0, "a:0 b:0 b:0 c:2 c:1")
	want := check(t, memory, log).String()
	for name, h := range map[string]*History{"written": file, "loaded": loaded, "saved": again} {
		if got := check(t, h, log).String(); got != want {
			t.Errorf("%s: the report is\n%s\nnot\n%s", name, got, want)
		}
	}
}

func TestHistoryOfKilledWorkload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := &History{path: path}
	const whole = `{"event":"ack","client":"a","seq":0,"at":"2026-01-02T03:04:05Z"}` + "\n"

	write(whole + whole[:20])
	if r := check(t, h, entries(0, "a:0")); !r.OK() || r.Acked != 1 || !r.HistoryTorn {
		t.Errorf("half a line at the end:\n%v", r)
	}
	for name, c := range map[string]struct{ text, want string }{
		"half a line inside":  {whole[:20] + "\n" + whole, "line 1"},
		"not an event":        {whole + strings.Replace(whole, "ack", "nack", 1), `line 2: event "nack"`},
		"an unknown field":    {strings.Replace(whole, "seq", "sequence", 1), `unknown field "sequence"`},
		"no client":           {strings.Replace(whole, `"client":"a",`, "", 1), "line 1: client"},
		"a negative sequence": {strings.Replace(whole, `"seq":0`, `"seq":-1`, 1), "line 1: client"},
	} {
		write(c.text)
		if _, err := NewChecker(h); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, it should contain %q", name, err, c.want)
		}
	}
	if _, err := LoadHistory(path + ".not"); err == nil {
		t.Error("a history that isn't there was loaded")
	}
	if h.Ack(Ack{Client: "a"}); h.Close() == nil {
		t.Error("recording into a loaded history wasn't noticed")
	}
}

// Any record is read back from its value at any size, and a changed byte never
// yields the same record without an error.
func TestRecordValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			rapid.StringMatching(`[a-z0-9-]{1,10}`).Draw(t, "client"),
			rapid.Int64Range(0, 1<<63-1).Draw(t, "seq"),
		}
		size := rapid.IntRange(0, 100).Draw(t, "size")
		v := r.Value(size)
		if got, err := ParseRecord(v); got != r || err != nil {
			t.Fatalf("%q is %v, %v", v, got, err)
		}
		if least := len(r.unit()) - 1; len(v) != max(size, least) {
			t.Fatalf("%q has %d bytes", v, len(v))
		}
		v[rapid.IntRange(0, len(v)-1).Draw(t, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if got, err := ParseRecord(v); got == r && err == nil {
			t.Fatalf("%q is still %v", v, got)
		}
	})
	for _, bad := range []string{"", "a", "a:", ":1", "a:-1", "a:01", "a:+1", "a:1x", "a:9223372036854775808"} {
		if r, err := ParseRecord([]byte(bad)); err == nil || r != (Record{}) {
			t.Errorf("%q was read as %v", bad, r)
		}
	}
}
