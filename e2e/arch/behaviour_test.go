package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// behaviourHeading is the section of a page with the table of what is promised and which test holds it.
const behaviourHeading = "## Behaviour and tests"

const cloneSetPage = "docs/kinds/cloneset.md"

// behaviourPages are the pages that have it, with the least number of tests that they name.
func behaviourPages() map[string]int {
	return map[string]int{cloneSetPage: 40, "docs/kinds/uniteddeployment.md": 30, "docs/kinds/workloadspread.md": 20, "docs/federation.md": 70}
}

// TestBehaviourIsTested holds that the tests which the table of the page names are there: the function in the package, and
// each part of a subtest's name as a string in the package's tests.
func TestBehaviourIsTested(t *testing.T) {
	known := map[string]testNames{}
	for name, least := range behaviourPages() {
		checkBehaviours(t, name, least, known)
	}
}

// checkBehaviours checks one page; known are the tests of packages that were read before.
func checkBehaviours(t *testing.T, page string, least int, known map[string]testNames) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatalf("read %s: %v", page, err)
	}
	rows, complaints := behaviours(string(data))
	for _, sentence := range complaints {
		t.Errorf("%s: %s", page, sentence)
	}
	if len(rows) < least {
		t.Fatalf("%s names only %d tests", page, len(rows))
	}
	for _, row := range rows {
		if _, ok := known[row.folder]; !ok {
			known[row.folder] = readTests(t, row.folder)
		}
		if missing := known[row.folder].missing(row.test); missing != "" {
			t.Errorf("%s names %s in %s: there is no %s", page, row.test, row.folder, missing)
		}
	}
}

// behaviour is a test that a row names.
type behaviour struct{ test, folder string }

var (
	testInRow   = regexp.MustCompile("`(Test[^`]+)`|\\(([^()`]+)\\)")
	tableBorder = regexp.MustCompile(`^\|[-| ]+\|$`)
)

// behaviours returns the tests of the table, and what is wrong with its rows. A row is "| behaviour | tests |"; the tests
// are in backquotes, and those of one package are followed by its folder in brackets.
func behaviours(page string) (rows []behaviour, complaints []string) {
	_, section, found := strings.Cut(page, "\n"+behaviourHeading+"\n")
	if !found {
		return nil, []string{"there is no heading " + behaviourHeading}
	}
	section, _, _ = strings.Cut(section, "\n## ")
	header := true
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || tableBorder.MatchString(line) {
			continue
		}
		if header {
			header = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		var waiting []string
		before := len(rows)
		if len(cells) == 2 {
			for _, m := range testInRow.FindAllStringSubmatch(cells[1], -1) {
				if m[1] != "" {
					waiting = append(waiting, m[1])
					continue
				}
				for _, test := range waiting {
					rows = append(rows, behaviour{test: test, folder: m[2]})
				}
				waiting = nil
			}
		}
		if len(cells) != 2 || len(waiting) > 0 || len(rows) == before {
			complaints = append(complaints, "a row names no test with its folder: "+line)
		}
	}
	return rows, complaints
}

func TestBehaviours(t *testing.T) {
	const page = "# Kind\n\n" + behaviourHeading + "\n\n| Behaviour | Test |\n|---|---|\n" +
		"| one (1) | `TestA`, `TestB/c d` (e2e/x), `TestC` (e2e/y) |\n| no folder | `TestD` |\n| no test | none |\n\n## Next\n| `TestE` (e2e/z) |\n"
	rows, complaints := behaviours(page)
	want := []behaviour{{"TestA", "e2e/x"}, {"TestB/c d", "e2e/x"}, {"TestC", "e2e/y"}}
	if !reflect.DeepEqual(rows, want) || len(complaints) != 2 {
		t.Errorf("rows %v, complaints %q", rows, complaints)
	}
	if _, complaints := behaviours("# Kind\n"); len(complaints) != 1 {
		t.Errorf("a page without the table: %q", complaints)
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
		case *ast.BasicLit:
			if text := literal(found); text != "" {
				n.texts[asPrinted(text)] = true
			}
		}
		return true
	})
}

func TestMissingTests(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", "package p\nfunc TestA() { _ = []string{\"one\", \"two/three\", \"five six\"} }\n", parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	n := testNames{functions: map[string]bool{}, texts: map[string]bool{}}
	n.add(file)
	for test, want := range map[string]string{
		"TestA": "", "TestA/one": "", "TestA/one/one": "", "TestA/two/three": "", "TestA/five six": "", "TestA/five_six": "", "TestB": "function TestB", "TestA/four": "subtest four", "TestA/one/four": "subtest four",
	} {
		if got := n.missing(test); got != want {
			t.Errorf("of %s %q is missing, want %q", test, got, want)
		}
	}
}

// TestEveryFieldIsDocumented holds that the page names every field of the spec in code.
func TestEveryFieldIsDocumented(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(cloneSetPage)))
	if err != nil {
		t.Fatalf("read %s: %v", cloneSetPage, err)
	}
	page, _, _ := strings.Cut(string(data), "\n"+behaviourHeading+"\n")
	_, page, _ = strings.Cut(page, "\n## Fields\n")
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
