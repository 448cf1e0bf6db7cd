package apiserver

import "testing"

func TestDefinitionsOf(t *testing.T) {
	all, err := definitionsOf(nil)
	if err != nil || len(all) < 5 {
		t.Errorf("%d definitions (%v)", len(all), err)
	}
	one, err := definitionsOf([]string{"clonesets.apps.kruise.io"})
	if err != nil || len(one) != 1 || one[0].Name != "clonesets.apps.kruise.io" {
		t.Errorf("found %v (%v)", one, err)
	}
	if _, err := definitionsOf([]string{"clonesets.apps"}); err == nil {
		t.Error("a definition that we do not have was found")
	}
}

func TestFiles(t *testing.T) {
	files, err := Files("clonesets.apps.kruise.io", "works.work.karmada.io")
	if err != nil || len(files) != 2 {
		t.Errorf("%d files (%v)", len(files), err)
	}
	if _, err := Files("clonesets"); err == nil {
		t.Error("a definition without a group was found")
	}
}
