package restarts

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// AskedAgain is the time after which it is asked again whether a refused pod may restart.
	AskedAgain = time.Minute
	// forgottenAfter is the time after which the refusal of a pod is forgotten that was not seen: it is gone, or it has
	// not to restart.
	forgottenAfter = 10 * time.Minute
)

// Refusals are the pods that may not restart, as of a short while ago. A refusal stays until it is taken back, so that
// a hub that grants nothing to refused pods does not grant in vain again and again. The zero value knows none, and so
// does nil. It is safe for concurrent use.
type Refusals struct {
	mu sync.Mutex
	// requests were refused by the API server, disruptions by PodUnavailableBudgets.
	requests    map[types.UID]refusedAt
	disruptions map[types.UID]refusedAt
}

type refusedAt struct {
	why string
	// time is when it was refused last, seen when its pod was seen last.
	time, seen time.Time
}

// forgotten reports whether the pod was not seen for long.
func (at refusedAt) forgotten(now time.Time) bool { return now.Sub(at.seen) >= forgottenAfter }

// Request keeps why the request of a pod was refused.
func (r *Refusals) Request(pod types.UID, why string, now time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests == nil {
		r.requests = map[types.UID]refusedAt{}
	}
	r.requests[pod] = refusedAt{why, now, now}
}

// Allow takes back that the request of a pod was refused.
func (r *Refusals) Allow(pod types.UID) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.requests, pod)
}

// Disruptions keeps that these pods may not become unavailable, or that they may.
func (r *Refusals) Disruptions(pods []*corev1.Pod, refused bool, now time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disruptions == nil {
		r.disruptions = map[types.UID]refusedAt{}
	}
	for _, pod := range pods {
		if refused {
			r.disruptions[pod.UID] = refusedAt{"", now, now}
		} else {
			delete(r.disruptions, pod.UID)
		}
	}
}

// Of returns, by their names, why the requests of these pods were refused. They are the pods of a workload that have
// still to restart: it forgets pods that were not among them for long.
func (r *Refusals) Of(pods []*corev1.Pod, now time.Time) map[string]string {
	out := map[string]string{}
	if r == nil {
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range pods {
		for _, refused := range []map[types.UID]refusedAt{r.requests, r.disruptions} {
			if at, has := refused[pod.UID]; has {
				at.seen = now
				refused[pod.UID] = at
			}
		}
		if at, refused := r.requests[pod.UID]; refused {
			out[pod.Name] = at.why
		}
	}
	forgotten := func(_ types.UID, at refusedAt) bool { return at.forgotten(now) }
	maps.DeleteFunc(r.requests, forgotten)
	maps.DeleteFunc(r.disruptions, forgotten)
	return out
}

// Due returns of which of these pods it is to be asked again whether their requests, and their disruptions, are still
// refused, those first that were asked of the longest ago.
func (r *Refusals) Due(pods []*corev1.Pod, now time.Time) (requests, disruptions []*corev1.Pod) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range pods {
		if at, refused := r.requests[pod.UID]; refused && now.Sub(at.time) >= AskedAgain {
			requests = append(requests, pod)
		}
		if at, refused := r.disruptions[pod.UID]; refused && now.Sub(at.time) >= AskedAgain {
			disruptions = append(disruptions, pod)
		}
	}
	slices.SortStableFunc(requests, func(a, b *corev1.Pod) int {
		return r.requests[a.UID].time.Compare(r.requests[b.UID].time)
	})
	return requests, disruptions
}

// Disrupted returns the names of those of these pods whose disruption is refused.
func (r *Refusals) Disrupted(pods []*corev1.Pod) map[string]bool {
	out := map[string]bool{}
	if r == nil {
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range pods {
		if _, refused := r.disruptions[pod.UID]; refused {
			out[pod.Name] = true
		}
	}
	return out
}

// Refused reports whether the request or the disruption of a pod is refused.
func (r *Refusals) Refused(pod types.UID, now time.Time) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	request, asked := r.requests[pod]
	disruption, disrupted := r.disruptions[pod]
	return asked && !request.forgotten(now) || disrupted && !disruption.forgotten(now)
}
