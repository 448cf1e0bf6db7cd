package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/apis/warnings"
	"github.com/flotilla-dev/flotilla/e2e/wording"
)

// fewestWords is how many words a text has that is held to the rules of sentences: shorter ones are names and keys.
const fewestWords = 4

// TestSentencesForUsers holds the texts of the programs (conditions, events, errors, findings, what verbs print) to
// the length and the words of package wording. testdata/sentences.txt names those that were there before the rule.
func TestSentencesForUsers(t *testing.T) {
	broken, found := map[string]string{}, 0
	for folder, p := range parsePackages(t, "apis", "cmd", "hub", "member-agent", "topology") {
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			if ast.IsGenerated(p.files[name]) {
				continue
			}
			for _, sentence := range sentencesOf(p.files[name]) {
				found++
				if wrong := wording.Wrong(sentence); wrong != "" {
					broken[folder+"/"+name+": "+beginning(sentence)] = wrong
				}
			}
		}
	}
	if found < 1000 {
		t.Fatalf("only %d sentences were found: the rule does not fit the code any more", found)
	}
	checkExceptions(t, "sentences", broken)
}

// TestSentencesOfAPIServers holds what API servers say for Flotilla: the messages of rules of the definitions, and the
// warnings.
func TestSentencesOfAPIServers(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range []func() ([]*unstructured.Unstructured, error){
		func() ([]*unstructured.Unstructured, error) { return warnings.Hub(true) }, warnings.Member,
	} {
		objects, err := read()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	found := 0
	for _, object := range all {
		eachMessage(object.Object, func(message string) {
			found++
			if word := wording.Dialect(message); word != "" {
				t.Errorf("%s: %q in %q", object.GetName(), word, message)
			}
		})
	}
	if found < 100 {
		t.Fatalf("only %d messages were found", found)
	}
}

// eachMessage visits the fields message and messageExpression of an object, at any depth.
func eachMessage(value any, visit func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			if text, is := below.(string); is && (key == "message" || key == "messageExpression") {
				visit(text)
			}
			eachMessage(below, visit)
		}
	case []any:
		for _, below := range v {
			eachMessage(below, visit)
		}
	}
}

// sentencesOf returns the texts of a file that a user may read. Those of a help are left out: they have paragraphs.
func sentencesOf(file *ast.File) []string {
	var all []string
	add := func(text string) {
		if len(strings.Fields(text)) >= fewestWords && !strings.Contains(text, "\n") {
			all = append(all, text)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil
		case *ast.KeyValueExpr:
			key, _ := n.Key.(*ast.Ident)
			return key == nil || key.Name != "Long" && key.Name != "Example"
		case *ast.BinaryExpr:
			if text, ok := joined(n); ok {
				add(text)
				return false
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				add(literal(n))
			}
		}
		return true
	})
	return all
}

// joined returns a sum of strings as one text, with … for what is no literal; false for any other expression.
func joined(e ast.Expr) (string, bool) {
	switch n := e.(type) {
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return "", false
		}
		left, leftIs := joined(n.X)
		right, rightIs := joined(n.Y)
		return left + right, leftIs || rightIs
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			return literal(n), true
		}
	}
	return "…", false
}

// beginning returns the first words of a sentence, to name it by.
func beginning(sentence string) string {
	runes := []rune(strings.TrimSpace(sentence))
	return strings.TrimSpace(string(runes[:min(len(runes), 70)]))
}
