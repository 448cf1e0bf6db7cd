package restarts

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AskedAgain is how long a refusal counts. After that a request that was refused is created again.
const AskedAgain = time.Minute

// Refusals are the pods that may not restart, as of a short while ago. The zero value knows none, and so does nil. It
// is safe for concurrent use.
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

// Of returns, by their names, why the requests of these pods were refused. It forgets what is older than AskedAgain.
func (r *Refusals) Of(pods []*corev1.Pod, now time.Time) map[string]string {
	out := map[string]string{}
	if r == nil {
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.requests, func(_ types.UID, at refusedAt) bool { return now.Sub(at.time) >= AskedAgain })
	maps.DeleteFunc(r.disruptions, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= AskedAgain })
	for _, pod := range pods {
		if at, refused := r.requests[pod.UID]; refused {
			out[pod.Name] = at.why
		}
	}
	return out
}

// Refused reports whether the request or the disruption of a pod was refused a short while ago.
func (r *Refusals) Refused(pod types.UID, now time.Time) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	request, disruption := r.requests[pod], r.disruptions[pod]
	return now.Sub(request.time) < AskedAgain || now.Sub(disruption) < AskedAgain
}
