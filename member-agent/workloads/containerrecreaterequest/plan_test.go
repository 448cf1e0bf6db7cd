package containerrecreaterequest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

var created = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type request = v1beta1.ContainerRecreateRequest

// requestIn returns a request for container a of pod web in a phase.
func requestIn(phase v1beta1.ContainerRecreateRequestPhase, changes ...func(*request)) *request {
	r := &request{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one", UID: "one",
			CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{
				v1beta1.LabelCRRPodUID: "web", v1beta1.LabelCRRNodeName: "node-1", v1beta1.LabelCRRActive: "true"}},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: "web", Strategy: &v1beta1.ContainerRecreateRequestStrategy{},
			Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "a",
				StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://a-0"}}}},
		Status: v1beta1.ContainerRecreateRequestStatus{Phase: phase},
	}
	if phase == v1beta1.CRRRecreating {
		r.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateState{{Name: "a", Phase: v1beta1.CRRRecreating}}
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func deadline(r *request) { r.Spec.ActiveDeadlineSeconds = new(int64(30)) }
func grace(r *request)    { r.Spec.Strategy.UnreadyGracePeriodSeconds = new(int64(5)) }
func held(r *request)     { r.Finalizers = []string{v1beta1.FinalizerCRRUnready} }
func deleted(r *request)  { r.DeletionTimestamp = new(metav1.NewTime(created)) }

// ended makes the request end 10 seconds after its creation, and keeps it for 60 seconds.
func ended(r *request) {
	r.Status.CompletionTime = new(metav1.NewTime(created.Add(10 * time.Second)))
	r.Spec.TTLSecondsAfterFinished = new(int32(60))
	delete(r.Labels, v1beta1.LabelCRRActive)
}

// podWith returns the pod, whose container a has an ID.
func podWith(id string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", ResourceVersion: "3"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "a", ContainerID: "containerd://" + id, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func gated(pod *corev1.Pod) { podready.InjectGate(&pod.Spec) }
func mine(pod *corev1.Pod) {
	gated(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: podready.Condition, Status: corev1.ConditionFalse,
		Message: `[{"userAgent":"ContainerRecreateRequest","key":"shop/one"}]`}}
}

// describe writes what a plan does on one line.
func describe(p plan) string {
	words := []string{string(p.status.Phase)}
	add := func(when bool, text string, args ...any) {
		if when {
			words = append(words, fmt.Sprintf(text, args...))
		}
	}
	add(p.status.Message != "", "%q", strings.SplitN(p.status.Message, ":", 2)[0])
	for _, s := range p.status.ContainerRecreateStates {
		add(s.Phase == v1beta1.CRRFailed, "%s=Failed", s.Name)
	}
	for _, s := range p.status.ContainerStatusSnapshot {
		words = append(words, "sees "+s.ContainerID)
	}
	add(p.hold, "hold")
	add(p.mark != nil && *p.mark, "mark")
	add(p.mark != nil && !*p.mark, "unmark")
	add(len(p.status.Conditions) > 0, "unready")
	add(p.release, "release")
	add(p.remove, "remove")
	add(p.wait > 0, "again in %s", p.wait)
	return strings.Join(words, ", ")
}

func TestPlan(t *testing.T) {
	const none, pending, recreating, completed = "", v1beta1.CRRPending, v1beta1.CRRRecreating, v1beta1.CRRCompleted
	for _, tt := range []struct {
		name    string
		request *request
		pod     *corev1.Pod
		age     time.Duration
		want    string
	}{
		{"new", requestIn(none), podWith("a-0"), 0, ", again in 1m0s"},
		{"new, with a deadline", requestIn(none, deadline), podWith("a-0"), time.Second, ", again in 29s"},
		{"the daemon does not answer", requestIn(none), podWith("a-0"), time.Minute,
			`Completed, "daemon has not responded for a long time", release`},
		{"the clock was set back", requestIn(none), podWith("a-0"), -time.Hour, ", again in 1h1m0s"},
		{"it waits for another one", requestIn(pending), podWith("a-0"), time.Hour, "Pending"},
		{"before the deadline", requestIn(recreating, deadline), podWith("a-0"), 29 * time.Second,
			"Recreating, again in 1s"},
		{"after the deadline", requestIn(recreating, deadline), podWith("a-0"), 30 * time.Second,
			`Completed, "recreating has exceeded the activeDeadlineSeconds", a=Failed, release`},
		{"after the deadline, not served yet", requestIn(pending, deadline), podWith("a-0"), 30 * time.Second,
			`Completed, "recreating has exceeded the activeDeadlineSeconds", release`},
		{"no pod", requestIn(recreating), nil, 0, `Completed, "pod has gone", release`},
		{"another pod of that name", requestIn(recreating), podWith("a-0", func(p *corev1.Pod) { p.UID = "other" }), 0,
			`Completed, "pod has gone", release`},
		{"the pod is being deleted", requestIn(recreating, held), podWith("a-0", mine,
			func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(created)) }), 0,
			`Completed, "pod has gone", unmark, release`},
		{"the pod has ended", requestIn(recreating), podWith("a-0", func(p *corev1.Pod) {
			p.Status.Phase = "Succeeded"
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{}
		}), 0,
			`Completed, "pod has ended", release`},
		{"the pod has ended, and the container still stops", requestIn(recreating),
			podWith("a-0", func(p *corev1.Pod) { p.Status.Phase = "Succeeded" }), 0, "Recreating"},
		{"not filled in", requestIn(none, func(r *request) { r.Labels = nil }), podWith("a-0"), 0,
			`Completed, "it was not filled in, because the agent's webhook was not asked when it was created"`},
		{"the container has not restarted", requestIn(recreating), podWith("a-0"), 0, "Recreating"},
		{"the container has restarted", requestIn(recreating), podWith("a-1"), 0, "Recreating, sees containerd://a-1"},
		{"the container has restarted and exited", requestIn(recreating, func(r *request) {
			r.Status.ContainerStatusSnapshot = []v1beta1.ContainerStatusSnapshot{{Name: "a", ContainerID: "earlier"}}
		}), podWith("a-1", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running = nil }), 0,
			"Recreating, sees earlier"},
		{"the pod becomes not ready", requestIn(recreating, grace), podWith("a-0", gated), 0,
			"Recreating, hold, mark, unready"},
		{"the pod cannot become not ready", requestIn(recreating, grace), podWith("a-0"), 0, "Recreating, hold, unready"},
		{"the pod is not ready", requestIn(recreating, grace, held), podWith("a-0", mine), 0, "Recreating, unready"},
		{"another request is served, so the pod stays ready", requestIn(pending, grace), podWith("a-0", gated), 0,
			"Pending"},
		{"it has ended, and the pod is ready again", requestIn(completed, held), podWith("a-1", mine), 0,
			"Completed, unmark, release"},
		{"it is deleted while the pod is not ready", requestIn(recreating, held, deleted), podWith("a-0", mine), 0,
			"Recreating, unmark, release"},
		{"it is deleted, and the pod is gone", requestIn(recreating, held, deleted), nil, 0, "Recreating, release"},
		{"it has ended and is kept for a while", requestIn(completed, ended), podWith("a-1"), 69 * time.Second,
			"Completed, again in 1s"},
		{"its time has passed", requestIn(completed, ended), podWith("a-1"), 70 * time.Second, "Completed, remove"},
		{"it ended, by the clock of its node, in the future", requestIn(completed, ended), podWith("a-1"), -time.Hour,
			"Completed, again in 1m0s"},
		{"at rest", requestIn(completed, func(r *request) { delete(r.Labels, v1beta1.LabelCRRActive) }), podWith("a-1"), 0,
			"Completed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := makePlan(facts{request: tt.request, pod: tt.pod, now: created.Add(tt.age)})
			if text := describe(got); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
		})
	}
}

// TestDaemonGone: a request ends when the daemon that has answered it is gone for long.
func TestDaemonGone(t *testing.T) {
	r := requestIn(v1beta1.CRRRecreating)
	now := created.Add(time.Hour)
	for gone, want := range map[time.Duration]string{
		0:                "Recreating, again in 10m0s",
		9 * time.Minute:  "Recreating, again in 1m0s",
		10 * time.Minute: `Completed, "flotilla-node of node node-1 is gone", a=Failed, release`,
	} {
		got := makePlan(facts{request: r.DeepCopy(), pod: podWith("a-0"), now: now, goneSince: now.Add(-gone)})
		if text := describe(got); text != want {
			t.Errorf("after %s: %s\nwant %s", gone, text, want)
		}
	}
}

// TestGoneSince: only requests that a daemon has answered need one, and the time counts from when it is seen missing.
func TestGoneSince(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	pods, err := podset.FromIndexer(indexer)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemons{pods: pods, gone: map[types.NamespacedName]time.Time{}}
	daemon := func(node string, ready corev1.ConditionStatus) {
		pod := podWith("a-0")
		pod.Name, pod.Labels = "d", map[string]string{"app.kubernetes.io/name": "flotilla-node"}
		pod.Spec.NodeName = node
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if err := indexer.Update(pod); err != nil {
			t.Fatal(err)
		}
	}
	for i, tt := range []struct {
		node  string
		ready corev1.ConditionStatus
		phase v1beta1.ContainerRecreateRequestPhase
		since int // the step; -1: the daemon is there, or not needed
	}{
		{"node-2", "True", v1beta1.CRRPending, 0}, {"node-2", "True", v1beta1.CRRRecreating, 0},
		{"node-1", "True", v1beta1.CRRRecreating, -1}, {"node-1", "False", v1beta1.CRRRecreating, 3},
		{"node-1", "False", v1beta1.CRRCompleted, -1}, {"node-1", "False", "", -1},
		{"node-1", "False", v1beta1.CRRRecreating, 6},
	} {
		daemon(tt.node, tt.ready)
		got, err := d.goneSince(types.NamespacedName{Name: "one"}, requestIn(tt.phase),
			created.Add(time.Duration(i)*time.Second))
		want := time.Time{}
		if tt.since >= 0 {
			want = created.Add(time.Duration(tt.since) * time.Second)
		}
		if err != nil || !got.Equal(want) {
			t.Errorf("step %d: %v, %v; want %v", i, got, err, want)
		}
	}
}

// TestRestartDoesNotBeginWithoutHub: a request of a restart whose hub is not in contact makes no pod unready; one that
// has begun goes on.
func TestRestartDoesNotBeginWithoutHub(t *testing.T) {
	fresh := requestIn(v1beta1.CRRRecreating, grace)
	if got := describe(makePlan(facts{request: fresh, pod: podWith("a-0", gated), now: created, expired: true})); got !=
		"Recreating, again in 1s" {
		t.Errorf("one that has not begun: %s", got)
	}
	if got := describe(makePlan(facts{request: fresh, pod: podWith("a-0", gated), now: created})); got !=
		"Recreating, hold, mark, unready" {
		t.Errorf("with the hub: %s", got)
	}
}

// TestPlanAtRest: what a plan wrote is not written again.
func TestPlanAtRest(t *testing.T) {
	r := requestIn(v1beta1.CRRRecreating, grace, held)
	r.Status = makePlan(facts{request: r, pod: podWith("a-1", mine), now: created}).status
	again := makePlan(facts{request: r, pod: podWith("a-1", mine), now: created.Add(time.Hour)})
	if again.hold || again.mark != nil || again.release || fmt.Sprint(again.status) != fmt.Sprint(r.Status) {
		t.Errorf("a second pass writes %s", describe(again))
	}
}
