package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Table is the documentation of all settings as a Markdown table.
func Table() string {
	var b strings.Builder
	b.WriteString("| variable | default | accepted | meaning |\n|---|---|---|---|\n")
	for i := range settings {
		s := &settings[i]
		def := s.field.Tag.Get("unset")
		if value := s.field.Tag.Get("envDefault"); value != "" {
			def = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.name, def, s.accepted(), s.field.Tag.Get("doc"))
	}
	return b.String()
}

// Values lists every setting with its value, for a person to read. Secrets are
// only said to be set.
func (c *Config) Values() string {
	var b strings.Builder
	v := reflect.ValueOf(c).Elem()
	for i := range settings {
		fmt.Fprintf(&b, "%s=%s\n", settings[i].name, text(v.Field(i)))
	}
	return b.String()
}

func text(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Addresses:
		return strings.Join(value, ",")
	case Words:
		return strings.Join(value, " ")
	case Pairs:
		pairs := make([]string, 0, len(value))
		for name, value := range value {
			pairs = append(pairs, name+"="+value)
		}
		slices.Sort(pairs)
		return strings.Join(pairs, ",")
	case Secret:
		if value == "" {
			return ""
		}
	case Switch:
		if value {
			return "on"
		}
		return "off"
	}
	return fmt.Sprint(v.Interface())
}
