package crds_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

// unservedFolder has the definitions of kinds that no controller serves yet.
const unservedFolder = "unserved"

// unserved returns the definitions of kinds that no controller serves yet.
func unserved(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(unservedFolder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var list []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parse(t, string(data)))
	}
	return list
}

// TestUnservedKindsAreNotInstalled: an object of a kind that nothing serves would wait for ever.
func TestUnservedKindsAreNotInstalled(t *testing.T) {
	installed, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, crd := range installed {
		names[crd.GetName()] = true
	}
	for _, crd := range unserved(t) {
		if names[crd.GetName()] {
			t.Errorf("%s is installed, and is in %s", crd.GetName(), unservedFolder)
		}
	}
}
