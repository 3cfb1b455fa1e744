// Command dockerlint checks a Dockerfile with the linter of BuildKit, without
// a daemon and without asking a registry. Findings are printed and make it
// fail.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/subrequests/lint"
	"github.com/opencontainers/go-digest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dockerlint DOCKERFILE")
		os.Exit(2)
	}
	clean, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "dockerlint: %v\n", err)
	}
	if err != nil || !clean {
		os.Exit(1)
	}
}

func check(path string) (clean bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	source := llb.NewSourceMap(nil, path, "Dockerfile", text)
	source.Definition = new(llb.Definition)
	results, err := dockerfile2llb.DockerfileLint(context.Background(), text, dockerfile2llb.ConvertOpt{
		SourceMap:    source,
		MetaResolver: anyImage{},
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
	if results.Error != nil {
		return false, fmt.Errorf("%s: %s", path, results.Error.Message)
	}
	return len(results.Warnings) == 0, nil
}

// anyImage takes every base image for one without settings: what the linter
// checks is in the Dockerfile.
type anyImage struct{}

func (anyImage) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := []byte(`{"os":"linux","architecture":"amd64","rootfs":{"type":"layers"}}`)
	return ref, digest.FromBytes(config), config, nil
}
