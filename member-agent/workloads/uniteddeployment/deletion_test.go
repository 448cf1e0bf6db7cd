package uniteddeployment

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// says waits until the conditions say that the UnitedDeployment "web" waits for this reason.
func (s *space) says(reason, text string) {
	s.Helper()
	s.eventually("the conditions say "+reason, func() string {
		ud := s.get("web")
		ready, reconciling, stalled := conditionOf(ud, kruise.ConditionReady), conditionOf(ud, kruise.ConditionReconciling),
			conditionOf(ud, kruise.ConditionStalled)
		if ready.Status != corev1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, text) ||
			reconciling.Status != corev1.ConditionTrue || stalled.Status != corev1.ConditionFalse ||
			ud.Status.ObservedGeneration != ud.Generation {
			return fmt.Sprintf("generation %d of %d, %+v, %+v, %+v", ud.Status.ObservedGeneration, ud.Generation, ready,
				reconciling, stalled)
		}
		return ""
	})
}

// case3Held: a deleted UnitedDeployment that a finalizer holds counts its pods and changes nothing.
func case3Held(s *space) {
	const guard = "example.com/guard"
	s.create(fixture(s.T, cloneSets, 4, "a", "b"))
	s.settle()
	s.edit(func(ud *kruise.UnitedDeployment) { ud.Finalizers = []string{guard} })
	if err := s.client.Delete(s.Context(), s.get("web")); err != nil {
		s.Fatal(err)
	}
	s.says(conditions.ReasonDeleting, guard)
	s.edit(func(ud *kruise.UnitedDeployment) { ud.Spec.Replicas = new(int32(8)) })
	child := s.children()["a"].object.(*kruise.CloneSet)
	before := child.DeepCopy()
	child.Status.Replicas, child.Status.ReadyReplicas = 1, 1
	if err := s.client.Status().Patch(s.Context(), child, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	s.says(conditions.ReasonDeleting, "it has 3 pods")
	s.eventuallyReplicas("a=2 b=2")
	if got := s.get("web").Status; got.Replicas != 3 || got.ReadyReplicas != 3 || got.UpdatedReplicas > 3 {
		s.Errorf("status %+v", got)
	}
	s.edit(func(ud *kruise.UnitedDeployment) { ud.Finalizers = nil })
	s.eventually("it is gone", func() string {
		err := s.client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, &kruise.UnitedDeployment{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// case14Terminating: in a namespace that is being deleted no child and no revision is tried to be made. No namespace
// controller runs here, so that the UnitedDeployment itself is not deleted.
func case14Terminating(s *space) {
	s.create(fixture(s.T, cloneSets, 4, "a", "b"))
	s.settle()
	if err := s.client.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		s.Fatal(err)
	}
	posts := func() (n int) {
		for _, line := range s.written.in(s.namespace) {
			if strings.HasPrefix(line, "POST ") {
				n++
			}
		}
		return n
	}
	before := posts()
	for _, child := range s.children() {
		if err := s.client.Delete(s.Context(), child.object); err != nil {
			s.Fatal(err)
		}
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"revisionHistoryLimit":3}}`))
	if err := s.client.Patch(s.Context(), s.get("web"), patch); err != nil {
		s.Fatal(err)
	}
	s.says(conditions.ReasonNamespaceTerminating, s.namespace)
	if tried := posts() - before; tried > 2 { // one for each child, while the cache did not know yet
		s.Errorf("%d creates were tried", tried)
	}
	after := len(s.written.in(s.namespace))
	patch = client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":6}}`))
	if err := s.client.Patch(s.Context(), s.get("web"), patch); err != nil {
		s.Fatal(err)
	}
	s.says(conditions.ReasonNamespaceTerminating, s.namespace)
	for _, line := range s.written.in(s.namespace)[after:] {
		if strings.HasPrefix(line, "POST ") {
			s.Errorf("tried again: %s", line)
		}
	}
}
