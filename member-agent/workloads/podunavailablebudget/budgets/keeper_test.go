package budgets

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// lists is a cache that lists.
type lists struct {
	cache.Cache
	from client.Client
}

func (l lists) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.from.List(ctx, list, opts...)
}

// zero is the gate of budgets of which a hub grants nothing.
type zero struct{ workload.Gate }

func (zero) Budget(context.Context, client.Object) (workload.Budget, error) {
	return workload.Budget{Granted: true, Amounts: &topology.MemberBudget{}}, nil
}

// TestWaitingBesideAnotherBudget: the hub has to read that a pod waits also where the namespace has several budgets,
// and a rehearsal writes nothing.
func TestWaitingBesideAnotherBudget(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	budgetOf := func(app string) *v1beta1.PodUnavailableBudget {
		return &v1beta1.PodUnavailableBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app, Generation: 1},
			Spec: v1beta1.PodUnavailableBudgetSpec{Selector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"app": app}}},
			Status: v1beta1.PodUnavailableBudgetStatus{ObservedGeneration: 1, TotalReplicas: 1, DesiredAvailable: 1,
				CurrentAvailable: 1},
		}
	}
	pod := aPod(func(p *corev1.Pod) {
		p.Namespace, p.Name, p.Labels = "shop", "web-0", map[string]string{"app": "web"}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	})
	cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(budgetOf("db"), budgetOf("web"), pod).
		WithStatusSubresource(&v1beta1.PodUnavailableBudget{}).Build()
	k := &Keeper{client: cl, live: cl, known: &known{cache: lists{from: cl}}, budgets: map[types.NamespacedName]*budget{},
		options: Options{Clock: clocktesting.NewFakePassiveClock(now), Gate: zero{}}}
	k.known.listed.Store(true)
	for _, dryRun := range []bool{true, false} {
		refused, err := k.Ask(t.Context(), "shop", v1beta1.PubUpdateOperation, []*corev1.Pod{pod}, dryRun)
		if err != nil || refused["web-0"] == nil {
			t.Fatalf("refused %v, %v", refused, err)
		}
		var web v1beta1.PodUnavailableBudget
		if err := cl.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &web); err != nil {
			t.Fatal(err)
		}
		if _, waits := web.Status.WaitingPods["web-0"]; waits == dryRun {
			t.Errorf("dry run %t: the pod waits: %t", dryRun, waits)
		}
	}
}
