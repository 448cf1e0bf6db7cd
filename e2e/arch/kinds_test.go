package arch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// kindName matches the kinds of workloads in code, strings and comments, also as a part of an identifier. Kinds whose
// names apps/v1 has too are not in it.
var kindName = regexp.MustCompile(`CloneSet|UnitedDeployment|WorkloadSpread`)

// namesKinds lists who may name kinds: the contract, the two tables of kinds, the kinds themselves, and what users and
// tests see of them.
func namesKinds() []string {
	return []string{
		"apis", "hub/kinds", "member-agent/setup.go", "member-agent/workloads", "cmd", "e2e",
	}
}

// judgedForKinds are the folders that the rule is about.
func judgedForKinds() []string { return []string{"hub", "member-agent", "topology"} }

// TestOnlyTablesNameKinds holds that a new kind is an entry in a table and a folder of its own: all other code of the
// product is generic, its comments too.
func TestOnlyTablesNameKinds(t *testing.T) {
	broken := map[string]string{}
	eachSource(t, func(file string, data []byte) {
		if name := namedKind(file, data); name != "" {
			broken[file] = fmt.Sprintf("it names the kind %s; that belongs to hub/kinds or member-agent/workloads", name)
		}
	})
	checkExceptions(t, "names-kinds", broken)
}

// namedKind returns a kind that a file names although it may not, "" if there is none.
func namedKind(file string, data []byte) string {
	if !underAny(file, judgedForKinds()) || underAny(file, namesKinds()) {
		return ""
	}
	return string(kindName.Find(data))
}

func TestNamedKind(t *testing.T) {
	tests := []struct {
		file, source, want string
	}{
		{"hub/placement/plan.go", "// It divides a CloneSet.", "CloneSet"},
		{"hub/placement/plan.go", "kind := apps.UnitedDeploymentKind", "UnitedDeployment"},
		{"hub/placement/plan.go", "kind := workload.Kind", ""},
		{"hub/kinds/cloneset.go", "kind := apps.CloneSetKind", ""},
		{"member-agent/setup.go", `{"CloneSet", cloneset.Add}`, ""},
		{"member-agent/needs.go", `"CloneSet"`, "CloneSet"},
		{"member-agent/workloads/cloneset/plan.go", "// A CloneSet", ""},
		{"member-agent/kernel/spread/hub.go", "// A WorkloadSpread", "WorkloadSpread"},
		{"cmd/flotilla/main.go", "restart a CloneSet", ""},
	}
	for _, tt := range tests {
		if got := namedKind(tt.file, []byte(tt.source)); got != tt.want {
			t.Errorf("%s with %q: %q, want %q", tt.file, tt.source, got, tt.want)
		}
	}
}

// mostFiles is how many files a folder has at most, tests left out: a larger one has more than one responsibility.
const mostFiles = 15

// TestFoldersAreSmall holds that no folder of the hub or of the agent grows into a heap. The files of hub/kinds that
// have a kind each do not count.
func TestFoldersAreSmall(t *testing.T) {
	files := map[string]int{}
	eachSource(t, func(file string, data []byte) {
		kind := path.Dir(file) == "hub/kinds" && bytes.Contains(data, []byte("Kind() Kind {"))
		if underAny(file, []string{"hub", "member-agent"}) && !kind {
			files[path.Dir(file)]++
		}
	})
	broken := map[string]string{}
	for folder, n := range files {
		if n > mostFiles {
			broken[folder] = fmt.Sprintf("it has %d files, at most %d are allowed: split it by responsibility", n, mostFiles)
		}
	}
	checkExceptions(t, "large-folders", broken)
}

// eachSource calls visit for each Go file of the repository but tests.
func eachSource(t *testing.T, visit func(file string, data []byte)) {
	t.Helper()
	walk(t, func(file string, entry fs.DirEntry) {
		if entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if errors.Is(err, fs.ErrNotExist) {
			return // a test beside this one made it and removed it
		}
		if err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		visit(file, data)
	})
}
