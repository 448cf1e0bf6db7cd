package placement

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checkCost bounds what evaluating one expression may cost: it takes a few milliseconds at most. Expressions over a status stay
// far below it.
const checkCost = 100_000

// checkWave returns why a check of a wave does not hold of a workload, "" where it does. The variable object is the workload.
func checkWave(expression string, o client.Object) string {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType))
	if err != nil {
		return fmt.Sprintf("make an environment for CEL: %v", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return fmt.Sprintf("its expression is not valid: %v; correct the policy", issues.Err())
	}
	program, err := env.Program(ast, cel.CostLimit(checkCost))
	if err != nil {
		return fmt.Sprintf("its expression is not valid: %v; correct the policy", err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Sprintf("the workload cannot be read: %v", err)
	}
	value, _, err := program.Eval(map[string]any{"object": object})
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
