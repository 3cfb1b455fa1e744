// Package oncegate_test checks the layout of the module.
package oncegate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/oncegate/oncegate/"

// allowed says which of our packages a folder may import: imports point down
// only.
var allowed = map[string][]string{
	"dedup":              {},
	"internal/wire":      {},
	"internal/config":    {},
	"internal/audit":     {"internal/wire"},
	"internal/faults":    {"internal/wire"},
	"upstream":           {"internal/wire"},
	"dedup/cold":         {"dedup"},
	"proxy":              {"dedup", "dedup/cold", "upstream", "internal/wire", "internal/records"},
	"internal/records":   {"internal/wire"},
	"internal/telemetry": {"proxy", "upstream", "dedup"},
}

// files returns the parsed Go files of a folder that are not tests.
func files(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no Go files in %s (%v)", folder, err)
	}
	parsed := make(map[string]*ast.File)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed[path] = f
	}
	return parsed
}

func TestImportsPointDown(t *testing.T) {
	for folder, may := range allowed {
		for path, f := range files(t, folder) {
			for _, i := range f.Imports {
				name, _ := strconv.Unquote(i.Path.Value)
				ours, ok := strings.CutPrefix(name, module)
				if ok && !contains(may, ours) {
					t.Errorf("%s imports %s", path, ours)
				}
			}
		}
	}
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// The dedup core is pure: no I/O, no goroutines, no channels, no locks and no
// clock.
func TestDedupIsPure(t *testing.T) {
	for path, f := range files(t, "dedup") {
		for _, i := range f.Imports {
			t.Errorf("%s imports %s; the core needs nothing", path, i.Path.Value)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", path)
			case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
				t.Errorf("%s uses a channel", path)
			}
			return true
		})
	}
}

// Files stay small enough to read at one go.
func TestFilesAreSmall(t *testing.T) {
	const limit = 450
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		if _, err := parser.ParseFile(set, path, nil, parser.PackageClauseOnly); err != nil {
			return err
		}
		set.Iterate(func(f *token.File) bool {
			if f.LineCount() > limit {
				t.Errorf("%s has %d lines, more than %d", path, f.LineCount(), limit)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
