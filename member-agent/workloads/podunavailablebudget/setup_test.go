package podunavailablebudget

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// TestCounts changes a pod that is pending.
func TestCounts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	passes := counts(func() time.Time { return now })
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing": {func(*corev1.Pod) {}, false},
		"it gets a node": {func(pod *corev1.Pod) {
			pod.Spec.NodeName = "a"
		}, false},
		"it runs and is not ready": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
		}, false},
		"it is ready": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, true},
		"it ends": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodSucceeded
		}, true},
		"it fails": {func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodFailed
		}, true},
		"it is being deleted": {func(pod *corev1.Pod) {
			pod.DeletionTimestamp = new(metav1.NewTime(now))
		}, true},
		"it gets a label": {func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"app": "web"}
		}, true},
	} {
		was := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
		is := was.DeepCopy()
		row.change(is)
		if got := passes.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestProtecting: an event of a pod brings a pass over those budgets that count it, and no others.
func TestProtecting(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policy.AddToScheme, apps.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	budget := func(name string, spec policy.PodUnavailableBudgetSpec) *policy.PodUnavailableBudget {
		return &policy.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}
	}
	selects := func(app string) policy.PodUnavailableBudgetSpec {
		return policy.PodUnavailableBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	}
	targets := func(kind, name string) policy.PodUnavailableBudgetSpec {
		return policy.PodUnavailableBudgetSpec{TargetReference: &policy.TargetReference{
			APIVersion: apps.GroupVersion.String(), Kind: kind, Name: name}}
	}
	elsewhere := budget("elsewhere", selects("web"))
	elsewhere.Namespace = "other"
	r := &Reconciler{Controller: &workload.Controller[*policy.PodUnavailableBudget, memory]{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(elsewhere,
			budget("web", selects("web")), budget("api", selects("api")),
			budget("cloneset", targets("CloneSet", "web")), budget("other-cloneset", targets("CloneSet", "api")),
			budget("united", targets("UnitedDeployment", "web"))).Build(),
	}}
	owned := []metav1.OwnerReference{{APIVersion: apps.GroupVersion.String(), Kind: "CloneSet", Name: "web",
		Controller: new(true)}}
	for name, row := range map[string]struct {
		labels map[string]string
		owners []metav1.OwnerReference
		want   string
	}{
		"selected":             {labels: map[string]string{"app": "web"}, want: "united web"},
		"selected by no label": {labels: map[string]string{"tier": "web"}, want: "united"},
		"of a workload":        {owners: owned, want: "cloneset united"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: row.labels,
			OwnerReferences: row.owners}}
		var names []string
		for _, request := range r.protecting(t.Context(), pod) {
			names = append(names, request.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
