package audit

import (
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newNumberSpill(dir string, limit int) *spill[uint64] {
	return &spill[uint64]{
		dir: dir, limit: limit, size: 8,
		compare: func(a, b uint64) int { return cmp.Compare(a, b) },
		encode:  func(b []byte, n *uint64) { binary.BigEndian.PutUint64(b, *n) },
		decode:  func(b []byte, n *uint64) { *n = binary.BigEndian.Uint64(b) },
	}
}

// What went in comes out, sorted, however little memory there is; and no file
// is left.
func TestSpillSorts(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Uint64Range(0, 500), 0, 400).Draw(t, "numbers")
		s := newNumberSpill(dir, rapid.IntRange(1, 100).Draw(t, "limit"))
		for _, n := range want {
			if err := s.add(n); err != nil {
				t.Fatal(err)
			}
		}
		var got []uint64
		for n, err := range s.sorted() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, *n)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("sorted %v into %v", want, got)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Fatalf("files are left: %v", left)
		}
	})
}

func TestSpillSaysWhereDiskIsMissing(t *testing.T) {
	s := newNumberSpill(filepath.Join(t.TempDir(), "no", "such", "directory"), 1)
	var err error
	for i := range uint64(3) {
		if err = s.add(i); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("the error is %v", err)
	}
}

// What is written to disk is what is read back.
func TestItemsOnDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mark{
			rapid.Int64().Draw(t, "producer"), rapid.Int64().Draw(t, "offset"), rapid.Int32().Draw(t, "partition"),
			rapid.Int32().Draw(t, "base"), rapid.Int32().Draw(t, "last"), rapid.Int16().Draw(t, "epoch"),
		}
		marks := newMarkSpill("", minMemory)
		b := make([]byte, marks.size)
		marks.encode(b, &m)
		var m2 mark
		if marks.decode(b, &m2); m2 != m {
			t.Fatalf("%+v became %+v", m, m2)
		}
		d := digest{
			rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low"), rapid.Int64().Draw(t, "time"),
			rapid.Int64().Draw(t, "offset"), rapid.Int32().Draw(t, "partition"),
		}
		digests := newDigestSpill("", minMemory)
		b = make([]byte, digests.size)
		digests.encode(b, &d)
		var d2 digest
		if digests.decode(b, &d2); d2 != d {
			t.Fatalf("%+v became %+v", d, d2)
		}
	})
}
