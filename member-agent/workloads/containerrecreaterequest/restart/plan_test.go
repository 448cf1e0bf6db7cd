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

func orderOf(t testing.TB, containers ...string) order {
	t.Helper()
	text := fmt.Sprintf(`{"at":%q,"containers":["%s"]}`, asked.Format(time.RFC3339), strings.Join(containers, `","`))
	if len(containers) == 0 {
		text = fmt.Sprintf(`{"at":%q}`, asked.Format(time.RFC3339))
	}
	o, err := parse(text)
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

func names(pods []*corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	type requests = map[string]*v1beta1.ContainerRecreateRequest
	inFlight, done := requestIn(v1beta1.CRRRecreating), requestIn(v1beta1.CRRCompleted, v1beta1.CRRSucceeded)
	for _, tt := range []struct {
		name     string
		change   func(pods []*corev1.Pod, f *facts)
		requests requests
		want     string
	}{
		{"the first ones, by the highest ordinal", nil, nil, "create web-3 web-2, done , left 4"},
		{"one is under way", nil, requests{"web-3": inFlight}, "create web-2, done , left 4"},
		{"two are under way", nil, requests{"web-3": inFlight, "web-2": inFlight}, "create , done , left 4"},
		{"one has restarted", nil, requests{"web-3": done}, "create web-2 web-1, done web-3, left 3"},
		{"one has restarted, and is not ready yet", func(p []*corev1.Pod, _ *facts) { setReady(p[3], false) },
			requests{"web-3": done}, "create web-2, done , left 4"},
		{"one says that it has restarted", func(p []*corev1.Pod, f *facts) {
			p[3].Annotations[v1beta1.AnnotationRestarted] = f.order.At
		}, nil, "create web-2 web-1, done , left 3"},
		{"one went through an earlier restart", func(p []*corev1.Pod, _ *facts) {
			p[3].Annotations[v1beta1.AnnotationRestarted] = "2025-01-01T00:00:00Z"
		}, nil, "create web-3 web-2, done , left 4"},
		{"one is younger", func(p []*corev1.Pod, _ *facts) {
			p[3].CreationTimestamp = metav1.NewTime(asked.Add(time.Second))
		}, nil, "create web-2 web-1, done , left 3"},
		{"an unready pod comes first, and uses what it takes away", func(p []*corev1.Pod, _ *facts) {
			setReady(p[0], false)
		}, nil, "create web-0 web-3, done , left 4"},
		{"more are unready than may be", func(p []*corev1.Pod, _ *facts) {
			setReady(p[0], false)
			setReady(p[1], false)
			setReady(p[2], false)
		}, nil, "create web-2 web-1 web-0, done , left 4"},
		{"a pod is missing", func(_ []*corev1.Pod, f *facts) { f.replicas = 5 }, nil, "create web-3, done , left 4"},
		{"a container has not started", func(p []*corev1.Pod, _ *facts) {
			p[3].Status.ContainerStatuses[1].ContainerID = ""
			setReady(p[3], false)
		}, nil, "create web-2, done , left 4"},
		{"one has failed", nil, requests{"web-3": requestIn(v1beta1.CRRCompleted, v1beta1.CRRFailed)},
			"create , done , left 4, pod web-3: its containers did not restart"},
		{"no daemon answered", nil, requests{"web-3": requestIn(v1beta1.CRRCompleted)},
			"create , done , left 4, pod web-3: its containers did not restart"},
		{"paused, or the lease has expired", func(_ []*corev1.Pod, f *facts) { f.held = true }, requests{"web-3": done},
			"create , done web-3, left 3"},
		{"nothing is granted", func(_ []*corev1.Pod, f *facts) { f.unavailable = 0 }, nil,
			"create , done , left 4, blocked"},
		{"nothing is granted, but a pod is unavailable", func(p []*corev1.Pod, f *facts) {
			f.unavailable = 0
			setReady(p[1], false)
		}, nil, "create web-1, done , left 4"},
		{"one has restarted, but is not ready for minReadySeconds", func(p []*corev1.Pod, f *facts) {
			f.minReady = 30
			p[3].Status.Conditions[0].LastTransitionTime = metav1.NewTime(f.now.Add(-29 * time.Second))
		}, requests{"web-3": done}, "create web-2, done , left 4"},
		{"one has restarted, and was ready for minReadySeconds", func(p []*corev1.Pod, f *facts) {
			f.minReady = 30
			p[3].Status.Conditions[0].LastTransitionTime = metav1.NewTime(f.now.Add(-30 * time.Second))
		}, requests{"web-3": done}, "create web-2 web-1, done web-3, left 3"},
		{"a label makes a pod unavailable", func(p []*corev1.Pod, _ *facts) {
			p[0].Labels = map[string]string{v1beta1.UnavailableLabelPrefix + "x": "true"}
		}, nil, "create web-0 web-3, done , left 4"},
		{"a lifecycle hook makes a pod unavailable", func(p []*corev1.Pod, _ *facts) {
			p[0].Labels = map[string]string{v1beta1.LabelLifecycleState: string(v1beta1.LifecyclePreparingUpdate)}
		}, nil, "create web-0 web-3, done , left 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := facts{order: orderOf(t), requests: tt.requests, replicas: 4, unavailable: 2, now: asked.Add(time.Hour)}
			for i := range 4 {
				f.pods = append(f.pods, podOf(fmt.Sprint("web-", i), true))
			}
			if tt.change != nil {
				tt.change(f.pods, &f)
			}
			p := makePlan(f)
			got := fmt.Sprintf("create %s, done %s, left %d", names(p.create), names(p.done), p.left)
			if p.blocked {
				got += ", blocked"
			}
			if p.failed != "" {
				got += ", " + p.failed
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "now", "{}", `{"at":"today"}`, `{"at":5}`} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), v1beta1.AnnotationRestart) {
			t.Errorf("%s: %v", text, err)
		}
	}
	o := orderOf(t, "a")
	if got := o.nameFor(strings.Repeat("x", 253)); len(got) > 253 || o.nameFor("p") == orderOf(t).nameFor("q") {
		t.Errorf("the name has %d characters", len(got))
	}
}

// TestPropertyLimit: whatever fails in between, no more pods are unavailable because of the restart than may be, and
// all restart.
func TestPropertyLimit(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.IntN(8)
		limit := int32(1 + r.IntN(3))
		f := facts{order: orderOf(t), requests: map[string]*v1beta1.ContainerRecreateRequest{}, replicas: int32(n),
			unavailable: limit}
		for i := range n {
			f.pods = append(f.pods, podOf(fmt.Sprint("web-", i), true))
		}
		left := n
		for step := 0; left > 0; step++ {
			if step > 2000 {
				t.Fatalf("seed %d: %d pods have not restarted", seed, left)
			}
			p := makePlan(f)
			left = p.left
			for _, pod := range p.create {
				f.requests[pod.Name] = requestIn("")
			}
			for _, pod := range p.done {
				pod.Annotations[v1beta1.AnnotationRestarted] = f.order.At
			}
			down := int32(0)
			for _, pod := range f.pods {
				down += advance(r, pod, f.requests[pod.Name])
			}
			if down > limit {
				t.Fatalf("seed %d: %d pods are unavailable, at most %d may be", seed, down, limit)
			}
		}
	}
}

// advance takes the restart of a pod one step on, and returns 1 if the pod is, or may be, unavailable.
func advance(r *rand.Rand, pod *corev1.Pod, request *v1beta1.ContainerRecreateRequest) int32 {
	if request == nil || pod.Annotations[v1beta1.AnnotationRestarted] != "" {
		return 0
	}
	switch ready := pod.Status.Conditions[0].Status == corev1.ConditionTrue; {
	case request.Status.Phase == v1beta1.CRRCompleted:
		setReady(pod, ready || r.IntN(2) == 0)
	case ready && r.IntN(2) == 0:
		setReady(pod, false)
	case !ready && r.IntN(2) == 0:
		request.Status = requestIn(v1beta1.CRRCompleted, v1beta1.CRRSucceeded).Status
	}
	return 1
}
