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
	"slices"

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
		definition, err := finish(data)
		if err != nil {
			return fmt.Errorf("finish %s: %w", source, err)
		}
		finished[filepath.Join(to, filepath.Base(source))] = definition
	}
	return replace(finished, to)
}

// replace writes the files, by their paths, and removes all other YAML files of the folder.
func replace(files map[string][]byte, folder string) error {
	old, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	for _, file := range old {
		if files[file] != nil {
			continue
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for file, data := range files {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// finish returns a CustomResourceDefinition with the schemas of all its versions finished.
func finish(data []byte) ([]byte, error) {
	crd := map[string]any{}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	spec, _ := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	kind, _ := names["kind"].(string)
	versions, _ := spec["versions"].([]any)
	if len(versions) == 0 {
		return nil, errors.New("it has no spec.versions")
	}
	f := finisher{kind: kind, pods: servingPods}
	if kind == "BroadcastJob" || kind == "AdvancedCronJob" {
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
		if kind == "StatefulSet" {
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
	if len(versions) > 1 && !alike(kind) {
		spec["conversion"] = conversion()
	}
	return write(crd, schemas)
}

// alike reports whether both versions of the kind have the same fields: API servers convert it without a webhook.
func alike(kind string) bool {
	return slices.Contains([]string{"BroadcastJob", "ImageListPullJob", "ImagePullJob", "NodeImage"}, kind)
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
