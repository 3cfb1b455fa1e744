package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/test/bench/null"
	"github.com/oncegate/oncegate/test/kafka"
)

// subject is one way from the load to a broker.
type subject struct {
	name  string
	plain bool // its load sends no producer ids
	// rewrites: the load goes where the subject's metadata leads. Others pass
	// the broker's own address on, which would lead the load past them.
	rewrites bool
	dedups   bool
	start    func(b *bench, upstream string) (*program, string, error)

	proc *program // nil where nothing is in between
	addr string
}

// errMissing says that a program isn't installed.
type errMissing string

func (e errMissing) Error() string { return string(e) }

func allSubjects() []*subject {
	return []*subject{
		{name: "direct", start: func(_ *bench, upstream string) (*program, string, error) { return nil, upstream, nil }},
		{name: "iocopy", start: startReference("iocopy")},
		{name: "frame", start: startReference("frame")},
		{name: "track", rewrites: true, dedups: true, start: startNewOncegate},
		{name: "stamp", rewrites: true, dedups: true, plain: true, start: startNewOncegate},
		{name: "haproxy", start: startHAProxy},
		{name: "kafka-proxy", rewrites: true, start: startKafkaProxy},
	}
}

// choose returns the subjects with these names, separated by commas, in the
// order of the table.
func choose(all []*subject, names string) ([]*subject, error) {
	var chosen []*subject
	asked := strings.Split(names, ",")
	for _, s := range all {
		if slices.Contains(asked, s.name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) != len(asked) {
		return nil, fmt.Errorf("-subjects %s: not all are known, or one is named twice", names)
	}
	return chosen, nil
}

// startSubjects starts all that are installed.
func (b *bench) startSubjects(subjects []*subject, upstream string) error {
	for _, s := range subjects {
		var err error
		s.proc, s.addr, err = s.start(b, upstream)
		if missing, ok := err.(errMissing); ok {
			fmt.Fprintf(b.out, "%s is not measured: %s\n", s.name, missing)
			continue
		}
		if err == nil && s.proc != nil {
			b.programs = append(b.programs, s.proc)
			err = s.proc.ready(s.addr, null.Topic)
		}
		if err != nil {
			return fmt.Errorf("starting %s: %w", s.name, err)
		}
		b.subjects = append(b.subjects, s)
	}
	return nil
}

// self is this program, which is several of the processes.
func self(args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(exe, args...), nil
}

// startReference starts one of the reference proxies.
func startReference(name string) func(*bench, string) (*program, string, error) {
	return func(b *bench, upstream string) (*program, string, error) {
		addr, err := freeAddress(1)
		if err != nil {
			return nil, "", err
		}
		cmd, err := self(name, addr, upstream)
		if err != nil {
			return nil, "", err
		}
		p, err := run(cmd, b.cpus)
		return p, addr, err
	}
}

// freeAddress returns the first of n consecutive free ports.
func freeAddress(n int) (string, error) {
	port, err := kafka.FreePorts(n)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

func startNewOncegate(b *bench, upstream string) (*program, string, error) {
	if b.binary == "" {
		var err error
		if b.binary, err = b.buildOncegate("."); err != nil {
			return nil, "", err
		}
	}
	return startOncegate(b, b.binary, upstream)
}

// startOncegate starts a binary with default settings, but for addresses and
// how many connections it takes.
func startOncegate(b *bench, binary, upstream string) (*program, string, error) {
	first, err := kafka.FreePorts(4)
	if err != nil {
		return nil, "", err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", first)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "UPSTREAM_BROKERS="+upstream, "LISTEN_ADDRESS="+addr, "BROKER_LISTEN_COUNT=2",
		fmt.Sprintf("ADMIN_ADDRESS=127.0.0.1:%d", first+3), "STAMP=on", "MAX_CONNECTIONS=20000", "LOG_LEVEL=warn")
	p, err := run(cmd, b.cpus)
	return p, addr, err
}

// buildOncegate builds the tree in a folder.
func (b *bench) buildOncegate(tree string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "build-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "oncegate")
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/oncegate")
	cmd.Dir = tree
	if tree == "." {
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/oncegate/oncegate").Output()
		if err != nil {
			return "", fmt.Errorf("the module's folder: %w", err)
		}
		cmd.Dir = string(bytes.TrimSpace(root))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building oncegate: %w\n%s", err, out)
	}
	return binary, nil
}

// buildRevision builds a revision from git, without touching the work tree.
func (b *bench) buildRevision(revision string) (string, error) {
	tree := filepath.Join(b.dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return "", err
	}
	tar := filepath.Join(b.dir, "tree.tar")
	for _, cmd := range []*exec.Cmd{
		exec.Command("git", "archive", "-o", tar, revision),
		exec.Command("tar", "-xf", tar, "-C", tree),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("getting revision %s: %w\n%s", revision, err, out)
		}
	}
	return b.buildOncegate(tree)
}

func startHAProxy(b *bench, upstream string) (*program, string, error) {
	// Debian puts it where only root looks.
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		if binary, err = exec.LookPath("/usr/sbin/haproxy"); err != nil {
			return nil, "", errMissing("there is no haproxy (Debian package haproxy)")
		}
	}
	addr, err := freeAddress(1)
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(b.dir, "haproxy.cfg")
	config := fmt.Sprintf(`global
    maxconn 4000
defaults
    mode tcp
    timeout connect 10s
    timeout client 10m
    timeout server 10m
listen kafka
    bind %s
    server broker %s
`, addr, upstream)
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, "", err
	}
	p, err := run(exec.Command(binary, "-db", "-f", file), b.cpus)
	return p, addr, err
}

func startKafkaProxy(b *bench, upstream string) (*program, string, error) {
	binary, err := exec.LookPath("kafka-proxy")
	if err != nil {
		return nil, "", errMissing("there is no kafka-proxy in PATH (github.com/grepplabs/kafka-proxy, go build)")
	}
	addr, err := freeAddress(2)
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(binary, "server", "--bootstrap-server-mapping", upstream+","+addr, "--http-disable", "--log-level", "error")
	p, err := run(cmd, b.cpus)
	return p, addr, err
}
