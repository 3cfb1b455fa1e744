// Command dockerlint checks a Dockerfile with the linter of BuildKit, without
// a daemon. Findings are printed and make it fail.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/frontend/subrequests/lint"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dockerlint DOCKERFILE")
		os.Exit(2)
	}
	clean, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "dockerlint: %v\n", err)
		os.Exit(1)
	}
	if !clean {
		os.Exit(1)
	}
}

func check(path string) (clean bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	results, err := dockerfile2llb.DockerfileLint(context.Background(), text, dockerfile2llb.ConvertOpt{
		SourceMap: llb.NewSourceMap(nil, path, "Dockerfile", text),
		Client:    &dockerui.Client{Config: dockerui.Config{LinterConfig: &linter.Config{ExperimentalAll: true}}},
	})
	if err != nil {
		return false, err
	}
	found, err := json.Marshal(results)
	if err != nil {
		return false, err
	}
	if err := lint.PrintLintViolations(found, os.Stdout, nil); err != nil {
		return false, err
	}
	return len(results.Warnings) == 0 && results.Error == nil, nil
}
