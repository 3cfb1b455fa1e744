package audit

import (
	"bufio"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// mergeWidth is how many runs are merged at a time; each has a buffer of
// runBuffer bytes.
const (
	mergeWidth = 64
	runBuffer  = 32 << 10
)

// spill sorts more items than memory holds: full buffers are sorted and
// written to temporary files, which are merged in the end.
type spill[T any] struct {
	compare func(a, b T) int
	size    int // bytes of an encoded item
	encode  func([]byte, *T)
	decode  func([]byte, *T)

	dir     string // of temporary files; empty: the system's
	limit   int    // items in memory
	buffer  []T
	runs    []*os.File
	written int64 // bytes
}

func (s *spill[T]) add(item T) error {
	if len(s.buffer) == s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.buffer == nil {
		// One allocation: growing would take double the memory, and what is
		// never touched costs none.
		s.buffer = make([]T, 0, s.limit)
	}
	s.buffer = append(s.buffer, item)
	return nil
}

// flush writes the buffer as a sorted run.
func (s *spill[T]) flush() error {
	s.sortBuffer()
	err := s.write(func(yield func(*T, error) bool) {
		for i := range s.buffer {
			if !yield(&s.buffer[i], nil) {
				return
			}
		}
	})
	s.buffer = s.buffer[:0]
	return err
}

func (s *spill[T]) sortBuffer() {
	slices.SortFunc(s.buffer, s.compare)
}

// write makes a new run.
func (s *spill[T]) write(items iter.Seq2[*T, error]) error {
	f, err := os.CreateTemp(s.dir, "oncegate-audit-")
	if err != nil {
		return spillError(err)
	}
	s.runs = append(s.runs, f)
	os.Remove(f.Name()) // nothing is left behind, even by a kill; elsewhere than on Unix close does it
	out := bufio.NewWriterSize(f, runBuffer)
	encoded := make([]byte, s.size)
	for item, err := range items {
		if err != nil {
			return err
		}
		s.encode(encoded, item)
		if _, err := out.Write(encoded); err != nil {
			return spillError(err)
		}
		s.written += int64(s.size)
	}
	if err := out.Flush(); err != nil {
		return spillError(err)
	}
	return nil
}

func spillError(err error) error {
	return fmt.Errorf("sorting on disk: %w (about 40 bytes a record; TMPDIR names the directory)", err)
}

// sorted returns all items in order. An item is valid until the next one.
func (s *spill[T]) sorted() iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		if len(s.runs) == 0 {
			s.sortBuffer()
			for i := range s.buffer {
				if !yield(&s.buffer[i], nil) {
					return
				}
			}
			return
		}
		if len(s.buffer) > 0 {
			if err := s.flush(); err != nil {
				yield(nil, err)
				return
			}
		}
		s.buffer = nil
		for len(s.runs) > mergeWidth {
			if err := s.mergeSome(); err != nil {
				yield(nil, err)
				return
			}
		}
		s.merge(s.runs)(yield)
	}
}

// mergeSome makes one run of the oldest ones.
func (s *spill[T]) mergeSome() error {
	old := slices.Clone(s.runs[:mergeWidth])
	s.runs = s.runs[mergeWidth:]
	err := s.write(s.merge(old))
	return errors.Join(err, closeAll(old))
}

func (s *spill[T]) merge(runs []*os.File) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		m := &merger[T]{compare: s.compare}
		for _, f := range runs {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				yield(nil, spillError(err))
				return
			}
			r := &runReader[T]{in: bufio.NewReaderSize(f, runBuffer), encoded: make([]byte, s.size), decode: s.decode}
			more, err := r.next()
			if err != nil {
				yield(nil, err)
				return
			}
			if more {
				m.heads = append(m.heads, r)
			}
		}
		heap.Init(m)
		for len(m.heads) > 0 {
			r := m.heads[0]
			if !yield(&r.item, nil) {
				return
			}
			more, err := r.next()
			if err != nil {
				yield(nil, err)
				return
			}
			if more {
				heap.Fix(m, 0)
			} else {
				heap.Pop(m)
			}
		}
	}
}

// close frees disk and memory.
func (s *spill[T]) close() error {
	err := closeAll(s.runs)
	s.runs, s.buffer = nil, nil
	return err
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
		if err := os.Remove(f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

type runReader[T any] struct {
	in      *bufio.Reader
	item    T
	encoded []byte
	decode  func([]byte, *T)
}

func (r *runReader[T]) next() (bool, error) {
	switch _, err := io.ReadFull(r.in, r.encoded); {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, spillError(err)
	}
	r.decode(r.encoded, &r.item)
	return true, nil
}

// merger is a heap of runs, the one with the least item on top.
type merger[T any] struct {
	heads   []*runReader[T]
	compare func(a, b T) int
}

func (m *merger[T]) Len() int           { return len(m.heads) }
func (m *merger[T]) Less(i, j int) bool { return m.compare(m.heads[i].item, m.heads[j].item) < 0 }
func (m *merger[T]) Swap(i, j int)      { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merger[T]) Push(x any)         { m.heads = append(m.heads, x.(*runReader[T])) }
func (m *merger[T]) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}
