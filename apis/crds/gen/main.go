// Command gen finishes the CustomResourceDefinitions that controller-gen wrote: it declares what the validation rules
// must see inside templates, which are otherwise kept as they are, and bounds what inherited types leave unbounded.
//
//	go run ./crds/gen FROM TO
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen FROM TO: two folders, of controller-gen's files and of the finished ones")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run finishes every file of from and writes it to to; other files that it wrote earlier are removed.
func run(from, to string) error {
	sources, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list %s: %w", from, err)
	}
	if len(sources) == 0 {
		return fmt.Errorf("list %s: no generated file in it", from)
	}
	finished := map[string][]byte{}
	for _, source := range sources {
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		name := filepath.Base(source)
		if finished[name], err = finish(data); err != nil {
			return fmt.Errorf("finish %s: %w", source, err)
		}
	}
	old, err := filepath.Glob(filepath.Join(to, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list %s: %w", to, err)
	}
	for _, file := range old {
		if finished[filepath.Base(file)] == nil {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	for name, data := range finished {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// finish returns one CustomResourceDefinition with the schemas of all its versions finished.
func finish(data []byte) ([]byte, error) {
	crd := map[string]any{}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	spec, _ := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	if len(versions) == 0 {
		return nil, errors.New("it has no spec.versions")
	}
	f := finisher{pods: servingPods}
	if names["kind"] == "BroadcastJob" || names["kind"] == "AdvancedCronJob" {
		f.pods = endingPods
	}
	var schemas []map[string]any
	var stored int
	var storedName string
	for _, v := range versions {
		version, _ := v.(map[string]any)
		schema, _ := version["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		if root == nil {
			return nil, fmt.Errorf("version %v has no schema", version["name"])
		}
		if err := f.finish(root, "", false); err != nil {
			return nil, err
		}
		if names["kind"] == "StatefulSet" {
			declareStorage(root)
		}
		schemas = append(schemas, root)
		if version["storage"] == true {
			stored = len(schemas) - 1
			storedName, _ = version["name"].(string)
		}
	}
	for i, root := range schemas {
		if i != stored {
			referTo(schemas[stored], storedName, root)
		}
	}
	// Both versions of a BroadcastJob are the same: API servers convert it without a webhook.
	if len(versions) > 1 && names["kind"] != "BroadcastJob" {
		spec["conversion"] = conversion()
	}
	return write(crd, schemas)
}

// conversion asks the member agent's Service for the other version of an object. Without it a request for a version
// that is not stored fails, rather than losing fields; a request for the stored version never asks.
func conversion() map[string]any {
	return map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{
				"service": map[string]any{
					"namespace": "flotilla-system",
					"name":      "flotilla-agent",
					"path":      "/convert",
					"port":      int64(443),
				},
			},
		},
	}
}
