package process

import "syscall"

// dieWithParent has the kernel end a child when the thread that started it
// ends: no process outlives a test binary that panics or is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
