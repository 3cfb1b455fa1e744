// Command schemas writes JSON schemas for kubeconform: of Kubernetes' own
// kinds, from the OpenAPI file of its source, and of custom ones, from their
// CustomResourceDefinitions. They are strict: a field that the kind does not
// have is a fault.
//
//	schemas FOLDER SWAGGER.json CRD.yaml...
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: schemas FOLDER SWAGGER.json CRD.yaml...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "schemas: %v\n", err)
		os.Exit(1)
	}
}

func write(folder, swagger string, crds []string) error {
	if err := builtin(folder, swagger); err != nil {
		return err
	}
	for _, path := range crds {
		if err := custom(folder, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// kind is one entry of x-kubernetes-group-version-kind.
type kind struct{ Group, Version, Kind string }

// save writes a schema under the name that kubeconform asks for by
// {{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json. To it the core
// kinds' group is their version.
func (k kind) save(folder string, schema any) error {
	if k.Group == "" {
		k.Group = k.Version
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	name := strings.ToLower(fmt.Sprintf("%s-%s-%s.json", k.Kind, k.Group, k.Version))
	return os.WriteFile(filepath.Join(folder, name), text, 0o644)
}

func builtin(folder, swagger string) error {
	text, err := os.ReadFile(swagger)
	if err != nil {
		return err
	}
	var api struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(text, &api); err != nil {
		return err
	}
	for name, definition := range api.Definitions {
		strict(definition)
		kinds, err := kindsOf(definition)
		if err != nil {
			return err
		}
		for _, k := range kinds {
			if err := k.save(folder, map[string]any{"$ref": "_definitions.json#/definitions/" + name}); err != nil {
				return err
			}
		}
	}
	text, err = json.Marshal(api)
	if err != nil {
		return err
	}
	text = []byte(strings.ReplaceAll(string(text), `"Definitions":`, `"definitions":`))
	return os.WriteFile(filepath.Join(folder, "_definitions.json"), text, 0o644)
}

func kindsOf(definition map[string]any) (kinds []kind, err error) {
	text, err := json.Marshal(definition["x-kubernetes-group-version-kind"])
	if err != nil {
		return nil, err
	}
	return kinds, json.Unmarshal(text, &kinds)
}

func custom(folder, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return err
	}
	for _, v := range crd.Spec.Versions {
		strict(v.Schema.OpenAPIV3Schema)
		// A CRD leaves metadata to the API server.
		if properties, ok := v.Schema.OpenAPIV3Schema["properties"].(map[string]any); ok {
			properties["metadata"] = map[string]any{"$ref": "_definitions.json#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
		}
		if err := (kind{crd.Spec.Group, v.Name, crd.Spec.Names.Kind}).save(folder, v.Schema.OpenAPIV3Schema); err != nil {
			return err
		}
	}
	return nil
}

// strict forbids unknown fields wherever fields are listed, and puts what
// OpenAPI says by formats of its own in JSON schema's words.
func strict(schema map[string]any) {
	if _, listed := schema["properties"]; listed {
		if _, said := schema["additionalProperties"]; !said && schema["x-kubernetes-preserve-unknown-fields"] != true {
			schema["additionalProperties"] = false
		}
	}
	_, either := schema["x-kubernetes-int-or-string"]
	if either || schema["format"] == "int-or-string" {
		delete(schema, "format")
		schema["type"] = []string{"integer", "string"}
	}
	// A quantity: 1 or "500m".
	if description, _ := schema["description"].(string); strings.HasPrefix(description, "Quantity is a fixed-point") {
		schema["type"] = []string{"number", "string"}
	}
	for name, value := range schema {
		switch child := value.(type) {
		case map[string]any:
			if name == "properties" || name == "definitions" {
				for _, property := range child {
					if property, ok := property.(map[string]any); ok {
						strict(property)
					}
				}
			} else {
				strict(child)
			}
		case []any:
			for _, one := range child {
				if one, ok := one.(map[string]any); ok {
					strict(one)
				}
			}
		}
	}
}
