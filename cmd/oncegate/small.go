package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/wire"
)

// runConfig prints the settings as they would be used.
func runConfig(stdout, stderr io.Writer) int {
	cfg, warnings, err := config.Load(os.Environ())
	for _, w := range warnings {
		fmt.Fprintln(stderr, "oncegate:", w)
	}
	if err != nil {
		fmt.Fprintf(stderr, "oncegate: %v\n\n%s", err, config.Table())
		return 2
	}
	fmt.Fprint(stdout, cfg.Values())
	return 0
}

// runCheck asks the Oncegate of this environment whether it is ready; for
// probes that run a command.
func runCheck(ctx context.Context, stdout, stderr io.Writer) int {
	cfg, _, err := config.Load(append(os.Environ(), "UPSTREAM_BROKERS=unused:1"))
	if err != nil {
		fmt.Fprintf(stderr, "oncegate: %v\n", err)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := "http://" + string(cfg.AdminAddress) + "/readyz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		fmt.Fprintf(stderr, "oncegate: %v\n", err)
		return 2
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintf(stderr, "oncegate: no answer from ADMIN_ADDRESS=%s: %v\n", cfg.AdminAddress, err)
		return 1
	}
	defer r.Body.Close()
	io.Copy(stdout, io.LimitReader(r.Body, 4096))
	if r.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

// runProtocol prints what is done with each api key.
func runProtocol(stdout io.Writer) int {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tNAME\tOFFERED UP TO\tHANDLING\tADDRESSES")
	for _, k := range wire.Protocol() {
		limit := fmt.Sprint(k.Max)
		if k.Handling == "passed" {
			limit = "as upstream"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", k.Key, k.Name, limit, k.Handling, k.Addresses)
	}
	fmt.Fprintln(w, "other\t\tas upstream\tpassed\t")
	w.Flush()
	return 0
}
