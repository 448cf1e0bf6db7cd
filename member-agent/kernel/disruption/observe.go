package disruption

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// settled is how old a record is at least before the pod counts by what the cache shows of it: the cache may be older
// than the record. A pod that is seen to terminate has been decided about.
const settled = 2 * time.Second

// Observed is what Observe found.
type Observed struct {
	Status v1beta1.PodUnavailableBudgetStatus
	// Expired are pods whose operation was allowed and not carried out in time, sorted.
	Expired []string
	// Wake is when to look again though nothing happens; 0 is never.
	Wake time.Duration
}

// Observe returns the counters of the budget over its pods, of which there are to be total, and the records that still
// hold. Conditions stay as they are.
func Observe(
	pub *v1beta1.PodUnavailableBudget, grant Grant, members []*corev1.Pod, total int32, now time.Time,
) Observed {
	byName := make(map[string]*corev1.Pod, len(members))
	for _, pod := range members {
		byName[pod.Name] = pod
	}
	out := Observed{Status: *pub.Status.DeepCopy()}
	status := &out.Status
	status.ObservedGeneration = pub.Generation
	status.DisruptedPods = out.keep(status.DisruptedPods, disruptedFor, byName, now)
	disrupted := len(out.Expired)
	status.UnavailablePods = out.keep(status.UnavailablePods, updatedFor, byName, now)
	if Protects(pub, v1beta1.PubResizeOperation) {
		out.Expired = out.Expired[:disrupted] // a resize without a restart leaves no trace that tells it was carried out
	}
	slices.Sort(out.Expired)
	status.WaitingPods, status.ObservedSequence = nil, 0
	if grant.Hub {
		status.WaitingPods, status.ObservedSequence = pub.Status.WaitingPods, grant.Sequence
		status.WaitingPods = out.keepWaiting(byName, now)
	}
	status.TotalReplicas, status.DesiredAvailable = total, grant.desired(&pub.Spec, total)
	status.CurrentAvailable = count(status, members, now)
	status.UnavailableAllowed = allowed(status, status.CurrentAvailable)
	return out
}

// updatedSince reports whether the pod was updated in place, or became ready, after at. Both times have whole seconds;
// an update begins after its record.
func updatedSince(pod *corev1.Pod, at time.Time) bool {
	at = at.Truncate(time.Second)
	var update struct {
		UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	}
	text := pod.Annotations[apps.AnnotationInPlaceUpdateState]
	if json.Unmarshal([]byte(text), &update) == nil && !update.UpdateTimestamp.Time.Before(at) {
		return true
	}
	ready := podstate.Condition(pod, corev1.PodReady)
	return ready != nil && ready.LastTransitionTime.After(at)
}

// keep returns the records that still hold, nil for none.
func (o *Observed) keep(
	records map[string]metav1.Time, lasts time.Duration, pods map[string]*corev1.Pod, now time.Time,
) map[string]metav1.Time {
	kept := maps.Clone(records)
	for name, at := range records {
		pod, age := pods[name], now.Sub(at.Time)
		if pod != nil && !podstate.Active(pod) { // it was carried out
			delete(kept, name)
			continue
		}
		end := lasts
		if pod == nil || !Available(pod, now) || lasts == updatedFor && updatedSince(pod, at.Time) {
			end = settled
		}
		if age < end {
			o.Wake = podstate.Sooner(o.Wake, end-age)
			continue
		}
		if delete(kept, name); end == lasts {
			o.Expired = append(o.Expired, name)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}
