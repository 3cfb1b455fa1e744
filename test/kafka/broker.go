package kafka

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/test/process"
)

// Broker is one process of a cluster. It keeps its ports and its data when it
// is started again.
type Broker struct {
	ID int32

	cluster *Cluster
	ports   map[string]int // by listener
	dir     string
	flags   []string // of the JVM

	mu  sync.Mutex
	run *process.Process // the last one
}

// Port is where a listener listens, on 127.0.0.1.
func (b *Broker) Port(listener string) int { return b.ports[listener] }

// Addr is where a listener is reached without a fault proxy.
func (b *Broker) Addr(listener string) string { return fmt.Sprintf("127.0.0.1:%d", b.ports[listener]) }

// Start runs a broker that was stopped or killed, and returns once it serves
// clients.
func (b *Broker) Start() error {
	if err := b.launch(); err != nil {
		return err
	}
	return b.cluster.await(time.Minute, b)
}

// Stop shuts the broker down in order (SIGTERM) and waits.
func (b *Broker) Stop() error {
	if p := b.last(); p != nil && !p.Terminate(30*time.Second) {
		p.Kill()
		return fmt.Errorf("%v did not end within 30 s of SIGTERM\n%s", b, b.logSince(0))
	}
	return nil
}

// Kill ends the broker at once (SIGKILL) and waits.
func (b *Broker) Kill() {
	if p := b.last(); p != nil {
		p.Kill()
	}
}

// Pause stops the broker where it is (SIGSTOP): its connections stay open.
func (b *Broker) Pause() { b.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (b *Broker) Resume() { b.signal(syscall.SIGCONT) }

// Running says whether the process exists; a paused one does.
func (b *Broker) Running() bool {
	p := b.last()
	return p != nil && p.Running()
}

func (b *Broker) String() string { return fmt.Sprintf("Kafka node %d", b.ID) }

func (b *Broker) last() *process.Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run
}

func (b *Broker) signal(s syscall.Signal) {
	if p := b.last(); p != nil {
		p.Signal(s)
	}
}

func (b *Broker) java(args ...string) *exec.Cmd {
	logging := "-Dlog4j2.configurationFile=" + filepath.Join(b.dir, "log4j2.properties")
	flags := append([]string{logging}, b.flags...)
	return exec.Command("java", append(flags, args...)...)
}

// format prepares the data folder.
func (b *Broker) format() error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "log4j2.properties"), []byte(log4j), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(b.config(), []byte(b.cluster.properties(b)), 0o644); err != nil {
		return err
	}
	out, err := b.java("kafka.tools.StorageTool", "format", "-t", clusterID, "-c", b.config()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("formatting the storage of %v: %w\n%s", b, err, out)
	}
	return nil
}

func (b *Broker) config() string { return filepath.Join(b.dir, "server.properties") }

// launch starts the process and doesn't wait for it.
func (b *Broker) launch() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := os.OpenFile(b.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := b.java("kafka.Kafka", b.config())
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	if err != nil {
		return fmt.Errorf("starting %v: %w", b, err)
	}
	b.run = p
	return nil
}

func (b *Broker) logFile() string { return filepath.Join(b.dir, "log") }

// logSince returns what was logged from a place of the log file on, at most the
// last few thousand bytes of it.
func (b *Broker) logSince(at int64) string {
	f, err := os.Open(b.logFile())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 4000
	from := max(at, b.logSize()-most)
	text, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (b *Broker) logSize() int64 {
	info, err := os.Stat(b.logFile())
	if err != nil {
		return 0
	}
	return info.Size()
}
