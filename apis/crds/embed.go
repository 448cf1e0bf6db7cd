// Package crds holds the CustomResourceDefinitions of Flotilla's API groups, generated from the Go types by generate.sh.
package crds

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// FS holds one file for each CustomResourceDefinition, named <group>_<plural>.yaml, at its top.
//
//go:embed *.yaml
var FS embed.FS

// All returns the CustomResourceDefinitions in the order of their file names, each a fresh copy. It fails only if a
// generated file is broken.
func All() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	all := make([]*unstructured.Unstructured, 0, len(names))
	for _, name := range names {
		data, err := FS.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)).Decode(crd); err != nil {
			return nil, fmt.Errorf("parse CustomResourceDefinition %s: %w", name, err)
		}
		all = append(all, crd)
	}
	return all, nil
}
