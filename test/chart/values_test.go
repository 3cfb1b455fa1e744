package chart

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	chartDir = "../../charts/oncegate/"
	docFile  = "../../docs/kubernetes.md"
	begin    = "<!-- values:begin -->\n"
	end      = "<!-- values:end -->"
)

var update = flag.Bool("update", false, "write the table of values into docs/kubernetes.md")

// schema is what is used of a JSON schema.
type schema struct {
	Type        any
	Description string
	Enum        []string
	Properties  map[string]*schema
	Minimum     *int
	Maximum     *int
}

func (s *schema) accepted() string {
	switch {
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, ", ")
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%d to %d", *s.Minimum, *s.Maximum)
	case s.Type == "array":
		return "list"
	case s.Type == "object":
		return "map"
	case s.Type == "boolean":
		return "true, false"
	}
	return "text"
}

// The table in docs/kubernetes.md is what values.yaml and its schema say:
// every value has a meaning and a default.
func TestValuesAreDocumented(t *testing.T) {
	var values map[string]any
	read(t, chartDir+"values.yaml", yaml.Unmarshal, &values)
	var s schema
	read(t, chartDir+"values.schema.json", json.Unmarshal, &s)
	var rows strings.Builder
	rows.WriteString("| value | default | accepted | meaning |\n|---|---|---|---|\n")
	describe(t, &rows, "", values, &s)

	text, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks of the table", docFile)
	}
	if *update {
		if err := os.WriteFile(docFile, []byte(before+begin+rows.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != rows.String() {
		t.Errorf("the table of values in %s is old: go test ./test/chart -update", docFile)
	}
}

func read(t *testing.T, path string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// free are values that the schema lists no fields of, or that are one thing to
// their reader.
func free(path string, s *schema) bool {
	return s.Properties == nil || strings.HasSuffix(path, ".resources")
}

func describe(t *testing.T, rows *strings.Builder, path string, values map[string]any, s *schema) {
	t.Helper()
	for name := range s.Properties {
		if _, ok := values[name]; !ok && path+name != "global" {
			t.Errorf("%s%s is in the schema and not in values.yaml", path, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		property := s.Properties[name]
		switch {
		case property == nil:
			t.Errorf("%s%s is in values.yaml and not in the schema", path, name)
		case property.Description == "":
			t.Errorf("%s%s has no description", path, name)
		case free(path+name, property):
			value, err := json.Marshal(values[name])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(rows, "| `%s%s` | `%s` | %s | %s |\n", path, name, value, property.accepted(), property.Description)
		default:
			inner, _ := values[name].(map[string]any)
			describe(t, rows, path+name+".", inner, property)
		}
	}
}
