package budgets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// request is one that an API server has.
type request struct {
	operation, subresource, namespace, name string
	user                                    string // empty: some person
	before, after                           *corev1.Pod
}

// byUser returns the request as that of a user.
func byUser(name string, r request) request {
	r.user = name
	return r
}

// holds evaluates a condition, which must not fail.
func (r *request) holds(t *testing.T, condition string, options ...cel.ProgramOption) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), ext.Strings(), cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(condition)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", condition, issues.Err())
	}
	program, err := env.Program(ast, options...)
	if err != nil {
		t.Fatal(err)
	}
	tree := func(pod *corev1.Pod) any {
		if pod == nil {
			return nil
		}
		data, err := json.Marshal(pod)
		out := map[string]any{}
		if err == nil {
			err = json.Unmarshal(data, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	fields := map[string]any{"operation": r.operation, "namespace": r.namespace, "name": r.name,
		"userInfo": map[string]any{"username": cmp.Or(r.user, "jane")}}
	if r.subresource != "" {
		fields["subResource"] = r.subresource
	}
	value, _, err := program.Eval(map[string]any{"object": tree(r.after), "oldObject": tree(r.before), "request": fields})
	if err != nil {
		t.Fatalf("%+v: %s: %v", r, condition, err)
	}
	return value.Value() == true
}

// takenBy returns the failure policies of the scopes that take the request: Fail comes first, and is alone.
func (r *request) takenBy(t *testing.T, scopes []admission.Scope) string {
	t.Helper()
	policy := ""
	for _, s := range scopes {
		if r.holds(t, s.Requires) && r.holds(t, s.Condition) {
			if !slices.Contains(s.Namespaces, r.namespace) || !r.holds(t, s.Wide) {
				t.Errorf("%s takes what it does not when it is widened", s.Name)
			}
			if policy != "Fail" {
				policy = string(s.FailurePolicy)
			}
		}
	}
	return policy
}

func deletion(pod *corev1.Pod) request {
	return request{operation: "DELETE", namespace: pod.Namespace, name: pod.Name, before: pod}
}

func eviction(name string) request {
	return request{operation: "CREATE", subresource: "eviction", namespace: "shop", name: name}
}

func change(pod *corev1.Pod, change func(*corev1.Pod)) request {
	after := pod.DeepCopy()
	change(after)
	return request{operation: "UPDATE", namespace: pod.Namespace, name: pod.Name, before: pod, after: after}
}

func image(pod *corev1.Pod) {
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:2"}}
}

// changed returns the pod after the change.
func changed(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	pod = pod.DeepCopy()
	change(pod)
	return pod
}

// TestScopes: under Fail requests for pods of the budget are refused while no agent answers, and no others.
func TestScopes(t *testing.T) {
	cloned := ownedPod("web-abcde", "apps.kruise.io/v1beta1", "CloneSet", "web")
	bare := ownedPod("lonely", "", "", "")
	bare.Labels["tier"] = "front"
	other := ownedPod("other-abcde", "apps.kruise.io/v1beta1", "CloneSet", "other")
	deployed := ownedPod("web-5d4f-xyz12", "apps/v1", "ReplicaSet", "web-5d4f")
	deployed.Labels[labelTemplateHash] = "5d4f"
	united := ownedPod("web-east-x1-0", "apps/v1", "StatefulSet", "web-east-x1")
	united.Labels[apps.LabelSubset] = "east"
	adopted := ownedPod("old-0", "apps/v1", "StatefulSet", "old")
	elsewhere := changed(cloned, func(p *corev1.Pod) { p.Namespace = "elsewhere" })
	plain := func(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, nil }
	target := func(apiVersion, kind string) func(*v1beta1.PodUnavailableBudget) {
		return func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.Selector = nil
			pub.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: "web"}
		}
	}
	selects := func(requirements ...metav1.LabelSelectorRequirement) func(*v1beta1.PodUnavailableBudget) {
		return func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.Selector = &metav1.LabelSelector{MatchExpressions: requirements}
		}
	}
	operations := func(all ...v1beta1.PubOperation) func(*v1beta1.PodUnavailableBudget) {
		return func(pub *v1beta1.PodUnavailableBudget) { pub.Spec.ProtectOperations = all }
	}
	ignores := func(pub *v1beta1.PodUnavailableBudget) { pub.Spec.Flotilla = nil }
	cloneSet, deployment := target("apps.kruise.io/v1beta1", "CloneSet"), target("apps/v1", "Deployment")
	unitedDeployment := target("apps.kruise.io/v1alpha1", "UnitedDeployment")
	exists := selects(metav1.LabelSelectorRequirement{Key: "tier", Operator: metav1.LabelSelectorOpExists})
	type step struct {
		what    string
		request request
		want    string
	}
	for name, row := range map[string]struct {
		edit  func(*v1beta1.PodUnavailableBudget)
		steps []step
	}{
		"labels": {nil, []step{
			{"a deletion", deletion(cloned), "Fail"}, {"another image", change(cloned, image), "Fail"},
			{"a label", change(cloned, func(p *corev1.Pod) { p.Labels["a"] = "b" }), ""},
			{"a pod without labels", deletion(changed(cloned, plain)), ""},
			{"another namespace", deletion(elsewhere), ""},
			{"a pod that is not protected", deletion(changed(cloned, func(p *corev1.Pod) {
				p.Annotations = map[string]string{v1beta1.AnnotationNoProtect: "true"}
			})), ""},
			{"by a controller that cleans up", byUser(cleaners()[2], deletion(cloned)), ""},
			{"a deadline", change(cloned, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) }), "Fail"},
			{"a pod that terminates", deletion(changed(cloned, func(p *corev1.Pod) {
				p.DeletionTimestamp = new(metav1.NewTime(time.Unix(0, 0)))
			})), ""},
			{"an eviction by the name of the workload", eviction("web-new01"), "Fail"},
			{"an eviction by the name of the pod", eviction("lonely"), "Fail"},
			{"an eviction of another pod", eviction("db-0"), "Ignore"},
		}},
		"Ignore": {ignores, []step{{"a deletion", deletion(cloned), "Ignore"}, {"an eviction", eviction("web-x"), "Ignore"},
			{"a pod without labels", deletion(changed(cloned, plain)), ""}}},
		"a label that exists": {exists, []step{
			{"it has it", deletion(bare), "Fail"}, {"it has not", deletion(cloned), ""},
			{"an eviction", eviction("lonely"), "Fail"}, {"an eviction of another pod", eviction("web-x"), "Ignore"},
		}},
		"values that it must not have": {selects(metav1.LabelSelectorRequirement{Key: "tier",
			Operator: metav1.LabelSelectorOpNotIn, Values: []string{"front", "back"}}), []step{
			{"it has one", deletion(bare), ""}, {"it has none", deletion(cloned), "Fail"}}},
		"a selector that is wrong": {selects(metav1.LabelSelectorRequirement{Key: "tier", Operator: "Like"}), []step{
			{"a deletion", deletion(cloned), ""}}},
		"a CloneSet": {cloneSet, []step{
			{"its pod", deletion(cloned), "Fail"}, {"that of another one", deletion(other), ""},
			{"that of a kind of this name", deletion(changed(cloned, func(p *corev1.Pod) {
				p.OwnerReferences[0].APIVersion = "example.com/v1"
			})), ""},
			{"a pod without a workload", deletion(changed(cloned, plain)), ""},
			{"an eviction", eviction("web-new01"), "Fail"}, {"an eviction of another pod", eviction("other-x"), "Ignore"},
		}},
		"a Deployment": {deployment, []step{
			{"its pod", deletion(deployed), "Fail"},
			{"that of a Deployment of a longer name", deletion(changed(deployed, func(p *corev1.Pod) {
				p.OwnerReferences[0].Name = "web-admin-5d4f"
			})), ""},
			{"a ReplicaSet without a hash", deletion(changed(deployed, func(p *corev1.Pod) { p.Labels = nil })), ""},
		}},
		"a UnitedDeployment": {unitedDeployment, []step{
			{"a pod of its workload", deletion(united), "Fail"},
			{"a pod of one that it may have adopted", deletion(adopted), "Ignore"},
			{"a pod without a workload", deletion(changed(cloned, plain)), ""},
			{"a pod of a workload that only has such a name", deletion(changed(united, func(p *corev1.Pod) { p.Labels = nil })),
				"Ignore"},
			{"an eviction", eviction("web-east-x1-0"), "Fail"},
		}},
		"evictions alone": {operations("EVICT"), []step{
			{"a deletion", deletion(cloned), ""}, {"an eviction", eviction("web-x"), "Fail"}}},
		"deletions alone": {operations("DELETE"), []step{
			{"a deletion", deletion(cloned), "Fail"}, {"an eviction", eviction("web-x"), ""},
			{"another image", change(cloned, image), ""}}},
		"updates alone": {operations("UPDATE", "EVICT"), []step{
			{"a deletion", deletion(cloned), ""}, {"another image", change(cloned, image), "Fail"}}},
		"ignored pods": {func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
		}, []step{{"a deletion", deletion(bare), ""}, {"of another pod", deletion(cloned), "Fail"}}},
	} {
		pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		pub.Spec.Flotilla = &v1beta1.PodUnavailableBudgetSettings{FailurePolicy: v1beta1.PubFail}
		if row.edit != nil {
			row.edit(pub)
		}
		selected := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		selected.Spec.Template.Labels = map[string]string{"app": "web"}
		scopes, err := keeperOf(t, pub, selected, bare).scope(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range row.steps {
			if got := s.request.takenBy(t, scopes); got != s.want {
				t.Errorf("%s: %s: %q, want %q", name, s.what, got, s.want)
			}
		}
		for _, s := range scopes {
			if enforced := Enforced(s.Condition, pub); enforced != (s.FailurePolicy == "Fail") {
				t.Errorf("%s: enforced %t by %+v", name, enforced, s)
			}
		}
	}
}

// TestConditionsCostLittle has as many budgets of one namespace as fit under Fail, and a pod with many owners.
func TestConditionsCostLittle(t *testing.T) {
	const owners, halfOfCost = 50, 500_000
	var conditions []string
	for i, length := 0, 0; length < admission.MaxConditions/2; i++ {
		pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i)}}
		pub.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment",
			Name: fmt.Sprint("web-", i)}
		conditions = append(conditions, "("+enforced(pub)+"))")
		length += len(conditions[i])
	}
	if len(conditions) < 60 {
		t.Errorf("%d budgets fit", len(conditions))
	}
	pod := ownedPod("web-0", "apps/v1", "ReplicaSet", "other-x")
	pod.Labels[labelTemplateHash] = "x"
	for i := range owners {
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node",
			Name: fmt.Sprint("node-", i)})
	}
	r := deletion(pod)
	if r.holds(t, strings.Join(conditions, " || "), cel.CostLimit(halfOfCost)) {
		t.Error("it is taken")
	}
}

// TestTooManyNames has more pods without a workload than fit: all evictions of the namespace are refused.
func TestTooManyNames(t *testing.T) {
	pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	pub.Spec.Flotilla = &v1beta1.PodUnavailableBudgetSettings{FailurePolicy: v1beta1.PubFail}
	k := keeperOf(t, pub)
	for i := range 500 {
		if err := k.client.Create(t.Context(), ownedPod(fmt.Sprint("lonely-", i), "", "", "")); err != nil {
			t.Fatal(err)
		}
	}
	scopes, err := k.scope(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := eviction("db-0")
	if got := r.takenBy(t, scopes); got != "Fail" {
		t.Errorf("%q", got)
	}
}

// TestConditionsCannotBeBrokenOutOf has names that are expressions.
func TestConditionsCannotBeBrokenOutOf(t *testing.T) {
	const evil = `x" || true || "`
	selector := &v1beta1.PodUnavailableBudget{}
	selector.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": evil}}
	targets := &v1beta1.PodUnavailableBudget{}
	targets.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: evil, Name: "\x00\u2028" + evil}
	for _, pub := range []*v1beta1.PodUnavailableBudget{selector, targets} {
		r := deletion(ownedPod("web-0", "apps/v1", "StatefulSet", "web"))
		if condition := podsOf(before, pub); r.holds(t, condition) || strings.Contains(condition, " || true || ") &&
			!strings.Contains(condition, `\" || true || \"`) {
			t.Errorf("%s", condition)
		}
	}
}
