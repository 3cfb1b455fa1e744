package inject

import "strings"

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// segment escapes a name for use in a path (RFC 6901).
func segment(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// setLabel gives an object a label.
func setLabel(labels map[string]string, name, value string) []operation {
	switch old, ok := labels[name]; {
	case ok && old == value:
		return nil
	case labels == nil:
		return []operation{{"add", "/metadata/labels", map[string]string{name: value}}}
	}
	return []operation{{"add", "/metadata/labels/" + segment(name), value}}
}
