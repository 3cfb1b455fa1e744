// Command sidecarpod reads the ConfigMap of the injector and prints a pod that
// has its sidecar, for kubeconform: no schema looks into a ConfigMap.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	pod, err := podOf(os.Stdin)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sidecarpod: %v\n", err)
		os.Exit(1)
	}
	os.Stdout.Write(pod)
}

func podOf(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var configMap struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &configMap); err != nil {
		return nil, err
	}
	var sidecar struct {
		Container map[string]any
		Volumes   []any
	}
	if err := json.Unmarshal([]byte(configMap.Data["sidecar.json"]), &sidecar); err != nil {
		return nil, err
	}
	if sidecar.Container == nil {
		return nil, fmt.Errorf("sidecar.json has no container")
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "pod"},
		"spec": map[string]any{
			"containers":     []any{map[string]any{"name": "application", "image": "application"}},
			"initContainers": []any{sidecar.Container},
			"volumes":        sidecar.Volumes,
		},
	})
}
