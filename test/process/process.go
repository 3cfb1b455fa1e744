// Package process runs programs that tests kill, pause and start again, and
// that never outlive the test binary.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running program, or one that has ended.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // then: how
}

// Start starts a command that hasn't been started.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = dieWithParent()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// The thread must live as long as the process: see dieWithParent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	return p, <-started
}

// Signal sends a signal. A process that has ended takes none.
func (p *Process) Signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// Kill ends the process at once (SIGKILL) and waits.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Terminate asks the process to end (SIGTERM), waits for it as long as
// patience lasts, and says whether it has ended. A paused process is resumed.
func (p *Process) Terminate(patience time.Duration) bool {
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
		return true
	case <-time.After(patience):
		return false
	}
}

// Running says whether the process exists; a paused one does.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err says how a process has ended; nil: with exit code 0, or not yet.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.err
}
