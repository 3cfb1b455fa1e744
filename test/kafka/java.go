package kafka

import (
	"context"
	"os/exec"
)

// JavaSource returns a command that runs a single-file Java program with
// Kafka's jars on its class path.
func JavaSource(ctx context.Context, file string, args ...string) (*exec.Cmd, error) {
	d, err := install(V44)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, "java", append(append(d.javaFlags(), file), args...)...), nil
}
