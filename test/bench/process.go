package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/test/bench/load"
	"github.com/oncegate/oncegate/test/process"
)

// program is a running process that is measured from the outside.
type program struct {
	*process.Process
	pid int
	log string // file
}

// run starts a command, on the given CPUs if any are named.
func run(cmd *exec.Cmd, cpus string) (*program, error) {
	if cpus != "" {
		taskset, err := exec.LookPath("taskset")
		if err != nil {
			return nil, fmt.Errorf("pinning needs taskset: %w", err)
		}
		cmd.Path, cmd.Args = taskset, append([]string{"taskset", "-c", cpus, cmd.Path}, cmd.Args[1:]...)
	}
	log, err := os.CreateTemp("", "oncegate-bench-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	if err != nil {
		os.Remove(log.Name())
		return nil, err
	}
	return &program{Process: p, pid: cmd.Process.Pid, log: log.Name()}, nil
}

// end kills the process.
func (p *program) end() {
	p.Kill()
	os.Remove(p.log)
}

// ready waits until the program leads a client to the topic.
func (p *program) ready(addr, topic string) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := load.Leader(addr, topic)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || !p.Running() {
			return fmt.Errorf("it does not become ready: %w%s", err, p.said())
		}
	}
}

// said is the end of what the program has printed, on lines of its own.
func (p *program) said() string {
	if p == nil {
		return ""
	}
	log, _ := os.ReadFile(p.log)
	return "\n" + string(bytes.TrimSpace(log[max(0, len(log)-2000):]))
}

// clockTick is the unit of /proc/PID/stat, the same on all of Linux.
const clockTick = 10 * time.Millisecond

// cpu is the processor time used, user and system.
func (p *program) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * clockTick
}

// resident is the memory in use in bytes, now and at most since the last
// resetPeak.
func (p *program) resident() (now, peak int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	return now, peak
}

// resetPeak makes the kernel count the peak anew.
func (p *program) resetPeak() {
	os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0)
}

// ownCPU is what this process, the load, has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpusOf says which CPUs a process may run on.
func cpusOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return "unknown"
}
