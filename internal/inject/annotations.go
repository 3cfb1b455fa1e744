package inject

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// What a pod can ask for; docs/kubernetes.md has the table.
const (
	prefix           = "oncegate.io/"
	annotationInject = prefix + "inject" // also a label
	labelInjected    = prefix + "injected"

	settingPrefix      = prefix + "env."
	annotationBrokers  = prefix + "upstream-brokers"
	annotationConfig   = prefix + "config"
	annotationSecret   = prefix + "secret"
	annotationFiles    = prefix + "files"
	annotationEnv      = prefix + "bootstrap-env"
	annotationFor      = prefix + "bootstrap-containers"
	annotationAfter    = prefix + "start-after"
	defaultBootstrap   = "KAFKA_BOOTSTRAP_SERVERS"
	upstreamBrokersVar = "UPSTREAM_BROKERS"
)

// resource is a field of a container's resources.
type resource struct{ kind, name string }

var resourceAnnotations = map[string]resource{
	prefix + "cpu-request":    {"requests", "cpu"},
	prefix + "cpu-limit":      {"limits", "cpu"},
	prefix + "memory-request": {"requests", "memory"},
	prefix + "memory-limit":   {"limits", "memory"},
}

// wishes are a pod's annotations, read.
type wishes struct {
	settings   map[string]string
	configMaps []string
	secrets    []string
	files      string
	bootstrap  []string        // variables that hold Oncegate's address
	containers map[string]bool // which get them; empty: all
	startAfter []string
	resources  map[resource]string
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	settingName  = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	objectName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
	quantity     = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$`)
)

// readWishes reads a pod's annotations. One that starts with oncegate.io/ and
// is none of ours is an error: it would be a wish that is silently not granted.
func readWishes(annotations map[string]string) (*wishes, error) {
	w := &wishes{settings: make(map[string]string), containers: make(map[string]bool), resources: make(map[resource]string)}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		value := annotations[name]
		if err := w.read(name, value); err != nil {
			return nil, fmt.Errorf("annotation %s: %q %w", name, value, err)
		}
	}
	if len(w.containers) > 0 && len(w.bootstrap) == 0 {
		return nil, fmt.Errorf("annotation %s says which containers get the bootstrap servers, but %s, the variable, is not there", annotationFor, annotationEnv)
	}
	return w, nil
}

func (w *wishes) read(name, value string) (err error) {
	if setting, ok := strings.CutPrefix(name, settingPrefix); ok {
		if !settingName.MatchString(setting) {
			return fmt.Errorf("is for %s, which can be no setting: they are upper case", setting)
		}
		w.settings[setting] = value
		return nil
	}
	if r, ok := resourceAnnotations[name]; ok {
		if !quantity.MatchString(value) {
			return fmt.Errorf("is no quantity such as 250m or 512Mi")
		}
		w.resources[r] = value
		return nil
	}
	switch name {
	case annotationInject:
		return nil
	case annotationBrokers:
		if value == "" {
			return fmt.Errorf("names no broker")
		}
		w.settings[upstreamBrokersVar] = value
	case annotationConfig:
		w.configMaps, err = list(value, objectName, "the name of a ConfigMap")
	case annotationSecret:
		w.secrets, err = list(value, objectName, "the name of a Secret")
	case annotationFiles:
		if !objectName.MatchString(value) {
			return fmt.Errorf("is not the name of a Secret")
		}
		w.files = value
	case annotationAfter:
		w.startAfter, err = list(value, objectName, "the name of an init container")
	case annotationFor:
		var names []string
		names, err = list(value, objectName, "the name of a container")
		for _, name := range names {
			w.containers[name] = true
		}
	case annotationEnv:
		switch value {
		case "true":
			w.bootstrap = []string{defaultBootstrap}
		case "false":
		default:
			w.bootstrap, err = list(value, variableName, "the name of a variable, or true")
		}
	default:
		return fmt.Errorf("is for nothing: known are %s", strings.Join(known(), ", "))
	}
	return err
}

// list splits names at commas.
func list(value string, form *regexp.Regexp, what string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if !form.MatchString(name) {
			return nil, fmt.Errorf("holds %q, which is not %s", name, what)
		}
		names = append(names, name)
	}
	return names, nil
}

func known() []string {
	names := []string{annotationInject, annotationBrokers, annotationConfig, annotationSecret, annotationFiles, annotationEnv, annotationFor, annotationAfter, settingPrefix + "SETTING"}
	names = slices.AppendSeq(names, maps.Keys(resourceAnnotations))
	slices.Sort(names)
	return names
}
