package kafka

import "syscall"

// dieWithParent has the kernel end a child when the thread that started it
// ends: no broker outlives a test binary that panics or is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
