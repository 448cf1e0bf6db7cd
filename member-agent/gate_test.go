package memberagent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/link"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// TestOrdersOfTheVersionBeforeHaveNoAmounts reads orders that a hub of the version before wrote in the middle of a
// rollout: the limits in the spec hold, as they did in that version.
func TestOrdersOfTheVersionBeforeHaveNoAmounts(t *testing.T) {
	for _, kind := range []string{"cloneset", "uniteddeployment"} {
		data, err := os.ReadFile("../hub/delivery/testdata/earlier/" + kind + "-works.json")
		if err != nil {
			t.Fatal(err)
		}
		var works []work.Work
		if err := json.Unmarshal(data, &works); err != nil || len(works) != 3 {
			t.Fatalf("%d Works, %v", len(works), err)
		}
		for i := range works {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(works[i].Spec.Workload.Manifests[0].Raw); err != nil {
				t.Fatal(err)
			}
			if got, err := (&gate{}).Budget(t.Context(), object); err != nil || got != (workload.Budget{}) {
				t.Errorf("%s in %s: %+v, %v", kind, works[i].Namespace, got, err)
			}
		}
	}
}

func TestGateReturnsTheAmountsOfAnObject(t *testing.T) {
	object := &metav1.PartialObjectMetadata{}
	object.Annotations = map[string]string{topology.AnnotationBudget: `{"updated":3,"unavailable":1,"surge":0}`}
	got, err := (&gate{}).Budget(t.Context(), object)
	want := topology.MemberBudget{Budget: topology.Budget{Updated: 3, Unavailable: 1}}
	if err != nil || got.Amounts == nil || *got.Amounts != want || got.Granted || got.Expired {
		t.Errorf("an orphan without a hub: %+v, %v", got, err)
	}
	object.Annotations[topology.AnnotationBudget] = "none"
	if got, err := (&gate{}).Budget(t.Context(), object); err != nil || !got.Expired {
		t.Errorf("with an annotation that cannot be read pods may be disrupted: %+v, %v", got, err)
	}
}

func TestGateGrantsNothingWhileTheControllerOfAnObjectCannotBeRead(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	subset := &apps.CloneSet{}
	subset.Namespace, subset.Name = "shop", "api-a"
	subset.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: apps.GroupVersion.String(), Kind: "UnitedDeployment", Name: "api", UID: "1", Controller: new(true),
	}}
	broken := errors.New("connection refused")
	read := func(err error) (workload.Budget, error) {
		c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption,
			) error {
				if err != nil {
					return err
				}
				return c.Get(ctx, key, into, o...)
			},
		}).Build()
		return (&gate{client: c, kinds: Kinds(), hub: &link.Link{}}).Budget(t.Context(), subset)
	}
	if got, err := read(broken); !errors.Is(err, broken) {
		t.Errorf("a UnitedDeployment that cannot be read: %+v, %v", got, err)
	}
	if got, err := read(nil); err != nil || got != (workload.Budget{}) {
		t.Errorf("a UnitedDeployment that does not exist: %+v, %v", got, err)
	}
}

// TestChildrenOfAnOrderedObjectRunLocally: jobs that an ordered object creates have no mark of the hub, so that they
// run by their own limits.
func TestChildrenOfAnOrderedObjectRunLocally(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	parent := &apps.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "clean", UID: "1",
		Labels: map[string]string{topology.LabelHub: "hub"}}}
	child := &apps.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "clean-7",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(parent, apps.AdvancedCronJobKind)}}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace, parent, child).Build()
	g := &gate{client: c, kinds: Kinds(), hub: &link.Link{}}
	federated, err := g.Federated(t.Context(), child)
	if err != nil || federated || g.Foreign(child) {
		t.Errorf("federated %t, foreign %t, %v", federated, g.Foreign(child), err)
	}
	if budget, err := g.Budget(t.Context(), child); err != nil || budget != (workload.Budget{}) {
		t.Errorf("%+v, %v", budget, err)
	}
}
