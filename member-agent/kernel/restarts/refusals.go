package restarts

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// AskedAgain is the time after which it is asked again whether a refused pod may restart.
	AskedAgain = time.Minute
	// forgottenAfter is the time after which a refusal is forgotten that was not repeated: its pod is gone, or its
	// workload is asked for no restart.
	forgottenAfter = 10 * time.Minute
)

// Refusals are the pods that may not restart, as of a short while ago. A refusal stays until it is taken back, so that
// a hub that grants nothing to refused pods does not grant in vain again and again. The zero value knows none, and so
// does nil. It is safe for concurrent use.
type Refusals struct {
	mu sync.Mutex
	// requests were refused by the API server, disruptions by PodUnavailableBudgets.
	requests    map[types.UID]refusedAt
	disruptions map[types.UID]time.Time
}

type refusedAt struct {
	why  string
	time time.Time
}

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
	r.requests[pod] = refusedAt{why, now}
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
		r.disruptions = map[types.UID]time.Time{}
	}
	for _, pod := range pods {
		if refused {
			r.disruptions[pod.UID] = now
		} else {
			delete(r.disruptions, pod.UID)
		}
	}
}

// Of returns, by their names, why the requests of these pods were refused. It forgets what was not repeated for long.
func (r *Refusals) Of(pods []*corev1.Pod, now time.Time) map[string]string {
	out := map[string]string{}
	if r == nil {
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.requests, func(_ types.UID, at refusedAt) bool { return now.Sub(at.time) >= forgottenAfter })
	maps.DeleteFunc(r.disruptions, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= forgottenAfter })
	for _, pod := range pods {
		if at, refused := r.requests[pod.UID]; refused {
			out[pod.Name] = at.why
		}
	}
	return out
}

// Due returns of which of these pods it is to be asked again whether their requests, and their disruptions, are still
// refused.
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
		if at, refused := r.disruptions[pod.UID]; refused && now.Sub(at) >= AskedAgain {
			disruptions = append(disruptions, pod)
		}
	}
	return requests, disruptions
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
	return asked && now.Sub(request.time) < forgottenAfter || disrupted && now.Sub(disruption) < forgottenAfter
}
