package kafka

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Available says what is missing on this machine for running Kafka.
func Available() error {
	errs := []error{Tool("java"), Tool("mvn")}
	if l, err := net.Listen("tcp", FaultyHost+":0"); err != nil {
		errs = append(errs, fmt.Errorf("no loopback address %s (macOS: sudo ifconfig lo0 alias %s): %w", FaultyHost, FaultyHost, err))
	} else {
		l.Close()
	}
	return errors.Join(errs...)
}

// Tool returns an error that says so when a program isn't installed.
func Tool(name string) error {
	_, err := exec.LookPath(name)
	return err
}

// Require ends the test where real Kafka can't run; see RequireTools.
func Require(tb testing.TB) {
	tb.Helper()
	RequireTools(tb, Available())
}

// RequireTools ends the test when something is missing. With CI=true that is a
// failure. On a laptop it is a skip that is hard to miss: a line on standard
// error, and one in the file that NOT_RUN_FILE names, because go test doesn't
// show the output of packages that pass.
func RequireTools(tb testing.TB, missing error) {
	tb.Helper()
	if missing == nil {
		return
	}
	message := fmt.Sprintf("NOT RUN: %s: %v", tb.Name(), missing)
	if os.Getenv("CI") == "true" {
		tb.Fatal(message)
	}
	noteNotRun(message)
	tb.Skip(message)
}

var notRun struct {
	sync.Mutex
	tests int
}

func noteNotRun(message string) {
	notRun.Lock()
	defer notRun.Unlock()
	notRun.tests++
	fmt.Fprintf(os.Stderr, "\n*** %s\n\n", message)
	path := os.Getenv("NOT_RUN_FILE")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, message)
		f.Close()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "*** NOT_RUN_FILE: %v\n", err)
	}
}

// Main is what a package's TestMain calls and passes on to os.Exit: it runs the
// tests, ends the clusters that they shared, and says how many were not run.
func Main(m *testing.M) int {
	code := m.Run()
	closeShared()
	if notRun.tests > 0 {
		fmt.Fprintf(os.Stderr, "\n*** %d tests were NOT RUN, for want of the programs named above.\n\n", notRun.tests)
	}
	return code
}
