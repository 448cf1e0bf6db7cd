// Package crds holds the CustomResourceDefinitions of Flotilla's API groups, generated from the Go types by
// generate.sh.
package crds

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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

// ConversionPath is where the conversion webhook is served.
const ConversionPath = "/convert"

// WithConversion returns a copy of a CustomResourceDefinition whose conversion webhook is at client: the Service or the
// URL, and the CA bundle. A client without URL and Service keeps those that the definition has. A Service without a
// path gets ConversionPath; a URL is complete with its path. A definition of one version has no conversion and is
// copied as it is.
func WithConversion(
	crd *unstructured.Unstructured,
	client admissionregistrationv1.WebhookClientConfig,
) *unstructured.Unstructured {
	crd = crd.DeepCopy()
	spec, _ := crd.Object["spec"].(map[string]any)
	conversion, _ := spec["conversion"].(map[string]any)
	webhook, _ := conversion["webhook"].(map[string]any)
	if webhook == nil {
		return crd
	}
	config := map[string]any{}
	switch {
	case client.URL != nil:
		config["url"] = *client.URL
	case client.Service != nil:
		service := map[string]any{"namespace": client.Service.Namespace, "name": client.Service.Name, "path": ConversionPath}
		if client.Service.Path != nil {
			service["path"] = *client.Service.Path
		}
		if client.Service.Port != nil {
			service["port"] = int64(*client.Service.Port)
		}
		config["service"] = service
	default:
		had, _ := webhook["clientConfig"].(map[string]any)
		for _, key := range []string{"url", "service"} {
			if value, has := had[key]; has {
				config[key] = value
			}
		}
	}
	if len(client.CABundle) > 0 {
		config["caBundle"] = base64.StdEncoding.EncodeToString(client.CABundle)
	}
	webhook["clientConfig"] = config
	return crd
}

// AllWithConversion returns what All returns, with WithConversion.
func AllWithConversion(client admissionregistrationv1.WebhookClientConfig) ([]*unstructured.Unstructured, error) {
	all, err := All()
	for i := range all {
		all[i] = WithConversion(all[i], client)
	}
	return all, err
}
