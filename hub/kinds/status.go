package kinds

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// Observed is what a sum depends on of the user's object.
type Observed struct {
	// Generation and the revisions are those that its status names.
	Generation                      int64
	UpdateRevision, CurrentRevision string
	// Desired is how many replicas the user asks for; mode PerMember does not use it.
	Desired int32
	// NoDeadline: no progress deadline applies.
	NoDeadline bool
	// OnDelete: a pod is updated when somebody deletes it, so no number of updated pods is waited for.
	OnDelete bool
	// Paused: the user paused updates.
	Paused bool
	// KeptBy is what keeps pods on the old revision, for messages; "" is the partition.
	KeptBy string
}

// Counts are the counters of a subset, or of a whole workload.
type Counts struct {
	Desired                                 int32
	Replicas, Ready, Available              int32
	Updated, UpdatedReady, UpdatedAvailable int32
	ExpectedUpdated                         int32
}

// Add adds the counters of another subset.
func (c *Counts) Add(o Counts) {
	c.Desired += o.Desired
	c.Replicas += o.Replicas
	c.Ready += o.Ready
	c.Available += o.Available
	c.Updated += o.Updated
	c.UpdatedReady += o.UpdatedReady
	c.UpdatedAvailable += o.UpdatedAvailable
	c.ExpectedUpdated += o.ExpectedUpdated
}

// Sum is what members report of one workload together.
type Sum struct {
	ObservedGeneration              int64
	UpdateRevision, CurrentRevision string
	Whole                           Counts
	Subsets                         map[string]Counts
	// PlacedSubsets are those that the placement has, where it answers the object's generation.
	PlacedSubsets []string
	// Conditions are those that all kinds have.
	Conditions []conditions.Condition
	// Failures are what members report under the published conditions of [Kind.Failures], by type.
	Failures map[string]*conditions.Cause
	// Statuses are those of the member objects, as JSON.
	Statuses [][]byte
	// Provisioned: every member object is as its Work says. UpToDate: enough pods are updated everywhere.
	Provisioned, UpToDate bool
	// Cause is what the workload waits for, nil for nothing.
	Cause *conditions.Cause
	// Job is what the placement and the members say of a job; nil without a placement.
	Job *JobSum
}

// JobSum is how far a job is over all members.
type JobSum struct {
	// End says how the job ended, Wave how far its batches are, and Halted why it halted; nil where that is not so.
	End    *topology.JobEnd
	Wave   *topology.WaveProgress
	Halted *work.JobHalt
	// Waits says what the batch under way waits for, "" without one.
	Waits string
	// Elsewhere reports whether Ready says that members do not answer.
	Elsewhere bool
	// Proven reports whether the pods of all nodes have ended, and all checks hold.
	Proven bool
}

// Failure is a published condition that is True while a member's controller retries something.
type Failure struct {
	Type string
	// OwnReason: the condition's reason is passed on. Otherwise its type is the reason.
	OwnReason bool
	// Past reports whether the condition is about what happened, so that nothing is retried.
	Past bool
}

// selectorText returns the selector as the scale subresource needs it, empty for an invalid one.
func selectorText(selector *metav1.LabelSelector) string {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return ""
	}
	return s.String()
}

// retried returns published conditions of these types for what members retry.
func retried(s *Sum, types ...string) []conditions.Condition {
	var list []conditions.Condition
	for _, of := range types {
		c := conditions.Remove(of)
		if cause := s.Failures[of]; cause != nil {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, cause.Reason, cause.Message
		}
		list = append(list, c)
	}
	return list
}
