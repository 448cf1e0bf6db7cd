package charts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// TestFilesAreLinks holds that what charts take from elsewhere are links to it, which lead to rules of a role: a copy
// would be stale some day, and a link that a tool made into a file breaks the chart where nothing but helm looks.
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
		// TestGolden shows what they become.
		if slices.Contains([]string{"policy.yaml", "protection.yaml", "warnings.yaml"}, filepath.Base(file)) {
			continue
		}
		if strings.HasSuffix(file, "-carried.yaml") { // by kind
			carried := map[string][]rbacv1.PolicyRule{}
			if err := yaml.UnmarshalStrict(data, &carried); err != nil || len(carried) == 0 {
				t.Errorf("%s: %v, rules for %d kinds", file, err, len(carried))
			}
			continue
		}
		var rules []rbacv1.PolicyRule
		if err := yaml.UnmarshalStrict(data, &rules); err != nil || len(rules) == 0 {
			t.Errorf("%s: %v, %d rules", file, err, len(rules))
		}
	}
}

// TestKindsOfValues holds that the chart of the agent knows the kinds that agents carry: its schema, and the comment of
// its value.
func TestKindsOfValues(t *testing.T) {
	chart := filepath.Join("..", "..", "charts", "flotilla-agent")
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Hub struct {
				Properties struct {
					AllowKinds struct {
						Items struct {
							Enum []string `json:"enum"`
						} `json:"items"`
					} `json:"allowKinds"`
				} `json:"properties"`
			} `json:"hub"`
		} `json:"properties"`
	}
	if err := yaml.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var carried []string // with and without the group
	for _, kind := range (apply.Allowed{}).GroupKinds() {
		carried = append(carried, kind.Kind, kind.String())
	}
	slices.Sort(carried)
	carried = slices.Compact(carried)
	if known := schema.Properties.Hub.Properties.AllowKinds.Items.Enum; !slices.Equal(known, carried) {
		t.Errorf("the schema knows the kinds %v, and agents carry %v", known, carried)
	}
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The comment goes over two lines.
	told := strings.Join(strings.Fields(strings.ReplaceAll(string(values), "#", " ")), " ")
	if all := strings.Join(apply.Carried(), ", "); !strings.Contains(told, all) {
		t.Errorf("values.yaml does not name the kinds %s", all)
	}
}
