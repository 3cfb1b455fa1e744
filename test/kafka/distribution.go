package kafka

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The Kafka versions that tests run on: the oldest and the newest of the 4
// line that Maven serves.
const (
	V40 = "4.0.2"
	V44 = "4.4.0"
)

//go:embed pom.xml
var pom []byte

// distribution is one Kafka version on this machine.
type distribution struct {
	jars    string // the folder
	archive string // classes that JVMs map instead of parsing them; empty: none
}

// install fetches a version, or finds it in the cache.
func install(version string) (d distribution, err error) {
	name := fmt.Sprintf("kafka/%s-%.4x", version, sha256.Sum256(pom))
	d.jars, err = Cached(name, func(dir string) error { return fetch(version, dir) })
	if err != nil {
		return d, err
	}
	// Class data sharing halves the time that a broker takes to start. Its
	// archive names the jars by their paths, so it is made after them.
	classes, err := Cached(name+"-classes", func(dir string) error { return d.archiveClasses(filepath.Join(dir, "jsa")) })
	d.archive = filepath.Join(classes, "jsa")
	return d, err
}

func fetch(version, dir string) error {
	build, err := os.MkdirTemp("", "oncegate-maven-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(build)
	if err := os.WriteFile(filepath.Join(build, "pom.xml"), pom, 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-Dkafka.version="+version, "-DoutputDirectory="+dir)
	cmd.Dir = build
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetching Kafka %s through Maven: %w\n%s", version, err, out)
	}
	return nil
}

// archiveClasses runs a broker for a moment and keeps the classes that it
// loaded.
func (d distribution) archiveClasses(file string) error {
	c, err := prepare(Options{Brokers: 1}, d)
	if err != nil {
		return err
	}
	defer c.Close()
	b := c.Broker(1)
	b.flags = append(b.flags, "-XX:ArchiveClassesAtExit="+file)
	if err := c.run(); err != nil {
		return err
	}
	if err := b.Stop(); err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("the JVM made no class archive: %w\n%s", err, b.logSince(0))
	}
	return nil
}

// flags are for any JVM that runs Kafka's classes: small, and quick to start.
func (d distribution) javaFlags() []string {
	flags := []string{"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"}
	if d.archive != "" {
		// An archive that another JVM made is passed over without a word.
		flags = append(flags, "-XX:SharedArchiveFile="+d.archive, "-Xshare:auto", "-Xlog:disable")
	}
	return append(flags, "-cp", filepath.Join(d.jars, "*"))
}
