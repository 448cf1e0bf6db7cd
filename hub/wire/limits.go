package wire

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

const (
	// MaxPods is the most pods of a subset that a member can report: far above what a cluster holds, and so low that the
	// sum over all cells of a workload is no overflow.
	MaxPods = 1_000_000
	// MaxSequence is the largest number that a hub follows a report to. It leaves room for every order that can ever come
	// after it.
	MaxSequence = int64(1) << 53
	// AcceptedSequence is the largest number that a report can have: a hub that was led to MaxSequence gives orders above
	// it, as many as will ever be. No annotation raises it, because agents can patch those.
	AcceptedSequence = MaxSequence + 1<<40
)

// Overwritten reports whether another writer in the member changes the object again and again, or keeps the agent from
// correcting it: then its pods may be of something else than what was ordered.
func Overwritten(w *work.Work) bool {
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	return applied != nil && applied.Status == metav1.ConditionFalse && applied.Reason == work.ReasonOverwritten
}
