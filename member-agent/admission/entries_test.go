package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	fail   = admissionregistrationv1.Fail
	ignore = admissionregistrationv1.Ignore
	// halfOfCost is half of what an API server allows one expression to cost.
	halfOfCost = 500_000
)

// labelled is the condition that a pod has the label.
func labelled(key, value string) string {
	return fmt.Sprintf(
		"has(object.metadata.labels) && '%[1]s' in object.metadata.labels && object.metadata.labels['%[1]s'] == '%[2]s'",
		key,
		value,
	)
}

func within(requirements ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: requirements}
}

func in(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
}

func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

func exists(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
}

func absent(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}
}

// padded returns the condition with a meaning that is the same and n more characters.
func padded(condition string, n int) string {
	return condition + " && '" + strings.Repeat("x", n) + "' != ''"
}

// told writes the entries in short.
func told(p plan) []string {
	var lines []string
	for _, e := range p.entries {
		line := fmt.Sprintf("%s [%s] %v: %.60s", e.policy, textOf(e.selector), e.namespaces, e.condition)
		if e.requires != "" {
			line += " beside " + e.requires
		}
		for _, excluded := range e.excluded {
			line += fmt.Sprintf(", not %.60s", excluded)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestPlanOf(t *testing.T) {
	prod := within(in("env", "prod"))
	long := MaxConditions
	tests := []struct {
		name                 string
		scopes               []Scope
		want                 []string
		widened, notEnforced []string
	}{
		{name: "nothing"},
		{
			name:   "one scope is taken as it is",
			scopes: []Scope{{FailurePolicy: ignore, Namespaces: []string{"b", "a"}, Condition: "x"}},
			want:   []string{"Ignore [] [a b]: x"},
		},
		{name: "scopes of one policy are one entry", scopes: []Scope{
			{
				FailurePolicy: ignore,
				Namespaces:    []string{"b"},
				Condition:     "x",
			}, {FailurePolicy: ignore, Namespaces: []string{"a", "b"}, Condition: "y"},
		}, want: []string{"Ignore [] [a b]: (x) || (y)"}},
		{name: "one scope of all namespaces", scopes: []Scope{
			{FailurePolicy: ignore, Namespaces: []string{"b"}, Condition: "x"}, {FailurePolicy: ignore, Condition: "y"},
		}, want: []string{"Ignore [] []: (x) || (y)"}},
		{name: "an empty selector is none", scopes: []Scope{
			{
				FailurePolicy:     ignore,
				NamespaceSelector: &metav1.LabelSelector{},
				Condition:         "x",
			}, {FailurePolicy: ignore, Condition: "x"},
		}, want: []string{"Ignore [] []: x"}},
		{
			name:   "Fail comes first",
			scopes: []Scope{{FailurePolicy: ignore, Condition: "x"}, {FailurePolicy: fail, Condition: "y"}},
			want:   []string{"Fail [] []: y", "Ignore [] []: x, not y"},
		},
		{name: "the same selector", scopes: []Scope{
			{FailurePolicy: ignore, NamespaceSelector: prod, Condition: "x"},
			{
				FailurePolicy:     fail,
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
				Condition:         "y",
			},
		}, want: []string{"Fail [env In prod;] []: y", "Ignore [env In prod;] []: x, not y"}},
		{name: "a selector, and all namespaces", scopes: []Scope{
			{FailurePolicy: fail, NamespaceSelector: prod, Condition: "y"}, {FailurePolicy: ignore, Condition: "x"},
		}, want: []string{
			"Fail [env In prod;] []: y", "Ignore [env In prod;] []: x, not y", "Ignore [env NotIn prod;] []: x",
		}},
		{name: "selectors that no namespace satisfies both", scopes: []Scope{
			{
				FailurePolicy:     fail,
				NamespaceSelector: prod,
				Condition:         "y",
			}, {FailurePolicy: fail, NamespaceSelector: within(in("env", "dev")), Condition: "x"},
		}, want: []string{"Fail [env In dev;] []: x", "Fail [env In prod;] []: y"}},
		{name: "selectors of two labels", scopes: []Scope{
			{
				FailurePolicy:     fail,
				NamespaceSelector: prod,
				Condition:         "y",
			}, {FailurePolicy: ignore, NamespaceSelector: within(exists("tier")), Condition: "x"},
		}, want: []string{
			"Fail [env In prod;] []: y", "Ignore [tier Exists ;env In prod;] []: x, not y",
			"Ignore [tier Exists ;env NotIn prod;] []: x",
		}},
		{name: "Ignore widens", scopes: []Scope{
			{Name: "a", FailurePolicy: ignore, Condition: "x"},
			{Name: "b", FailurePolicy: ignore, Condition: padded("y", long), Wide: "wide"},
		}, want: []string{"Ignore [] []: (wide) || (x)"}, widened: []string{"b"}},
		{name: "Fail does not widen", scopes: []Scope{
			{Name: "a", FailurePolicy: fail, Condition: "x"},
			{Name: "b", FailurePolicy: fail, Condition: padded("y", long), Wide: "wide"},
			{Name: "c", FailurePolicy: fail, Condition: "z"},
		}, want: []string{"Fail [] []: (x) || (z)", "Ignore [] []: wide, not (x) || (z)"},
			widened: []string{"b"}, notEnforced: []string{"b"}},
		{name: "the longest under Fail does not fit", scopes: []Scope{
			{Name: "a", FailurePolicy: fail, Condition: padded("x", maxFail/2), Wide: "wide"},
			{Name: "b", FailurePolicy: fail, Condition: padded("y", maxFail/3)},
			{Name: "c", FailurePolicy: fail, Condition: padded("z", maxFail/3)},
		}, want: []string{
			"Fail [] []: " + ("(" + padded("y", maxFail))[:60],
			"Ignore [] []: " + padded("x", maxFail)[:60] + ", not " + ("(" + padded("y", maxFail))[:60],
		}, notEnforced: []string{"a"}},
		{name: "what scopes have in common is a condition of its own", scopes: []Scope{
			{FailurePolicy: fail, Condition: "x", Requires: "r"}, {FailurePolicy: fail, Condition: "y", Requires: "r"},
			{FailurePolicy: ignore, Condition: "z", Requires: "r"}, {FailurePolicy: ignore, Condition: "o"},
		}, want: []string{
			"Fail [] []: (x) || (y) beside r", "Ignore [] []: o, not (r) && ((x) || (y))",
			"Ignore [] []: z beside r, not (x) || (y), not o",
		}},
		{name: "a wide entry takes pods in its namespaces alone", scopes: []Scope{
			{Name: "a", FailurePolicy: ignore, Namespaces: []string{"n"}, Condition: padded("x", long), Wide: "wide"},
			{Name: "b", FailurePolicy: ignore, NamespaceSelector: prod, Condition: "y"},
		}, want: []string{
			"Ignore [] [n]: wide", "Ignore [env In prod;kubernetes.io/metadata.name In n;] []: y, not wide",
			"Ignore [env In prod;kubernetes.io/metadata.name NotIn n;] []: y",
		}, widened: []string{"a"}},
		{name: "nothing is short enough", scopes: []Scope{
			{Name: "a", FailurePolicy: ignore, Condition: padded("x", long), Wide: padded("x", long-1)},
			{Name: "b", FailurePolicy: ignore, Condition: padded("y", long-2), Wide: padded("y", long-3)},
		}, want: []string{"Ignore [] []: true"}, widened: []string{"a", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := planOf(tt.scopes)
			if diff := cmp.Diff(tt.want, told(p)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff([][]string{tt.widened, tt.notEnforced}, [][]string{p.widened, p.notEnforced}); diff != "" {
				t.Errorf("widened and not enforced: -want +got:\n%s", diff)
			}
		})
	}
}

// TestPlanForgetsNames has more namespaces than an object holds.
func TestPlanForgetsNames(t *testing.T) {
	var names []string
	for i := range maxNamespaces + 1 {
		names = append(names, fmt.Sprintf("team-%05d", i))
	}
	p := planOf([]Scope{{FailurePolicy: ignore, Namespaces: names, Condition: "x"}})
	if got := p.entries[0].namespaces; got != nil {
		t.Errorf("%d names", len(got))
	}
	if got := planOf([]Scope{{FailurePolicy: ignore, Namespaces: names[1:], Condition: "x"}}).entries[0].namespaces; len(
		got,
	) != maxNamespaces {
		t.Errorf("%d names", len(got))
	}
}

// matcher decides as an API server does whether a webhook gets a pod.
type matcher struct {
	*testing.T
	env      *cel.Env
	programs map[string]cel.Program
}

func newMatcher(t *testing.T) *matcher {
	t.Helper()
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		ext.Strings(),
		cel.Variable("object", cel.DynType),
		cel.Variable("request", cel.DynType),
	)
	if err != nil {
		t.Fatal(err)
	}
	return &matcher{t, env, map[string]cel.Program{}}
}

// holds evaluates an expression, which must not fail, and must cost less than half of what an API server allows.
func (m *matcher) holds(expression string, pod map[string]any, namespace string) bool {
	m.Helper()
	program, ok := m.programs[expression]
	if !ok {
		ast, issues := m.env.Compile(expression)
		if issues.Err() != nil {
			m.Fatal(issues.Err())
		}
		var err error
		if program, err = m.env.Program(ast, cel.CostLimit(halfOfCost), cel.EvalOptions(cel.OptOptimize)); err != nil {
			m.Fatal(err)
		}
		m.programs[expression] = program
	}
	value, _, err := program.Eval(map[string]any{"object": pod, "request": map[string]any{"namespace": namespace}})
	if err != nil {
		m.Fatalf("evaluate %.200s: %v", expression, err)
	}
	return value.Value() == true
}

func (m *matcher) selects(selector *metav1.LabelSelector, namespace labels.Set) bool {
	m.Helper()
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		m.Fatal(err)
	}
	return s.Matches(namespace)
}

// takes returns the webhooks that get the pod.
func (m *matcher) takes(
	webhooks []admissionregistrationv1.MutatingWebhook, pod map[string]any, namespace labels.Set,
) (taken []admissionregistrationv1.MutatingWebhook) {
	m.Helper()
	for _, webhook := range webhooks {
		if m.selects(webhook.NamespaceSelector, namespace) &&
			!slices.ContainsFunc(webhook.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
				return !m.holds(c.Expression, pod, namespace[corev1.LabelMetadataName])
			}) {
			taken = append(taken, webhook)
		}
	}
	return taken
}

// allNamespaces have the labels env and tier in all ways, and are named by them.
func allNamespaces() (all []labels.Set) {
	for _, env := range []string{"", "prod", "dev"} {
		for _, tier := range []string{"", "web"} {
			namespace := labels.Set{corev1.LabelMetadataName: "ns-" + env + "-" + tier + "-0"}
			if env != "" {
				namespace["env"] = env
			}
			if tier != "" {
				namespace["tier"] = tier
			}
			all = append(all, namespace)
		}
	}
	return all
}

// allPods have the labels a and b in all ways; one has no labels.
func allPods() (all []map[string]any) {
	for _, a := range []string{"", "1", "2"} {
		for _, b := range []string{"", "1", "2"} {
			podLabels := map[string]any{"a": a, "b": b}
			all = append(all, map[string]any{"metadata": map[string]any{"labels": podLabels}})
		}
	}
	return append(all, map[string]any{"metadata": map[string]any{}})
}

// randomScope selects pods of allPods in allNamespaces.
func randomScope(random *rand.Rand, name string, long bool) Scope {
	selectors := []*metav1.LabelSelector{
		nil, nil, {}, within(in("env", "prod")), within(in("env", "dev")), within(notIn("env", "prod")),
		within(exists("tier")),
		within(absent("tier")), within(in("env", "prod", "dev"), absent("tier")), within(exists("env"), notIn("tier", "web")),
		{MatchLabels: map[string]string{"env": "prod", "tier": "web"}},
	}
	wide := labelled(string("ab"[random.IntN(2)]), fmt.Sprint(1+random.IntN(2)))
	s := Scope{
		Name: name, FailurePolicy: []admissionregistrationv1.FailurePolicyType{fail, ignore}[random.IntN(2)],
		NamespaceSelector: selectors[random.IntN(len(selectors))], Condition: wide, Wide: wide,
	}
	if random.IntN(3) == 0 {
		all := allNamespaces()
		s.Namespaces = []string{
			all[random.IntN(len(all))][corev1.LabelMetadataName],
			all[random.IntN(len(all))][corev1.LabelMetadataName],
		}
		s.Condition = fmt.Sprintf("request.namespace in ['%s'] && %s", strings.Join(s.Namespaces, "', '"), wide)
	}
	if long {
		s.Condition = padded(s.Condition, random.IntN(MaxConditions/2))
	}
	return s
}

// TestPlanProperties sends every pod of random worlds through the webhooks.
func TestPlanProperties(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 0))
		m := newMatcher(t)
		var scopes []Scope
		for i := range random.IntN(5) {
			scopes = append(scopes, randomScope(random, fmt.Sprint(i), seed%3 == 0))
		}
		p := planOf(scopes)
		webhooks := webhooksOf(p.entries, admissionregistrationv1.WebhookClientConfig{}, time.Second)
		names := map[string]bool{}
		for _, webhook := range webhooks {
			names[webhook.Name] = true
		}
		if len(names) != len(webhooks) {
			t.Errorf("seed %d: %d webhooks have %d names", seed, len(webhooks), len(names))
		}
		for _, namespace := range allNamespaces() {
			for _, pod := range allPods() {
				selected, failing := false, false
				for _, s := range scopes {
					if m.selects(s.NamespaceSelector, namespace) && m.holds(s.Condition, pod, namespace[corev1.LabelMetadataName]) {
						selected = true
						failing = failing || s.FailurePolicy == fail && !slices.Contains(p.notEnforced, s.Name)
					}
				}
				taken := m.takes(webhooks, pod, namespace)
				widened := len(p.widened) > 0 && len(taken) == 1 && *taken[0].FailurePolicy == ignore
				switch {
				case len(taken) > 1, selected && len(taken) == 0, !selected && len(taken) > 0 && !widened:
					t.Fatalf(
						"seed %d: pod %v in %v is selected: %v, taken by %d of %s",
						seed,
						pod,
						namespace,
						selected,
						len(taken),
						strings.Join(told(p), "\n"),
					)
				case len(taken) == 1 && failing != (*taken[0].FailurePolicy == fail):
					t.Fatalf("seed %d: pod %v in %v is under Fail: %v, taken by %s", seed, pod, namespace, failing, taken[0].Name)
				}
			}
		}
	}
}

// longestScopes are as many scopes as fit, each of which selects pods by two labels.
func longestScopes(policy admissionregistrationv1.FailurePolicyType, room int) (scopes []Scope) {
	for i := 0; ; i++ {
		s := Scope{
			FailurePolicy: policy,
			Condition:     labelled(fmt.Sprintf("example.com/label-%05d", i), "x") + " && " + labelled("app", "y"),
		}
		if room -= length(s.Condition); room < 0 {
			return scopes
		}
		scopes = append(scopes, s)
	}
}

func TestLongestConditionsCostLessThanHalf(t *testing.T) {
	scopes := append(longestScopes(fail, maxFail), longestScopes(ignore, MaxConditions-maxFail)...)
	p := planOf(scopes)
	if len(p.widened)+len(p.notEnforced) > 0 {
		t.Fatalf("widened %v, not enforced %v", p.widened, p.notEnforced)
	}
	podLabels := map[string]any{}
	for i := range 1000 {
		podLabels[fmt.Sprintf("example.com/label-%05d", i)] = "z"
	}
	m := newMatcher(t)
	taken := m.takes(webhooksOf(p.entries, admissionregistrationv1.WebhookClientConfig{}, time.Second),
		map[string]any{"metadata": map[string]any{"labels": podLabels}}, labels.Set{})
	if len(taken) > 0 {
		t.Errorf("taken by %s", taken[0].Name)
	}
}

func TestWebhooks(t *testing.T) {
	t.Run("a Service gets the port that the API server would write", func(t *testing.T) {
		service := admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "flotilla-system", Name: "flotilla-agent"},
		}
		webhooks := webhooksOf(planOf([]Scope{{FailurePolicy: ignore, Condition: "x"}}).entries, service, DefaultTimeout)
		if got := webhooks[0].ClientConfig.Service.Port; got == nil || *got != 443 || service.Service.Port != nil {
			t.Errorf("%+v of %+v", webhooks[0].ClientConfig.Service, service.Service)
		}
	})
	t.Run("what others add is kept, what another scope required is not", func(t *testing.T) {
		of := func(selector *metav1.LabelSelector, names ...string) []admissionregistrationv1.MutatingWebhook {
			scope := Scope{FailurePolicy: fail, NamespaceSelector: selector, Namespaces: names, Condition: "x"}
			return webhooksOf(planOf([]Scope{scope}).entries, admissionregistrationv1.WebhookClientConfig{}, DefaultTimeout)
		}
		prod, dev := within(in("env", "prod")), within(in("env", "dev"))
		existing := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: of(prod, "a")}
		selector := existing.Webhooks[0].NamespaceSelector
		selector.MatchExpressions = append(selector.MatchExpressions, absent("control-plane"))
		for _, tt := range []struct {
			webhooks []admissionregistrationv1.MutatingWebhook
			want     string
		}{
			{of(prod, "b"), "env In prod;kubernetes.io/metadata.name In b;control-plane DoesNotExist ;"},
			{of(dev, "a"), "env In dev;kubernetes.io/metadata.name In a;"},
		} {
			keepAdditions(tt.webhooks, existing)
			if got := textOf(tt.webhooks[0].NamespaceSelector.MatchExpressions); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		}
	})
}
