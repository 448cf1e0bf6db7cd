package snapshot

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// ruleCost bounds what evaluating one rule may cost: far more than a rule of ours needs, and some milliseconds.
const ruleCost = 10_000_000

// rules evaluates the rules by CEL of schemas.
type rules struct{ env *cel.Env }

func newRules() (rules, error) {
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType), ext.Strings(), cel.OptionalTypes())
	if err != nil {
		return rules{}, fmt.Errorf("make an environment for CEL: %w", err)
	}
	return rules{env}, nil
}

// check returns a sentence for each rule of a schema that does not hold of a value, without the remedy that all
// mistakes have. A rule that needs more than a value and CEL itself, such as the value of before or a function that API
// servers add, is left to the server.
func (r rules) check(path string, value any, openAPI map[string]any) []error {
	list, _ := openAPI["x-kubernetes-validations"].([]any)
	var mistakes []error
	for _, item := range list {
		rule, _ := item.(map[string]any)
		text, _ := rule["rule"].(string)
		if holds, ok := r.eval(text, value); !ok || holds != false {
			continue
		}
		field, _ := rule["fieldPath"].(string)
		message, _ := rule["message"].(string)
		if expression, ok := rule["messageExpression"].(string); ok {
			if said, ok := r.eval(expression, value); ok {
				message = fmt.Sprint(said)
			}
		}
		mistakes = append(
			mistakes,
			&Mistake{Path: path + field, Problem: "Invalid value: " + strings.TrimSuffix(message, ": correct it")},
		)
	}
	return mistakes
}

// eval returns what an expression over a value is; false where that cannot be said here.
func (r rules) eval(expression string, value any) (any, bool) {
	program := r.program(expression)
	if program == nil {
		return nil, false
	}
	out, _, err := program.Eval(map[string]any{"self": value})
	if err != nil {
		return nil, false
	}
	return out.Value(), true
}

// program compiles an expression; nil for one that only a server can.
func (r rules) program(expression string) cel.Program {
	ast, issues := r.env.Compile(expression)
	if issues.Err() != nil {
		return nil
	}
	program, err := r.env.Program(ast, cel.CostLimit(ruleCost))
	if err != nil {
		return nil
	}
	return program
}
