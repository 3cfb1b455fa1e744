package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setting is one variable, as Config's field describes it.
type setting struct {
	name  string
	field reflect.StructField
}

// settings holds every variable, in the order of Config.
var settings = func() (all []setting) {
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		all = append(all, setting{name: t.Field(i).Tag.Get("env"), field: t.Field(i)})
	}
	return all
}()

func isSetting(name string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.name == name })
}

// prefixes are the first words of the variables, with their underscore.
func prefixes() (all []string) {
	for _, s := range settings {
		word, _, _ := strings.Cut(s.name, "_")
		if p := word + "_"; !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// nearest returns the variable whose name takes the fewest edits to reach.
func nearest(name string) string {
	best, cost := "", 1<<30
	for _, s := range settings {
		if c := edits(name, s.name); c < cost {
			best, cost = s.name, c
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// allowed checks a value against the limits of its tags.
func (s *setting) allowed(v reflect.Value) bool {
	tag := s.field.Tag
	switch value := v.Interface().(type) {
	case Choice:
		return slices.Contains(strings.Split(tag.Get("accept"), ","), string(value))
	case time.Duration:
		return value > 0
	case int, Bytes:
		low, high := s.limits()
		return v.Int() >= low && v.Int() <= high
	case File:
		info, err := os.Stat(string(value))
		return err == nil && !info.IsDir()
	case string:
		return tag.Get("is") != "host" || isHost(value)
	}
	return true
}

func (s *setting) limits() (low, high int64) {
	low, _ = strconv.ParseInt(s.field.Tag.Get("min"), 10, 64)
	high, _ = strconv.ParseInt(s.field.Tag.Get("max"), 10, 64)
	return low, high
}

// accepted says in words what allowed and the type's reading let pass.
func (s *setting) accepted() string {
	low, high := s.limits()
	switch reflect.Zero(s.field.Type).Interface().(type) {
	case Choice:
		words := strings.Split(s.field.Tag.Get("accept"), ",")
		last := len(words) - 1
		return strings.Join(words[:last], ", ") + " or " + words[last]
	case Switch:
		return "on or off"
	case time.Duration:
		return "a duration above zero such as 500ms, 30s or 5m"
	case Bytes:
		return fmt.Sprintf("a size from %d to %d bytes, also as KiB, MiB or GiB", low, high)
	case Port:
		return "a port from 1 to 65535"
	case int:
		return fmt.Sprintf("a number from %d to %d", low, high)
	case Address:
		return "host:port"
	case Addresses:
		return "host:port, separated by commas"
	case File:
		return "the path of a file that exists"
	case Secret:
		return "any text; never printed"
	case Words:
		return "words, separated by spaces or commas"
	case Pairs:
		return "name=value, separated by commas"
	}
	if s.field.Tag.Get("is") == "host" {
		return "a host name or an IP address, without a port"
	}
	return "any text"
}

func (s *setting) fault(value string) string {
	return fmt.Sprintf("%s=%q can't be used: accepted is %s", s.name, value, s.accepted())
}

func find(name string) *setting {
	return &settings[slices.IndexFunc(settings, func(s setting) bool { return s.name == name })]
}

// accepted says what the setting of that name accepts.
func accepted(name string) string { return find(name).accepted() }
