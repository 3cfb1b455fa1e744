package chart

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// pending are metrics that the dashboard and the alerts use and that the
// program does not have yet. Each is to go from here when it has.
var pending = map[string]bool{
	"oncegate_added_latency_seconds": true,
	"oncegate_budget_bytes":          true,
	"oncegate_budget_used_bytes":     true,
	"oncegate_build_info":            true,
	"oncegate_errors_total":          true,
	"oncegate_in_flight_batches":     true,
	"oncegate_journal_bytes":         true,
	"oncegate_journal_pending":       true,
	"oncegate_retries_total":         true,
	"oncegate_window_occupancy":      true,
}

var (
	metricName = regexp.MustCompile(`\boncegate_[a-z_]+`)
	ofMetric   = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// Dashboard and alerts ask for nothing that the program does not tell.
func TestMetricsExist(t *testing.T) {
	told := literals(t, "../../internal/telemetry", "../../internal/inject")
	used := make(map[string]bool)
	for _, path := range []string{"files/dashboard.json", "files/rules.yaml"} {
		text, err := os.ReadFile(chartDir + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			used[ofMetric.ReplaceAllString(name, "")] = true
		}
	}
	if len(used) < 15 {
		t.Fatalf("only %d metrics are used", len(used))
	}
	for name := range used {
		exists := told[name] || told[name[len("oncegate_"):]]
		switch {
		case !exists && !pending[name]:
			t.Errorf("%s is used and does not exist", name)
		case exists && pending[name]:
			t.Errorf("%s exists: take it out of pending", name)
		}
	}
	for name := range pending {
		if !used[name] {
			t.Errorf("%s is pending and not used", name)
		}
	}
}

// literals returns the texts in the source of packages.
func literals(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	texts := make(map[string]bool)
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no source in %s (%v)", folder, err)
		}
		for _, path := range paths {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					text, _ := strconv.Unquote(l.Value)
					texts[text] = true
				}
				return true
			})
		}
	}
	return texts
}
