package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const guard = "example.com/guard"

// finalizers sets the finalizers of an object, as those do who own them.
func (f *fleet) finalizers(object client.Object, names ...string) {
	f.t.Helper()
	list := "null"
	if len(names) > 0 {
		list = `["` + strings.Join(names, `","`) + `"]`
	}
	must(f.t, f.client.Patch(f.ctx, object, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":`+list+`}}`))))
}

// worksOf returns the Works of a workload by member, of those that exist.
func (f *fleet) worksOf(key wire.Key) map[string]*work.Work {
	f.t.Helper()
	out := map[string]*work.Work{}
	for name := range f.agents {
		w := &work.Work{}
		switch err := f.client.Get(f.ctx, key.Work(name), w); {
		case err == nil:
			out[name] = w
		case !apierrors.IsNotFound(err):
			f.t.Fatal(err)
		}
	}
	return out
}

// conditionOf returns a condition of a user's object.
func conditionOf(object client.Object, name string) metav1.Condition {
	switch o := object.(type) {
	case *apps.CloneSet:
		for _, c := range o.Status.Conditions {
			if string(c.Type) == name {
				return metav1.Condition{Type: name, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
			}
		}
	case *apps.UnitedDeployment:
		for _, c := range o.Status.Conditions {
			if string(c.Type) == name {
				return metav1.Condition{Type: name, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
			}
		}
	}
	return metav1.Condition{}
}

// says waits until the conditions of a workload that is being deleted have these texts.
func (f *fleet) says(object client.Object, reason string, texts ...string) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("status says %v", texts), func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		ready, reconciling, stalled, federated := conditionOf(object, "Ready"), conditionOf(object, "Reconciling"),
			conditionOf(object, "Stalled"), conditionOf(object, "Federated")
		if ready.Status != metav1.ConditionFalse || reconciling.Status != metav1.ConditionTrue ||
			stalled.Status != metav1.ConditionFalse ||
			ready.Reason != reason || federated.Reason != reason {
			return fmt.Errorf("Ready %+v, Reconciling %+v, Stalled %+v, Federated %+v", ready, reconciling, stalled, federated)
		}
		for _, text := range texts {
			if !strings.Contains(ready.Message, text) {
				return fmt.Errorf("message is %q", ready.Message)
			}
		}
		return nil
	})
}

// TestCase3AForeignFinalizerHoldsThePods deletes workloads on which somebody has a finalizer: what is placed stays as
// it is until that is removed, and the status says so.
func TestCase3AForeignFinalizerHoldsThePods(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	for _, object := range []client.Object{f.cloneSet("held", 6), f.unitedDeployment("held", 6, "a", "b", "c")} {
		kind := map[bool]string{true: "CloneSet", false: "UnitedDeployment"}[isCloneSet(object)]
		key := wire.Key{Group: "apps.kruise.io", Kind: kind, Namespace: f.namespace, Name: "held"}
		f.finalizers(object, guard, "example.com/backup")
		f.eventually("Ready", func() error {
			if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if c := conditionOf(object, "Ready"); c.Status != metav1.ConditionTrue {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		before := f.worksOf(key)
		must(t, f.client.Delete(f.ctx, object))
		f.says(object, "Deleting", guard, "example.com/backup", "6 of its pods", "keep running")
		must(t, f.client.Patch(f.ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":9}}`))))
		f.finalizers(object, guard)
		f.eventually("the other finalizer is not named any more", func() error {
			if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if c := conditionOf(object, "Ready"); strings.Contains(c.Message, "backup") || !strings.Contains(c.Message, guard) {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		f.rest()
		if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
			t.Errorf("%s: while it waits the hub wrote %v", kind, wrote)
		}
		after := f.worksOf(key)
		for member, w := range before {
			if after[member] == nil || after[member].DeletionTimestamp != nil || after[member].Generation != w.Generation {
				t.Errorf("%s: the Work of %s changed: %+v", kind, member, after[member])
			}
		}
		f.finalizers(object)
		f.eventually("the Works are gone", func() error {
			if left := f.worksOf(key); len(left) > 0 {
				return fmt.Errorf("%d Works are left", len(left))
			}
			return nil
		})
	}
}

func isCloneSet(object client.Object) bool {
	_, ok := object.(*apps.CloneSet)
	return ok
}

// TestCase3AHeldDependencyIsStillDelivered deletes a ConfigMap that pods use and that a finalizer holds.
func TestCase3AHeldDependencyIsStillDelivered(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, map[string][]string{"east": {"a"}})
	f.policy("all")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "settings",
		Finalizers: []string{guard}}, Data: map[string]string{"a": "1"}}
	must(t, f.client.Create(f.ctx, config))
	set := &apps.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "web"},
		Spec: apps.CloneSetSpec{Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: apps.NewPodTemplate(podTemplate("web:1"))},
	}
	set.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	must(t, f.client.Create(f.ctx, set))
	f.cloneSetIs("web", "Ready", ready)
	key := wire.Key{Kind: "ConfigMap", Namespace: f.namespace, Name: "settings"}
	must(t, f.client.Delete(f.ctx, config))
	// A change is the proof that the hub has looked at it since.
	must(t, f.client.Patch(f.ctx, config, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"2"}}`))))
	f.eventually("the change is delivered", func() error {
		w := f.worksOf(key)["east"]
		if w == nil || w.DeletionTimestamp != nil || !strings.Contains(string(w.Spec.Workload.Manifests[0].Raw), `"2"`) {
			return fmt.Errorf("Work is %+v", w)
		}
		return nil
	})
	f.finalizers(config)
	must(t, f.client.Delete(f.ctx, set))
	f.eventually("the copy is removed", func() error {
		if left := f.worksOf(key); len(left) > 0 {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// TestCase3ForegroundDeletionWaitsForMembersThatAnswer: the placement, which blocks the owner's end, waits for the
// Works of members that are Ready, and not for those of members that are not. The garbage collector is played by the
// test.
func TestCase3ForegroundDeletionWaitsForMembersThatAnswer(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	set := f.cloneSet("web", 6)
	f.finalizers(set, guard)
	f.cloneSetIs("web", "Ready", ready)
	p, err := f.placement("CloneSet", "web")
	must(t, err)
	if owner := metav1.GetControllerOf(p); owner == nil || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
		t.Fatalf("the placement does not block the end of its owner: %+v", owner)
	}
	f.agents["west"].hush(true)
	f.agents["south"].hush(true)
	must(t, f.client.Delete(f.ctx, set, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	f.says(set, "Deleting", "foreground", guard, "it exists in south, west")
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: f.namespace, Name: "web"}
	for member, w := range f.worksOf(key) {
		if w.Annotations[topology.AnnotationPropagation] != "Foreground" || w.DeletionTimestamp == nil {
			t.Errorf("the Work of %s has the annotations %v", member, w.Annotations)
		}
	}
	f.agents["south"].hush(false)
	f.says(set, "Deleting", "2 of its pods", "it exists in west")
	if p, err = f.placement("CloneSet", "web"); err != nil || p.DeletionTimestamp == nil {
		t.Errorf("the placement does not wait: %v, %v", p, err)
	}
	// The agent is lost.
	f.agents["west"].keepStill()
	must(t, f.client.Delete(f.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wire.MemberNamespace("west"), Name: "west"}}))
	f.eventually("the placement does not wait for a member that is lost", func() error {
		if _, err := f.placement("CloneSet", "web"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
	f.finalizers(set, guard)
	f.says(set, "Deleting", guard, "unreachable: west")
	f.finalizers(set)
	f.eventually("the CloneSet is gone", func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
}

// TestCase3OrphanedBehindAFinalizer: the garbage collector has done its part before the hub looks, and another
// finalizer holds the workload: the pods stay all the same.
func TestCase3OrphanedBehindAFinalizer(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all")
	set := f.cloneSet("web", 6)
	f.finalizers(set, guard)
	f.cloneSetIs("web", "Ready", ready)
	for _, a := range f.agents {
		a.hush(true)
	}
	f.stopHub()
	must(t, f.client.Delete(f.ctx, set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	p, err := f.placement("CloneSet", "web")
	must(t, err)
	must(t, f.client.Patch(f.ctx, p, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"ownerReferences":null}}`))))
	f.finalizers(set, guard)
	f.startHub()
	f.eventually("the Works go, and their objects stay", func() error {
		left := f.worksOf(wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: f.namespace, Name: "web"})
		for member, w := range left {
			if w.DeletionTimestamp == nil || w.Spec.PreserveResourcesOnDeletion == nil || !*w.Spec.PreserveResourcesOnDeletion {
				return fmt.Errorf("%s: deleted at %v, preserve %v", member, w.DeletionTimestamp, w.Spec.PreserveResourcesOnDeletion)
			}
		}
		if len(left) != len(threeMembers) {
			return fmt.Errorf("%d Works", len(left))
		}
		return nil
	})
	for _, a := range f.agents {
		a.hush(false)
	}
	f.says(set, "Deleting", guard, "nothing is left")
	f.finalizers(set)
}

// TestCase14ATerminatingNamespaceIsLeftAlone: once the API server creates nothing in a namespace any more the hub tries
// nothing, and its workloads say so. The namespace controller is played by the test.
func TestCase14ATerminatingNamespaceIsLeftAlone(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	set := f.cloneSet("waits", 3) // no policy yet
	f.finalizers(set, guard)
	f.cloneSetIs("waits", "NoPolicy", func(cs *apps.CloneSet) bool {
		return conditionIs(cs, "Federated", corev1.ConditionFalse, "NoPolicy", "")
	})
	namespace := &corev1.Namespace{}
	must(t, f.client.Get(f.ctx, client.ObjectKey{Name: f.namespace}, namespace))
	// The policy comes with the deletion: a decision in between would create a placement.
	f.policy("none", func(spec *topology.FederationPolicySpec) { spec.Clusters.Names = []string{"nobody"} })
	f.quiet()
	must(t, f.client.Delete(f.ctx, namespace))
	f.cloneSetIs("waits", "the namespace is terminating", func(cs *apps.CloneSet) bool {
		return conditionIs(cs, "Federated", corev1.ConditionFalse, "NamespaceTerminating", f.namespace) &&
			conditionIs(cs, "Ready", corev1.ConditionFalse, "NamespaceTerminating", "")
	})
	f.writes.take()
	policy := &topology.FederationPolicy{}
	must(t, f.client.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: "none"}, policy))
	must(t, f.client.Patch(f.ctx, policy, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"clusters":null}}`))))
	wrote, _ := f.about(f.quiet())
	if at := slices.IndexFunc(wrote, func(w string) bool { return strings.HasPrefix(w, "POST ") }); at >= 0 {
		t.Errorf("the hub tried to create something: %v", wrote)
	}
	must(t, f.client.Delete(f.ctx, set))
	f.says(set, "NamespaceTerminating", guard)
	f.finalizers(set)
}
