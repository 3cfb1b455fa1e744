package inject

import "fmt"

// namespace copies a namespace's annotation into a label of the same name: the
// API server selects namespaces by label only. An annotation that is taken away
// takes the label with it.
func namespace(m *metadata) (*answer, error) {
	a := &answer{outcome: labelled}
	switch value, annotated := m.Annotations[annotationInject]; {
	case value == "true" || value == "false":
		a.patch = setLabel(m.Labels, annotationInject, value)
	case annotated:
		return nil, fmt.Errorf("annotation %s is %q: accepted is true or false", annotationInject, value)
	case m.Labels[annotationInject] != "":
		a.patch = []operation{{Op: "remove", Path: "/metadata/labels/" + segment(annotationInject)}}
	}
	return a, nil
}
