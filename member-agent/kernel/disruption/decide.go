package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

// How long records hold. They are published.
const (
	disruptedFor = 20 * time.Second
	updatedFor   = 10 * time.Second
)

// mostRecords is how many records a budget has at most; an object may have 1.5 MB.
const mostRecords = 2000

// Why is the reason of a refusal.
type Why string

// The reasons.
const (
	// WhyExhausted: no more pods may become unavailable now.
	WhyExhausted Why = "Exhausted"
	// WhyNotObserved: the counters are not those of the budget's newest generation.
	WhyNotObserved Why = "NotObserved"
	// WhyTooManyRecords: the budget has as many records as it can have.
	WhyTooManyRecords Why = "TooManyRecords"
	// WhyHubSilent: what the hub granted may be lent to another cluster.
	WhyHubSilent Why = "HubSilent"
	// WhyConflict: the budget changed with every attempt to record the pod.
	WhyConflict Why = "Conflict"
	// WhyNotRecorded: the API server did not take the record of the pod.
	WhyNotRecorded Why = "NotRecorded"
)

// Refusal says why a pod must stay available.
type Refusal struct {
	// Budget is the name of the PodUnavailableBudget, Pod that of the pod.
	Budget, Pod string
	Operation   v1beta1.PubOperation
	Why         Why
	// Counters are those of the budget. Hub: a hub grants what they allow.
	Counters v1beta1.PodUnavailableBudgetStatus
	Hub      bool
}

// Error says which budget refuses, how much it allows, and what to do.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("PodUnavailableBudget %s refuses %s of pod %s: ", r.Budget, r.Operation, r.Pod)
	switch r.Why {
	case WhyNotObserved:
		return text + "its latest change is not counted yet; try again in a moment"
	case WhyTooManyRecords:
		return text + fmt.Sprintf("%d operations are under way; try again in a moment", mostRecords)
	case WhyHubSilent:
		return text + "this replica of the agent does not hear the hub, which may have lent to other clusters what it " +
			"granted to this one; try again in a moment, and if that lasts, look at the agent's way to the hub. Annotation " +
			v1beta1.AnnotationDisruptWithoutHub + "=true on the budget allows what was granted last"
	case WhyConflict:
		return text + "many requests change it at a time; try again in a moment"
	case WhyNotRecorded:
		return text + "its status could not be written, so that the decision would be lost; try again in a moment, and if " +
			"that lasts, look at the agent's log"
	}
	c := r.Counters
	if r.Hub {
		return text + fmt.Sprintf("the hub lets %d of the %d pods of this cluster be unavailable now (%d are available); it "+
			"lets more as pods of other clusters become ready: try again in a moment, or change the budget on the hub",
			c.TotalReplicas-c.DesiredAvailable, c.TotalReplicas, c.CurrentAvailable)
	}
	return text + fmt.Sprintf("%d more pods may be unavailable now (%d of %d are available, %d must stay available); "+
		"wait until more pods are ready, or change the budget", c.UnavailableAllowed, c.CurrentAvailable, c.TotalReplicas,
		c.DesiredAvailable)
}

// Decide decides about an operation on pods of the budget, in their order. members are all its pods as the caller sees
// them. It returns the status to write before the operation, nil if there is nothing to write, and one refusal for each
// pod that must stay. With a hub, pods that are refused because no more is granted are written too.
func Decide(
	pub *v1beta1.PodUnavailableBudget, grant Grant, members, pods []*corev1.Pod, operation v1beta1.PubOperation,
	now time.Time,
) (*v1beta1.PodUnavailableBudgetStatus, map[string]*Refusal) {
	refusals := map[string]*Refusal{}
	status := pub.Status.DeepCopy()
	status.UnavailableAllowed = min(status.UnavailableAllowed, allowed(status, count(status, members, now)))
	changed := false
	for _, pod := range pods {
		if !Limited(pub, pod, operation, now) {
			continue
		}
		left, old := remaining(status, pod.Name, now)
		if left > 0 && old.holds-left < settled {
			continue // no replica drops it yet, and a hub waits longer than it holds before it lends what this cluster had
		}
		why := unknown(pub, grant)
		switch {
		case why != "":
		case left > 0:
			old.pods[pod.Name], changed = metav1.NewTime(now), true
			continue // it is counted as unavailable already
		case grant.unlimited(status):
			continue
		default:
			why = exhausted(status)
		}
		if why != "" {
			refusals[pod.Name] = &Refusal{Budget: pub.Name, Pod: pod.Name, Operation: operation, Why: why, Counters: *status,
				Hub: grant.Hub}
			if why == WhyExhausted && grant.Hub {
				changed = waits(status, pod.Name, now) || changed
			}
			continue
		}
		delete(status.WaitingPods, pod.Name)
		record(status, pod.Name, operation, now)
		status.UnavailableAllowed--
		status.CurrentAvailable = max(0, status.CurrentAvailable-1)
		changed = true
	}
	if !changed {
		return nil, refusals
	}
	return status, refusals
}

// unknown says why this replica cannot tell what is allowed, "" if it can.
func unknown(pub *v1beta1.PodUnavailableBudget, grant Grant) Why {
	switch {
	case grant.silent(pub):
		return WhyHubSilent
	case !grant.observed(pub):
		return WhyNotObserved
	}
	return ""
}

// exhausted says why no more pods may become unavailable, "" if one may.
func exhausted(status *v1beta1.PodUnavailableBudgetStatus) Why {
	switch {
	case len(status.DisruptedPods)+len(status.UnavailablePods) >= mostRecords:
		return WhyTooManyRecords
	case status.UnavailableAllowed <= 0:
		return WhyExhausted
	}
	return ""
}

// Limited reports whether the budget, which protects the pod, limits the operation on it. Pods that are unavailable may
// always go.
func Limited(
	pub *v1beta1.PodUnavailableBudget, pod *corev1.Pod, operation v1beta1.PubOperation, now time.Time,
) bool {
	return Protects(pub, operation) && Available(pod, now) && !Ignored(&pub.Spec, pod)
}

// record notes that the operation may be carried out.
func record(status *v1beta1.PodUnavailableBudgetStatus, pod string, operation v1beta1.PubOperation, now time.Time) {
	records := &status.DisruptedPods
	if operation == v1beta1.PubUpdateOperation || operation == v1beta1.PubResizeOperation {
		records = &status.UnavailablePods
	}
	if *records == nil {
		*records = map[string]metav1.Time{}
	}
	(*records)[pod] = metav1.NewTime(now)
}

// lasting are records that hold equally long.
type lasting struct {
	pods  map[string]metav1.Time
	holds time.Duration
}

// remaining returns how long the pod's record still holds, 0 or less if it has none that does, and which one that is.
func remaining(status *v1beta1.PodUnavailableBudgetStatus, pod string, now time.Time) (time.Duration, lasting) {
	var longest time.Duration
	var found lasting
	for _, r := range []lasting{{status.DisruptedPods, disruptedFor}, {status.UnavailablePods, updatedFor}} {
		if at, ok := r.pods[pod]; ok && r.holds-now.Sub(at.Time) > longest {
			longest, found = r.holds-now.Sub(at.Time), r
		}
	}
	return longest, found
}

// recorded reports whether the pod has a record whose time is not over.
func recorded(status *v1beta1.PodUnavailableBudgetStatus, pod string, now time.Time) bool {
	left, _ := remaining(status, pod, now)
	return left > 0
}

// count returns how many pods are available: those that have a record are not.
func count(status *v1beta1.PodUnavailableBudgetStatus, members []*corev1.Pod, now time.Time) int32 {
	var available int32
	for _, pod := range members {
		if Available(pod, now) && !recorded(status, pod.Name, now) {
			available++
		}
	}
	return available
}

// allowed returns how many more pods may become unavailable: as many as are available beyond those that must stay, and
// never more than total − desired. One at a time may go of those above both numbers, as in a rollout with surge: there
// are enough without it.
func allowed(status *v1beta1.PodUnavailableBudgetStatus, available int32) int32 {
	within := min(available-status.DesiredAvailable, status.TotalReplicas-status.DesiredAvailable)
	above := min(available-max(status.TotalReplicas, status.DesiredAvailable), 1)
	return max(0, within, above)
}
