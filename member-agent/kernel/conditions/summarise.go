package conditions

import (
	"cmp"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Condition is one condition, free of any kind's own type.
type Condition struct {
	Type    string
	Status  corev1.ConditionStatus
	Reason  string
	Message string
}

// Cause says why something cannot move: a reason in CamelCase, and a sentence with the object, the value and the
// remedy.
type Cause struct {
	Reason  string
	Message string
}

// Reasons of Ready, Reconciling and Stalled.
const (
	ReasonAllAvailable     = "AllAvailable"
	ReasonPodsNotAvailable = "PodsNotAvailable"
	ReasonUpdating         = "Updating"
	ReasonScaling          = "Scaling"
	ReasonPaused           = "Paused"
	ReasonRetrying         = "Retrying"
	ReasonWaitingForHook   = "WaitingForHook"
	ReasonNotStalled       = "NotStalled"
	// ReasonHubSilent: the hub grants what may be disrupted, and was not heard for 40 s: what is to be updated waits.
	ReasonHubSilent = "HubSilent"
)

// Names are the published reasons of a kind's Progressing condition, and the kind.
type Names struct {
	Updated, Available, PartitionAvailable, Paused, DeadlineExceeded string
	Kind                                                             string
}

// NoDeadline is the published progressDeadlineSeconds, in seconds, that means the same as none.
const NoDeadline = math.MaxInt32

// HasDeadline reports whether progressDeadlineSeconds asks for a deadline.
func HasDeadline(seconds *int32) bool { return seconds != nil && *seconds != NoDeadline }

// NamesOf returns the reasons with a kind's name in front, as OpenKruise and Kubernetes name them.
func NamesOf(kind string) Names {
	return Names{
		Updated:            kind + "Updated",
		Available:          kind + "Available",
		PartitionAvailable: "ProgressPartitionAvailable",
		Paused:             kind + "Paused",
		DeadlineExceeded:   "ProgressDeadlineExceeded",
		Kind:               kind,
	}
}

// Facts are what the summary is made of.
type Facts struct {
	// Desired is spec.replicas; ExpectedUpdated is how many of them are to be on the new revision.
	Desired, ExpectedUpdated int32
	// Replicas, Updated, Available and UpdatedAvailable are the counters. Where the pods are divided, Updated and
	// UpdatedAvailable count in each part no more than are to be updated there: one too many here is none there.
	Replicas, Updated, Available, UpdatedAvailable int32
	// GoingBack is how many updated pods are still to be brought back to the old revision, since the partition was raised;
	// Kept is how many more updated pods there are than asked for, that have no old revision to go back to.
	GoingBack, Kept int32
	// OnDelete says that pods are updated only when somebody deletes them.
	OnDelete bool
	// Paused says that the user paused updates.
	Paused bool
	// HubSilent says that what a hub grants has run out, so that no pod is disrupted.
	HubSilent bool
	// Stalled says why only a person can move it on; nil otherwise.
	Stalled *Cause
	// Failed is the last error, which is tried again; nil otherwise.
	Failed *Cause
	// Held says why pods are not created; nil if they are.
	Held *Cause
	// Waiting says what pods wait for that somebody outside has to do, as a lifecycle hook asks; "" if none does.
	Waiting string
	// DeadlineExceeded says that nothing has moved for longer than the user's deadline.
	DeadlineExceeded bool
	// NoDeadline says that the user asks for no deadline. As published, Progressing is absent then.
	NoDeadline bool
	// Revision is the name of the new revision, which the published text about a deadline names.
	Revision string
	// KeptBy is what keeps pods on the old revision, for messages; "" is the partition.
	KeptBy string
}

// Complete reports whether the counters are what the spec asks for.
func (f Facts) Complete() bool {
	return f.Replicas == f.Desired && f.Available >= f.Desired && f.Updated >= f.ExpectedUpdated &&
		f.UpdatedAvailable >= f.ExpectedUpdated && f.GoingBack == 0
}

// allUpdated reports whether no pod of the old revision is left, as far as the numbers say.
func (f Facts) allUpdated() bool {
	return f.Updated >= f.Desired || !f.OnDelete && f.Updated+f.Kept >= f.Desired
}

// waitsForUnpause: everything is there but the update, which the user holds.
func (f Facts) waitsForUnpause() bool {
	return f.Paused && (f.Updated < f.ExpectedUpdated || f.GoingBack > 0) && f.Replicas == f.Desired &&
		f.Available >= f.Desired
}

// Summarise returns the four conditions in a fixed order. Without a deadline the last one is one that Merge removes.
func Summarise(f Facts, names Names) []Condition {
	return []Condition{ready(f), reconciling(f), stalled(f), progressing(f, names)}
}

// Tell adds a sentence to the messages of Ready, and of Reconciling while the workload is reconciled.
func Tell(list []Condition, sentence string) {
	for i := range list {
		c := &list[i]
		if c.Type == v1beta1.ConditionReady || c.Type == v1beta1.ConditionReconciling && c.Status == corev1.ConditionTrue {
			c.Message = fmt.Sprintf("%s; %s", c.Message, sentence)
		}
	}
}

func ready(f Facts) Condition {
	c := Condition{Type: v1beta1.ConditionReady, Status: corev1.ConditionFalse}
	switch {
	case f.Stalled != nil:
		c.Reason, c.Message = f.Stalled.Reason, f.Stalled.Message
	case f.Complete():
		c.Status, c.Reason = corev1.ConditionTrue, ReasonAllAvailable
		c.Message = fmt.Sprintf("%d of %d pods are available", f.Available, f.Desired) + atRest(f)
	default:
		c.Reason, c.Message = unfinished(f)
	}
	return c
}

func unfinished(f Facts) (reason, message string) {
	switch {
	case f.Failed != nil:
		return f.Failed.Reason, f.Failed.Message
	case f.Held != nil:
		return f.Held.Reason, f.Held.Message
	case f.waitsForUnpause():
		return ReasonPaused, updating(f) + "; the update is paused"
	case f.Waiting != "":
		return ReasonWaitingForHook, f.Waiting
	case f.Replicas != f.Desired && !f.surging():
		return ReasonScaling, fmt.Sprintf("%d pods exist, %d are wanted", f.Replicas, f.Desired)
	case f.HubSilent && (f.Updated < f.ExpectedUpdated || f.GoingBack > 0):
		return ReasonHubSilent, updating(f) + "; the hub was not heard for 40 s, so what it lets this cluster disrupt may " +
			"be lent to others, and no pod is updated until it is heard again: look at the agent's way to the hub"
	case f.Updated < f.ExpectedUpdated || f.GoingBack > 0:
		return ReasonUpdating, updating(f)
	case f.Available >= f.Desired:
		return ReasonUpdating, fmt.Sprintf("%d of the %d pods to update are updated and available", f.UpdatedAvailable,
			f.ExpectedUpdated)
	}
	return ReasonPodsNotAvailable, fmt.Sprintf("%d of %d pods are available", f.Available, f.Desired)
}

// surging reports whether the pods above Desired belong to an update: it is the update then that is waited for.
func (f Facts) surging() bool {
	return f.Replicas > f.Desired && (f.Updated < f.ExpectedUpdated || f.UpdatedAvailable < f.ExpectedUpdated ||
		f.GoingBack > 0)
}

// updating says how far the pods are on their way between the revisions.
func updating(f Facts) string {
	var text string
	switch forward := fmt.Sprintf("%d of the %d pods to update are updated", f.Updated, f.ExpectedUpdated); {
	case f.GoingBack == 0 && f.UpdatedAvailable < f.Updated:
		text = fmt.Sprintf("%s, %d of them available", forward, f.UpdatedAvailable)
	case f.GoingBack == 0:
		text = forward
	case f.Updated < f.ExpectedUpdated:
		text = fmt.Sprintf("%s, %d updated ones are to go back to the old revision", forward, f.GoingBack)
	default:
		text = fmt.Sprintf("%d updated pods are to go back to the old revision", f.GoingBack)
	}
	if f.surging() {
		text = fmt.Sprintf("%s; %d pods exist, %d are wanted", text, f.Replicas, f.Desired)
	}
	return text
}

func reconciling(f Facts) Condition {
	c := Condition{Type: v1beta1.ConditionReconciling, Status: corev1.ConditionFalse}
	switch {
	case f.Stalled != nil:
		c.Reason = f.Stalled.Reason
	case f.Complete():
		c.Reason = ReasonAllAvailable
	case f.waitsForUnpause() && f.Failed == nil:
		c.Reason = ReasonPaused
	default:
		c.Status = corev1.ConditionTrue
		c.Reason, c.Message = unfinished(f)
	}
	return c
}

func stalled(f Facts) Condition {
	c := Condition{Type: v1beta1.ConditionStalled, Status: corev1.ConditionFalse, Reason: ReasonNotStalled}
	if f.Stalled != nil {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, f.Stalled.Reason, f.Stalled.Message
	}
	return c
}

// atRest says, after the sentence of a workload that is complete, what keeps pods from being updated.
func atRest(f Facts) string {
	switch {
	case f.OnDelete && f.Updated < f.Desired:
		return fmt.Sprintf("; %d are updated, the others are when somebody deletes them, as type OnDelete asks", f.Updated)
	case f.OnDelete || f.ExpectedUpdated >= f.Desired:
		return ""
	case f.Kept > 0 && !f.allUpdated():
		return fmt.Sprintf("; %d are updated, and the partition keeps the other %d as they are", f.Updated+f.Kept,
			f.Desired-f.Updated-f.Kept)
	case f.Kept > 0:
		return fmt.Sprintf("; the partition asks for %d to be updated, and they are; %d more are updated, and have no old "+
			"revision to go back to", f.ExpectedUpdated, f.Kept)
	}
	return fmt.Sprintf("; %s asks for %d to be updated, and they are", cmp.Or(f.KeptBy, "the partition"),
		f.ExpectedUpdated)
}

// progressing returns the published condition: tools compare its reasons and texts, which are those of an OpenKruise
// manager. What else there is to say stands in the other three.
func progressing(f Facts, names Names) Condition {
	if f.NoDeadline {
		return Remove(v1beta1.ConditionProgressing)
	}
	c := Condition{Type: v1beta1.ConditionProgressing, Status: corev1.ConditionTrue, Reason: names.Updated,
		Message: names.Kind + " is progressing"}
	switch {
	case f.Complete() && f.allUpdated():
		c.Reason, c.Message = names.Available, names.Kind+" is available"
	case f.Paused:
		c.Reason, c.Message = names.Paused, names.Kind+" is paused"
	case f.Complete() && f.OnDelete: // somebody has still to delete pods; there is no hurry
	case f.Complete():
		c.Reason, c.Message = names.PartitionAvailable, names.Kind+" has been paused due to partition ready"
	case f.DeadlineExceeded:
		c.Status, c.Reason = corev1.ConditionFalse, names.DeadlineExceeded
		c.Message = fmt.Sprintf("%s revision %s has timed out progressing", names.Kind, f.Revision)
	}
	return c
}
