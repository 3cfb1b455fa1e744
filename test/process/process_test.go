package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_CHILD") != "" {
		child()
	}
	goleak.VerifyTestMain(m)
}

// child is a test binary that starts a process and panics.
func child() {
	p, err := Start(exec.Command("sleep", "60"))
	if err != nil {
		panic(err)
	}
	fmt.Println(p.cmd.Process.Pid)
	panic("as a test may")
}

// No process outlives a test binary that panics.
func TestDiesWithParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has this")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCESS_TEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	for range 100 {
		// Until somebody has waited for it, a dead process is a zombie.
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Error("the process runs after its parent has panicked")
}

func TestEnds(t *testing.T) {
	start := func(script string) *Process {
		p, err := Start(exec.Command("sh", "-c", script))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	stubborn := start("trap '' TERM; while :; do sleep 0.01; done")
	time.Sleep(50 * time.Millisecond)
	if stubborn.Terminate(50*time.Millisecond) || !stubborn.Running() || stubborn.Err() != nil {
		t.Error("a process that ignores SIGTERM has ended")
	}
	stubborn.Kill()
	if stubborn.Running() || stubborn.Err() == nil {
		t.Errorf("after Kill: running %v, ended %v", stubborn.Running(), stubborn.Err())
	}

	paused := start("exec sleep 60")
	paused.Signal(syscall.SIGSTOP)
	if !paused.Running() {
		t.Error("a paused process doesn't run")
	}
	if !paused.Terminate(10 * time.Second) {
		t.Error("a paused process can't be terminated")
		paused.Kill()
	}

	if _, err := Start(exec.Command("no-such-program")); err == nil {
		t.Error("a program that isn't there was started")
	}
}
