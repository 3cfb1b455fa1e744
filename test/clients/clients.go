// Package clients runs small producers written with client libraries of other
// languages. What they need is installed once for a user, by the language's own
// package manager, into the cache folder.
package clients

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/oncegate/oncegate/test/kafka"
)

//go:embed librdkafka kafkajs
var sources embed.FS

// Library is a client library with a program.
type Library struct {
	Name    string
	install []string // in the program's folder
	run     []string
}

// The libraries.
var (
	Librdkafka = Library{"librdkafka", []string{"sh", "-c", "python3 -m venv venv && venv/bin/pip install -q -r requirements.txt"}, []string{"venv/bin/python", "produce.py"}}
	KafkaJS    = Library{"kafkajs", []string{"npm", "install", "--silent", "--no-audit", "--no-fund"}, []string{"node", "produce.js"}}
)

// Tool is the command that the library can't do without.
func (l Library) Tool() string {
	if l.Name == "kafkajs" {
		return "npm"
	}
	return "python3"
}

// Answer is what a program says of one record.
type Answer struct {
	Seq       int64
	Partition int32
	Offset    int64
	Err       error
}

// Produce runs the program and calls on for each answer, in order.
func (l Library) Produce(ctx context.Context, on func(Answer), args ...string) error {
	dir, err := l.installed()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, l.run[0], append(l.run[1:], args...)...)
	if strings.Contains(l.run[0], "/") {
		cmd.Path = filepath.Join(dir, l.run[0])
	}
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		a := Answer{Offset: -1}
		if _, err := fmt.Sscanf(lines.Text(), "ack %d %d %d", &a.Seq, &a.Partition, &a.Offset); err == nil {
			on(a)
		} else if _, err := fmt.Sscanf(lines.Text(), "error %d", &a.Seq); err == nil {
			a.Err = fmt.Errorf("%s", lines.Text())
			on(a)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", l.Name, err, stderr.String())
	}
	return nil
}

// installed returns the folder of the program with all it needs.
func (l Library) installed() (string, error) {
	sum := sha256.New()
	files, err := fs.ReadDir(sources, l.Name)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		text, err := sources.ReadFile(l.Name + "/" + f.Name())
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", f.Name(), len(text), text)
	}
	return kafka.Cached(fmt.Sprintf("%s-%.8x", l.Name, sum.Sum(nil)), func(dir string) error {
		for _, f := range files {
			text, err := sources.ReadFile(l.Name + "/" + f.Name())
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, f.Name()), text, 0o644); err != nil {
				return err
			}
		}
		cmd := exec.Command(l.install[0], l.install[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("installing %s: %w\n%s", l.Name, err, out)
		}
		return nil
	})
}
