package restarts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/restarts"
)

// world is a node with one pod whose requests a daemon serves. Anything can happen between two steps: the daemon
// starts again, a write is refused, a container exits by itself.
type world struct {
	*rand.Rand
	now        time.Time
	containers map[string]*restarts.Container
	requests   []*request
	stopping   *restarts.Stop
	ended      map[restarts.StopKey]restarts.Outcome
	// stopped are the IDs that the runtime was asked to stop, by request and container.
	stopped map[restarts.StopKey][]string
	faults  bool
	log     []string
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), now: now, containers: map[string]*restarts.Container{},
		ended: map[restarts.StopKey]restarts.Outcome{}, stopped: map[restarts.StopKey][]string{}, faults: true}
	for _, name := range []string{"a", "b", "c"} {
		w.containers[name] = &restarts.Container{ID: name + "-0", Running: true, StartedAt: w.now, Seen: w.now}
	}
	return w
}

// create adds a request for some containers as they are now.
func (w *world) create() {
	names := []string{"a", "b", "c"}
	w.Shuffle(3, func(i, j int) { names[i], names[j] = names[j], names[i] })
	r := requestFor(fmt.Sprint("request-", len(w.requests)), names[:1+w.IntN(3)]...)
	r.CreationTimestamp = metav1.NewTime(w.now)
	for i := range r.Spec.Containers {
		c := w.containers[r.Spec.Containers[i].Name]
		*r.Spec.Containers[i].StatusContext = v1beta1.ContainerRecreateRequestContainerContext{
			ContainerID: "containerd://" + c.ID, RestartCount: c.Restarts}
	}
	s := r.Spec.Strategy
	s.ForceRecreate, s.OrderedRecreate = w.IntN(2) == 0, w.IntN(2) == 0
	s.MinStartedSeconds = int32(w.IntN(3))
	if w.IntN(3) == 0 {
		s.UnreadyGracePeriodSeconds = new(int64(w.IntN(5)))
		r.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionPreRecreateGrace, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(w.now)}}
	}
	if w.IntN(2) == 0 {
		s.FailurePolicy = v1beta1.CRRIgnore
	}
	w.requests = append(w.requests, r)
}

// kubelet starts containers that have exited.
func (w *world) kubelet() {
	for name, c := range w.containers {
		if !c.Running && (w.IntN(2) == 0 || !w.faults) {
			*c = restarts.Container{ID: fmt.Sprintf("%s-%d", name, c.Restarts+1), Running: true, Restarts: c.Restarts + 1,
				StartedAt: w.now, Seen: w.now}
		}
	}
}

// agent writes what containers are ready.
func (w *world) agent() {
	for _, r := range w.requests {
		r.Status.ContainerStatusSnapshot = nil
		for name, c := range w.containers {
			r.Status.ContainerStatusSnapshot = append(r.Status.ContainerStatusSnapshot, v1beta1.ContainerStatusSnapshot{
				Name: name, Ready: c.Running, ContainerID: "containerd://" + c.ID, RestartCount: c.Restarts})
		}
	}
}

// daemon makes a plan and carries it out, as far as it gets.
func (w *world) daemon() {
	f := restarts.Facts{Requests: w.requests, Containers: map[string]restarts.Container{}, Ended: w.ended, Now: w.now}
	for name, c := range w.containers {
		f.Containers[name] = *c
	}
	if w.stopping != nil {
		f.Running = &w.stopping.StopKey
	}
	plan := restarts.Make(f)
	for _, u := range plan.Updates {
		if w.faults && w.IntN(5) == 0 {
			return // refused: nothing else happens
		}
		u.Request.Status = u.Status
	}
	if plan.Stop != nil && (!w.faults || w.IntN(5) > 0) {
		w.stopping = plan.Stop
		if ids := w.stopped[plan.Stop.StopKey]; !slices.Contains(ids, plan.Stop.ID) {
			w.stopped[plan.Stop.StopKey] = append(ids, plan.Stop.ID)
		}
		w.log = append(w.log, fmt.Sprintf("%s stops %s", plan.Stop.Request, plan.Stop.ID))
	}
}

// runtime ends the stop that is in progress.
func (w *world) runtime() {
	if w.stopping == nil {
		return
	}
	stop := w.stopping
	w.stopping = nil
	if w.faults && w.IntN(8) == 0 {
		w.ended[stop.StopKey] = restarts.Outcome{Failure: "refused"}
		return
	}
	for _, c := range w.containers {
		if c.ID == stop.ID {
			c.Running = false
		}
	}
	w.ended[stop.StopKey] = restarts.Outcome{}
}

// crash starts the daemon again: what it remembered is gone, and a stop took place or not.
func (w *world) crash() {
	if w.stopping != nil && w.IntN(2) == 0 {
		w.runtime()
	}
	w.stopping, w.ended = nil, map[restarts.StopKey]restarts.Outcome{}
	w.log = append(w.log, "the daemon starts again")
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.IntN(1500)) * time.Millisecond)
	switch w.IntN(12) {
	case 0:
		if len(w.requests) < 4 {
			w.create()
		}
	case 1:
		w.crash()
	case 2: // a container exits by itself
		name := []string{"a", "b", "c"}[w.IntN(3)]
		w.containers[name].Running = false
	case 3, 4, 5:
		w.daemon()
	case 6, 7:
		w.kubelet()
	case 8, 9:
		w.agent()
	case 10:
		w.runtime()
	}
}

func TestPropertyNoContainerIsStoppedTwice(t *testing.T) {
	for seed := range uint64(3000) {
		w := newWorld(seed)
		w.create()
		for range 150 {
			w.step()
		}
		w.faults = false
		for range 60 {
			w.now = w.now.Add(time.Second)
			w.daemon()
			w.runtime()
			w.kubelet()
			w.agent()
		}
		w.check(t, seed)
	}
}

// check fails if a request stopped a wrong container, or has not ended.
func (w *world) check(t *testing.T, seed uint64) {
	t.Helper()
	for _, r := range w.requests {
		if r.Status.Phase != v1beta1.CRRCompleted {
			t.Fatalf("seed %d: %s is %+v\n%s", seed, r.Name, r.Status, strings.Join(w.log, "\n"))
		}
		for _, c := range r.Spec.Containers {
			ids := w.stopped[restarts.StopKey{Request: types.UID(r.Name), Container: c.Name}]
			if len(ids) > 1 {
				t.Fatalf("seed %d: %s stopped %v\n%s", seed, r.Name, ids, strings.Join(w.log, "\n"))
			}
			if len(ids) == 1 && !r.Spec.Strategy.ForceRecreate && "containerd://"+ids[0] != c.StatusContext.ContainerID {
				t.Fatalf("seed %d: %s stopped %v instead of %s", seed, r.Name, ids, c.StatusContext.ContainerID)
			}
		}
	}
}
