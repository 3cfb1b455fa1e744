package kafka

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Many want a folder at once: one builds it, all find it whole. A build that
// failed leaves nothing that looks whole.
func TestCached(t *testing.T) {
	t.Setenv("ONCEGATE_CACHE", t.TempDir())
	broken := errors.New("broken")
	_, err := Cached("a/b", func(dir string) error {
		os.WriteFile(filepath.Join(dir, "half"), nil, 0o644)
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatalf("a failed build gives %v", err)
	}

	var builds atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			dir, err := Cached("a/b", func(dir string) error {
				builds.Add(1)
				return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 1 || files[0].Name() != "whole" {
				t.Errorf("found %v (%v)", files, err)
			}
		})
	}
	all.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

// No port is given twice, and ports that are in use are passed over.
func TestFreePorts(t *testing.T) {
	given := make(map[int]bool)
	for range 30 {
		first, err := FreePorts(7)
		if err != nil {
			t.Fatal(err)
		}
		for p := first; p < first+7; p++ {
			if given[p] {
				t.Errorf("port %d was given twice", p)
			}
			given[p] = true
			if !isFree(FaultyHost, p) {
				t.Errorf("port %d is in use", p)
			}
		}
	}
}
