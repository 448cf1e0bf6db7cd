package snapshot

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Apply puts an object as a user who applies it does: what the API server keeps of an object with that name stays (uid,
// creation, other people's labels and annotations, status), and spec becomes that of the object. A new one is created
// now.
func (s *Snapshot) Apply(object client.Object, now time.Time) error {
	gvk, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return fmt.Errorf("apply %T %s to a snapshot: %w", object, object.GetName(), err)
	}
	old := s.kind(gvk).byKey[client.ObjectKeyFromObject(object)]
	if old == nil {
		if created := object.GetCreationTimestamp(); created.IsZero() {
			object.SetCreationTimestamp(metav1.NewTime(now))
		}
		return s.Put(object)
	}
	object.SetUID(old.GetUID())
	object.SetResourceVersion(old.GetResourceVersion())
	object.SetCreationTimestamp(old.GetCreationTimestamp())
	object.SetDeletionTimestamp(old.GetDeletionTimestamp())
	object.SetGeneration(old.GetGeneration() + 1)
	object.SetLabels(over(old.GetLabels(), object.GetLabels()))
	object.SetAnnotations(over(old.GetAnnotations(), object.GetAnnotations()))
	if _, ok := object.(*metav1.PartialObjectMetadata); ok {
		return s.Put(object)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("apply %s %s to a snapshot: %w", gvk.Kind, object.GetName(), err)
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return fmt.Errorf("apply %s %s to a snapshot: %w", gvk.Kind, object.GetName(), err)
	}
	if status, ok := before["status"]; ok {
		tree["status"] = status
	}
	merged, err := s.scheme.New(gvk)
	if err != nil {
		return fmt.Errorf("apply %s %s to a snapshot: %w", gvk.Kind, object.GetName(), err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, merged); err != nil {
		return fmt.Errorf("apply %s %s to a snapshot: %w", gvk.Kind, object.GetName(), err)
	}
	return s.Put(merged.(client.Object))
}

// over returns below with what is in above set in it.
func over(below, above map[string]string) map[string]string {
	if len(below) == 0 {
		return above
	}
	out := maps.Clone(below)
	maps.Copy(out, above)
	return out
}

// Complete adds what a fleet written by hand leaves out: a namespace that is nowhere is federated, and a member without
// the hub's conditions takes part and is Ready. It returns a sentence for each.
func (s *Snapshot) Complete() ([]string, error) {
	var notes []string
	namespaces := map[string]bool{}
	var missing []client.Object
	for _, object := range s.Objects() {
		if member, ok := object.(*topology.MemberCluster); ok && len(member.Status.Conditions) == 0 && member.Spec.Accepted {
			notes = append(
				notes,
				fmt.Sprintf("MemberCluster %s has no conditions of a hub; it is taken as accepted and Ready", member.Name),
			)
			for _, c := range []struct{ kind, reason string }{{topology.MemberAccepted, topology.ReasonAccepted},
				{topology.MemberReady, topology.ReasonLeaseFresh}} {
				member.Status.Conditions = append(
					member.Status.Conditions,
					metav1.Condition{Type: c.kind, Status: metav1.ConditionTrue, Reason: c.reason},
				)
			}
		}
		name := object.GetNamespace()
		if name == "" || namespaces[name] {
			continue
		}
		namespaces[name] = true
		namespace := &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{topology.LabelFederated: "true"}},
		}
		if s.has(namespace) || isMembers(name) {
			continue
		}
		notes = append(
			notes,
			fmt.Sprintf("namespace %s is not given; it is taken as federated (%s=true)", name, topology.LabelFederated),
		)
		missing = append(missing, namespace)
	}
	return notes, s.Put(missing...)
}

func (s *Snapshot) has(namespace *corev1.Namespace) bool {
	return s.kind(corev1.SchemeGroupVersion.WithKind("Namespace")).byKey[client.ObjectKeyFromObject(namespace)] != nil
}

// isMembers tells whether a namespace is that of a member's Works.
func isMembers(namespace string) bool {
	_, ok := wire.MemberOf(namespace)
	return ok
}
