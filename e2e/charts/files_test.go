package charts

import (
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestFilesAreLinks holds that what charts take from elsewhere are links to it, which lead to rules of a role: a copy would be stale some day, and
// a link that a tool made into a file breaks the chart where nothing but helm looks.
func TestFilesAreLinks(t *testing.T) {
	files, err := filepath.Glob("../../charts/*/files/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link: make it one to the golden file that it stands for", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		var rules []rbacv1.PolicyRule
		if err := yaml.UnmarshalStrict(data, &rules); err != nil || len(rules) == 0 {
			t.Errorf("%s: %v, %d rules", file, err, len(rules))
		}
	}
}
