package kafka

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// verdict is a test that notes how it was ended.
type verdict struct {
	testing.TB
	skipped, failed bool
}

func (v *verdict) Helper()      {}
func (v *verdict) Name() string { return "TestSome" }
func (v *verdict) Skip(...any) {
	v.skipped = true
	runtime.Goexit()
}
func (v *verdict) Fatal(...any) {
	v.failed = true
	runtime.Goexit()
}

// Without its tools a test is skipped and listed; with CI=true it fails.
func TestRequireTools(t *testing.T) {
	missing := errors.Join(Tool("go"), Tool("no-such-program"), Tool("nor-this"))
	for _, c := range []struct {
		ci      string
		missing error
		want    verdict
		listed  string
	}{
		{"", nil, verdict{}, ""},
		{"", missing, verdict{skipped: true}, "NOT RUN: TestSome: " + strings.ReplaceAll(missing.Error(), "\n", "; ") + "\n"},
		{"true", missing, verdict{failed: true}, ""},
		{"true", nil, verdict{}, ""},
	} {
		t.Run(fmt.Sprintf("CI=%s missing=%v", c.ci, c.missing != nil), func(t *testing.T) {
			before, last := notRun.tests, notRun.last
			defer func() { notRun.tests, notRun.last = before, last }()
			list := filepath.Join(t.TempDir(), "not-run")
			t.Setenv("CI", c.ci)
			t.Setenv("NOT_RUN_FILE", list)
			var got verdict
			var ended sync.WaitGroup
			ended.Go(func() { RequireTools(&got, c.missing) })
			ended.Wait()
			if got.skipped != c.want.skipped || got.failed != c.want.failed {
				t.Errorf("skipped=%v failed=%v", got.skipped, got.failed)
			}
			if text, _ := os.ReadFile(list); string(text) != c.listed {
				t.Errorf("the list holds %q", text)
			}
			if c.want.skipped && notRun.tests != before+1 {
				t.Errorf("%d tests counted as not run", notRun.tests-before)
			}
		})
	}
}
