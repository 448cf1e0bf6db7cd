package restart

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// How often the pods of a workload are looked at during a restart, beside events of them and of requests.
const (
	lookAgain   = 5 * time.Second
	lookWaiting = 15 * time.Second
)

// report makes the event that says how far the restart is. It returns when to look again.
func (r *restarter) report(
	of types.NamespacedName, object client.Object, f facts, p plan, waits string,
) (again time.Duration) {
	switch {
	case f.order.At == "":
		return p.wake
	case p.failed != "":
		r.say(of, object, corev1.EventTypeWarning, "RestartFailed", "The restart stops: "+p.failed+
			"; correct that and restart again, or use flotilla rollout restart")
		return p.wake
	case f.stopped:
		return p.wake
	case p.left == 0:
		if len(p.done) > 0 || r.follows(of) {
			r.say(of, object, corev1.EventTypeNormal, "Restarted", "All pods have restarted as of "+f.order.At)
		}
		return p.wake
	case waits != "":
		r.say(of, object, corev1.EventTypeNormal, "RestartWaits", "The restart waits: "+waits)
		return podstate.Sooner(p.wake, lookWaiting)
	}
	r.say(of, object, corev1.EventTypeNormal, "Restarting",
		"Restarting containers as of "+f.order.At+", within maxUnavailable")
	return podstate.Sooner(p.wake, lookAgain)
}

// follows reports whether an event about the restart of the workload was made.
func (r *restarter) follows(of types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said[of] != ""
}

// say makes an event about a workload, unless it was the last one. Without an object it forgets the workload.
func (r *restarter) say(of types.NamespacedName, object client.Object, kind, reason, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if object == nil {
		delete(r.said, of)
		return
	}
	if said := reason + text; r.said[of] != said {
		r.said[of] = said
		r.events.Eventf(object, nil, kind, reason, "Restart", "%s", text)
	}
}
