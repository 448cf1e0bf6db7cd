package unplaced

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestObjectsInFederatedNamespacesAreAnswered(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apps.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels: map[string]string{topology.LabelFederated: "true"}}}
	set := &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "log", Generation: 3}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(set).WithObjects(namespace, set).Build()
	r := &reconciler{client: c, clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	pass := func() map[string]apps.DaemonSetCondition {
		t.Helper()
		requests := r.in(t.Context(), namespace)
		if len(requests) != 1 {
			t.Fatalf("%v", requests)
		}
		if _, err := r.Reconcile(t.Context(), requests[0]); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		out := map[string]apps.DaemonSetCondition{}
		for _, condition := range set.Status.Conditions {
			out[string(condition.Type)] = condition
		}
		return out
	}
	have := pass()
	if f := have[apps.ConditionFederated]; f.Status != corev1.ConditionFalse || f.Reason != topology.PolicyUnknownKind ||
		f.Message != message || have[apps.ConditionStalled].Status != corev1.ConditionTrue || len(have) != 4 ||
		set.Status.ObservedGeneration != 3 {
		t.Errorf("%+v", set.Status)
	}
	version := set.ResourceVersion
	if pass(); set.ResourceVersion != version {
		t.Error("it is written again though nothing has changed")
	}
	// The agent of a cluster that is a hub too may run it once its namespace is not federated.
	namespace.Labels = nil
	if err := c.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if have = pass(); len(have) != 0 {
		t.Errorf("%+v", have)
	}
}
