// Package reference holds the least that proxies can do; Oncegate is measured
// against them.
package reference

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// Pass passes on what comes from src until that ends.
type Pass func(dst, src net.Conn) error

// Serve accepts connections and connects each to target, one goroutine each
// way. It returns when l is closed.
func Serve(l net.Listener, target string, pass Pass) error {
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", target)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer server.Close()
			var answers sync.WaitGroup
			answers.Go(func() {
				pass(client, server)
				client.Close()
			})
			pass(server, client)
			server.Close()
			answers.Wait()
		}()
	}
}

// Bytes copies with io.Copy, which splices on Linux.
func Bytes(dst, src net.Conn) error {
	_, err := io.Copy(dst, src)
	return err
}

const maxFrame = 256 << 20

// Frames is the bare frame proxy: it reads a frame through a buffer of 64 KiB,
// which grows to the largest frame, and writes it on.
func Frames(dst, src net.Conn) error {
	buf := make([]byte, 64<<10)
	r, w := 0, 0
	for {
		for w-r < 4 {
			if r > 0 {
				r, w = 0, copy(buf, buf[r:w])
			}
			n, err := src.Read(buf[w:])
			if err != nil {
				return err
			}
			w += n
		}
		size := 4 + int(binary.BigEndian.Uint32(buf[r:]))
		if size > maxFrame {
			return fmt.Errorf("a frame of %d bytes", size-4)
		}
		if r+size > len(buf) {
			to := buf
			if size > len(buf) {
				to = make([]byte, size)
			}
			r, w, buf = 0, copy(to, buf[r:w]), to
		}
		for w-r < size {
			n, err := src.Read(buf[w:])
			if err != nil {
				return err
			}
			w += n
		}
		if _, err := dst.Write(buf[r : r+size]); err != nil {
			return err
		}
		if r += size; r == w {
			r, w = 0, 0
		}
	}
}
