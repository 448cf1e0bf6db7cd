// Package checks evaluates the CEL expressions of the checks of waves. It is pure.
package checks

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime"
)

// cost bounds what evaluating one expression may cost: it takes a few milliseconds at most. Expressions over a status
// or an answer stay far below it.
const cost = 100_000

// OfWorkload returns why an expression does not hold of a workload, "" where it does. The variable object is the
// workload.
func OfWorkload(expression string, o runtime.Object) string {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Sprintf("the workload cannot be read: %v", err)
	}
	return Unmet(expression, map[string]any{"object": object})
}

// Unmet returns why an expression over variables does not hold, "" where it does.
func Unmet(expression string, variables map[string]any) string {
	var declared []cel.EnvOption
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		declared = append(declared, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(declared...)
	if err != nil {
		return fmt.Sprintf("make an environment for CEL: %v", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		// The text of issues has lines of its own, with the expression and a mark under it.
		first := issues.Errors()[0]
		return fmt.Sprintf(
			"its expression is not valid: %s (at column %d of %s); correct the policy",
			first.Message,
			first.Location.Column()+1,
			expression,
		)
	}
	program, err := env.Program(ast, cel.CostLimit(cost))
	if err != nil {
		return fmt.Sprintf("its expression is not valid: %v; correct the policy", err)
	}
	value, _, err := program.Eval(variables)
	if err != nil {
		return fmt.Sprintf("%s: %v", expression, err)
	}
	switch holds, isBool := value.Value().(bool); {
	case !isBool:
		return fmt.Sprintf("%s is no true or false; correct the policy", expression)
	case !holds:
		return expression + " is false"
	}
	return ""
}
