package unplaced

import (
	"encoding/json"
	"strings"
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
	for _, k := range unplaced() {
		t.Run(k.Kind, func(t *testing.T) { testAnswer(t, scheme, k) })
	}
}

func testAnswer(t *testing.T, scheme *runtime.Scheme, k kind) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels: map[string]string{topology.LabelFederated: "true"}}}
	object := k.object()
	object.SetNamespace("shop")
	object.SetName("log")
	object.SetGeneration(3)
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(object).WithObjects(namespace, object).Build()
	r := &reconciler{kind: k, client: c, clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	type status struct {
		ObservedGeneration int64
		Conditions         []metav1.Condition
	}
	pass := func() (out status) {
		t.Helper()
		requests := r.in(t.Context(), namespace)
		if len(requests) != 1 {
			t.Fatalf("%v", requests)
		}
		if _, err := r.Reconcile(t.Context(), requests[0]); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		have, _ := k.status(object, answer{})
		data, err := json.Marshal(have)
		if err == nil {
			err = json.Unmarshal(data, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	have := pass()
	found := map[string]metav1.Condition{}
	for _, condition := range have.Conditions {
		found[condition.Type] = condition
	}
	if f := found[apps.ConditionFederated]; f.Status != metav1.ConditionFalse || f.Reason != topology.PolicyUnknownKind ||
		!strings.HasPrefix(f.Message, "a hub does not place "+k.Kind+"s of apps.kruise.io on members, so nothing is") ||
		found[apps.ConditionStalled].Status != metav1.ConditionTrue || len(found) != 4 || have.ObservedGeneration != 3 {
		t.Errorf("%+v", have)
	}
	version := object.GetResourceVersion()
	if pass(); object.GetResourceVersion() != version {
		t.Error("it is written again though nothing has changed")
	}
	// The agent of a cluster that is a hub too may run it once its namespace is not federated.
	namespace.Labels = nil
	if err := c.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if have = pass(); len(have.Conditions) != 0 {
		t.Errorf("%+v", have)
	}
}
