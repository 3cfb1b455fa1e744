package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/audit"
)

// The exit codes of oncegate audit.
const (
	auditClean  = 0
	auditFound  = 1
	auditFailed = 2 // it could not run, or not to the end
)

// runAudit looks for duplicates, gaps and reordering in a topic.
func runAudit(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, err := parseAuditFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return auditClean
	}
	if err != nil {
		fmt.Fprintf(stderr, "oncegate audit: %v\n'oncegate audit -h' tells the flags\n", err)
		return auditFailed
	}
	result, err := auditTopic(ctx, f, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "oncegate audit: %v\n", err)
		return auditFailed
	}
	if f.json {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		if err := out.Encode(result); err != nil {
			fmt.Fprintf(stderr, "oncegate audit: %v\n", err)
			return auditFailed
		}
	} else {
		fmt.Fprint(stdout, result)
	}
	for kind := range f.failOn {
		if result.Found(kind) > 0 {
			return auditFound
		}
	}
	return auditClean
}

func auditTopic(ctx context.Context, f *auditFlags, stderr io.Writer) (*audit.Result, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(f.brokers...),
		kgo.ClientID("oncegate-audit"),
		kgo.DialTimeout(5*time.Second),
		kgo.RequestRetries(3),
		kgo.RetryTimeout(15*time.Second),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topic, err := audit.OpenTopic(ctx, client, f.topic, f.selection)
	if err != nil {
		return nil, withBrokers(err, f)
	}
	auditor, err := audit.NewAuditor(topic, f.options)
	if err != nil {
		return nil, err
	}
	defer auditor.Close()

	// The collector would let the heap grow to twice what is alive, sorting
	// buffers included.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(f.options.Memory + f.options.Memory/4 + auditOverhead))

	p := newProgress(stderr, topic.Total())
	defer p.end()
	for b, err := range topic.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		if err := auditor.Add(b); err != nil {
			return nil, err
		}
		p.read(b)
	}
	p.comparing()
	return auditor.Result()
}

// auditOverhead is what reading takes besides the checks: answers of brokers,
// decompressors, the program itself. With less, the collector would run all the
// time.
const auditOverhead = 64 << 20

// withBrokers says which brokers were asked when none could be reached.
func withBrokers(err error, f *auditFlags) error {
	if strings.Contains(err.Error(), "dial") {
		return fmt.Errorf("none of %s can be reached: %w", strings.Join(f.brokers, ", "), err)
	}
	return err
}
