package broadcastjob

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/endpoint"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

func failure(kind v1beta1.FailurePolicyType) func(*v1beta1.BroadcastJob) {
	return func(job *v1beta1.BroadcastJob) { job.Spec.FailurePolicy.Type = kind }
}

func parallelism(text string) func(*v1beta1.BroadcastJob) {
	return func(job *v1beta1.BroadcastJob) { job.Spec.Parallelism = new(intstr.Parse(text)) }
}

func paused(job *v1beta1.BroadcastJob) { job.Spec.Paused = true }

func never(job *v1beta1.BroadcastJob) {
	job.Spec.CompletionPolicy.Type = v1beta1.NeverCompletionPolicyType
}

func TestCompute(t *testing.T) {
	type change = func(*v1beta1.BroadcastJob)
	for name, tt := range map[string]struct {
		nodes  string
		change []change
		want   string
		ready  string // reason of Ready
		phase  v1beta1.BroadcastJobPhase
	}{
		"a pod on each node that fits":      {"a b:x c:n d", nil, "+a +d", "Running", "running"},
		"no node fits":                      {"a:x b:n", nil, "", "NoNodeFits", "running"},
		"no nodes":                          {"", nil, "", "NoNodeFits", "running"},
		"parallelism of 40% rounds up":      {"a b c", []change{parallelism("40%")}, "+a +b", "Running", "running"},
		"parallelism counts active pods":    {"a:r b:s c d", []change{parallelism("2")}, "+c", "Running", "running"},
		"parallelism 0":                     {"a", []change{parallelism("0")}, "", "ParallelismZero", "running"},
		"paused":                            {"a:r b", []change{paused}, "", "Paused", "paused"},
		"all have succeeded":                {"a:s b:s c:x", nil, "", "Complete", "completed"},
		"FailFast":                          {"a:f b:r", nil, "-b:JobEnded", "PodFailed", "failed"},
		"Continue":                          {"a:f b:r c", []change{failure("Continue")}, "+c", "Running", "running"},
		"complete with failed pods":         {"a:f b:s", []change{failure("Continue")}, "", "Complete", "completed"},
		"Pause":                             {"a:f b:r c", []change{failure("Pause")}, "", "PodFailed", "paused"},
		"Never waits for nodes":             {"a:s", []change{never}, "", "NodesDone", "running"},
		"Never runs on new nodes":           {"a:s b", []change{never}, "+b", "Running", "running"},
		"a pod that waits, and cannot stay": {"a:pn b:s", nil, "-a:NodeDoesNotFit", "Running", "running"},
		"a pod that runs stays":             {"a:rn b:s", nil, "", "Running", "running"},
		"terminating pods are waited for":   {"a:t", nil, "", "Running", "running"},
		"a batch":                           {"a b c", []change{batches(2)}, "+a +b", "Running", "running"},
		"a batch of 50%": {"a b c", []change{batches(0, func(b *v1beta1.BroadcastJobBatches) {
			b.Size = intstr.FromString("50%")
		})}, "+a +b", "Running", "running"},
		"undecodable template": {"a b:r", []change{func(j *v1beta1.BroadcastJob) {
			j.Spec.Template.Undecoded = []byte(`{"spec":{"containers":"none"}}`)
		}}, "", "InvalidTemplate", "running"},
		"undecodable template of a check": {"a", []change{batches(1, withChecks(v1beta1.BatchCheck{Name: "probe",
			Pod: &v1beta1.BatchPod{Template: v1beta1.PodTemplate{Undecoded: []byte(`{"spec":1}`)}}}))}, "", "InvalidTemplate",
			"running"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.nodes, tt.change...)
			got, status := w.step()
			if ready := condition(status, v1beta1.ConditionReady); got != tt.want || ready.Reason != tt.ready ||
				status.Phase != tt.phase {
				t.Errorf("%q, %s, %s (%s); want %q, %s, %s", got, ready.Reason, status.Phase, ready.Message, tt.want,
					tt.ready, tt.phase)
			}
			for _, c := range status.Conditions {
				if c.Reason == "" || c.Status == "" {
					t.Errorf("condition %+v", c)
				}
			}
		})
	}
}

// TestPodsThatHaveBegunStay: a pod is pending while its init containers run, and until all its images are pulled. It
// stays on a node that stops fitting, since what it began there is not to be cut off, and begun again later.
func TestPodsThatHaveBegunStay(t *testing.T) {
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, tt := range map[string]struct {
		status corev1.PodStatus
		stays  bool
	}{
		"the kubelet has not reported": {corev1.PodStatus{}, false},
		"nothing has begun": {corev1.PodStatus{StartTime: &metav1.Time{Time: time.Unix(1, 0)},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "drain", State: waits}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", State: waits}}}, false},
		"an init container runs": {corev1.PodStatus{StartTime: &metav1.Time{Time: time.Unix(1, 0)},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "drain", State: runs}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", State: waits}}}, true},
		"an init container restarts": {corev1.PodStatus{StartTime: &metav1.Time{Time: time.Unix(1, 0)},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "drain", State: waits, RestartCount: 1}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", State: waits}}}, true},
		"one of two containers runs": {corev1.PodStatus{StartTime: &metav1.Time{Time: time.Unix(1, 0)},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "drain", State: waits}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: runs}, {Name: "log",
				State: waits}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a:pn b:s")
			pod := w.pods[0]
			pod.Spec.InitContainers = []corev1.Container{{Name: "drain"}}
			pod.Status = tt.status
			pod.Status.Phase = corev1.PodPending
			if _, err := podset.Slim(pod); err != nil {
				t.Fatal(err)
			}
			want := "-a:NodeDoesNotFit"
			if tt.stays {
				want = ""
			}
			if got, _ := w.step(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestStatusOfAnEndedJobStays(t *testing.T) {
	w := newWorld(t, "a:s b:f c:r", failure("FailFast"))
	if got, status := w.step(); got != "-c:JobEnded" || status.Failed != 2 || status.Succeeded != 1 ||
		status.Active != 0 ||
		status.CompletionTime == nil {
		t.Errorf("%q, %+v", got, status)
	}
	ended := w.job.Status
	w.pods, w.nodes = w.pods[:1], nil
	w.now = w.now.Add(time.Hour)
	got, status := w.step()
	if got != "" || fmt.Sprint(status) != fmt.Sprint(ended) {
		t.Errorf("%q, %+v; want %+v", got, status, ended)
	}
	failed, stalled := condition(status, "Failed"), condition(status, v1beta1.ConditionStalled)
	if failed.Status != corev1.ConditionTrue || failed.Reason != "Failed" || stalled.Reason != "PodFailed" ||
		!strings.HasPrefix(failed.Message, "failure policy is FailurePolicyTypeFailFast and failed pod is found: 1 pods") {
		t.Errorf("conditions %+v", status.Conditions)
	}
}

func TestDeadlineAndTimeToLive(t *testing.T) {
	w := newWorld(t, "a:r", func(j *v1beta1.BroadcastJob) {
		j.Spec.CompletionPolicy = v1beta1.CompletionPolicy{ActiveDeadlineSeconds: new(int64(60)),
			TTLSecondsAfterFinished: new(int32(30))}
	})
	w.now = w.now.Add(400 * time.Millisecond)
	w.step()
	w.now = w.now.Add(20 * time.Second)
	if plan, _ := w.plan(); plan.Wake != 39600*time.Millisecond {
		t.Errorf("it looks again in %s", plan.Wake)
	}
	w.now = w.now.Add(40 * time.Second)
	got, status := w.step()
	if failed := condition(status, "Failed"); got != "-a:JobEnded" || !strings.HasPrefix(failed.Message,
		"Job ops/repair was active longer than specified deadline") {
		t.Errorf("%q, %+v", got, failed)
	}
	w.now = w.now.Add(29 * time.Second)
	if plan, _ := w.plan(); plan.Decided.Expired || plan.Wake > time.Second {
		t.Errorf("expired %v, looks again in %s", plan.Decided.Expired, plan.Wake)
	}
	w.now = w.now.Add(time.Second)
	if plan, _ := w.plan(); !plan.Decided.Expired {
		t.Error("it is kept after its time to live")
	}
}

func TestPodsThatRestartTooOftenAreStopped(t *testing.T) {
	w := newWorld(t, "a b", failure("Continue"), func(j *v1beta1.BroadcastJob) {
		j.Spec.Template.Spec.RestartPolicy, j.Spec.FailurePolicy.RestartLimit = corev1.RestartPolicyOnFailure, 2
	})
	once, often := w.add("a", 'r', 0), w.add("b", 'r', 0)
	restarts := func(pod *corev1.Pod, init, main int32) {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: init}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: main}}
	}
	restarts(once, 1, 1)
	restarts(often, 1, 2)
	got, status := w.step()
	if got != "!b" || status.Failed != 1 || status.Active != 1 {
		t.Errorf("%q, %+v", got, status)
	}
	often.Spec.ActiveDeadlineSeconds = new(int64(stopAfter))
	if got, status = w.step(); got != "" || status.Phase != "running" {
		t.Errorf("%q, %+v", got, status)
	}
}

func TestAHaltNeedsAWordAfterIt(t *testing.T) {
	w := newWorld(t, "a:f b c", failure("Pause"), parallelism("1"))
	_, status := w.step()
	halted := status.Flotilla.Halted
	if stalled := condition(status, v1beta1.ConditionStalled); halted == nil || stalled.Reason != "PodFailed" ||
		!strings.Contains(stalled.Message, "flotilla rollout resume bcj/repair -n ops") {
		t.Fatalf("%+v", status)
	}
	word := func(text string) { w.job.Annotations = map[string]string{v1beta1.AnnotationResume: text} }
	word("yes")
	if got, status := w.step(); got != "" || !strings.Contains(condition(status, v1beta1.ConditionReady).Message,
		`is "yes", which is no time`) {
		t.Errorf("%q, %+v", got, status.Conditions)
	}
	word(halted.Time.Add(-time.Second).UTC().Format(time.RFC3339))
	if got, _ := w.step(); got != "" {
		t.Errorf("a word before the halt: %q", got)
	}
	word(halted.Time.UTC().Format(time.RFC3339))
	if got, status := w.step(); got != "+b" || status.Flotilla.Halted != nil || status.Flotilla.ExcusedFailures != 1 {
		t.Errorf("%q, %+v", got, status)
	}
	// Another failure in the same second needs another word.
	w.add("b", 'f', 0)
	got, status := w.step()
	if got != "" || status.Flotilla.Halted == nil || !status.Flotilla.Halted.Time.After(halted.Time.Time) {
		t.Errorf("%q, %+v", got, status.Flotilla)
	}
	if got, _ := w.step(); got != "" {
		t.Errorf("the second halt does not hold: %q", got)
	}
}

func TestBatchesSoakAndCanBePromoted(t *testing.T) {
	w := newWorld(t, "a b c", batches(1, func(b *v1beta1.BroadcastJobBatches) { b.Soak, b.OrderBy = "10m", "rack" }))
	w.nodes[0].Labels["rack"], w.nodes[2].Labels["rack"] = "2", "1"
	if got, status := w.step(); got != "+c" || status.Flotilla.Batch != 1 || status.Flotilla.BatchTime == nil {
		t.Errorf("%q, %+v", got, status)
	}
	w.add("c", 's', 1)
	got, status := w.step()
	if ready := condition(status, v1beta1.ConditionReady); got != "" || ready.Reason != "Soaking" ||
		!strings.Contains(ready.Message, "soak of 10m0s") || status.Flotilla.SoakTime == nil {
		t.Errorf("%q, %+v", got, ready)
	}
	w.now = w.now.Add(10 * time.Minute)
	if got, status := w.step(); got != "+a" || status.Flotilla.Batch != 2 {
		t.Errorf("%q, %+v", got, status)
	}
	w.add("a", 's', 2)
	w.job.Annotations = map[string]string{v1beta1.AnnotationPromote: "2"}
	if got, status := w.step(); got != "+b" || status.Flotilla.Batch != 3 || status.Flotilla.ExcusedChecks {
		t.Errorf("%q, %+v", got, status)
	}
	w.add("b", 's', 3)
	if _, status := w.step(); status.Phase != "running" {
		t.Errorf("the last batch does not soak: %+v", status)
	}
	w.now = w.now.Add(10 * time.Minute)
	if _, status := w.step(); status.Phase != "completed" {
		t.Errorf("%+v", status)
	}
}

func TestChecksHaltTheJob(t *testing.T) {
	expression := v1beta1.BatchCheck{Name: "ready", Expression: "true", Patience: "1m"}
	w := newWorld(t, "a:s1 b", batches(1, withChecks(expression)))
	w.step()
	if got, status := w.step(); got != "" || !strings.Contains(condition(status, v1beta1.ConditionReady).Message,
		"waits for check ready") {
		t.Errorf("a check without a result: %q, %+v", got, status.Conditions)
	}
	w.results = map[string]Result{"ready": {Why: "node a: it is not", Since: w.now}}
	w.now = w.now.Add(59 * time.Second)
	if got, status := w.step(); got != "" || status.Flotilla.Halted != nil {
		t.Errorf("%q, %+v", got, status.Flotilla)
	}
	if plan, _ := w.plan(); plan.Wake != time.Second {
		t.Errorf("it looks again in %s", plan.Wake)
	}
	w.now = w.now.Add(time.Second)
	got, status := w.step()
	if halted := status.Flotilla.Halted; got != "" || halted == nil || halted.Reason != "CheckFailed" ||
		halted.Message != "batch 1: check ready has not held for 1m0s: node a: it is not" || status.Phase != "paused" {
		t.Errorf("%q, %+v", got, status.Flotilla)
	}
	w.job.Annotations = map[string]string{v1beta1.AnnotationResume: status.Flotilla.Halted.Time.UTC().Format(time.RFC3339)}
	if got, status := w.step(); got != "+b" || status.Flotilla.Batch != 2 {
		t.Errorf("%q, %+v", got, status)
	}
	w.add("b", 's', 2)
	w.results = map[string]Result{"ready": {}}
	if _, status := w.step(); status.Phase != "completed" {
		t.Errorf("%+v", status)
	}
}

func TestInvalidChecksTouchNoNode(t *testing.T) {
	w := newWorld(t, "a b", batches(1, withChecks(v1beta1.BatchCheck{Name: "ready", Expression: "node.status."})))
	got, status := w.step()
	if c := condition(status, v1beta1.ConditionStalled); got != "" || c.Reason != "InvalidCheck" ||
		!strings.HasPrefix(c.Message, "check ready: its expression is not valid: Syntax error") {
		t.Errorf("%q, %+v", got, c)
	}
	w.job.Spec.Flotilla.Batches.Checks[0].Expression = "node.status.phase == ''"
	if got, _ := w.step(); got != "+a" {
		t.Errorf("corrected: %q", got)
	}
}

// TestLongMessagesOfChecksAreText: they are cut between characters, not within one.
func TestLongMessagesOfChecksAreText(t *testing.T) {
	for pad := range 3 {
		w := newWorld(t, "a:s1 b", batches(1, withChecks(v1beta1.BatchCheck{Name: "ready", Expression: "true"})))
		w.step()
		why := strings.Repeat("x", pad) + strings.Repeat("…", 500)
		w.results = map[string]Result{"ready": {Why: why, Since: w.now.Add(-time.Hour)}}
		_, status := w.step()
		if text := status.Flotilla.Halted.Message; !utf8.ValidString(text) || len(text) > 620 {
			t.Errorf("%q", text)
		}
	}
}

func TestPodsOfChecks(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes, want string
		parallelism string
		later       time.Duration
		halted      string
	}{
		"one on each node of the batch": {nodes: "a:s1 b:s1 c", want: "?a ?b"},
		"that is missing":               {nodes: "a:s1S1 b:s1 c", want: "?b"},
		"are waited for":                {nodes: "a:s1S1 b:s1R1 c"},
		"all have succeeded":            {nodes: "a:s1S1 b:s1S1 c", want: "-a:BatchEnded -b:BatchEnded +c"},
		"one has failed":                {nodes: "a:s1S1 b:s1F1 c", halted: "found a failed pod: b-3 on node b"},
		"one takes too long": {nodes: "a:s1P1 b:s1S1 c", later: time.Minute,
			halted: "did not succeed within 1m0s"},
		"they come after the pods of the job":    {nodes: "a:s1 b:r1 c"},
		"one whose node left the batch is waste": {nodes: "a:xP1 b:s1", parallelism: "1", want: "-a:BatchEnded"},
		"no more at a time than parallelism":     {nodes: "a:s1R1 b:s1 c:s1", parallelism: "2", want: "?b"},
	} {
		t.Run(name, func(t *testing.T) {
			size := int32(2)
			if !strings.HasSuffix(tt.nodes, "c") {
				size = 3
			}
			w := newWorld(t, tt.nodes, batches(size, withChecks(podCheck("probe"))))
			if tt.parallelism != "" {
				parallelism(tt.parallelism)(w.job)
			}
			w.job.Status.StartTime = &metav1.Time{Time: w.now}
			w.job.Status.Flotilla = &v1beta1.BroadcastJobProgress{Batch: 1, BatchTime: &metav1.Time{Time: w.now}}
			w.step()
			w.now = w.now.Add(tt.later)
			got, status := w.step()
			if got := sorted(got); got != sorted(tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if halted := status.Flotilla.Halted; (halted != nil) != (tt.halted != "") ||
				halted != nil && !strings.Contains(halted.Message, tt.halted) {
				t.Errorf("halted %+v, want %q", halted, tt.halted)
			}
		})
	}
}

func sorted(words string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Fields(words))), " ")
}

func TestRestartsOfOtherPods(t *testing.T) {
	pod := func(uid string, restarts ...int32) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + uid, UID: types.UID(uid)}}
		for _, n := range restarts {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{RestartCount: n})
		}
		return p
	}
	before := restartsBefore([]*corev1.Pod{pod("a", 3, 2), pod("b"), pod("c", 1)})
	for name, tt := range map[string]struct {
		pods []*corev1.Pod
		most int
		want string
	}{
		"none":                         {[]*corev1.Pod{pod("a", 3, 2), pod("b", 0), pod("c", 1)}, 0, ""},
		"one":                          {[]*corev1.Pod{pod("a", 3, 2), pod("b", 1), pod("c", 1)}, 0, "restarted 1 times"},
		"one is allowed":               {[]*corev1.Pod{pod("a", 3, 2), pod("b", 1), pod("c", 1)}, 1, ""},
		"the pod with most is named":   {[]*corev1.Pod{pod("a", 5, 2), pod("b", 1)}, 2, "web-a 2 times; maxRestarts is 2"},
		"a pod that is gone hides not": {[]*corev1.Pod{pod("c", 2)}, 0, "restarted 1 times since"},
		"a new pod":                    {[]*corev1.Pod{pod("d", 4)}, 3, "shop/web-d 4 times"},
	} {
		got := restarted("n", before, tt.pods, tt.most)
		if (got != nil) != (tt.want != "") || got != nil && !strings.Contains(got.Message, tt.want) {
			t.Errorf("%s: %+v, want %q", name, got, tt.want)
		}
	}
}

func TestAnswersAreJudged(t *testing.T) {
	answer := endpoint.Answer{Status: http.StatusOK, Body: []byte(`{"errors": 3}`)}
	for expression, want := range map[string]string{
		"": "", "json.errors < 4": "", "status == 204": "http://web/ok answered 200: status == 204 is false",
		"json.errors <": "correct the check",
	} {
		got := judge(&v1beta1.BatchHTTP{URL: "http://web/ok?token=secret", Expression: expression}, answer)
		if (got == "") != (want == "") || !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
	if got := ask(t.Context(), &v1beta1.BatchHTTP{URL: "http://127.0.0.1:1/"}); !strings.Contains(got,
		"is of the agent's own machine or link") {
		t.Errorf("it says %q", got)
	}
}

func TestPodsAreMadeForOneNode(t *testing.T) {
	job := newJob(func(j *v1beta1.BroadcastJob) {
		j.UID = "u"
		j.Spec.Template.Labels = map[string]string{"app": "repair", v1beta1.LabelBatch: "9", v1beta1.LabelBatchCheck: "x"}
		j.Spec.Template.Spec.RestartPolicy = ""
	})
	pod := newPod(job, &job.Spec.Template, "a", 0)
	want := map[string]string{"app": "repair", "broadcastjob-name": "repair", "broadcastjob-controller-uid": "u"}
	if fmt.Sprint(pod.Labels) != fmt.Sprint(want) || podset.NodeOf(pod) != "a" || !metav1.IsControlledBy(pod, job) ||
		pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure || len(pod.Spec.Tolerations) > 0 {
		t.Errorf("%+v", pod)
	}
	if pod := newPod(job, &job.Spec.Template, "a", 3); pod.Labels[v1beta1.LabelBatch] != "3" {
		t.Errorf("labels %v", pod.Labels)
	}
	if len(job.Spec.Template.Labels) != 3 || job.Spec.Template.Spec.Affinity != nil {
		t.Error("the template has changed")
	}
}

func TestNodesThatAreTooSmall(t *testing.T) {
	w := newWorld(t, "a b", func(j *v1beta1.BroadcastJob) {
		j.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2")}
	})
	w.nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	if got, _ := w.step(); got != "+a" {
		t.Errorf("%q", got)
	}
	w.nodes = w.nodes[1:]
	_, status := w.step()
	if ready := condition(status, v1beta1.ConditionReady); !strings.Contains(ready.Message,
		"1 have less than the pod requests") {
		t.Errorf("%+v", ready)
	}
}
