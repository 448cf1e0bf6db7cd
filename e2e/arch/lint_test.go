package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	strictyaml "sigs.k8s.io/yaml"
)

const (
	// maxColumns of a line, and maxComplexity of a function; both linters read the same from .golangci.yml.
	maxColumns    = 120
	maxComplexity = 15
)

// lintConfig is what the test reads of .golangci.yml.
type lintConfig struct {
	Linters struct {
		Settings struct {
			Lll struct {
				LineLength int `json:"line-length"`
			}
			Gocyclo struct {
				MinComplexity int `json:"min-complexity"`
			}
		}
		Exclusions struct {
			Rules []struct {
				Path    string
				Text    string
				Linters []string
			}
		}
	}
}

// excused returns the folders that the linter's exclusion lists. The path of that rule is "^(folder|folder)/[^/]*$".
func (c *lintConfig) excused(linter string) []string {
	const before, after = "^(", ")/[^/]*$"
	for _, rule := range c.Linters.Exclusions.Rules {
		if slices.Equal(rule.Linters, []string{linter}) && strings.HasPrefix(rule.Path, before) &&
			strings.HasSuffix(rule.Path, after) {
			return strings.Split(strings.TrimSuffix(strings.TrimPrefix(rule.Path, before), after), "|")
		}
	}
	return nil
}

// TestLintExclusionsShrink holds that .golangci.yml excuses only folders which still need it.
func TestLintExclusionsShrink(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config lintConfig
	if err := strictyaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if s := config.Linters.Settings; s.Lll.LineLength != maxColumns || s.Gocyclo.MinComplexity != maxComplexity {
		t.Errorf(".golangci.yml allows %d columns and a complexity of %d, want %d and %d",
			s.Lll.LineLength, s.Gocyclo.MinComplexity, maxColumns, maxComplexity)
	}
	long, complicated := map[string]bool{}, map[string]bool{}
	walk(t, func(file string, entry fs.DirEntry) {
		if entry.IsDir() || !strings.HasSuffix(file, ".go") {
			return
		}
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return // a test beside this one made it and removed it
		}
		long[path.Dir(file)] = long[path.Dir(file)] || hasLongLine(string(source))
		if !strings.HasSuffix(file, "_test.go") {
			complicated[path.Dir(file)] = complicated[path.Dir(file)] || mostComplex(t, file, source) > maxComplexity
		}
	})
	for linter, needed := range map[string]map[string]bool{"lll": long, "gocyclo": complicated} {
		for _, folder := range config.excused(linter) {
			if !needed[folder] {
				t.Errorf(".golangci.yml: remove %s from the exclusions of %s: it needs none any more", folder, linter)
			}
		}
	}
}

func hasLongLine(source string) bool {
	for line := range strings.Lines(source) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > maxColumns {
			return true
		}
	}
	return false
}

// mostComplex returns the cyclomatic complexity of the most complex function of a file, as gocyclo counts it.
func mostComplex(t *testing.T, name string, source []byte) int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	most := 0
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			most = max(most, complexity(function))
		}
	}
	return most
}

func complexity(function *ast.FuncDecl) int {
	n := 1
	ast.Inspect(function, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func TestComplexity(t *testing.T) {
	const source = `package p
func f(a, b bool) {
	if a && b { return }
	for range 3 { f(a, b) }
	switch { case a: case b: default: }
}`
	if got := mostComplex(t, "p.go", []byte(source)); got != 6 {
		t.Errorf("complexity %d, want 6", got)
	}
}
