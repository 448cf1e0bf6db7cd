package broadcastjob

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// newJob returns a BroadcastJob for the nodes of pool "on".
func newJob(change ...func(*v1beta1.BroadcastJob)) *v1beta1.BroadcastJob {
	job := &v1beta1.BroadcastJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "repair", Generation: 1},
		Spec: v1beta1.BroadcastJobSpec{Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "repair"}},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": "on"}, RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "repair:1"}}}})},
	}
	for _, f := range change {
		f(job)
	}
	return job
}

// batches gives a job batches of a size.
func batches(size int32, change ...func(*v1beta1.BroadcastJobBatches)) func(*v1beta1.BroadcastJob) {
	return func(job *v1beta1.BroadcastJob) {
		b := &v1beta1.BroadcastJobBatches{Size: intstr.FromInt32(size)}
		for _, f := range change {
			f(b)
		}
		job.Spec.Flotilla = &v1beta1.BroadcastJobFlotilla{Batches: b}
	}
}

func withChecks(all ...v1beta1.BatchCheck) func(*v1beta1.BroadcastJobBatches) {
	return func(b *v1beta1.BroadcastJobBatches) { b.Checks = all }
}

func podCheck(name string) v1beta1.BatchCheck {
	return v1beta1.BatchCheck{Name: name, Patience: "1m", Pod: &v1beta1.BatchPod{
		Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe:1"}}}})}}
}

// world is a job with nodes and pods in memory.
type world struct {
	testing.TB
	job     *v1beta1.BroadcastJob
	nodes   []*corev1.Node
	pods    []*corev1.Pod
	results map[string]Result
	budget  workload.Budget
	now     time.Time
}

// newWorld returns a world with a node for each word of text, "<name>:<what it has>": a pod that is pending ("p"),
// running ("r"), has succeeded ("s") or failed ("f"), or is terminating ("t"), with the number of its batch behind it;
// "P", "R", "S" and "F" are such pods of the check "probe". "x" takes the node out of the pool, "n" is a taint
// NoSchedule.
func newWorld(t testing.TB, text string, change ...func(*v1beta1.BroadcastJob)) *world {
	w := &world{TB: t, now: time.Unix(1_000_000, 0), job: newJob(change...)}
	w.job.UID = "job"
	for _, word := range strings.Fields(text) {
		name, has, _ := strings.Cut(word, ":")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "on"}}}
		w.nodes = append(w.nodes, node)
		for i, letter := range has {
			switch letter {
			case 'x':
				node.Labels["pool"] = "off"
			case 'n':
				node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
			default:
				if !('0' <= letter && letter <= '9') {
					batch, _ := strconv.Atoi(has[i+1 : min(i+2, len(has))])
					w.add(name, letter, batch)
				}
			}
		}
	}
	return w
}

func (w *world) add(node string, letter rune, batch int) *corev1.Pod {
	pod := newPod(w.job, &w.job.Spec.Template, node, batch)
	pod.Name, pod.UID = fmt.Sprintf("%s-%d", node, len(w.pods)), "uid"
	pod.CreationTimestamp, pod.Spec.NodeName = metav1.NewTime(w.now), node
	if strings.ContainsRune("PRSF", letter) {
		pod.Labels[v1beta1.LabelBatchCheck] = "probe"
	}
	pod.Status.Phase = map[rune]corev1.PodPhase{'p': corev1.PodPending, 'r': corev1.PodRunning, 's': corev1.PodSucceeded,
		'f': corev1.PodFailed, 't': corev1.PodRunning}[[]rune(strings.ToLower(string(letter)))[0]]
	if letter == 't' {
		pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
	w.pods = append(w.pods, pod)
	return pod
}

// plan plans once, and returns the plan and the status. The job keeps its status.
func (w *world) plan() (Plan, v1beta1.BroadcastJobStatus) {
	w.Helper()
	f := Facts{Job: w.job, Progress: progressOf(&w.job.Status), Budget: w.budget, Now: w.now,
		Results: maps.Clone(w.results)}
	var set podset.Set
	for _, pod := range w.pods {
		switch {
		case pod.DeletionTimestamp != nil:
			set.Terminating = append(set.Terminating, pod)
		case podstate.Ended(pod):
			set.Ended = append(set.Ended, pod)
		default:
			set.Active = append(set.Active, pod)
		}
	}
	f.divide(set)
	f.Invalid = new(memory).invalidChecks(w.job)
	cause := f.know(func() []*corev1.Node { return w.nodes })
	s := &scope{pass: &pass{Object: w.job, Stalled: cause}, job: w.job, facts: f, plan: Compute(f)}
	s.Key.Namespace, s.Key.Name = w.job.Namespace, w.job.Name
	return s.plan, s.status()
}

// step plans as two passes do: the first one may only write the progress. It returns what the second one does.
func (w *world) step() (string, v1beta1.BroadcastJobStatus) {
	w.Helper()
	for range 5 {
		plan, status := w.plan()
		if saved := sameProgress(&w.job.Status, &status); saved {
			w.job.Status = status
			return describe(plan), status
		}
		w.job.Status = status
	}
	w.Fatal("its progress changes in each pass")
	return "", v1beta1.BroadcastJobStatus{}
}

// describe returns what a plan does to which nodes: + creates, - deletes, ! stops, and ? creates the pod of a check.
func describe(plan Plan) string {
	var out []string
	for _, c := range plan.Decided.Create {
		out = append(out, "+"+c.Node)
	}
	for _, removal := range plan.Delete {
		out = append(out, fmt.Sprintf("-%s:%s", podset.NodeOf(removal.Pod), removal.Reason))
	}
	for _, pod := range plan.Stop {
		out = append(out, "!"+podset.NodeOf(pod))
	}
	for _, c := range plan.Checks {
		out = append(out, "?"+c.Node)
	}
	return strings.Join(out, " ")
}

func condition(status v1beta1.BroadcastJobStatus, name string) v1beta1.JobCondition {
	for _, c := range status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.JobCondition{}
}
