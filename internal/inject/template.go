package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// containerName is the sidecar's name, in its template and in every pod.
const containerName = "oncegate"

// adminPort is the name of the container port that probes and Prometheus use.
const adminPort = "oncegate-admin"

// template is what is injected when a pod asks for nothing else. The chart
// writes it.
type template struct {
	// Container is an init container as Kubernetes knows it, with the settings
	// that make it fit a pod: where it listens, where its state is.
	Container map[string]any `json:"container"`
	// Volumes are what Container mounts.
	Volumes []map[string]any `json:"volumes"`
	// Settings are Oncegate's, by name. A pod that names a ConfigMap of its own
	// does without them.
	Settings map[string]string `json:"settings"`
	// StartAfter names init containers that have to run before.
	StartAfter []string `json:"startAfter"`
}

// readTemplate reads a template from a JSON file.
func readTemplate(path string) (*template, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := new(template)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case s.Container["name"] != containerName:
		return nil, fmt.Errorf("%s: container.name is %v, has to be %s", path, s.Container["name"], containerName)
	case s.Container["restartPolicy"] != "Always":
		return nil, fmt.Errorf("%s: container.restartPolicy is %v, has to be Always: no init container outlives its start otherwise", path, s.Container["restartPolicy"])
	}
	return s, nil
}

// containerFor returns the container for a pod that wants w, and its settings
// as far as they are known here.
func (s *template) containerFor(w *wishes) (map[string]any, map[string]string) {
	c := maps.Clone(s.Container)
	settings := make(map[string]string)
	if len(w.configMaps) == 0 {
		maps.Copy(settings, s.Settings)
	}
	maps.Copy(settings, w.settings)

	var env []any
	known := maps.Clone(settings)
	fixed, _ := c["env"].([]any)
	for _, one := range fixed {
		v, _ := one.(map[string]any)
		name, _ := v["name"].(string)
		if _, overridden := settings[name]; overridden {
			continue
		}
		if value, ok := v["value"].(string); ok {
			known[name] = value
		}
		env = append(env, one)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, map[string]any{"name": name, "value": settings[name]})
	}
	c["env"] = env

	var from []any
	for _, name := range w.configMaps {
		from = append(from, map[string]any{"configMapRef": map[string]any{"name": name}})
	}
	for _, name := range w.secrets {
		from = append(from, map[string]any{"secretRef": map[string]any{"name": name}})
	}
	if from != nil {
		c["envFrom"] = from
	}
	if w.files != "" {
		mounts, _ := c["volumeMounts"].([]any)
		c["volumeMounts"] = append(slices.Clone(mounts), map[string]any{"name": filesVolume, "mountPath": filesFolder, "readOnly": true})
	}
	if len(w.resources) > 0 {
		c["resources"] = withResources(c["resources"], w.resources)
	}
	return c, known
}

// withResources returns resources with what a pod asks for in their place.
func withResources(resources any, wanted map[resource]string) map[string]any {
	all := make(map[string]any)
	if r, ok := resources.(map[string]any); ok {
		maps.Copy(all, r)
	}
	for _, kind := range []string{"requests", "limits"} {
		of := make(map[string]any)
		if r, ok := all[kind].(map[string]any); ok {
			maps.Copy(of, r)
		}
		for r, quantity := range wanted {
			if r.kind == kind {
				of[r.name] = quantity
			}
		}
		if len(of) > 0 {
			all[kind] = of
		}
	}
	return all
}

const (
	filesVolume = "oncegate-files"
	filesFolder = "/etc/oncegate"
)

// volumesFor returns the volumes for a pod that wants w.
func (s *template) volumesFor(w *wishes) []map[string]any {
	volumes := slices.Clone(s.Volumes)
	if w.files != "" {
		// Not root's alone: Oncegate runs as another user.
		volumes = append(volumes, map[string]any{"name": filesVolume, "secret": map[string]any{"secretName": w.files, "defaultMode": 0o444}})
	}
	return volumes
}

// setAdminPort changes the container port that probes use.
func setAdminPort(c map[string]any, port int) {
	ports, _ := c["ports"].([]any)
	changed := slices.Clone(ports)
	for i, one := range ports {
		if p, ok := one.(map[string]any); ok && p["name"] == adminPort {
			p = maps.Clone(p)
			p["containerPort"] = port
			changed[i] = p
		}
	}
	c["ports"] = changed
}
