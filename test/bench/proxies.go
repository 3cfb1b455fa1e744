package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

var pids atomic.Int64

func nextPID() int64 { return 1000 + pids.Add(1) }

// runProxy is a reference: a proxy with one goroutine each way.
func runProxy(addr, target string, pass func(dst, src net.Conn) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", target)
			if err != nil {
				return
			}
			defer server.Close()
			var both sync.WaitGroup
			both.Go(func() { pass(client, server); client.Close() })
			pass(server, client)
			server.Close()
			both.Wait()
		}()
	}
}

// copyBytes is io.Copy, which splices.
func copyBytes(dst, src net.Conn) error {
	_, err := io.Copy(dst, src)
	return err
}

// copyFrames is the bare frame proxy that Oncegate is measured against: it
// reads a frame through a buffer of 64 KiB, and writes it on.
func copyFrames(dst, src net.Conn) error {
	buf := make([]byte, 64<<10)
	r, w := 0, 0
	for {
		for w-r < 4 {
			if r > 0 {
				w = copy(buf, buf[r:w])
				r = 0
			}
			n, err := src.Read(buf[w:])
			if err != nil {
				return err
			}
			w += n
		}
		n := 4 + int(binary.BigEndian.Uint32(buf[r:]))
		if r+n > len(buf) {
			if n > len(buf) {
				grown := make([]byte, n)
				w = copy(grown, buf[r:w])
				buf = grown
			} else {
				w = copy(buf, buf[r:w])
			}
			r = 0
		}
		for w-r < n {
			m, err := src.Read(buf[w:])
			if err != nil {
				return err
			}
			w += m
		}
		if _, err := dst.Write(buf[r : r+n]); err != nil {
			return err
		}
		r += n
		if r == w {
			r, w = 0, 0
		}
	}
}
