package conditions

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const (
	// ReasonDeleting says that the object has a deletion timestamp and still exists.
	ReasonDeleting = "Deleting"
	// ReasonNamespaceTerminating says that nothing can be created in the object's namespace, which is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)

// Guards returns the finalizers that hold a deleted object, sorted, without the two that the API server sets for
// foreground deletion and for orphaning.
func Guards(object metav1.Object) []string {
	guards := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool {
		return name == metav1.FinalizerDeleteDependents || name == metav1.FinalizerOrphanDependents
	})
	slices.Sort(guards)
	return slices.Compact(guards)
}

// Foreground reports whether the dependents of a deleted object are deleted before the object.
func Foreground(object metav1.Object) bool {
	return slices.Contains(object.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// Orphaning reports whether the dependents of a deleted object are to stay.
func Orphaning(object metav1.Object) bool {
	return slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// HoldsDependents reports whether a deleted object keeps its dependents because finalizers of others hold it. The
// garbage collector deletes dependents in the background only after their owner has left the API server; foreground
// deletion and orphaning do not wait for other finalizers.
func HoldsDependents(object metav1.Object) bool {
	return object.GetDeletionTimestamp() != nil && len(Guards(object)) > 0 && !Foreground(object) && !Orphaning(object)
}

// Waiting says what a deleted object waits for: foreground deletion, orphaning, the finalizers of others.
func Waiting(object metav1.Object) string {
	var waits []string
	if Foreground(object) {
		waits = append(waits, "it waits until its pods are deleted (foreground deletion)")
	}
	if Orphaning(object) {
		waits = append(waits, "it waits until the garbage collector has released its pods, which keep running (orphan)")
	}
	switch guards := Guards(object); {
	case len(guards) == 1:
		waits = append(waits, fmt.Sprintf("it waits for the finalizer %s, which its controller removes", guards[0]))
	case len(guards) > 1:
		waits = append(
			waits,
			fmt.Sprintf("it waits for the finalizers %s, which their controllers remove", strings.Join(guards, ", ")),
		)
	}
	if len(waits) == 0 {
		return "it is being deleted"
	}
	return "it is being deleted: " + strings.Join(waits, "; ")
}

// Deleted makes the conditions of Summarise those of an object that is being deleted, or whose namespace is: not Ready,
// reconciling, and not stalled. Progressing is left out, so that it stays as it was: it is about the rollout.
func Deleted(list []Condition, cause Cause) []Condition {
	out := make([]Condition, 0, len(list))
	for _, c := range list {
		switch c.Type {
		case v1beta1.ConditionProgressing:
			continue
		case v1beta1.ConditionReady:
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, cause.Reason, cause.Message
		case v1beta1.ConditionReconciling:
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, cause.Reason, cause.Message
		case v1beta1.ConditionStalled:
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, ReasonNotStalled, ""
		}
		out = append(out, c)
	}
	return out
}
