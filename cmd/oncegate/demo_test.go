package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The last line is one JSON object with these names; others read it.
func TestDemoJSON(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	if code := runDemo(ctx, []string{"--json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	var r map[string]map[string]int
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("%v in the last line of\n%s", err, &stdout)
	}
	for scenario, names := range map[string]string{
		"without": "acked acks_lost stored duplicates lost",
		"stamped": "acked acks_lost stored duplicates lost left_out_by_oncegate",
		"with":    "acked acks_lost stored duplicates lost answered_by_oncegate",
	} {
		for name := range strings.FieldsSeq(names) {
			if _, ok := r[scenario][name]; !ok {
				t.Errorf("%s.%s is missing in %s", scenario, name, lines[len(lines)-1])
			}
		}
	}
	if r["without"]["duplicates"] == 0 || r["with"]["duplicates"] != 0 || r["with"]["lost"] != 0 || r["stamped"]["duplicates"] != 0 || r["stamped"]["lost"] != 0 {
		t.Errorf("the demo shows the wrong thing:\n%s", &stdout)
	}
	if got := strings.Count(stderr.String(), "\n"); got != 3 {
		t.Errorf("progress is\n%s", &stderr)
	}
}
