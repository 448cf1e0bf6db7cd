package admission

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

// flightTime is how long an admitted pod that nobody sees keeps its place. Usually the cache shows it within milliseconds; one
// that was refused after its admission, by a quota for example, never comes. OpenKruise waits as long.
const flightTime = 30 * time.Second

// page names the pods that are counted together: those of one controller, for one WorkloadSpread. A Deployment has a
// ReplicaSet for each version, so that each version has a page of its own.
type page struct {
	owner   types.UID
	version string
	spread  string
}

// pageOf returns the page of a pod with this controller.
func pageOf(pod *corev1.Pod, owner *metav1.OwnerReference, ws string) page {
	return page{owner.UID, spread.Target{Kind: owner.Kind}.Version(pod), ws}
}

// entry is what one pod counts for.
type entry struct {
	page
	subset string
	// id tells the pod from all others, see flightID.
	id string
}

// flight is an admitted pod that the cache has not shown yet.
type flight struct {
	entry
	until time.Time
}

// book counts the pods in each subset: active ones that the cache shows, and those admitted here that it does not show yet. It
// follows the events of the cache one by one, so that a pod leaves the second sort at the instant in which it enters the first.
// It is safe for concurrent use.
type book struct {
	mu      sync.Mutex
	counts  map[page]map[string]int32
	flights map[string]flight
	// queue holds the ids of flights in the order of their ends. Some of them may have ended before.
	queue []queued
}

type queued struct {
	id    string
	until time.Time
}

var _ toolscache.ResourceEventHandler = &book{}

func newBook() *book {
	return &book{counts: map[page]map[string]int32{}, flights: map[string]flight{}}
}

// flightID is what a pod is known by before it exists: the uid in its annotation if it has no name yet, else its name.
func flightID(namespace, name, uid string) string {
	if uid != "" {
		return uid
	}
	return namespace + "/" + name
}

// entryOf returns what the pod counts for; false if it counts nowhere: it has no subset, no controller of a kind that is spread
// at admission, or is not active.
func entryOf(pod *corev1.Pod) (entry, bool) {
	value, ok := pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]
	if !ok || !podstate.Active(pod) {
		return entry{}, false
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !ownsSpreadPods(owner) {
		return entry{}, false
	}
	var matched v1beta1.MatchedWorkloadSpread
	if err := json.Unmarshal([]byte(value), &matched); err != nil || matched.Subset == "" {
		return entry{}, false
	}
	return entry{pageOf(pod, owner, matched.Name), matched.Subset, flightID(pod.Namespace, pod.Name, matched.UID)}, true
}

// reserve asks pick for a subset, with the pods in each subset now, and keeps a place in it for the pod id. It returns what pick
// returned. pick must not keep or change the map.
func (b *book) reserve(p page, id string, now time.Time, pick func(map[string]int32) (string, bool)) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	b.land(id) // asked again for the same pod
	subset, ok := pick(b.counts[p])
	if !ok {
		return "", false
	}
	f := flight{entry{p, subset, id}, now.Add(flightTime)}
	b.flights[id] = f
	b.queue = append(b.queue, queued{id, f.until})
	b.add(f.entry, 1)
	return subset, true
}

// ask is reserve without keeping a place.
func (b *book) ask(p page, now time.Time, pick func(map[string]int32) (string, bool)) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	return pick(b.counts[p])
}

// release gives the place of a pod back that is not going to be.
func (b *book) release(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.land(id)
}

// expire forgets the flights whose time is over.
func (b *book) expire(now time.Time) {
	n := 0
	for ; n < len(b.queue) && !b.queue[n].until.After(now); n++ {
		if f, ok := b.flights[b.queue[n].id]; ok && f.until.Equal(b.queue[n].until) {
			b.land(f.id)
		}
	}
	b.queue = b.queue[n:]
}

// land ends the flight with that id, if there is one.
func (b *book) land(id string) {
	if f, ok := b.flights[id]; ok {
		delete(b.flights, id)
		b.add(f.entry, -1)
	}
}

func (b *book) add(e entry, n int32) {
	of := b.counts[e.page]
	if of == nil {
		of = map[string]int32{}
		b.counts[e.page] = of
	}
	if of[e.subset] += n; of[e.subset] == 0 {
		delete(of, e.subset)
	}
	if len(of) == 0 {
		delete(b.counts, e.page)
	}
}

// inFlight returns how many admitted pods the cache has not shown yet, as far as is known now.
func (b *book) inFlight(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	return len(b.flights)
}

// on returns a copy of a page.
func (b *book) on(p page) map[string]int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts[p])
}

// change replaces what a pod counted for by what it counts for now.
func (b *book) change(before, after any) {
	was, counted := entryOfObject(before)
	is, counts := entryOfObject(after)
	if counted == counts && was == is {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if counted {
		b.add(was, -1)
	}
	if counts {
		b.add(is, 1)
		b.land(is.id)
	}
}

func entryOfObject(obj any) (entry, bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod == nil {
		return entry{}, false
	}
	return entryOf(pod)
}

// OnAdd counts a pod that the cache shows.
func (b *book) OnAdd(obj any, _ bool) { b.change(nil, obj) }

// OnUpdate counts a pod as it is now.
func (b *book) OnUpdate(before, after any) { b.change(before, after) }

// OnDelete counts a pod no more.
func (b *book) OnDelete(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	b.change(obj, nil)
}
