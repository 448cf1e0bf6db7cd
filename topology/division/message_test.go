package division

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	tests := []struct{ got, want string }{
		{
			Share{Subset: "a", Cluster: "east", Zone: "z1", Replicas: 3,
				Reason: Reason{CellWeight, map[string]string{"weight": "2"}}}.Message(),
			`east/z1 has 3 of subset "a": that is its share by its weight of 2`,
		},
		{
			SubsetShare{Name: "a", Replicas: 3, Reason: Reason{SubsetSumMismatch,
				map[string]string{"replicas": "33%"}}}.Message(),
			`subset "a" has 3: the replicas of all subsets do not sum to those of the workload, so its 33% counts as a weight`,
		},
		{
			SubsetShare{Name: "a", Replicas: 1, Reason: Reason{SubsetUnschedulable, map[string]string{"min": "10%"}}}.Message(),
			`subset "a" has 1: its pods cannot be scheduled, so it keeps those that have a node and its min of 10%, and the other subsets take the rest`,
		},
		{
			SubsetShare{Name: "b", Replicas: 3, Reason: Reason{Code: SubsetStandIn}}.Message(),
			`subset "b" has 3: it runs pods in place of those that are not ready in other subsets`,
		},
		{
			Unplaced{Replicas: 1, Reason: Reason{Code: UnplacedFrozen}}.Message(),
			"1 replica of the workload not placed: the clusters that may take more are unhealthy or cut off; bring them back, " +
				"or add a cluster",
		},
	}
	for _, tc := range tests {
		if tc.got != tc.want {
			t.Errorf("got  %s\nwant %s", tc.got, tc.want)
		}
	}
}

// Every reason that is documented has a sentence of its own.
func TestEveryReasonHasAMessage(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		code, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, r := spec.Names[0].Name, Reason{Code: code}
		message := ""
		switch {
		case strings.HasPrefix(name, "Cell"):
			message = Share{Reason: r}.Message()
		case strings.HasPrefix(name, "Subset"):
			message = SubsetShare{Reason: r}.Message()
		case strings.HasPrefix(name, "Unplaced"):
			message = Unplaced{Reason: r}.Message()
		}
		found++
		if message == "" || strings.HasSuffix(message, "of "+code) {
			t.Errorf("%s has no sentence: %q", name, message)
		}
		return true
	})
	if found < 20 {
		t.Errorf("found %d reasons only", found)
	}
}
