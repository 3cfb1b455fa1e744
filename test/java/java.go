// Package java runs small programs around Kafka's own Java client. They are
// built once for a user, by Maven, and found again in the cache folder.
package java

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/oncegate/oncegate/test/kafka"
)

// newest is the version of kafka-clients that the pom names.
const newest = "4.4.0"

// Program is a run of one of the programs; src/main/java says what each does
// and takes.
type Program struct {
	Name    string            // produce, payments, transactions, fence or consume
	Version string            // of kafka-clients; empty: the newest
	Args    map[string]string // the program's, and properties of its Kafka client
}

// Event is a line that a program prints. A missing number is 0.
type Event struct {
	Event     string // ack, aborted, fenced, read or summary
	Client    string // and Seq: the record's name
	Seq       int64
	Partition int32
	Offset    int64
	Value     string // of a record that was read
	Error     string // why a record failed or a producer was fenced
	Acked     int64  // in a summary
	Failed    int64  // in a summary
}

// Run runs the program and calls on for each event, in order. It returns once
// the program has ended; when ctx ends, the program is killed.
func (p Program) Run(ctx context.Context, on func(Event)) error {
	version := p.Version
	if version == "" {
		version = newest
	}
	dir, err := build(version)
	if err != nil {
		return err
	}
	classes := filepath.Join(dir, "target", "classes") + string(os.PathListSeparator) + filepath.Join(dir, "jars", "*")
	args := []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", classes, "io.oncegate.test.Main", p.Name,
	}
	for _, name := range slices.Sorted(maps.Keys(p.Args)) {
		args = append(args, name+"="+p.Args[name])
	}
	cmd := exec.CommandContext(ctx, "java", args...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	bad := readEvents(bufio.NewScanner(out), on)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("java program %s: %w\n%s", p.Name, err, errors.Bytes())
	}
	return bad
}

func readEvents(lines *bufio.Scanner, on func(Event)) (first error) {
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if first == nil {
				first = fmt.Errorf("a Java program printed %q: %w", lines.Text(), err)
			}
			continue
		}
		on(e)
	}
	if first == nil {
		first = lines.Err()
	}
	return first
}

//go:embed pom.xml src
var sources embed.FS

// build compiles the programs against a version of kafka-clients, or finds
// them in the cache.
func build(version string) (string, error) {
	hash := sha256.New()
	err := eachSource(func(path string, text []byte) error {
		fmt.Fprintf(hash, "%s %d\n%s", path, len(text), text)
		return nil
	})
	if err != nil {
		return "", err
	}
	return kafka.Cached(fmt.Sprintf("java/%s-%.4x", version, hash.Sum(nil)), func(dir string) error {
		err := eachSource(func(path string, text []byte) error {
			to := filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			return os.WriteFile(to, text, 0o644)
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "compile", "dependency:copy-dependencies",
			"-DoutputDirectory="+filepath.Join(dir, "jars"), "-Dkafka-clients.version="+version)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building the Java programs through Maven: %w\n%s", err, out)
		}
		return nil
	})
}

func eachSource(do func(path string, text []byte) error) error {
	return fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		return do(path, text)
	})
}
