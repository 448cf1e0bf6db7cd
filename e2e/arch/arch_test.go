package arch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is the path of the module; imports below it are ours.
const module = "github.com/flotilla-dev/flotilla/"

// root is the folder of the module, seen from here.
var root = filepath.Join("..", "..")

// pkg is what the rules see of a package: its folder in the module, and what its files import, tests left out.
type pkg struct {
	path    string
	imports []string
}

// layer is a part of the tree and what it may import of the tree. A part inside another one is listed first.
type layer struct {
	part string
	own  []string // folders of the module; everything below them too
	// outside, if not nil, lists all that may be imported from other modules.
	outside []string
	// pure: no client, no clock.
	pure bool
	// clientIn is the only file of a pure part that takes a client, as an argument of its functions. Pure packages may
	// use the rest of the part.
	clientIn string
	why      string
}

// layers are the rules. The first layer that holds a package rules it. A layer may have no folder yet.
func layers() []layer {
	all := []layer{
		{part: "apis/crds/gen", why: "it is a tool of the build; it makes the CRDs and nothing imports it"},
		{part: "apis", own: []string{"apis"}, outside: []string{"k8s.io/api", "k8s.io/apimachinery"}, pure: true,
			why: "any program can use the contract without our dependencies"},
		{part: "topology", own: []string{"apis", "topology"}, pure: true, why: "the mathematics is pure"},
	}
	kernel := []string{"apis", "member-agent/kernel"}
	for _, name := range pureKernel() {
		all = append(all, layer{part: "member-agent/kernel/" + name, own: kernel, pure: true,
			why: "it is a pure part of the kernel"})
	}
	shared := []string{"member-agent/kernel/history", "member-agent/kernel/budget", "member-agent/kernel/conditions",
		"member-agent/kernel/expr"}
	decides := append([]string{"apis", "topology"}, shared...)
	decides = append(decides, pureHub()...)
	all = append(all, layer{part: "hub/wire/karmada", own: append([]string{"apis", "topology", "hub"}, shared...),
		why: "it is what the hub reads and writes of Karmada's objects"})
	for _, name := range pureHub() {
		all = append(all, layer{part: name, own: decides, pure: true, why: "it is a pure part of the hub"})
	}
	return append(all,
		layer{part: "member-agent/kernel/history", own: kernel, pure: true, clientIn: "store.go",
			why: "it is a part of the kernel that is pure but for its store"},
		layer{part: "member-agent/kernel", own: kernel,
			why: "the kernel knows no kind, and of a hub only the annotations that it writes"},
		layer{part: "member-agent/workload", own: append([]string{"member-agent/workload"}, kernel...),
			why: "the frame of all workload controllers stands on the kernel and knows no kind"},
		layer{part: "member-agent/admission", own: kernel, why: "the admission chain knows no kind"},
		layer{part: "member-agent/workloads", own: []string{"apis", "topology", "member-agent/kernel",
			"member-agent/workload", "member-agent/admission"},
			why: "a kind stands on the frame, the admission chain and the kernel, and never on another one"},
		layer{part: "member-agent/nodedaemon", own: []string{"apis", "member-agent/kernel/podstate",
			"member-agent/nodedaemon"},
			why: "the node daemon is a program of its own; it shares the contract and the predicates of pods"},
		layer{part: "member-agent", own: []string{"apis", "topology", "member-agent"}, why: "an agent runs without a hub"},
		layer{part: "hub/checks", own: append([]string{"apis", "topology", "hub", "member-agent/kernel/endpoint"}, shared...),
			why: "checks of waves and of jobs ask addresses with the same refusals"},
		layer{part: "hub", own: append([]string{"apis", "topology", "hub"}, shared...),
			why: "the hub shares history, budget, conditions and expr with the agent, and hub/checks the dialler"},
		layer{part: "cmd", own: []string{"apis", "topology", "hub", "member-agent", "cmd", "e2e"},
			why: "a binary may use everything; e2e/fleet runs the clusters of flotilla try"},
		layer{part: "e2e", own: []string{"apis", "topology", "hub", "member-agent", "cmd", "e2e"},
			why: "tests may use everything"},
	)
}

// pureKernel are the packages of the kernel that use no client and no clock.
func pureKernel() []string {
	return []string{
		"budget", "completions", "conditions", "cron", "delta", "expr", "history/normal",
		"history/sidecars", "inplace", "launch", "lifecycle", "marks", "order",
		"pernode", "podname", "podready", "podstate", "spread", "waits",
	}
}

// pureHub are the packages of the hub that use no client and no clock: what it decides, and what it knows of each kind.
func pureHub() []string {
	return []string{"hub/capacity", "hub/decision", "hub/kinds", "hub/override", "hub/wire"}
}

// forbidden are what a pure package does not import: API clients, and time other than as a value that is given to it.
func forbidden() []string {
	return []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/utils/clock", "github.com/go-logr",
		"go.uber.org/zap", "net/http"}
}

// TestLayersExist checks that the folder of each layer exists.
func TestLayersExist(t *testing.T) {
	for _, l := range layers() {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(l.part))); err != nil {
			t.Errorf("layers lists %s, which does not exist: %v", l.part, err)
		}
	}
}

// under tells whether the path is the folder or below it.
func under(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func underAny(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return under(path, folder) })
}

// layerOf returns the layer that rules the folder.
func layerOf(folder string) (layer, bool) {
	all := layers()
	i := slices.IndexFunc(all, func(l layer) bool { return under(folder, l.part) })
	if i < 0 {
		return layer{}, false
	}
	return all[i], true
}

// workloadOf returns the folder of the kind that the path belongs to, "" outside of member-agent/workloads.
func workloadOf(folder string) string {
	rest, ok := strings.CutPrefix(folder, "member-agent/workloads/")
	if !ok {
		return ""
	}
	kind, _, _ := strings.Cut(rest, "/")
	return "member-agent/workloads/" + kind
}

// violations returns what a package imports against the rules, one sentence each.
func violations(p pkg) []string {
	l, ok := layerOf(p.path)
	if !ok {
		return []string{fmt.Sprintf("%s is in no layer: add it to layers in e2e/arch/arch_test.go", p.path)}
	}
	own := l.own
	if kind := workloadOf(p.path); kind != "" {
		own = append(slices.Clone(own), kind)
	}
	var found []string
	for _, imported := range p.imports {
		folder, ours := strings.CutPrefix(imported, module)
		std := !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
		switch {
		case ours && !underAny(folder, own):
			found = append(found, fmt.Sprintf("%s imports %s: %s", p.path, folder, l.why))
		case ours && l.pure && !isPure(folder):
			found = append(found, fmt.Sprintf("%s imports %s, which may use a client or a clock: %s", p.path, folder, l.why))
		case !ours && l.pure && l.clientIn == "" && underAny(imported, forbidden()):
			found = append(found, fmt.Sprintf("%s imports %s: %s", p.path, imported, l.why))
		case !ours && !std && l.outside != nil && !underAny(imported, l.outside):
			found = append(found, fmt.Sprintf("%s imports %s: %s", p.path, imported, l.why))
		}
	}
	return found
}

// isPure tells whether the folder belongs to a pure layer.
func isPure(folder string) bool {
	l, ok := layerOf(folder)
	return ok && l.pure
}

// packages lists the packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the answer of go list: %v", err)
		}
		if folder, ok := strings.CutPrefix(listed.ImportPath, module); ok {
			all = append(all, pkg{folder, listed.Imports})
		}
	}
	if len(all) < 10 {
		t.Fatalf("go list knows only %d packages of %s", len(all), module)
	}
	return all
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, sentence := range violations(p) {
			t.Error(sentence)
		}
	}
}

// TestClientInOneFile checks that the parts which are pure but for one file are so.
func TestClientInOneFile(t *testing.T) {
	walk(t, func(file string, entry fs.DirEntry) {
		l, ok := layerOf(path.Dir(file))
		if entry.IsDir() || !ok || l.clientIn == "" || path.Base(file) == l.clientIn ||
			!strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		name := filepath.Join(root, filepath.FromSlash(file))
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatalf("parse %s: %v", file, err)
		}
		for _, imported := range parsed.Imports {
			if underAny(strings.Trim(imported.Path.Value, `"`), forbidden()) {
				t.Errorf("%s imports %s: %s, which is %s", file, imported.Path.Value, l.why, l.clientIn)
			}
		}
	})
}

// TestRules checks the rules themselves: each has to refuse what it is there for.
func TestRules(t *testing.T) {
	tests := []struct {
		why      string
		in       pkg
		refusals int
	}{
		{"the contract with its two modules", pkg{"apis/work/v1alpha1",
			[]string{"fmt", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/runtime"}}, 0},
		{"the contract with a client", pkg{"apis/work/v1alpha1", []string{"sigs.k8s.io/controller-runtime/pkg/scheme"}}, 1},
		{"the contract on the mathematics", pkg{"apis/work/v1alpha1", []string{module + "topology/division"}}, 1},
		{"the mathematics with a clock", pkg{"topology/division", []string{"k8s.io/utils/clock"}}, 1},
		{"the mathematics on the kernel", pkg{"topology/lending", []string{module + "member-agent/kernel/budget"}}, 1},
		{"a pure part of the kernel with a client", pkg{"member-agent/kernel/delta", []string{"k8s.io/client-go/rest"}}, 1},
		{"a pure part of the kernel on another", pkg{"member-agent/kernel/delta",
			[]string{module + "member-agent/kernel/budget"}}, 0},
		{"a pure part of the kernel on one with a client",
			pkg{"member-agent/kernel/delta", []string{module + "member-agent/kernel/podset"}}, 1},
		{"another part of the kernel with a client", pkg{"member-agent/kernel/write",
			[]string{"sigs.k8s.io/controller-runtime/pkg/client"}}, 0},
		{"the kernel on a kind", pkg{"member-agent/kernel/write", []string{module + "member-agent/workloads/cloneset"}}, 1},
		{"a kind on another", pkg{"member-agent/workloads/uniteddeployment",
			[]string{module + "member-agent/workloads/cloneset"}}, 1},
		{"a kind on a part of its own", pkg{"member-agent/workloads/cloneset",
			[]string{module + "member-agent/workloads/cloneset/claims"}}, 0},
		{"a kind on the link to the hub", pkg{"member-agent/workloads/cloneset", []string{module + "member-agent/link"}}, 1},
		{"a kind on the admission chain", pkg{"member-agent/workloads/cloneset",
			[]string{module + "member-agent/admission"}}, 0},
		{"the admission chain on a kind", pkg{"member-agent/admission",
			[]string{module + "member-agent/workloads/cloneset"}}, 1},
		{"the agent on its kinds", pkg{"member-agent", []string{module + "member-agent/workloads/cloneset"}}, 0},
		{"the agent on the hub", pkg{"member-agent/report", []string{module + "hub/wire"}}, 1},
		{"the hub on the shared kernel", pkg{"hub/placement",
			[]string{module + "member-agent/kernel/budget", module + "topology/division"}}, 0},
		{"a decision on the mathematics and a kind", pkg{"hub/decision",
			[]string{module + "topology/division", module + "hub/kinds"}}, 0},
		{"a decision with a client", pkg{"hub/decision", []string{"sigs.k8s.io/controller-runtime/pkg/client"}}, 1},
		{"a kind of the hub on a controller", pkg{"hub/kinds", []string{module + "hub/delivery"}}, 1},
		{"a kind of the hub on the pure part of history", pkg{"hub/kinds", []string{module + "member-agent/kernel/history"}},
			0},
		{"a kind of the hub on its store", pkg{"hub/kinds", []string{module + "hub/store"}}, 1},
		{"the room of members with a clock", pkg{"hub/capacity", []string{"k8s.io/utils/clock"}}, 1},
		{"the frame of workloads on the kernel", pkg{"member-agent/workload",
			[]string{module + "member-agent/kernel/podset"}}, 0},
		{"the frame of workloads on a kind", pkg{"member-agent/workload",
			[]string{module + "member-agent/workloads/cloneset"}}, 1},
		{"a kind on the frame", pkg{"member-agent/workloads/cloneset", []string{module + "member-agent/workload"}}, 0},
		{"the kernel on the frame", pkg{"member-agent/kernel/write", []string{module + "member-agent/workload"}}, 1},
		{"the node daemon on the link to the hub", pkg{"member-agent/nodedaemon/cri",
			[]string{module + "member-agent/link"}}, 1},
		{"the hub on the rest of the kernel", pkg{"hub/placement",
			[]string{module + "member-agent/kernel/delta", module + "member-agent/link"}}, 2},
		{"a part of the product on a test's", pkg{"hub/placement", []string{module + "e2e/fleet"}}, 1},
		{"a folder that nobody planned", pkg{"shared/things", nil}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			if got := violations(tt.in); len(got) != tt.refusals {
				t.Errorf("%d refusals, want %d: %v", len(got), tt.refusals, got)
			}
		})
	}
}

// walk calls visit for every file and folder of the repository that is ours.
func walk(t *testing.T, visit func(folder string, entry fs.DirEntry)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a test beside this one made it and removed it
			}
			return err
		}
		folder, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && folder != "."
		if entry.IsDir() && (hidden || entry.Name() == "testdata" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		visit(filepath.ToSlash(folder), entry)
		return nil
	})
	if err != nil {
		t.Fatalf("walk the repository: %v", err)
	}
}

func TestFolders(t *testing.T) {
	refused := []string{"pkg", "util", "utils", "common", "helper", "helpers"}
	walk(t, func(folder string, entry fs.DirEntry) {
		if entry.IsDir() && slices.Contains(refused, entry.Name()) {
			t.Errorf("folder %s: the name says nothing about what is in it; name it after the question that it owns", folder)
		}
	})
}

// TestKindsAreNamedByKindsAlone: what all kinds share names none of them, in comments either.
func TestKindsAreNamedByKindsAlone(t *testing.T) {
	kind := regexp.MustCompile(`\b(CloneSet|UnitedDeployment)\b`)
	named := []string{"member-agent/setup.go", "member-agent/workloads", "member-agent/kernel/simulator"}
	walk(t, func(file string, entry fs.DirEntry) {
		if entry.IsDir() || !under(file, "member-agent") || !strings.HasSuffix(file, ".go") ||
			strings.HasSuffix(file, "_test.go") ||
			slices.ContainsFunc(named, func(folder string) bool { return under(file, folder) }) {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		if found := kind.Find(data); found != nil {
			t.Errorf("%s names %s: a kind is a row of member-agent/setup.go and a folder of member-agent/workloads", file, found)
		}
	})
}

const (
	// maxLines of a file: what can be read in one go.
	maxLines = 500
	// maxReconcile of reconcile.go: it is a list of named phases, everything else has its own file.
	maxReconcile = 150
)

func TestFileLengths(t *testing.T) {
	walk(t, func(file string, entry fs.DirEntry) {
		if entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		lines, generated, err := measure(filepath.Join(root, filepath.FromSlash(file)))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		limit := maxLines
		if path.Base(file) == "reconcile.go" {
			limit = maxReconcile
		}
		if !generated && lines > limit {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by what its parts answer", file, lines, limit)
		}
	})
}

// measure returns the number of lines of a Go file and whether a program wrote it.
func measure(name string) (lines int, generated bool, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, false, err
	}
	defer file.Close()
	code := false
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		lines++
		line := scanner.Text()
		code = code || strings.HasPrefix(line, "package ")
		generated = generated || !code && strings.HasPrefix(line, "// Code generated ") &&
			strings.HasSuffix(line, " DO NOT EDIT.")
	}
	return lines, generated, scanner.Err()
}

// clockCalls are the functions of package time that read a clock or wait for one.
func clockCalls() []string {
	return []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
}

// TestPureCodeReadsNoClock checks the calls that imports do not show: package time also holds durations, which are
// fine.
func TestPureCodeReadsNoClock(t *testing.T) {
	walk(t, func(file string, entry fs.DirEntry) {
		l, ok := layerOf(path.Dir(file))
		if entry.IsDir() || !ok || !l.pure || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		calls, err := timeCalls(file, data)
		if err != nil {
			t.Errorf("parse %s: %v", file, err)
		}
		for _, call := range calls {
			t.Errorf("%s reads a clock: %s", call, l.why)
		}
	})
}

// timeCalls returns where the file uses a function of clockCalls.
func timeCalls(name string, data []byte) ([]string, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, data, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	local := ""
	for _, imported := range parsed.Imports {
		if imported.Path.Value == `"time"` {
			local = "time"
			if imported.Name != nil {
				local = imported.Name.Name
			}
		}
	}
	var found []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && local != "" && of.Name == local &&
			slices.Contains(clockCalls(), selector.Sel.Name) {
			found = append(found, set.Position(selector.Pos()).String()+" time."+selector.Sel.Name)
		}
		return true
	})
	return found, nil
}

func TestTimeCalls(t *testing.T) {
	source := "package p\nimport when \"time\"\nvar d = when.Second\nfunc f() { _ = when.Now() }\n"
	got, err := timeCalls("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"p.go:4:16 time.Now"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
