package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/inject"
)

const injectUsage = `oncegate inject is the admission webhook that puts Oncegate into pods. The Helm
chart runs it; docs/kubernetes.md tells how.

`

// runInject serves until ctx ends. It returns the exit code: 2 says that the
// flags are at fault.
func runInject(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseInjectFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "oncegate inject: %v\n", err)
		return 2
	}
	c.Log = newLogger(&config.Config{LogLevel: "info", LogFormat: "json"}, stderr)
	defer c.Log.Sync()
	if err := inject.Run(ctx, c); err != nil {
		c.Log.Error("stopped", zap.Error(err))
		return 1
	}
	return 0
}

func parseInjectFlags(args []string, stdout io.Writer) (c inject.Config, err error) {
	set := flag.NewFlagSet("oncegate inject", flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are returned
	set.StringVar(&c.Listen, "listen", ":8443", "the `address` host:port to serve HTTPS on")
	set.StringVar(&c.Sidecar, "sidecar", "", "the `file` with the sidecar's template, as the chart writes it")
	set.StringVar(&c.Certificates, "certificates", "", "the `folder` of tls.crt and tls.key, which another keeps; without it certificates are made")
	set.StringVar(&c.Secret, "secret", "", "the `name` of the Secret to keep certificates in")
	set.StringVar(&c.Webhooks, "webhooks", "", "the `name` of the MutatingWebhookConfiguration that has to trust them")
	set.StringVar(&c.Service, "service", "", "the `name` of the Service that they are for")
	set.DurationVar(&c.Validity, "validity", 90*24*time.Hour, "how long a certificate is valid")
	set.StringVar(&c.Account, "account", "/var/run/secrets/kubernetes.io/serviceaccount", "the `folder` of the service account")
	set.DurationVar(&c.Linger, "linger", 5*time.Second, "how long requests are answered after SIGTERM")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, injectUsage)
		set.SetOutput(stdout)
		set.PrintDefaults()
		return c, err
	case err != nil:
		return c, err
	case set.NArg() > 0:
		return c, fmt.Errorf("%q is not a flag", set.Arg(0))
	case c.Sidecar == "":
		return c, errors.New("--sidecar is missing")
	case c.Certificates == "" && (c.Secret == "" || c.Webhooks == "" || c.Service == ""):
		return c, errors.New("either --certificates, or --secret, --webhooks and --service are needed")
	case c.Certificates != "" && c.Secret != "":
		return c, errors.New("--certificates and --secret exclude each other")
	case c.Validity < time.Second:
		return c, fmt.Errorf("--validity=%s is too short", c.Validity)
	}
	return c, nil
}
