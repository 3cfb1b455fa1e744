package kafka

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
// error and one in the file that NOT_RUN_FILE names, if it names one; Main adds
// a summary.
func RequireTools(tb testing.TB, missing error) {
	tb.Helper()
	if missing == nil {
		return
	}
	message := fmt.Sprintf("NOT RUN: %s: %s", tb.Name(), strings.ReplaceAll(missing.Error(), "\n", "; "))
	if os.Getenv("CI") == "true" {
		tb.Fatal(message)
	}
	noteNotRun(message)
	tb.Skip(message)
}

var notRun struct {
	sync.Mutex
	tests int
	last  string
}

func noteNotRun(message string) {
	notRun.Lock()
	defer notRun.Unlock()
	notRun.tests++
	notRun.last = message
	fmt.Fprintf(os.Stderr, "\n*** %s\n\n", message)
	if path := os.Getenv("NOT_RUN_FILE"); path != "" {
		if err := appendLine(path, message); err != nil {
			fmt.Fprintf(os.Stderr, "*** NOT_RUN_FILE: %v\n", err)
		}
	}
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// Main is what a package's TestMain calls and passes on to os.Exit: it runs the
// tests, ends the clusters that they shared, and says how many were not run.
func Main(m *testing.M) int {
	code := m.Run()
	closeShared()
	if notRun.tests > 0 {
		summary := fmt.Sprintf("*** %s: %d tests were NOT RUN; the last one: %s", filepath.Base(os.Args[0]), notRun.tests, notRun.last)
		fmt.Fprintf(os.Stderr, "\n%s\n\n", summary)
		// go test swallows what packages print that pass. Where somebody sits at
		// a terminal, they are told all the same.
		appendLine("/dev/tty", summary)
	}
	return code
}
