package kafka

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports lie below the range that kernels take for outgoing connections, so that
// a broker that is down keeps its port. They are handed out in blocks, since
// test binaries run side by side: whoever listens on a block's first port owns
// the block.
const (
	lowestPort = 20000
	blockSize  = 50
	blocks     = 240
)

var ports struct {
	sync.Mutex
	next, end int
	owned     []net.Listener // held until the process ends
}

// FreePorts returns the first of n consecutive TCP ports of 127.0.0.1 and
// FaultyHost that nothing listens on. No other test is given them while this
// process lives. n is at most 49.
func FreePorts(n int) (first int, err error) {
	ports.Lock()
	defer ports.Unlock()
	for free := 0; ; {
		if ports.next == ports.end {
			free = 0
			if err := ownBlock(); err != nil {
				return 0, err
			}
		}
		if isFree("127.0.0.1", ports.next) && isFree(FaultyHost, ports.next) {
			free++
		} else {
			free = 0
		}
		ports.next++
		if free == n {
			return ports.next - n, nil
		}
	}
}

func ownBlock() error {
	for _, block := range rand.Perm(blocks) {
		first := lowestPort + block*blockSize
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
		if err != nil {
			continue
		}
		ports.owned = append(ports.owned, l)
		ports.next, ports.end = first+1, first+blockSize
		return nil
	}
	return fmt.Errorf("no free block of TCP ports from %d to %d", lowestPort, lowestPort+blocks*blockSize-1)
}

func isFree(host string, port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
