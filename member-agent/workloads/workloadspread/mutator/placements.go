package mutator

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

// reservationTime is how long an admitted pod that the cache does not show keeps its place. Usually the cache shows it
// within milliseconds; one that was refused after its admission, by a quota for example, never comes. OpenKruise waits
// as long.
const reservationTime = 30 * time.Second

// group names the pods that are counted together: those of one controller, for one WorkloadSpread. A Deployment has a
// ReplicaSet for each version, so that each version is a group of its own.
type group struct {
	owner   types.UID
	version string
	spread  string
}

// groupOf returns the group of a pod with this controller.
func groupOf(pod *corev1.Pod, owner *metav1.OwnerReference, ws string) group {
	return group{owner.UID, spread.Target{Kind: owner.Kind}.Version(pod), ws}
}

// placement is the subset of one pod.
type placement struct {
	group
	subset string
	// id identifies the pod, see podID.
	id string
}

// reservation is the placement of an admitted pod that the cache does not show yet.
type reservation struct {
	placement
	until time.Time
}

// placements counts the pods in each subset: active ones that the cache shows, and reservations. It follows the events
// of the cache one by one, so that a reservation ends at the instant in which its pod is counted. It is safe for
// concurrent use.
type placements struct {
	mu           sync.Mutex
	counts       map[group]map[string]int32
	reservations map[string]reservation
	// queue holds the ids of reservations in the order in which they expire. Some of them may have ended before.
	queue []queued
}

type queued struct {
	id    string
	until time.Time
}

var _ toolscache.ResourceEventHandler = &placements{}

func newPlacements() *placements {
	return &placements{counts: map[group]map[string]int32{}, reservations: map[string]reservation{}}
}

// podID identifies a pod before it exists: the uid in its annotation if it has no name yet, else its name.
func podID(namespace, name, uid string) string {
	if uid != "" {
		return uid
	}
	return namespace + "/" + name
}

// placementOf returns the placement of a pod; false if it is not counted: it has no subset, no controller of a kind
// that is spread at admission, or is not active.
func placementOf(pod *corev1.Pod) (placement, bool) {
	value, ok := pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]
	if !ok || !podstate.Active(pod) {
		return placement{}, false
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !ownsSpreadPods(owner) {
		return placement{}, false
	}
	var matched v1beta1.MatchedWorkloadSpread
	if err := json.Unmarshal([]byte(value), &matched); err != nil || matched.Subset == "" {
		return placement{}, false
	}
	return placement{groupOf(pod, owner, matched.Name), matched.Subset, podID(pod.Namespace, pod.Name, matched.UID)}, true
}

// reserve asks pick for a subset, with the pods in each subset now, and reserves a place in it for the pod id. It
// returns what pick returned. pick must not keep or change the map.
func (p *placements) reserve(
	g group, id string, now time.Time, pick func(map[string]int32) (string, bool),
) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(now)
	p.end(id) // asked again for the same pod
	subset, ok := pick(p.counts[g])
	if !ok {
		return "", false
	}
	r := reservation{placement{g, subset, id}, now.Add(reservationTime)}
	p.reservations[id] = r
	p.queue = append(p.queue, queued{id, r.until})
	p.add(r.placement, 1)
	return subset, true
}

// peek is reserve without a reservation.
func (p *placements) peek(g group, now time.Time, pick func(map[string]int32) (string, bool)) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(now)
	return pick(p.counts[g])
}

// release ends the reservation for a pod that is not going to exist.
func (p *placements) release(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(id)
}

// expire ends the reservations whose time is over.
func (p *placements) expire(now time.Time) {
	n := 0
	for ; n < len(p.queue) && !p.queue[n].until.After(now); n++ {
		if r, ok := p.reservations[p.queue[n].id]; ok && r.until.Equal(p.queue[n].until) {
			p.end(r.id)
		}
	}
	p.queue = p.queue[n:]
}

// end ends the reservation with that id, if there is one.
func (p *placements) end(id string) {
	if r, ok := p.reservations[id]; ok {
		delete(p.reservations, id)
		p.add(r.placement, -1)
	}
}

func (p *placements) add(e placement, n int32) {
	of := p.counts[e.group]
	if of == nil {
		of = map[string]int32{}
		p.counts[e.group] = of
	}
	if of[e.subset] += n; of[e.subset] == 0 {
		delete(of, e.subset)
	}
	if len(of) == 0 {
		delete(p.counts, e.group)
	}
}

// reserved returns the number of reservations.
func (p *placements) reserved(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(now)
	return len(p.reservations)
}

// in returns how many pods of a group each subset has.
func (p *placements) in(g group) map[string]int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts[g])
}

// change replaces the placement of a pod.
func (p *placements) change(before, after any) {
	was, counted := placementOfObject(before)
	is, counts := placementOfObject(after)
	if counted == counts && was == is {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if counted {
		p.add(was, -1)
	}
	if counts {
		p.add(is, 1)
		p.end(is.id)
	}
}

func placementOfObject(obj any) (placement, bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod == nil {
		return placement{}, false
	}
	return placementOf(pod)
}

// OnAdd counts a pod that the cache shows.
func (p *placements) OnAdd(obj any, _ bool) { p.change(nil, obj) }

// OnUpdate counts a pod as it is now.
func (p *placements) OnUpdate(before, after any) { p.change(before, after) }

// OnDelete counts a pod no more.
func (p *placements) OnDelete(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	p.change(obj, nil)
}
