package arch

import (
	"go/ast"
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/explain"
)

// TestEveryNumberHasASentence holds that package explain has a sentence for each reason of a number of a placement: the
// constants Cell… and Unplaced… of the packages that decide.
func TestEveryNumberHasASentence(t *testing.T) {
	cells, unplaced := 0, 0
	for folder, p := range parsePackages(t, "hub/decision", "topology/division") {
		for name, file := range p.files {
			declared := map[string]bool{}
			for _, value := range declaredReasons(name, file) {
				declared[value] = true
			}
			eachConstant(file, func(_ *ast.GenDecl, constant, code string) {
				if !declared[code] {
					return
				}
				reason, known := topology.Reason{Code: code}, true
				switch {
				case strings.HasPrefix(constant, "Cell"):
					cells++
					_, known = explain.Cell(reason)
				case strings.HasPrefix(constant, "Unplaced") && constant != "Unplaced":
					unplaced++
					_, known = explain.Unplaced(reason)
				}
				if !known {
					t.Errorf("%s/%s: %s (%s) has no sentence: division.Reason.OfCell or OfUnplaced, or package explain, has to say it",
						folder, name, constant, code)
				}
			})
		}
	}
	if cells < 8 || unplaced < 4 {
		t.Fatalf("only %d reasons of cells and %d of unplaced replicas were found: the rule does not fit the code any more",
			cells, unplaced)
	}
}
