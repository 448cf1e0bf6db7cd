package broadcastjob_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/broadcastjob"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// world is one cluster with the controller running in it.
type world struct {
	*testing.T
	client.Client
	cluster *fleet.Cluster
	// seen reads from the cache of the controller.
	seen client.Reader
}

// TestOnAServer runs every scenario on one cluster, in parallel, each with nodes of its own. In the first one the
// controller is restarted.
func TestOnAServer(t *testing.T) {
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: fleet.Nodes("solo", "eu", []string{"a"}, 1)}, false,
		"broadcastjobs.apps.kruise.io")
	config := c.RESTConfig()
	config.QPS = -1
	own := rest.CopyConfig(config)
	own.UserAgent = "broadcastjob-under-test"
	var seen client.Reader // what the controller sees
	run := func() func() {
		mgr, stop := apiserver.Run(t, own, func(ctx context.Context, mgr ctrl.Manager) error {
			return broadcastjob.Add(ctx, &workload.Env{Manager: mgr})
		})
		seen = mgr.GetClient()
		return stop
	}
	api, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	stop := run()
	w := &world{t, api, c, seen}
	w.start("deadline", "ab", runFor("1h"), func(job *v1beta1.BroadcastJob) {
		job.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(6))
	})
	w.wait("deadline", "the deadline is set", func(s v1beta1.BroadcastJobStatus) bool {
		return s.StartTime != nil && s.Active == 2
	})
	stop()
	run()
	t.Run("scenarios", func(t *testing.T) {
		t.Run("the deadline survives a restart", func(t *testing.T) {
			t.Parallel()
			endsByDeadline(&world{t, api, c, seen})
		})
		for name, scenario := range scenarios() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(&world{t, api, c, seen})
			})
		}
	})
}

func scenarios() map[string]func(*world) {
	return map[string]func(*world){
		"runs once on each node that fits, and expires":           runsOnEachNode,
		"runs on nodes that come later with Never, in v1alpha1":   runsOnLaterNodes,
		"halts in a batch because a neighbour pod restarted":      haltsInABatch,
		"fails with its first failed pod":                         failsFast,
		"pauses at a failed pod until it is resumed":              pausesAtAFailure,
		"ends pods that restart too often":                        endsRestartingPods,
		"waits for pods of checks, and asks no local addresses":   looksAtChecks,
		"stays without pods when the template cannot be used":     refusesAWrongTemplate,
		"takes a pod back that lost its controller, and no other": takesBackItsPods,
	}
}

// eventually polls until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func newJob(name string, change ...func(*v1beta1.BroadcastJob)) *v1beta1.BroadcastJob {
	job := &v1beta1.BroadcastJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1beta1.BroadcastJobSpec{Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": name}, RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "repair:1"}}},
		})},
	}
	for _, f := range change {
		f(job)
	}
	return job
}

// start adds nodes "<name>-<letter>" and creates a job of this name for them.
func (w *world) start(name, letters string, change ...func(*v1beta1.BroadcastJob)) {
	w.Helper()
	w.join(name, letters)
	w.must(w.Create(w.Context(), newJob(name, change...)))
}

func (w *world) join(name, letters string) {
	w.Helper()
	for _, letter := range letters {
		w.must(w.cluster.AddNodes(w.Context(), fleet.NodeSpec{Name: fmt.Sprintf("%s-%c", name, letter),
			Labels: map[string]string{"pool": name}}))
	}
	// A job takes no notice of a node that has the taint of new nodes, and may end before it loses that.
	w.eventually("the controller sees the nodes without taints", func() string {
		for _, letter := range letters {
			node := &corev1.Node{}
			key := client.ObjectKey{Name: fmt.Sprintf("%s-%c", name, letter)}
			if err := w.seen.Get(w.Context(), key, node); err != nil || len(node.Spec.Taints) > 0 {
				return fmt.Sprintf("%s: %v, %v", key.Name, node.Spec.Taints, err)
			}
		}
		return ""
	})
}

// annotate gives the pods of a job an annotation that steers the simulated kubelets.
func annotate(key, value string) func(*v1beta1.BroadcastJob) {
	return func(job *v1beta1.BroadcastJob) {
		metav1.SetMetaDataAnnotation(&job.Spec.Template.ObjectMeta, key, value)
	}
}

func runFor(text string) func(*v1beta1.BroadcastJob) { return annotate(fleet.AnnotationRunFor, text) }

func policy(kind v1beta1.FailurePolicyType) func(*v1beta1.BroadcastJob) {
	return func(job *v1beta1.BroadcastJob) { job.Spec.FailurePolicy.Type = kind }
}

func (w *world) get(name string) *v1beta1.BroadcastJob {
	w.Helper()
	job := &v1beta1.BroadcastJob{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, job))
	return job
}

// change updates a job by a patch.
func (w *world) change(name string, f func(*v1beta1.BroadcastJob)) {
	w.Helper()
	job := w.get(name)
	before := job.DeepCopy()
	f(job)
	w.must(w.Patch(w.Context(), job, client.MergeFrom(before)))
}

// resume lets a job that has halted go on.
func (w *world) resume(name string) {
	w.Helper()
	w.change(name, func(job *v1beta1.BroadcastJob) {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1beta1.AnnotationResume,
			job.Status.Flotilla.Halted.Time.UTC().Format(time.RFC3339))
	})
}

// wait polls until the status is as wanted, and returns it.
func (w *world) wait(name, what string, is func(v1beta1.BroadcastJobStatus) bool) (status v1beta1.BroadcastJobStatus) {
	w.Helper()
	w.eventually(name+": "+what, func() string {
		if status = w.get(name).Status; is(status) {
			return ""
		}
		return fmt.Sprintf("%+v, batches %+v", status, status.Flotilla)
	})
	return status
}

func (w *world) completed(name string, succeeded, failed int32) v1beta1.BroadcastJobStatus {
	w.Helper()
	return w.wait(name, "it completes", func(s v1beta1.BroadcastJobStatus) bool {
		return s.Phase == v1beta1.PhaseCompleted && s.Succeeded == succeeded && s.Failed == failed && s.Active == 0 &&
			s.Desired == succeeded+failed && s.CompletionTime != nil
	})
}

func (w *world) halted(name string) *v1beta1.BroadcastJobHalt {
	w.Helper()
	return w.wait(name, "it halts", func(s v1beta1.BroadcastJobStatus) bool {
		return s.Phase == v1beta1.PhasePaused && s.Flotilla != nil && s.Flotilla.Halted != nil
	}).Flotilla.Halted
}

// pods returns the pods of a job, also those of its checks.
func (w *world) pods(name string, labels ...client.ListOption) []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	options := []client.ListOption{client.InNamespace("default"),
		client.MatchingLabels{v1beta1.LabelBroadcastJobName: name}}
	w.must(w.List(w.Context(), &list, append(options, labels...)...))
	return list.Items
}

func condition(status v1beta1.BroadcastJobStatus, name string) v1beta1.JobCondition {
	for _, c := range status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.JobCondition{}
}

func endsByDeadline(w *world) {
	status := w.wait("deadline", "it fails", func(s v1beta1.BroadcastJobStatus) bool {
		return s.Phase == v1beta1.PhaseFailed
	})
	after := status.CompletionTime.Sub(status.StartTime.Time)
	if c := condition(status, "Failed"); after < 6*time.Second || status.Failed != 2 || c.Status != corev1.ConditionTrue ||
		!strings.Contains(c.Message, "was active longer than specified deadline") {
		w.Errorf("after %s: %+v", after, status)
	}
	w.eventually("its pods are deleted", func() string { return strings.Repeat("x", len(w.pods("deadline"))) })
}

func runsOnEachNode(w *world) {
	w.join("once", "abc")
	w.must(w.cluster.AddNodes(w.Context(), fleet.NodeSpec{Name: "once-tainted", Labels: map[string]string{"pool": "once"},
		Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}}))
	w.start("once", "", runFor("100ms"), func(job *v1beta1.BroadcastJob) {
		job.Spec.Parallelism = new(intstr.FromInt32(2))
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(2))
	})
	status := w.completed("once", 3, 0)
	if c := condition(status, "Complete"); c.Reason != "Complete" || c.Message !=
		"Job completed, 3 pods succeeded, 0 pods failed" || condition(status, v1beta1.ConditionReady).Status != "True" {
		w.Errorf("%+v", status.Conditions)
	}
	nodes := map[string]int{}
	job := w.get("once")
	for _, pod := range w.pods("once") {
		nodes[pod.Spec.NodeName]++
		if pod.Labels[v1beta1.LabelBroadcastJobUID] != string(job.UID) || !strings.HasPrefix(pod.Name, "once-") {
			w.Errorf("pod %s has labels %v", pod.Name, pod.Labels)
		}
	}
	if !maps.Equal(nodes, map[string]int{"once-a": 1, "once-b": 1, "once-c": 1}) {
		w.Errorf("pods on %v", nodes)
	}
	w.eventually("it is deleted after its time to live", func() string {
		err := w.Get(w.Context(), client.ObjectKeyFromObject(job), &v1beta1.BroadcastJob{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint(err)
	})
}

func runsOnLaterNodes(w *world) {
	old := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/v1alpha1",
		"kind": "BroadcastJob", "metadata": map[string]any{"name": "later", "namespace": "default"},
		"spec": map[string]any{"completionPolicy": map[string]any{"type": "Never"}, "template": map[string]any{
			"spec": map[string]any{"nodeSelector": map[string]any{"pool": "later"}, "containers": []any{
				map[string]any{"name": "main", "image": "repair:1"}}}}}}}
	w.must(w.Create(w.Context(), old))
	status := w.wait("later", "no node fits", func(s v1beta1.BroadcastJobStatus) bool {
		return condition(s, v1beta1.ConditionReady).Reason == "NoNodeFits"
	})
	if status.Phase != v1beta1.PhaseRunning || status.Desired != 0 {
		w.Errorf("%+v", status)
	}
	for n, letter := range []string{"a", "b"} {
		w.join("later", letter)
		w.wait("later", "the node has its pod", func(s v1beta1.BroadcastJobStatus) bool {
			return int(s.Succeeded) == n+1 && condition(s, v1beta1.ConditionReady).Reason == "NodesDone"
		})
	}
	w.must(w.Delete(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "later-a"}}))
	w.wait("later", "a node that is gone takes its pod with it", func(s v1beta1.BroadcastJobStatus) bool {
		return s.Desired == 1 && s.Succeeded == 1
	})
}

// haltsInABatch runs over 60 nodes in three racks. The gate of one node in the second rack is shut, so that its batch
// waits until a pod beside the job's has restarted.
func haltsInABatch(w *world) {
	const name = "sixty"
	var nodes []fleet.NodeSpec
	for i := range 60 {
		nodes = append(nodes, fleet.NodeSpec{Name: fmt.Sprintf("%s-%02d", name, i),
			Labels: map[string]string{"pool": name, "rack": fmt.Sprint(i % 3), "gate": "open"}})
	}
	nodes[31].Labels["gate"] = "shut" // it is in rack 1
	w.must(w.cluster.AddNodes(w.Context(), nodes...))
	w.eventually("all nodes fit", func() string {
		var list corev1.NodeList
		w.must(w.List(w.Context(), &list, client.MatchingLabels{"pool": name}))
		fit := 0
		for i := range list.Items {
			if len(list.Items[i].Spec.Taints) == 0 && len(list.Items[i].Status.Conditions) > 0 {
				fit++
			}
		}
		if fit != len(nodes) {
			return fmt.Sprintf("%d of %d", fit, len(nodes))
		}
		return ""
	})
	neighbour := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "neighbour"},
		Spec: corev1.PodSpec{NodeName: nodes[31].Name, Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
	w.must(w.Create(w.Context(), neighbour))
	w.start(name, "", func(job *v1beta1.BroadcastJob) {
		job.Spec.Flotilla = &v1beta1.BroadcastJobFlotilla{Batches: &v1beta1.BroadcastJobBatches{
			Size: intstr.FromString("33%"), OrderBy: "rack", Soak: "1s", MaxRestarts: new(int32(0)),
			Checks: []v1beta1.BatchCheck{{Name: "gate", Patience: "1h", Expression: "node.metadata.labels.gate == 'open' && " +
				"node.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True') && pods.all(p, has(p.status.phase))"}},
		}}
	})
	w.wait(name, "batch 2 has ended, and its check does not hold", func(s v1beta1.BroadcastJobStatus) bool {
		return s.Flotilla != nil && s.Flotilla.Batch == 2 && s.Flotilla.SoakTime != nil && s.Succeeded == 40 &&
			condition(s, v1beta1.ConditionReady).Reason == "Soaking"
	})
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(neighbour), neighbour))
	before := neighbour.DeepCopy()
	neighbour.Spec.Containers[0].Image = "web:2" // another image restarts the container
	w.must(w.Patch(w.Context(), neighbour, client.MergeFrom(before)))
	halted := w.halted(name)
	if halted.Reason != "PodsRestarted" || !strings.Contains(halted.Message, "node sixty-31 restarted 1 times") ||
		!strings.Contains(halted.Message, "default/neighbour") {
		w.Errorf("%+v", halted)
	}
	racks := map[string]int{}
	for _, pod := range w.pods(name) {
		node := &corev1.Node{}
		w.must(w.Get(w.Context(), client.ObjectKey{Name: pod.Spec.NodeName}, node))
		racks[node.Labels["rack"]+" in batch "+pod.Labels[v1beta1.LabelBatch]]++
	}
	if !maps.Equal(racks, map[string]int{"0 in batch 1": 20, "1 in batch 2": 20}) {
		w.Errorf("pods in racks %v", racks)
	}
	w.resume(name)
	if status := w.completed(name, 60, 0); status.Flotilla.Batch != 3 {
		w.Errorf("%+v", status.Flotilla)
	}
}

func failsFast(w *world) {
	w.start("fast", "ab", runFor("1h"))
	w.wait("fast", "both run", func(s v1beta1.BroadcastJobStatus) bool { return s.Active == 2 })
	w.fail("fast")
	status := w.wait("fast", "it fails", func(s v1beta1.BroadcastJobStatus) bool { return s.Phase == v1beta1.PhaseFailed })
	if c := condition(status, "Failed"); status.Failed != 2 || !strings.HasPrefix(c.Message,
		"failure policy is FailurePolicyTypeFailFast and failed pod is found") {
		w.Errorf("%+v", status)
	}
	w.eventually("the other pod is deleted, and the failed one stays", func() string {
		if pods := w.pods("fast"); len(pods) != 1 || pods[0].Status.Phase != corev1.PodFailed {
			return fmt.Sprintf("%d pods", len(pods))
		}
		return ""
	})
}

// fail makes the first pod of a job fail.
func (w *world) fail(name string) {
	w.Helper()
	pod := w.pods(name)[0]
	w.must(w.Status().Patch(w.Context(), &pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"phase":"Failed"}}`))))
}

func pausesAtAFailure(w *world) {
	w.start("pause", "abc", policy(v1beta1.PauseFailurePolicyType), annotate(fleet.AnnotationExitCode, "1"),
		func(job *v1beta1.BroadcastJob) { job.Spec.Parallelism = new(intstr.FromInt32(1)) })
	for n := range int32(3) {
		halted := w.halted("pause")
		if halted.Reason != "PodFailed" || !strings.Contains(halted.Message, fmt.Sprintf("%d pods failed", n+1)) ||
			len(w.pods("pause")) != int(n)+1 {
			w.Errorf("%+v with %d pods", halted, len(w.pods("pause")))
		}
		w.resume("pause")
		w.wait("pause", "it goes on", func(s v1beta1.BroadcastJobStatus) bool {
			return s.Flotilla.Halted == nil || s.Flotilla.Halted.Time.After(halted.Time.Time)
		})
	}
	w.completed("pause", 0, 3)
}

func endsRestartingPods(w *world) {
	w.start("crash", "a", policy(v1beta1.ContinueFailurePolicyType), annotate(fleet.AnnotationExitCode, "1"),
		func(job *v1beta1.BroadcastJob) { job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure })
	w.wait("crash", "it runs", func(s v1beta1.BroadcastJobStatus) bool { return s.Active == 1 })
	w.eventually("the container restarts", func() string {
		pod := w.pods("crash")[0]
		if len(pod.Status.ContainerStatuses) != 1 || pod.Status.Phase != corev1.PodRunning {
			return "it does not run"
		}
		before := pod.DeepCopy()
		pod.Status.ContainerStatuses[0].RestartCount = 1
		w.must(w.Status().Patch(w.Context(), &pod, client.MergeFrom(before)))
		return ""
	})
	w.wait("crash", "the pod has failed", func(s v1beta1.BroadcastJobStatus) bool {
		return s.Failed == 1 && s.Active == 0
	})
	w.eventually("the kubelet is told to end the pod", func() string {
		if deadline := w.pods("crash")[0].Spec.ActiveDeadlineSeconds; deadline == nil || *deadline != 1 {
			return fmt.Sprint(deadline)
		}
		return ""
	})
	w.fail("crash")
	w.completed("crash", 0, 1)
}

func looksAtChecks(w *world) {
	probe := v1beta1.NewPodTemplate(corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "probe", Image: "probe:1"}}}})
	w.start("probe", "ab", func(job *v1beta1.BroadcastJob) {
		job.Spec.Flotilla = &v1beta1.BroadcastJobFlotilla{Batches: &v1beta1.BroadcastJobBatches{
			Size: intstr.FromInt32(1), Checks: []v1beta1.BatchCheck{
				{Name: "probe", Patience: "1h", Pod: &v1beta1.BatchPod{Template: probe}}}}}
	})
	w.completed("probe", 2, 0)
	if pods := w.pods("probe", client.MatchingLabels{v1beta1.LabelBatchCheck: "probe"}); len(pods) == 0 ||
		pods[len(pods)-1].Status.Phase != corev1.PodSucceeded {
		w.Errorf("%d pods of the check", len(pods))
	}
	w.start("web", "ab", func(job *v1beta1.BroadcastJob) {
		job.Spec.Flotilla = &v1beta1.BroadcastJobFlotilla{Batches: &v1beta1.BroadcastJobBatches{
			Size: intstr.FromInt32(1), Checks: []v1beta1.BatchCheck{
				{Name: "web", Patience: "0s", HTTP: &v1beta1.BatchHTTP{URL: "http://127.0.0.1:1/healthz"}}}}}
	})
	if halted := w.halted("web"); halted.Reason != "CheckFailed" ||
		!strings.Contains(halted.Message, "is of the agent's own machine or link") {
		w.Errorf("%+v", halted)
	}
	if pods := w.pods("web"); len(pods) != 1 {
		w.Errorf("%d pods", len(pods))
	}
}

func refusesAWrongTemplate(w *world) {
	stalls := func(name, message string) {
		w.Helper()
		w.wait(name, "it stalls", func(s v1beta1.BroadcastJobStatus) bool {
			c := condition(s, v1beta1.ConditionStalled)
			return c.Status == corev1.ConditionTrue && c.Reason == "InvalidTemplate" && strings.Contains(c.Message, message)
		})
		if pods := w.pods(name); len(pods) > 0 {
			w.Errorf("%s has %d pods", name, len(pods))
		}
	}
	w.start("wrong", "ab", func(job *v1beta1.BroadcastJob) {
		job.Spec.Template.Spec.Containers[0].Image = "UPPER CASE"
		job.Spec.Template.Spec.Containers[0].Name = "No Label"
	})
	stalls("wrong", "the API server refuses what the template asks for")
	w.change("wrong", func(job *v1beta1.BroadcastJob) {
		job.Spec.Template.Spec.Containers[0].Image, job.Spec.Template.Spec.Containers[0].Name = "repair:1", "main"
	})
	w.completed("wrong", 2, 0)
	w.start("types", "a", func(job *v1beta1.BroadcastJob) {
		job.Spec.Template.Undecoded = []byte(
			`{"spec":{"containers":[{"name":"a","image":"b","ports":[{"containerPort":"x"}]}]}}`)
	})
	stalls("types", "spec.template.spec.containers")
	w.must(w.Delete(w.Context(), w.get("types")))
}

func takesBackItsPods(w *world) {
	w.start("back", "a", runFor("1h"))
	w.wait("back", "it runs", func(s v1beta1.BroadcastJobStatus) bool { return s.Active == 1 })
	pod := w.pods("back")[0]
	w.must(w.Patch(w.Context(), &pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"ownerReferences":null}}`))))
	w.eventually("the pod has its controller again", func() string {
		pods := w.pods("back")
		if len(pods) == 1 && pods[0].UID == pod.UID && metav1.IsControlledBy(&pods[0], w.get("back")) {
			return ""
		}
		return fmt.Sprintf("%d pods", len(pods))
	})
}
