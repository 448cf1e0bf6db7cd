package samples_test

import (
	"bytes"
	"io/fs"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/samples"
)

// TestSamplesAreAccepted creates every sample with strict field validation on a real API server.
func TestSamplesAreAccepted(t *testing.T) {
	hub := fleet.ForTest(t, fleet.Config{}).Hub()
	if err := hub.InstallCRDs(t.Context(), crds.FS); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(hub.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(samples.FS, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d samples, %v", len(names), err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(samples.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)).Decode(object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
