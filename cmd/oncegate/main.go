// Command oncegate adds idempotence in front of an existing Kafka cluster.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

const usage = `oncegate puts idempotence in front of a Kafka cluster.

  oncegate            serve; configured by environment variables
  oncegate config     the environment variables, and what they are set to
  oncegate check      ask a running oncegate whether it is ready
  oncegate demo       lose acknowledgements on purpose and show what is stored
  oncegate demo       lose acknowledgements on purpose and show what is stored
  oncegate audit      look for duplicates, gaps and reordering in a topic
  oncegate inject     the Kubernetes webhook that adds the sidecar to pods
  oncegate protocol   what is done with each Kafka api key
  oncegate version    the version and commit

oncegate COMMAND -h tells a command's flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return runServe(ctx, stderr)
	}
	switch args[0] {
	case "serve":
		return runServe(ctx, stderr)
	case "config":
		return runConfig(stdout, stderr)
	case "check":
		return runCheck(ctx, stdout, stderr)
	case "demo":
		return runDemo(ctx, args[1:], stdout, stderr)
	case "audit":
		return runAudit(ctx, args[1:], stdout, stderr)
	case "inject":
		return runInject(ctx, args[1:], stdout, stderr)
	case "protocol":
		return runProtocol(stdout)
	case "version", "--version":
		fmt.Fprintln(stdout, versionLine())
		return 0
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return 0
	}
	fmt.Fprintf(stderr, "oncegate: unknown command %q\n\n%s", args[0], usage)
	return 2
}

// version and commit are set by the linker in released builds.
var version, commit = "dev", ""

func versionLine() string {
	c := commit
	if info, ok := debug.ReadBuildInfo(); ok && c == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				c = s.Value
			}
		}
	}
	if c == "" {
		return "oncegate " + version
	}
	return fmt.Sprintf("oncegate %s (%.12s)", version, c)
}
