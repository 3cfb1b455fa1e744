package kafka

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
)

// lockThread keeps a goroutine on its thread for as long as it lives.
func lockThread() { runtime.LockOSThread() }

// ports hands out TCP ports below the range that the kernel takes for outgoing
// connections, so that a broker that is down does not lose its port.
var ports struct {
	sync.Mutex
	next int
}

// freePorts returns n ports that nothing listens on, neither on loopback's
// usual address nor on FaultyHost.
func freePorts(n int) (free []int, err error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		// Test binaries run side by side; each starts looking elsewhere.
		ports.next = 20000 + os.Getpid()*97%11000
	}
	for ; len(free) < n && ports.next < 32000; ports.next++ {
		if isFree("127.0.0.1", ports.next) && isFree(FaultyHost, ports.next) {
			free = append(free, ports.next)
		}
	}
	if len(free) < n {
		return nil, fmt.Errorf("no %d free TCP ports between 20000 and 32000", n)
	}
	return free, nil
}

// FreePorts returns n consecutive TCP ports that nothing listens on.
func FreePorts(n int) (first int, err error) {
	for range 100 {
		all, err := freePorts(n)
		if err != nil {
			return 0, err
		}
		if all[n-1]-all[0] == n-1 {
			return all[0], nil
		}
	}
	return 0, fmt.Errorf("no %d consecutive free TCP ports", n)
}

func isFree(host string, port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
