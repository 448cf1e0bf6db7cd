package disruption

import (
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

const (
	// waitingFor is how long a pod that was refused counts as waiting: kubectl drain asks again every 5 seconds.
	waitingFor = time.Minute
	// askedAgain is how old the record of a pod that waits is at least before another refusal renews it.
	askedAgain = waitingFor / 3
	// mostWaiting is how many pods wait at most: the hub lends one after the other.
	mostWaiting = 50
)

// Grant is what a hub grants of a budget that is over several clusters. The zero value is that of a budget of one
// cluster.
type Grant struct {
	// Hub: a hub grants how many pods may be unavailable in this cluster. The numbers of the budget are for all clusters.
	Hub bool
	// Silent: what was granted may be lent to another cluster, because the hub was not heard for too long, or this
	// replica of the agent does not listen to it.
	Silent bool
	// Unavailable is how many pods may be unavailable in this cluster, by the order of this sequence.
	Unavailable int32
	Sequence    int64
}

// silent reports whether nothing is allowed until the hub is heard again.
func (g Grant) silent(pub *v1beta1.PodUnavailableBudget) bool {
	allowed, err := strconv.ParseBool(pub.Annotations[v1beta1.AnnotationDisruptWithoutHub])
	return g.Hub && g.Silent && (err != nil || !allowed)
}

// observed reports whether the counters are those of the newest generation and order.
func (g Grant) observed(pub *v1beta1.PodUnavailableBudget) bool {
	return pub.Status.ObservedGeneration == pub.Generation && (!g.Hub || pub.Status.ObservedSequence == g.Sequence)
}

// unlimited reports whether any number of pods may become unavailable, without a record. Of what a hub grants all is
// recorded: it may be lent to another cluster.
func (g Grant) unlimited(status *v1beta1.PodUnavailableBudgetStatus) bool {
	return status.DesiredAvailable <= 0 && (!g.Hub || status.TotalReplicas == 0)
}

// desired returns how many pods must stay available.
func (g Grant) desired(spec *v1beta1.PodUnavailableBudgetSpec, total int32) int32 {
	if g.Hub {
		return max(total-max(g.Unavailable, 0), 0)
	}
	return Desired(spec, total)
}

// waits notes that a pod was refused because no more is granted, and reports whether that changed the status.
func waits(status *v1beta1.PodUnavailableBudgetStatus, pod string, now time.Time) bool {
	at, known := status.WaitingPods[pod]
	if known && now.Sub(at.Time) < askedAgain || !known && len(status.WaitingPods) >= mostWaiting {
		return false
	}
	if status.WaitingPods == nil {
		status.WaitingPods = map[string]metav1.Time{}
	}
	status.WaitingPods[pod] = metav1.NewTime(now)
	return true
}

// Waiting returns the status that says which of the refused pods wait for a hub to grant more, nil if the budget's
// status says that already.
func Waiting(
	pub *v1beta1.PodUnavailableBudget, refusals map[string]*Refusal, now time.Time,
) *v1beta1.PodUnavailableBudgetStatus {
	status, changed := pub.Status.DeepCopy(), false
	for _, pod := range slices.Sorted(maps.Keys(refusals)) {
		if r := refusals[pod]; r.Hub && r.Why == WhyExhausted {
			changed = waits(status, pod, now) || changed
		}
	}
	if !changed {
		return nil
	}
	return status
}

// keepWaiting returns the pods that still wait, nil for none: those that are available, and may not go.
func (o *Observed) keepWaiting(pods map[string]*corev1.Pod, now time.Time) map[string]metav1.Time {
	kept := map[string]metav1.Time{}
	for name, at := range o.Status.WaitingPods {
		pod, age := pods[name], now.Sub(at.Time)
		if pod == nil || !Available(pod, now) || recorded(&o.Status, name, now) || age >= waitingFor {
			continue
		}
		kept[name] = at
		o.Wake = podstate.Sooner(o.Wake, waitingFor-age)
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}
