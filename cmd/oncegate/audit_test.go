package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/internal/audit"
)

// auditRun is what a run of the command left.
type auditRun struct {
	code           int
	stdout, stderr string
}

func runAuditWith(t *testing.T, args ...string) auditRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := runAudit(ctx, args, &stdout, &stderr)
	return auditRun{code, stdout.String(), stderr.String()}
}

// auditedCluster has a topic "orders" whose producer sent a record twice, and a
// topic "clean".
func auditedCluster(t *testing.T) (brokers string) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "clean"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cluster.Close()
		goleak.VerifyNone(t)
	})
	plain, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for i, v := range []string{"a", "b", "a", "c"} {
		r := &kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: []byte(v), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000),
			Headers: []kgo.RecordHeader{{Key: "order", Value: []byte(v)}}}
		if err := plain.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	idempotent, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer idempotent.Close()
	for i := range 10 {
		if err := idempotent.ProduceSync(context.Background(), &kgo.Record{Topic: "clean", Value: []byte{byte(i)}}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return cluster.ListenAddrs()[0]
}

func TestAuditCommand(t *testing.T) {
	brokers := auditedCluster(t)
	cases := []struct {
		name string
		args []string
		code int
		want []string // in stdout
	}{
		{"clean", []string{"--topic", "clean"}, 0, []string{"topic clean: records: 10", "duplicate by sequence      0        0", "gap      0        0"}},
		{"by content", []string{"--topic", "orders", "--by", "content"}, 1, []string{"duplicate by content      1        1", "0/1  first at 0/0"}},
		{"by key", []string{"--topic", "orders", "--key-header", "order"}, 1, []string{"duplicate by key      1        1", "they are checked by the other means only"}},
		{"sequences say nothing", []string{"--topic", "orders"}, 0, []string{"records without a sequence: 4", "look for their duplicates by content or by key"}},
		{"a partition without", []string{"--topic", "orders", "--by", "content", "--partitions", "1"}, 0, []string{"records: 2, batches: 2"}},
		{"a range without", []string{"--topic", "orders", "--by", "content", "--from", "1"}, 0, []string{"records: 2"}},
		{"a time without", []string{"--topic", "orders", "--by", "content", "--since", "2023-11-14T22:13:22Z"}, 0, []string{"records: 2"}},
		{"far apart", []string{"--topic", "orders", "--by", "content", "--window", "1s"}, 0, []string{"duplicate by content      0        0"}},
		{"duplicates don't matter", []string{"--topic", "orders", "--by", "content", "--fail-on", "gap,order"}, 0, []string{"duplicate by content      1"}},
		{"nothing matters", []string{"--topic", "orders", "--by", "content", "--fail-on", "none", "--show", "0"}, 0, []string{"duplicate by content      1"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			run := runAuditWith(t, append([]string{"--brokers", brokers}, c.args...)...)
			if run.code != c.code {
				t.Errorf("the exit code is %d, not %d: %s", run.code, c.code, run.stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(run.stdout, want) {
					t.Errorf("%q isn't in\n%s", want, run.stdout)
				}
			}
			if run.stderr != "" {
				t.Errorf("stderr: %s", run.stderr)
			}
		})
	}
	t.Run("json, brokers from the environment", func(t *testing.T) {
		t.Setenv("UPSTREAM_BROKERS", brokers)
		run := runAuditWith(t, "--topic", "orders", "--by", "sequence,content", "--json")
		var r audit.Result
		if err := json.Unmarshal([]byte(run.stdout), &r); err != nil {
			t.Fatal(err)
		}
		if run.code != 1 || r.Records != 4 || r.Counts[audit.DuplicateByContent].Found != 1 || r.Findings[0].Offset != 1 || len(r.Ranges) != 2 {
			t.Errorf("exit code %d, result\n%s", run.code, run.stdout)
		}
		if !strings.Contains(run.stdout, `"duplicate_by_content": {`) {
			t.Errorf("the names in JSON changed:\n%s", run.stdout)
		}
	})
}

// What can't run says why, and what to do.
func TestAuditCommandErrors(t *testing.T) {
	brokers := auditedCluster(t)
	at := []string{"--brokers", brokers, "--topic", "orders"}
	cases := []struct {
		args []string
		want string
	}{
		{nil, "--brokers is missing"},
		{nil, "--topic is missing"},
		{[]string{"--brokers", "nonsense", "--topic", "t"}, "missing port"},
		{[]string{"--brokers", brokers, "--topic", "nope"}, `topic "nope" doesn't exist`},
		{[]string{"--brokers", "127.0.0.1:1", "--topic", "t"}, "none of 127.0.0.1:1 can be reached"},
		{append(at, "--partitions", "0,9"), "no partition 9; it has 0 to 1"},
		{append(at, "--partitions", "x"), `"x" is not a partition number`},
		{append(at, "--by", "magic"), `"magic" isn't sequence, content or key`},
		{append(at, "--by", "key"), "--by key needs --key-header"},
		{append(at, "--by", "content", "--key-header", "h"), "--by content,key"},
		{append(at, "--since", "yesterday"), "not a time such as"},
		{append(at, "--since", "1h", "--until", "2h"), "nothing lies between"},
		{append(at, "--from", "5", "--to", "5"), "nothing lies between"},
		{append(at, "--from", "-5"), "aren't negative"},
		{append(at, "--memory", "1KiB"), "too little"},
		{append(at, "--memory", "lots"), "is not a size"},
		{append(at, "--fail-on", "dups"), `"dups" isn't dup, gap, order or none`},
		{append(at, "json"), `"json" is no flag`},
		{append(at, "--no-such-flag"), "no-such-flag"},
	}
	for _, c := range cases {
		run := runAuditWith(t, c.args...)
		if run.code != 2 || !strings.Contains(run.stderr, c.want) || run.stdout != "" {
			t.Errorf("%v: exit code %d, stderr %q should contain %q", c.args, run.code, run.stderr, c.want)
		}
	}
	if run := runAuditWith(t, "-h"); run.code != 0 || !strings.Contains(run.stderr, "Exit code 0") || !strings.Contains(run.stderr, "-fail-on") {
		t.Errorf("-h: exit code %d, %s", run.code, run.stderr)
	}
}

func TestAuditIsCancelled(t *testing.T) {
	brokers := auditedCluster(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := runAudit(ctx, []string{"--brokers", brokers, "--topic", "orders"}, &stdout, &stderr); code != 2 {
		t.Errorf("the exit code is %d, stderr %s", code, &stderr)
	}
}

// Offsets that compaction took away count as read.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, 200)
	p.every = 0
	p.read(&audit.Batch{Partition: 0, BaseOffset: 100, LastOffset: 149})
	p.read(&audit.Batch{Partition: 1, BaseOffset: 0, LastOffset: 9})
	p.read(&audit.Batch{Partition: 0, BaseOffset: 180, LastOffset: 189})
	p.comparing()
	p.end()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], " 25%  50 of 200") && !strings.HasPrefix(lines[0], "25%  50 of 200") || !strings.HasPrefix(lines[2], " 50%  100 of 200 offsets") {
		t.Errorf("progress is\n%s", &out)
	}
	out.Reset()
	p.terminal = true
	p.read(&audit.Batch{Partition: 1, BaseOffset: 10, LastOffset: 109})
	if got := out.String(); !strings.HasPrefix(got, "\r[##############################] 100%  200 of 200") {
		t.Errorf("the bar is %q", got)
	}
}

// A topic under retention is audited from where it starts.
func TestAuditAfterRetention(t *testing.T) {
	brokers := auditedCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offsets := kadm.Offsets{}
	for p := range int32(2) {
		offsets.Add(kadm.Offset{Topic: "clean", Partition: p, At: -1})
	}
	if _, err := kadm.NewClient(client).DeleteRecords(context.Background(), offsets); err != nil {
		t.Fatal(err)
	}
	run := runAuditWith(t, "--brokers", brokers, "--topic", "clean")
	if run.code != 0 || !strings.Contains(run.stdout, "topic clean: records: 0") {
		t.Errorf("exit code %d\n%s%s", run.code, run.stdout, run.stderr)
	}
}
