// Command statements counts the Go statements of each folder: how large the project is, whatever the length of its
// lines.
//
//	go run ./e2e/arch/statements
//	go run ./e2e/arch/statements member-agent/workloads
//
// Tests and generated files do not count.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	folder := "."
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(folder, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "statements:", err)
		os.Exit(1)
	}
}

// run prints the statements below each direct child of the folder, and their sum.
func run(folder string, out io.Writer) error {
	counts, err := countFolders(folder)
	if err != nil {
		return err
	}
	all := 0
	for _, child := range slices.Sorted(maps.Keys(counts)) {
		all += counts[child]
		fmt.Fprintf(out, "%7d  %s\n", counts[child], child)
	}
	fmt.Fprintf(out, "%7d  in all\n", all)
	return nil
}

// countFolders returns the statements below each direct child of the folder. Files of the folder itself are under ".".
func countFolders(folder string) (map[string]int, error) {
	counts := map[string]int{}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := strings.HasPrefix(entry.Name(), ".") && name != folder
			if hidden || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		below, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		child, _, inChild := strings.Cut(filepath.ToSlash(below), "/")
		if !inChild {
			child = "."
		}
		n, err := countFile(name, nil)
		counts[child] += n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the statements of %s: %w", folder, err)
	}
	return counts, nil
}

// countFile returns the statements of a file, 0 if it is generated. The source is read from the file if it is nil.
func countFile(name string, source any) (int, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return 0, err
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause, *ast.LabeledStmt, *ast.EmptyStmt:
			// They group statements that count themselves.
		case ast.Stmt:
			n++
		}
		return true
	})
	return n, nil
}
