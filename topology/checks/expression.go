// Package checks evaluates the CEL expressions of checks. It is pure.
package checks

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime"
)

// cost bounds what evaluating one expression may cost: it takes a few milliseconds at most. Expressions over a status
// or an answer stay far below it.
const cost = 100_000

// CorrectPolicy is the remedy of an expression in a policy that cannot be used.
const CorrectPolicy = "correct the policy"

// OfWorkload returns why an expression does not hold of a workload, "" where it does. The variable object is the
// workload, and the function pods(state) is how many of its pods are in a state of a probe: a label as key=value, or a
// condition as type=status.
func OfWorkload(expression string, o runtime.Object, pods func(state string) int64) string {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Sprintf("the workload cannot be read: %v", err)
	}
	var asked []string
	count := podsFunction(func(state ref.Val) ref.Val {
		text, _ := state.Value().(string)
		n := pods(text)
		if saw := text + ": " + few(n); !slices.Contains(asked, saw) {
			asked = append(asked, saw)
		}
		return types.Int(n)
	})
	why := unmet(expression, map[string]any{"object": object}, CorrectPolicy, count)
	if why != "" && len(asked) > 0 {
		why += "; pods in " + strings.Join(asked, ", ")
	}
	return why
}

// few says how many pods are in a state. What an unmet check says is stored, and is not to change with each pod.
func few(n int64) string {
	if n > 2 {
		return "3 or more"
	}
	return strconv.FormatInt(n, 10)
}

// OfAnswer returns why an expression does not hold of an answer by HTTP, "" where it does. Its variables are status,
// text (the body) and json (the body read as JSON, null where it is none). remedy is that of Unmet.
func OfAnswer(expression string, status int, body []byte, remedy string) string {
	var value any
	if json.Unmarshal(body, &value) != nil {
		value = nil
	}
	why := Unmet(expression, map[string]any{"status": status, "text": string(body), "json": value}, remedy)
	if why != "" && status >= 300 && status < 400 {
		why += "; redirects are not followed"
	}
	return why
}

// Unmet returns why an expression over variables does not hold, "" where it does. remedy is what to do about one that
// cannot be used.
func Unmet(expression string, variables map[string]any, remedy string) string {
	return unmet(expression, variables, remedy)
}

func unmet(expression string, variables map[string]any, remedy string, functions ...cel.EnvOption) string {
	program, invalid := compile(expression, remedy, slices.Sorted(maps.Keys(variables)), functions...)
	if invalid != "" {
		return invalid
	}
	value, _, err := program.Eval(variables)
	if err != nil {
		return fmt.Sprintf("%s: %v", expression, err)
	}
	switch holds, isBool := value.Value().(bool); {
	case !isBool:
		return notBool(expression, remedy)
	case !holds:
		return expression + " is false"
	}
	return ""
}

// Invalid returns why an expression over variables of these names can hold of nothing, "" where it can. remedy is that
// of Unmet.
func Invalid(expression, remedy string, variables ...string) string {
	_, invalid := compile(expression, remedy, variables)
	return invalid
}

// InvalidOfWorkload returns why an expression can hold of no workload, "" where it can; see OfWorkload.
func InvalidOfWorkload(expression string) string {
	none := func(ref.Val) ref.Val { return types.Int(0) }
	_, invalid := compile(expression, CorrectPolicy, []string{"object"}, podsFunction(none))
	return invalid
}

// podsFunction declares the function pods of the expressions of workloads.
func podsFunction(count func(ref.Val) ref.Val) cel.EnvOption {
	return cel.Function("pods", cel.Overload("pods_string", []*cel.Type{cel.StringType}, cel.IntType,
		cel.UnaryBinding(count)))
}

func compile(
	expression, remedy string, variables []string, functions ...cel.EnvOption,
) (program cel.Program, invalid string) {
	declared := slices.Clone(functions)
	for _, name := range variables {
		declared = append(declared, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(declared...)
	if err != nil {
		return nil, fmt.Sprintf("make an environment for CEL: %v", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		// The text of issues has lines of its own, with the expression and a mark under it.
		first := issues.Errors()[0]
		return nil, fmt.Sprintf(
			"its expression is not valid: %s (at column %d of %s); %s",
			first.Message,
			first.Location.Column()+1,
			expression,
			remedy,
		)
	}
	if result := ast.OutputType(); !result.IsExactType(cel.BoolType) && !result.IsExactType(cel.DynType) {
		return nil, notBool(expression, remedy)
	}
	if program, err = env.Program(ast, cel.CostLimit(cost)); err != nil {
		return nil, fmt.Sprintf("its expression is not valid: %v; %s", err, remedy)
	}
	return program, ""
}

func notBool(expression, remedy string) string {
	return fmt.Sprintf("%s is no true or false; %s", expression, remedy)
}
