package main

import (
	"strings"
	"testing"
)

func TestInjectFlags(t *testing.T) {
	own := []string{"--sidecar=s", "--secret=a", "--webhooks=a", "--service=a"}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":              {[]string{"-h"}, 0, "-sidecar file"},
		"none":              {nil, 2, "--sidecar is missing"},
		"no certificates":   {[]string{"--sidecar=s"}, 2, "either --certificates, or --secret, --webhooks and --service are needed"},
		"two certificates":  {append([]string{"--certificates=c"}, own...), 2, "exclude each other"},
		"unknown":           {[]string{"--sidecars=s"}, 2, "not defined: -sidecars"},
		"no flag":           {append(own, "now"), 2, `"now" is not a flag`},
		"ends at once":      {append(own, "--validity=1ms"), 2, "too short"},
		"no template":       {[]string{"--sidecar=/nowhere", "--certificates=c"}, 1, "/nowhere: no such file"},
		"not in a cluster":  {[]string{"--sidecar=../../internal/inject/testdata/sidecar.json", "--secret=a", "--webhooks=a", "--service=a"}, 1, "only inside a cluster"},
		"template no JSON":  {[]string{"--sidecar=inject.go", "--certificates=c"}, 1, "inject.go"},
		"address not to be": {[]string{"--sidecar=../../internal/inject/testdata/sidecar.json", "--certificates=c", "--listen=nowhere.invalid:1"}, 1, "nowhere.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			var stdout, stderr strings.Builder
			code := runInject(t.Context(), c.args, &stdout, &stderr)
			if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.says) {
				t.Errorf("code %d\n%s%s", code, stdout.String(), stderr.String())
			}
		})
	}
}
