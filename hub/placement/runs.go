package placement

import (
	"cmp"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// runsOf reads how the Jobs of checks stand in members. Those of another placement, and those that are being removed, do not count.
func runsOf(works []work.Work, placement *topology.WorkloadPlacement) map[waves.RunKey]waves.Run {
	var runs map[waves.RunKey]waves.Run
	for i := range works {
		w := &works[i]
		cluster, ok := wire.MemberOf(w.Namespace)
		if !ok || !wire.IsCheck(w) || placement == nil || w.DeletionTimestamp != nil || w.Labels[topology.LabelPlacement] != string(placement.UID) {
			continue
		}
		if runs == nil {
			runs = map[waves.RunKey]waves.Run{}
		}
		runs[waves.RunKey{Cluster: cluster, Job: w.Annotations[topology.AnnotationJob]}] = runOf(w)
	}
	return runs
}

// runOf reads what a member tells of a Job.
func runOf(w *work.Work) waves.Run {
	if c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied); c != nil && c.Status == metav1.ConditionFalse {
		return waves.Run{Refused: true, Says: fmt.Sprintf("%s (%s)", cmp.Or(c.Message, "the Job does not stand"), c.Reason)}
	}
	for i := range w.Status.ManifestStatuses {
		status := w.Status.ManifestStatuses[i].Status
		job := batchv1.JobStatus{}
		if status == nil || json.Unmarshal(status.Raw, &job) != nil {
			continue
		}
		for _, c := range job.Conditions {
			switch {
			case c.Status != corev1.ConditionTrue:
			case c.Type == batchv1.JobComplete:
				return waves.Run{Succeeded: true}
			case c.Type == batchv1.JobFailed:
				return waves.Run{Failed: true, Says: fmt.Sprintf("%s (%s)", cmp.Or(c.Message, "its pods did not succeed"), cmp.Or(c.Reason, "Failed"))}
			}
		}
	}
	return waves.Run{}
}
