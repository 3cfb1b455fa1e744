package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in docs/configuration.md")

const docs = "../../docs/configuration.md"

const (
	begin = "<!-- settings:begin -->\n"
	end   = "<!-- settings:end -->"
)

// The documentation is the code's own table.
func TestDocsAreTheCode(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(text), begin)
	table, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no markers %q and %q", docs, begin, end)
	}
	if *update {
		if err := os.WriteFile(docs, []byte(head+begin+Table()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != Table() {
		t.Errorf("%s differs from the code; rewrite it with go test ./internal/config -update", docs)
	}
}

// The README names only settings that exist, with their defaults.
func TestReadmeNamesSettings(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " `") || strings.ToUpper(cells[1]) != cells[1] {
			continue
		}
		rows++
		name := strings.Trim(cells[1], " `")
		if !isSetting(name) {
			t.Errorf("README names %s, which is no setting", name)
			continue
		}
		def := strings.TrimSpace(cells[2])
		for _, s := range settings {
			if want := s.field.Tag.Get("envDefault"); s.name == name && want != "" && def != "`"+want+"`" {
				t.Errorf("README gives %s the default %s, the code %s", name, def, want)
			}
		}
	}
	if rows == 0 {
		t.Error("README has no table of settings")
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, warnings, err := Load([]string{
		"LISTEN_ADDRESS=9092", "MAX_FRAME_BYTES=1TB", "DEDUP_IDLE=-1s", "LOG_LEVEL=loud", "RAISE_ACKS=yes",
		"BROKER_LISTEN_BASE=70000", "MAX_CONNECTIONS=0", "UPSTREAM_GIVEUP=3s", "UPSTREAM_PORT=tcp://10.0.0.1:80",
	})
	faults, ok := err.(Faults)
	if !ok {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		`LISTEN_ADDRESS="9092" can't be used: accepted is host:port`,
		`MAX_FRAME_BYTES="1TB" can't be used: accepted is a size from 1024 to 2147483647 bytes, also as KiB, MiB or GiB`,
		`DEDUP_IDLE="-1s" can't be used: accepted is a duration above zero`,
		`LOG_LEVEL="loud" can't be used: accepted is debug, info, warn or error`,
		`RAISE_ACKS="yes" can't be used: accepted is on or off`,
		`BROKER_LISTEN_BASE="70000" can't be used: accepted is a port from 1 to 65535`,
		`MAX_CONNECTIONS="0" can't be used: accepted is a number from 1 to 1000000`,
		`UPSTREAM_BROKERS is not set`,
	} {
		if !strings.Contains(faults.Error(), want) {
			t.Errorf("not said: %s\nin %v", want, faults)
		}
	}
	if len(faults) != 8 {
		t.Errorf("%d faults, want 8: %v", len(faults), faults)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "is UPSTREAM_GIVE_UP meant?") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestFaultsOfSettingsTogether(t *testing.T) {
	base := "UPSTREAM_BROKERS=a:1,b:2"
	for _, c := range []struct{ set, want string }{
		{"MEMORY_BUDGET_BYTES=1MiB", "less than MAX_FRAME_BYTES"},
		{"BROKER_LISTEN_BASE=65500", "reach past port 65535"},
		{"LISTEN_ADDRESS=127.0.0.1:9100", "lies within the brokers' ports"},
		{"LISTEN_ADDRESS=:9092", "set ADVERTISED_HOST"},
		{"LISTEN_ADDRESS=0.0.0.0:9092", "set ADVERTISED_HOST"},
		{"ADMIN_ADDRESS=127.0.0.1:9092", "are one port"},
		{"ADMIN_ADDRESS=localhost:9100", "ADMIN_ADDRESS=localhost:9100 lies within the brokers' ports 9093–9190"},
		{"LISTEN_ADDRESS=127.0.0.1:65535", "set BROKER_LISTEN_BASE"},
	} {
		if _, _, err := Load([]string{base, c.set}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.set, err)
		}
	}
}

func TestValues(t *testing.T) {
	c, warnings, err := Load([]string{"UPSTREAM_BROKERS=a:1, b:2", "MAX_FRAME_BYTES=2MiB", "RAISE_ACKS=off", "LOG_LEVEL="})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for _, want := range []string{"UPSTREAM_BROKERS=a:1,b:2\n", "MAX_FRAME_BYTES=2097152\n", "RAISE_ACKS=off\n", "LOG_LEVEL=info\n", "DEDUP_IDLE=5m0s\n"} {
		if !strings.Contains(c.Values(), want) {
			t.Errorf("no %q in\n%s", want, c.Values())
		}
	}
}

func TestDerivedValues(t *testing.T) {
	for _, c := range []struct {
		set  []string
		base Port
	}{
		{nil, 9093},
		{[]string{"LISTEN_ADDRESS=127.0.0.1:29092"}, 29093},
		{[]string{"LISTEN_ADDRESS=127.0.0.1:0"}, 9093},
		{[]string{"LISTEN_ADDRESS=127.0.0.1:29092", "BROKER_LISTEN_BASE=5000"}, 5000},
	} {
		cfg, _, err := Load(append(c.set, "UPSTREAM_BROKERS=a:1"))
		if err != nil || cfg.BrokerListenBase != c.base {
			t.Errorf("%v: base %d, want %d; %v", c.set, cfg.BrokerListenBase, c.base, err)
		}
	}
}

// What can be read or reached by others is said.
func TestUnsafeSettingsAreSaid(t *testing.T) {
	for _, c := range []struct {
		set, want string
	}{
		{"LISTEN_ADDRESS=192.0.2.1:9092", "LISTEN_ADDRESS=192.0.2.1:9092 takes clients from other machines"},
		{"LISTEN_ADDRESS=[::1]:9092", ""},
		{"LISTEN_ADDRESS=localhost:9092", ""},
		{"ADMIN_ADDRESS=:9191", "ADMIN_ADDRESS=:9191 lets other machines"},
	} {
		_, warnings, err := Load([]string{"UPSTREAM_BROKERS=a:1", c.set})
		if err != nil || (len(warnings) > 0) != (c.want != "") || c.want != "" && !strings.HasPrefix(warnings[0], c.want) {
			t.Errorf("%s: %q, %v", c.set, warnings, err)
		}
	}
}

func TestHostsAndAddresses(t *testing.T) {
	for text, ok := range map[string]bool{
		"kafka-1.ns.svc:9092": true, "[::1]:9092": true, "10.0.0.1:9092": true, "my_kafka:9092": true, "[fe80::1%eth0]:9092": true,
		"kafka": false, "kafka:": false, ":9092": false, "kafka:0": false, "kafka:70000": false, "kafka:http": false,
		"http://kafka:9092": false, "kafka 1:9092": false, "user@kafka:9092": false, "kafka:9092,": false, "::1:9092": false,
	} {
		if err := new(Addresses).UnmarshalText([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"gate": true, "::1": true, "gate.ns.svc": true, "gate:9092": false, "http://gate": false} {
		if _, _, err := Load([]string{"UPSTREAM_BROKERS=a:1", "ADVERTISED_HOST=" + text}); (err == nil) != ok {
			t.Errorf("ADVERTISED_HOST=%s: %v", text, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1024": 1024, "1KiB": 1 << 10, "3 MiB": 3 << 20, "2GiB": 2 << 30,
		"": -1, "-1": -1, "1MB": -1, "1.5MiB": -1, "9223372036854775807": -1, "9000000000GiB": -1, "KiB": -1,
	} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); (err == nil) != (want >= 0) || err == nil && int64(b) != want {
			t.Errorf("%q: %d, %v", text, b, err)
		}
	}
}

// Kubernetes injects variables with these endings for every Service.
func TestNamesAreSafeInKubernetes(t *testing.T) {
	for _, s := range settings {
		if kubernetesService(s.name) {
			t.Errorf("%s could be set by a Service's name", s.name)
		}
	}
	_, warnings, err := Load([]string{
		"UPSTREAM_BROKERS=a:1", "UPSTREAM_PORT=tcp://10.0.0.1:80", "UPSTREAM_SERVICE_HOST=10.0.0.1", "UPSTREAM_SERVICE_PORT=80",
		"UPSTREAM_SERVICE_PORT_HTTP=80", "DEDUP_PORT_80_TCP=tcp://10.0.0.1:80", "LISTEN_PORT_80_TCP_ADDR=10.0.0.1",
	})
	if err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
}

// Each example in the documentation is a configuration that works.
func TestExamplesInDocs(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```ini\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		environ := []string{"UPSTREAM_BROKERS=kafka-1:9093"}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if !isSetting(name) {
				t.Errorf("%s is no setting", name)
			}
			if strings.HasPrefix(value, "/") {
				value = file
			}
			environ = append(environ, name+"="+value)
		}
		if _, warnings, err := Load(environ); err != nil || len(warnings) > 0 {
			t.Errorf("%s\n%v %q", block, err, warnings)
		}
	}
}
