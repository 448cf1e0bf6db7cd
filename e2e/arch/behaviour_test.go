package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// behavioursFile lists what the project promises, and which tests hold it. Its head describes the format.
const behavioursFile = "behaviours.txt"

// leastTests returns the sections of behavioursFile, with the least number of tests in each.
func leastTests() map[string]int {
	return map[string]int{"CloneSet": 40, "StatefulSet": 20, "DaemonSet": 10, "BroadcastJob": 15,
		"AdvancedCronJob": 8, "UnitedDeployment": 30, "WorkloadSpread": 20, "Federation": 70,
		"DeletionProtection": 4, "ImagePullJob": 15, "PersistentPodState": 6, "EphemeralJob": 6, "PodProbeMarker": 20}
}

// TestBehavioursAreTested checks that every test in behavioursFile exists: the function in the package, and each part
// of a subtest's name as a string in the package's tests.
func TestBehavioursAreTested(t *testing.T) {
	data, err := os.ReadFile(behavioursFile)
	if err != nil {
		t.Fatalf("read %s: %v", behavioursFile, err)
	}
	sections, complaints := behaviours(string(data))
	for _, sentence := range complaints {
		t.Errorf("%s: %s", behavioursFile, sentence)
	}
	for section, least := range leastTests() {
		if n := len(sections[section]); n < least {
			t.Errorf("%s names %d tests in section %s, want at least %d", behavioursFile, n, section, least)
		}
	}
	known := map[string]testNames{}
	for _, tests := range sections {
		for _, b := range tests {
			if _, ok := known[b.folder]; !ok {
				known[b.folder] = readTests(t, b.folder)
			}
			if missing := known[b.folder].missing(b.test); missing != "" {
				t.Errorf("%s names %s in %s: there is no %s", behavioursFile, b.test, b.folder, missing)
			}
		}
	}
}

// behaviour is a test that holds a behaviour.
type behaviour struct{ folder, test string }

// behaviours returns the tests of each section, and what is wrong with the text.
func behaviours(text string) (sections map[string][]behaviour, complaints []string) {
	sections = map[string][]behaviour{}
	section, folder, open := "", "", "" // open is a behaviour that has no test yet
	end := func() {
		if open != "" {
			complaints = append(complaints, "no test for: "+open)
		}
		folder, open = "", ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		words := strings.TrimLeft(line, " ")
		switch indent := len(line) - len(words); {
		case words == "" || strings.HasPrefix(line, "#"):
			end()
		case indent == 0 && strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case indent == 0:
			open = strings.TrimSpace(open + " " + line)
		case indent == 2:
			folder = words
		case indent == 4 && folder != "":
			sections[section], open = append(sections[section], behaviour{folder, words}), ""
		case indent == 8 && len(sections[section]) > 0:
			sections[section][len(sections[section])-1].test += " " + words
		default:
			complaints = append(complaints, "a line in no place: "+line)
		}
	}
	end()
	return sections, complaints
}

func TestBehaviours(t *testing.T) {
	const text = "# head\n\n[Kind]\n\none, that is\nlonger\n  e2e/x\n    TestA\n    TestB/c\n        d\n  e2e/y\n" +
		"    TestC\n\nno test\n  e2e/x\n\nno folder\n    TestD\n"
	sections, complaints := behaviours(text)
	want := map[string][]behaviour{"Kind": {{"e2e/x", "TestA"}, {"e2e/x", "TestB/c d"}, {"e2e/y", "TestC"}}}
	if !reflect.DeepEqual(sections, want) || len(complaints) != 3 {
		t.Errorf("sections %v, complaints %q", sections, complaints)
	}
}

// testNames are the test functions and the strings in the tests of a package.
type testNames struct{ functions, texts map[string]bool }

// asPrinted is how go test prints a name and takes it.
func asPrinted(name string) string { return strings.ReplaceAll(name, " ", "_") }

// missing returns the part of the name that is not there, or "". Spaces may be written as go test prints them.
func (n testNames) missing(test string) string {
	function, subtests, _ := strings.Cut(asPrinted(test), "/")
	if !n.functions[function] {
		return "function " + function
	}
	if subtests == "" || n.texts[subtests] {
		return ""
	}
	for name := range strings.SplitSeq(subtests, "/") {
		if !n.texts[name] {
			return "subtest " + name
		}
	}
	return ""
}

func readTests(t *testing.T, folder string) testNames {
	t.Helper()
	names := testNames{functions: map[string]bool{}, texts: map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests: %v", folder, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("parse %s: %v", name, err)
			continue
		}
		names.add(file)
	}
	return names
}

func (n testNames) add(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch found := node.(type) {
		case *ast.FuncDecl:
			if found.Recv == nil {
				n.functions[found.Name.Name] = true
			}
		case ast.Expr:
			if text := literal(found); text != "" {
				n.texts[asPrinted(text)] = true
			}
		}
		return true
	})
}

func TestMissingTests(t *testing.T) {
	const source = "package p\nfunc TestA() { _ = []string{\"one\", \"two/three\", \"five \"+\"six\"} }\n"
	file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	n := testNames{functions: map[string]bool{}, texts: map[string]bool{}}
	n.add(file)
	for test, want := range map[string]string{
		"TestA": "", "TestA/one": "", "TestA/one/one": "", "TestA/two/three": "", "TestA/five six": "", "TestA/five_six": "",
		"TestB": "function TestB", "TestA/four": "subtest four", "TestA/one/four": "subtest four",
	} {
		if got := n.missing(test); got != want {
			t.Errorf("of %s %q is missing, want %q", test, got, want)
		}
	}
}

// cloneSetPage documents every field of a CloneSet.
const cloneSetPage = "docs/kinds/cloneset.md"

// TestEveryFieldIsDocumented checks that cloneSetPage names every field of the spec in code.
func TestEveryFieldIsDocumented(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(cloneSetPage)))
	if err != nil {
		t.Fatalf("read %s: %v", cloneSetPage, err)
	}
	_, page, _ := strings.Cut(string(data), "\n## Fields\n")
	page, _, _ = strings.Cut(page, "\n## ")
	named := map[string]bool{}
	for _, span := range codeSpan.FindAllString(page, -1) {
		for name := range strings.SplitSeq(strings.Trim(span, "`"), ".") {
			named[strings.Trim(name, "…")] = true
		}
	}
	fields := fieldsOf(reflect.TypeFor[apps.CloneSetSpec]())
	if len(fields) < 30 {
		t.Fatalf("only %d fields were found: %v", len(fields), fields)
	}
	for _, field := range fields {
		if !named[field] {
			t.Errorf("%s does not name the field %s under \"## Fields\"", cloneSetPage, field)
		}
	}
}

// fieldsOf returns the names of the fields of a type, and of those types below it that are ours.
func fieldsOf(typ reflect.Type) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[apps.CloneSetSpec]().PkgPath() {
		return nil
	}
	var names []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		names = append(names, name)
		names = append(names, fieldsOf(typ.Field(i).Type)...)
	}
	return names
}
