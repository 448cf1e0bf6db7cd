package restart

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// askedAgain is when a request that was refused is created again.
const askedAgain = time.Minute

// refusals are the pods whose requests were refused a short while ago. The zero value knows none. It is safe for
// concurrent use.
type refusals struct {
	mu   sync.Mutex
	pods map[types.UID]refusedAt
}

type refusedAt struct {
	why  string
	time time.Time
}

// note keeps why the request of a pod was refused.
func (r *refusals) note(pod types.UID, why string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]refusedAt{}
	}
	r.pods[pod] = refusedAt{why, now}
}

// of returns, by their names, why the requests of these pods were refused. It forgets what is older than askedAgain.
func (r *refusals) of(pods []*corev1.Pod, now time.Time) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.pods, func(_ types.UID, at refusedAt) bool { return now.Sub(at.time) >= askedAgain })
	out := map[string]string{}
	for _, pod := range pods {
		if at, refused := r.pods[pod.UID]; refused {
			out[pod.Name] = at.why
		}
	}
	return out
}
