package kafka

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Broker is one broker of a cluster. It keeps its ports and its data over
// restarts.
type Broker struct {
	ID         int32
	Port       int // of the listener that is advertised as it is
	FaultyPort int // of the listener that is advertised at FaultyHost

	controllerPort int
	jars, dir      string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// clusterID is any: each cluster has ports of its own.
const clusterID = "b25jZWdhdGUtdGVzdHMhIQ"

func (b *Broker) writeConfig(voters string, brokers int, extra map[string]string) error {
	replicas := fmt.Sprint(min(3, brokers))
	isr := fmt.Sprint(max(1, min(3, brokers)-1))
	lines := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          fmt.Sprint(b.ID),
		"controller.quorum.voters":                         voters,
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       "DIRECT",
		"listeners":                                        fmt.Sprintf("DIRECT://127.0.0.1:%d,FAULTY://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", b.Port, b.FaultyPort, b.controllerPort),
		"advertised.listeners":                             fmt.Sprintf("DIRECT://127.0.0.1:%d,FAULTY://%s:%d", b.Port, FaultyHost, b.FaultyPort),
		"listener.security.protocol.map":                   "DIRECT:PLAINTEXT,FAULTY:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                                         filepath.Join(b.dir, "data"),
		"num.network.threads":                              "2",
		"num.io.threads":                                   "4",
		"auto.create.topics.enable":                        "false",
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              isr,
		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    isr,
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            isr,
		"share.coordinator.state.topic.num.partitions":     "1",
		"group.initial.rebalance.delay.ms":                 "0",
		"controlled.shutdown.enable":                       "true",
		// A killed broker has to be noticed within a test's patience.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
		"replica.lag.time.max.ms":      "5000",
	}
	maps.Copy(lines, extra)
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%s=%s\n", k, lines[k])
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "log4j2.properties"), []byte(log4j), 0o644); err != nil {
		return err
	}
	return os.WriteFile(b.properties(), []byte(text.String()), 0o644)
}

const log4j = `rootLogger.level=WARN
rootLogger.appenderRefs=out
rootLogger.appenderRef.out.ref=out
appenders=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss,SSS} %p %m (%c{1})%n%throwable{5}
`

func (b *Broker) properties() string { return filepath.Join(b.dir, "server.properties") }

func (b *Broker) java(mainClass string, args ...string) *exec.Cmd {
	flags := []string{
		"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true",
		"-Dlog4j2.configurationFile=" + filepath.Join(b.dir, "log4j2.properties"),
		"-cp", filepath.Join(b.jars, "*"), mainClass,
	}
	cmd := exec.Command("java", append(flags, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (b *Broker) format() error {
	out, err := b.java("kafka.tools.StorageTool", "format", "-t", clusterID, "-c", b.properties()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("formatting broker %d: %w\n%s", b.ID, err, out)
	}
	return nil
}

func (b *Broker) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := b.java("kafka.Kafka", b.properties())
	cmd.Stdout, cmd.Stderr = log, log
	// The kernel ends a child when the thread that made it ends.
	started := make(chan error)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lockThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	b.cmd, b.done = cmd, done
	return nil
}

// Start runs a broker that was stopped or killed, and returns once it accepts
// connections.
func (b *Broker) Start() error {
	if err := b.start(); err != nil {
		return err
	}
	for range 600 {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", b.Port), time.Second)
		if err == nil {
			conn.Close()
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("broker %d does not listen\n%s", b.ID, b.logTail())
}

// Stop shuts the broker down in order and waits.
func (b *Broker) Stop() { b.end(syscall.SIGTERM) }

// Kill ends the broker at once (SIGKILL) and waits.
func (b *Broker) Kill() { b.end(syscall.SIGKILL) }

// Pause stops the broker where it is (SIGSTOP); Resume lets it go on.
func (b *Broker) Pause() { b.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (b *Broker) Resume() { b.signal(syscall.SIGCONT) }

func (b *Broker) signal(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd != nil {
		b.cmd.Process.Signal(s)
	}
}

func (b *Broker) end(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil {
		return
	}
	b.cmd.Process.Signal(s)
	select {
	case <-b.done:
	case <-time.After(30 * time.Second):
		b.cmd.Process.Kill()
		<-b.done
	}
	b.cmd = nil
}

func (b *Broker) logTail() string {
	f, err := os.Open(filepath.Join(b.dir, "log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const tail = 3000
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		f.Seek(-tail, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}
