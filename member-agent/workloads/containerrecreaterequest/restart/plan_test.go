package restart

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
)

var asked = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// podOf returns a pod that is older than the restart.
func podOf(name string, ready bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(asked.Add(-time.Hour)),
			Annotations: map[string]string{}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "a", ContainerID: "x"}, {Name: "b", ContainerID: "y"}}},
	}
	setReady(pod, ready)
	return pod
}

func setReady(pod *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

func orderOf(t testing.TB, containers ...string) restarts.Order {
	t.Helper()
	text := fmt.Sprintf(`{"at":%q,"containers":["%s"]}`, asked.Format(time.RFC3339), strings.Join(containers, `","`))
	if len(containers) == 0 {
		text = fmt.Sprintf(`{"at":%q}`, asked.Format(time.RFC3339))
	}
	o, err := restarts.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func requestIn(
	phase v1beta1.ContainerRecreateRequestPhase, states ...v1beta1.ContainerRecreateRequestPhase,
) *v1beta1.ContainerRecreateRequest {
	r := &v1beta1.ContainerRecreateRequest{Status: v1beta1.ContainerRecreateRequestStatus{Phase: phase}}
	for i, state := range states {
		r.Status.ContainerRecreateStates = append(r.Status.ContainerRecreateStates,
			v1beta1.ContainerRecreateState{Name: fmt.Sprint(i), Phase: state})
	}
	return r
}

// begunRequest returns a request whose pod was made not ready.
func begunRequest() *v1beta1.ContainerRecreateRequest {
	r := requestIn(v1beta1.CRRRecreating)
	r.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionPreRecreateGrace, Status: metav1.ConditionTrue}}
	return r
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return strings.Join(out, " ")
}

// describe says what a plan does, without its empty parts.
func describe(p plan) string {
	var out []string
	for _, part := range []struct {
		name string
		pods []*corev1.Pod
	}{{"mark", p.mark}, {"create", p.create}, {"unmark", p.unmark}, {"done", p.done}} {
		if len(part.pods) > 0 {
			out = append(out, part.name+" "+names(part.pods))
		}
	}
	for _, request := range p.remove {
		out = append(out, "remove "+request.Name)
	}
	out = append(out, fmt.Sprint("left ", p.left))
	if p.failed != "" {
		out = append(out, "failed: "+p.failed)
	}
	if p.waits != "" {
		out = append(out, "waits: "+p.waits)
	}
	return strings.Join(out, ", ")
}

func mark(pod *corev1.Pod) { pod.Labels = map[string]string{v1beta1.LabelRestarting: "true"} }

// requestsOf gives the facts the requests of this restart.
func requestsOf(f *facts, requests map[string]*v1beta1.ContainerRecreateRequest) {
	f.requests, f.busy, f.ended = requests, map[string]string{}, nil
	for pod, request := range requests {
		request.Name = "r-" + pod
		if request.Status.Phase == v1beta1.CRRCompleted {
			f.ended = append(f.ended, request)
		} else {
			f.busy[pod] = request.Name
		}
	}
}

func TestPlan(t *testing.T) {
	const full = "as many pods are unavailable as maxUnavailable allows"
	type requests = map[string]*v1beta1.ContainerRecreateRequest
	now := asked.Add(time.Hour)
	ended := func(ago time.Duration) *v1beta1.ContainerRecreateRequest {
		r := requestIn(v1beta1.CRRCompleted, v1beta1.CRRSucceeded)
		r.Status.CompletionTime = new(metav1.NewTime(now.Add(-ago)))
		return r
	}
	inFlight, done := requestIn(v1beta1.CRRRecreating), ended(time.Second)
	readyFor := func(d time.Duration) func([]*corev1.Pod, *facts) {
		return func(p []*corev1.Pod, f *facts) {
			f.minReady = 30
			mark(p[3])
			p[3].Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-d))
		}
	}
	for _, tt := range []struct {
		name     string
		change   func(pods []*corev1.Pod, f *facts)
		requests requests
		want     string
	}{
		{"the first ones, by the highest ordinal", nil, nil, "mark web-3 web-2, left 4"},
		{"marked ones get a request", func(p []*corev1.Pod, _ *facts) { mark(p[0]) }, nil,
			"mark web-3, create web-0, left 4"},
		{"one is under way", nil, requests{"web-3": inFlight}, "mark web-2, left 4"},
		{"two are under way", nil, requests{"web-3": inFlight, "web-2": inFlight}, "left 4"},
		{"one has restarted", func(p []*corev1.Pod, _ *facts) { mark(p[3]) }, requests{"web-3": done},
			"mark web-2 web-1, done web-3, left 3"},
		{"one has restarted, and is not ready yet", func(p []*corev1.Pod, _ *facts) { setReady(p[3], false) },
			requests{"web-3": done}, "mark web-2, left 4"},
		{"one has restarted, but is not ready for minReadySeconds", readyFor(29 * time.Second), requests{"web-3": done},
			"mark web-2, left 4"},
		{"one has restarted, and was ready for minReadySeconds", readyFor(30 * time.Second), requests{"web-3": done},
			"mark web-2 web-1, done web-3, left 3"},
		{"one has restarted, and does not become ready", func(p []*corev1.Pod, f *facts) {
			f.unavailable = 1
			setReady(p[3], false)
		}, requests{"web-3": ended(2 * time.Minute)},
			"left 4, waits: pod web-3 has restarted, and is not available yet"},
		{"one says that it has restarted", func(p []*corev1.Pod, f *facts) {
			p[3].Annotations[v1beta1.AnnotationRestarted] = f.order.At
		}, nil, "mark web-2 web-1, left 3"},
		{"one went through an earlier restart", func(p []*corev1.Pod, _ *facts) {
			p[3].Annotations[v1beta1.AnnotationRestarted] = "2025-01-01T00:00:00Z"
		}, nil, "mark web-3 web-2, left 4"},
		{"one is younger", func(p []*corev1.Pod, _ *facts) {
			p[3].CreationTimestamp = metav1.NewTime(asked.Add(time.Second))
		}, nil, "mark web-2 web-1, left 3"},
		{"one has no such container", func(p []*corev1.Pod, f *facts) {
			f.order.Containers, p[3].Spec.Containers = []string{"b"}, p[3].Spec.Containers[:1]
		}, nil, "mark web-2 web-1, left 3"},
		{"an unready pod comes first, and uses what it takes away", func(p []*corev1.Pod, _ *facts) {
			setReady(p[0], false)
		}, nil, "mark web-0 web-3, left 4"},
		{"a label makes a pod unavailable", func(p []*corev1.Pod, _ *facts) {
			p[0].Labels = map[string]string{v1beta1.UnavailableLabelPrefix + "x": "true"}
		}, nil, "mark web-0 web-3, left 4"},
		{"a lifecycle hook makes a pod unavailable", func(p []*corev1.Pod, _ *facts) {
			p[0].Labels = map[string]string{v1beta1.LabelLifecycleState: string(v1beta1.LifecyclePreparingUpdate)}
		}, nil, "mark web-0 web-3, left 4"},
		{"more are unready than may be", func(p []*corev1.Pod, _ *facts) {
			setReady(p[0], false)
			setReady(p[1], false)
			setReady(p[2], false)
		}, nil, "mark web-2 web-1 web-0, left 4"},
		{"others are unready, so a mark is taken back", func(p []*corev1.Pod, f *facts) {
			mark(p[3])
			for _, pod := range p[:3] {
				setReady(pod, false)
				pod.Annotations[v1beta1.AnnotationRestarted] = f.order.At
			}
		}, nil, "unmark web-3, left 1, waits: " + full},
		{"a pod is missing", func(_ []*corev1.Pod, f *facts) { f.replicas = 5 }, nil, "mark web-3, left 4"},
		{"two pods are missing", func(_ []*corev1.Pod, f *facts) { f.replicas = 6 }, nil, "left 4, waits: " + full},
		{"a container has not started", func(p []*corev1.Pod, _ *facts) {
			p[3].Status.ContainerStatuses[1].ContainerID = ""
			setReady(p[3], false)
		}, nil, "mark web-2, left 4"},
		{"an earlier restart or a user has a request", func(_ []*corev1.Pod, f *facts) {
			f.busy["web-3"], f.unavailable = "other", 1
		}, nil, "left 4, waits: ContainerRecreateRequest other of pod web-3 has not ended"},
		{"one has failed", func(p []*corev1.Pod, _ *facts) {
			mark(p[2])
			mark(p[3])
		}, requests{"web-3": requestIn(v1beta1.CRRCompleted, v1beta1.CRRFailed)},
			"unmark web-3 web-2, left 4, failed: pod web-3: its containers did not restart"},
		{"no daemon answered", nil, requests{"web-3": requestIn(v1beta1.CRRCompleted)},
			"left 4, failed: pod web-3: its containers did not restart"},
		{"it has failed, and the failed request is gone", func(_ []*corev1.Pod, f *facts) { f.stopped = true },
			requests{"web-2": done}, "done web-2, left 3"},
		{"paused, or the lease has expired", func(p []*corev1.Pod, f *facts) {
			f.held = "paused"
			mark(p[2])
		}, requests{"web-3": done}, "unmark web-2, done web-3, left 3, waits: paused"},
		{"maxUnavailable is 0", func(_ []*corev1.Pod, f *facts) { f.unavailable = 0 }, nil,
			"left 4, waits: " + facts{}.full()},
		{"nothing is granted", func(_ []*corev1.Pod, f *facts) { f.unavailable, f.granted = 0, true }, nil,
			"left 4, waits: " + facts{granted: true}.full()},
		{"nothing is granted, but a pod is unavailable", func(p []*corev1.Pod, f *facts) {
			f.unavailable = 0
			setReady(p[1], false)
		}, nil, "mark web-1, left 4"},
		{"the hub is away: a request that has not begun is withdrawn", func(p []*corev1.Pod, f *facts) {
			f.held, f.revoked = "away", true
			mark(p[2])
			mark(p[3])
		}, requests{"web-2": inFlight, "web-3": begunRequest()}, "remove r-web-2, left 4, waits: away"},
		{"the hub is away, and nothing has begun", func(p []*corev1.Pod, f *facts) {
			f.held, f.revoked = "away", true
			mark(p[3])
		}, requests{"web-3": inFlight}, "remove r-web-3, left 4, waits: away"},
		{"the hub grants less: a request that has not begun is withdrawn", func(p []*corev1.Pod, f *facts) {
			f.unavailable, f.granted = 1, true
			mark(p[2])
			mark(p[3])
		}, requests{"web-2": begunRequest(), "web-3": inFlight}, "remove r-web-3, left 4"},
		{"the hub grants less, and both have begun", func(_ []*corev1.Pod, f *facts) {
			f.unavailable, f.granted = 1, true
		}, requests{"web-2": begunRequest(), "web-3": begunRequest()}, "left 4"},
		{"the hub grants less, and the pod of a request is unavailable anyway", func(p []*corev1.Pod, f *facts) {
			f.unavailable, f.granted = 0, true
			mark(p[3])
			setReady(p[3], false)
		}, requests{"web-3": inFlight}, "left 4"},
		{"the hub grants less: the request of the pod that was available is withdrawn", func(p []*corev1.Pod, f *facts) {
			f.unavailable, f.granted = 1, true
			mark(p[2])
			mark(p[3])
			setReady(p[3], false)
		}, requests{"web-2": inFlight, "web-3": requestIn("")}, "remove r-web-2, left 4"},
		{"a refused request: its pod loses the mark, and others go on", func(p []*corev1.Pod, f *facts) {
			f.refused = map[string]string{"web-3": "quota"}
			mark(p[3])
		}, nil, "mark web-2, unmark web-3, left 4"},
		{"all requests are refused", func(_ []*corev1.Pod, f *facts) {
			f.refused = map[string]string{"web-3": "quota", "web-2": "quota", "web-1": "quota", "web-0": "quota"}
		}, nil, "left 4, waits: the API server refused the ContainerRecreateRequest of pod web-3: quota"},
		{"no restart is asked for any more", func(p []*corev1.Pod, f *facts) {
			mark(p[2])
			mark(p[3])
			f.order = restarts.Order{}
		}, requests{"web-3": inFlight}, "unmark web-2, left 0"},
		{"a request is kept for a day after its end", func(p []*corev1.Pod, f *facts) {
			for _, pod := range p {
				pod.Annotations[v1beta1.AnnotationRestarted] = f.order.At
			}
		}, requests{"web-2": ended(23 * time.Hour), "web-3": ended(24 * time.Hour)}, "remove r-web-3, left 0"},
		{"a request is kept until its pod is available", func(p []*corev1.Pod, f *facts) {
			f.unavailable = 1
			setReady(p[3], false)
		}, requests{"web-3": ended(25 * time.Hour)},
			"left 4, waits: pod web-3 has restarted, and is not available yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := facts{order: orderOf(t), replicas: 4, unavailable: 2, now: now}
			for i := range 4 {
				f.pods = append(f.pods, podOf(fmt.Sprint("web-", i), true))
			}
			requestsOf(&f, tt.requests)
			if tt.change != nil {
				tt.change(f.pods, &f)
			}
			if got := describe(makePlan(f)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "now", "{}", `{"at":"today"}`, `{"at":5}`} {
		if _, err := restarts.Parse(text); err == nil || !strings.Contains(err.Error(), v1beta1.AnnotationRestart) {
			t.Errorf("%s: %v", text, err)
		}
	}
	o := orderOf(t, "a")
	if got := nameFor(o, strings.Repeat("x", 253)); len(got) > 253 || nameFor(o, "p") == nameFor(orderOf(t), "q") {
		t.Errorf("the name has %d characters", len(got))
	}
}

// TestPropertyLimit: no more pods are unavailable than may be, whatever a rollout does meanwhile, and all restart.
func TestPropertyLimit(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.IntN(8)
		limit := int32(1 + r.IntN(3))
		f := facts{order: orderOf(t), replicas: int32(n), unavailable: limit, now: asked.Add(time.Hour)}
		for i := range n {
			f.pods = append(f.pods, podOf(fmt.Sprint("web-", i), true))
		}
		requests := map[string]*v1beta1.ContainerRecreateRequest{}
		left := n
		for step := 0; left > 0; step++ {
			if step > 2000 {
				t.Fatalf("seed %d: %d pods have not restarted", seed, left)
			}
			requestsOf(&f, requests)
			p := makePlan(f)
			left = p.left
			for _, pod := range p.done {
				pod.Annotations[v1beta1.AnnotationRestarted] = f.order.At
				delete(pod.Labels, v1beta1.LabelRestarting)
			}
			for _, pod := range p.unmark {
				delete(pod.Labels, v1beta1.LabelRestarting)
			}
			for _, pod := range p.create {
				requests[pod.Name] = requestIn("")
			}
			for _, pod := range p.mark {
				mark(pod)
			}
			rollout(r, f)
			down := int32(0)
			for _, pod := range f.pods {
				down += advance(r, pod, requests[pod.Name])
			}
			if down > limit {
				t.Fatalf("seed %d: %d pods are unavailable, at most %d may be", seed, down, limit)
			}
		}
	}
}

// rollout plays the controller of the workload: it makes a pod unavailable if as many others are available as must be.
func rollout(r *rand.Rand, f facts) {
	if r.IntN(4) > 0 {
		return
	}
	var available []*corev1.Pod
	for _, pod := range f.pods {
		if ok, _ := podstate.Available(pod, f.minReady, f.now); ok {
			available = append(available, pod)
		}
	}
	if int32(len(available)) > f.replicas-f.unavailable && len(available) > 0 {
		setReady(available[r.IntN(len(available))], false)
	}
}

// advance takes a pod and its restart one step on, and returns 1 if the pod is, or may be, unavailable.
func advance(r *rand.Rand, pod *corev1.Pod, request *v1beta1.ContainerRecreateRequest) int32 {
	ready := podstate.Ready(pod)
	restarting := request != nil && pod.Annotations[v1beta1.AnnotationRestarted] == ""
	switch {
	case !restarting || request.Status.Phase == v1beta1.CRRCompleted:
		setReady(pod, ready || r.IntN(2) == 0)
	case ready && r.IntN(2) == 0:
		setReady(pod, false)
	case !ready && r.IntN(2) == 0:
		request.Status = requestIn(v1beta1.CRRCompleted, v1beta1.CRRSucceeded).Status
	}
	if !ready || restarting {
		return 1
	}
	return 0
}
