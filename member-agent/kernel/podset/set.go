package podset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// LabelRevision is the label with a pod's revision: the revision's name, or its short hash.
const LabelRevision = "controller-revision-hash"

// Set is the pods of one workload, in no particular order.
type Set struct {
	// Active pods serve, or are on their way to.
	Active []*corev1.Pod
	// Ended pods have failed or completed and are not being deleted.
	Ended []*corev1.Pod
	// Terminating pods are being deleted.
	Terminating []*corev1.Pod
	// NoLongerMatching are not being deleted, and their labels do not match the selector any more. They are to be
	// released, and count for nothing.
	NoLongerMatching []*corev1.Pod
}

func newSet(objs []any, selector labels.Selector) Set {
	set := Set{Active: make([]*corev1.Pod, 0, len(objs))}
	for _, obj := range objs {
		pod, ok := obj.(*corev1.Pod)
		switch {
		case !ok:
		case pod.DeletionTimestamp != nil:
			set.Terminating = append(set.Terminating, pod)
		case selector != nil && !selector.Matches(labels.Set(pod.Labels)):
			set.NoLongerMatching = append(set.NoLongerMatching, pod)
		case podstate.Ended(pod):
			set.Ended = append(set.Ended, pod)
		default:
			set.Active = append(set.Active, pod)
		}
	}
	return set
}

// HasRevision reports whether the pod has the revision with this short hash, in whichever form its label has.
func HasRevision(pod *corev1.Pod, hash string) bool {
	return hash != "" && history.ShortName(pod.Labels[LabelRevision]) == hash
}

// SpecifiedDelete reports whether somebody asked by a label to delete this pod.
func SpecifiedDelete(pod *corev1.Pod) bool {
	_, ok := pod.Labels[v1beta1.LabelSpecifiedDelete]
	return ok
}

// LabelForm returns the form of the revision's label that new pods of this workload get: the short one if it is asked
// for, or if all active pods that have the label have it in that form, so that pods taken over and new ones stay alike.
func (s Set) LabelForm(short bool) history.Form {
	if short {
		return history.ShortForm
	}
	found := history.FullForm
	for _, pod := range s.Active {
		label := pod.Labels[LabelRevision]
		if label == "" {
			continue
		}
		if found = history.FormOf(label); found == history.FullForm {
			break
		}
	}
	return found
}
