package mutator

import (
	"testing"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
)

// TestConditionIsTheSelector compares the expression with what the mutator itself matches.
func TestConditionIsTheSelector(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for _, selector := range []string{
		"app=web", "app=web,tier=a", "app in (web, db)", "app notin (web)", "app", "!app", "app=web,!tier", "example.com/a=b",
	} {
		parsed, err := metav1.ParseToLabelSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		selection, err := inject.NewSelection(&v1beta1.SidecarSetSpec{Selector: parsed})
		if err != nil {
			t.Fatal(err)
		}
		ast, issues := env.Compile(condition(parsed))
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range []labels.Set{nil, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "a"}, {"tier": "b"},
			{"example.com/a": "b"}} {
			for _, namespace := range []string{"shop", "kube-system"} {
				metadata := map[string]any{}
				if pod != nil {
					metadata["labels"] = map[string]string(pod)
				}
				got, _, err := program.Eval(map[string]any{"object": map[string]any{"metadata": metadata},
					"request": map[string]any{"namespace": namespace}})
				if err != nil {
					t.Fatalf("%s of %v: %v", selector, pod, err)
				}
				if want := selection.Matches(pod, namespace, nil); got.Value() != want {
					t.Errorf("%s of %v in %s: %v, want %t", selector, pod, namespace, got, want)
				}
			}
		}
	}
}
