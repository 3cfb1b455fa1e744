// Package kafka runs real Apache Kafka clusters for tests: brokers are plain
// java processes on loopback, fetched through Maven and formatted for KRaft.
package kafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The Kafka versions that tests run on: the oldest and the newest of the 4
// line.
const (
	V40 = "4.0.2"
	V44 = "4.4.0"
)

//go:embed pom.xml
var pom []byte

var fetching sync.Mutex

// fetch returns a folder with the jars of a Kafka version. They are fetched
// once for a user, and found again in the cache folder.
func fetch(version string) (string, error) {
	fetching.Lock()
	defer fetching.Unlock()
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	jars := filepath.Join(cache, "kafka-"+version)
	if _, err := os.Stat(filepath.Join(jars, "complete")); err == nil {
		return jars, nil
	}
	build, err := os.MkdirTemp("", "oncegate-kafka-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(build)
	if err := os.WriteFile(filepath.Join(build, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-Dkafka.version="+version, "-DoutputDirectory="+jars)
	cmd.Dir = build
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("Kafka %s can't be fetched through Maven: %w\n%s", version, err, out)
	}
	return jars, os.WriteFile(filepath.Join(jars, "complete"), nil, 0o644)
}

// cacheDir is where fetched and built things stay: ONCEGATE_CACHE, or
// the user's cache folder.
func cacheDir() (string, error) {
	if dir := os.Getenv("ONCEGATE_CACHE"); dir != "" {
		return dir, os.MkdirAll(dir, 0o755)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "oncegate")
	return dir, os.MkdirAll(dir, 0o755)
}

// available says what is missing for running Kafka.
func available() error {
	var errs []error
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Require ends the test where real Kafka can't run. On a laptop without Java or
// Maven that is a loud skip; with CI=true it is a failure.
func Require(tb testing.TB) { RequireTools(tb, available()) }

// RequireTools is Require for any missing tool.
func RequireTools(tb testing.TB, missing error) {
	tb.Helper()
	if missing == nil {
		return
	}
	message := fmt.Sprintf("NOT RUN: %s: %v. Install it to have this tested.", tb.Name(), missing)
	if os.Getenv("CI") == "true" {
		tb.Fatal(message)
	}
	fmt.Fprintln(os.Stderr, "\n*** "+message+"\n")
	tb.Skip(message)
}

// JavaSource returns a command that runs a single-file Java program with
// Kafka's jars on its class path.
func JavaSource(ctx context.Context, file string, args ...string) (*exec.Cmd, error) {
	jars, err := fetch(V44)
	if err != nil {
		return nil, err
	}
	flags := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", filepath.Join(jars, "*"), file}
	return exec.CommandContext(ctx, "java", append(flags, args...)...), nil
}
