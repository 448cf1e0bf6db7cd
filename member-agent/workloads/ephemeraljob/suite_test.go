package ephemeraljob_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/ephemeraljob"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// shifted is a clock that can be set ahead.
type shifted struct{ ahead atomic.Int64 }

func (c *shifted) Now() time.Time                  { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *shifted) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// world is one namespace of a cluster with the controller running in it.
type world struct {
	*testing.T
	client.Client
	clock     *shifted
	namespace string
}

// TestOnAServer runs every scenario on one API server, each in a namespace of its own.
func TestOnAServer(t *testing.T) {
	config := apiserver.ForTest(t, "ephemeraljobs.apps.kruise.io")
	config.QPS = -1
	clock := &shifted{}
	apiserver.Run(t, config, func(ctx context.Context, mgr ctrl.Manager) error {
		return ephemeraljob.Add(ctx, &workload.Env{Manager: mgr, Clock: clock})
	})
	c, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i, scenario := range []struct {
		name string
		run  func(*world)
	}{
		{"runs through pods one after the other", oneByOne},
		{"pauses, and goes on", pauses},
		{"takes the next pod when one goes", goes},
		{"shows who refuses the containers", refused},
		{"leaves the finalizer of OpenKruise behind", released},
		{"fails at its deadline, and goes after its time to live", ends}, // the last one: it sets the clock ahead
	} {
		t.Run(scenario.name, func(t *testing.T) {
			w := &world{T: t, Client: c, clock: clock, namespace: fmt.Sprintf("shop-%d", i)}
			w.must(w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
			scenario.run(w)
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pods creates pods a, b, c … of the application.
func (w *world) pods(n int) {
	w.Helper()
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: string(rune('a' + i)),
			Labels: map[string]string{"app": "web"}}}
		pod.Spec.NodeName = "node-1"
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
		w.must(w.Create(w.Context(), pod))
	}
}

// create creates the job.
func (w *world) create(changes ...func(*v1alpha1.EphemeralJob)) *v1alpha1.EphemeralJob {
	w.Helper()
	c := corev1.EphemeralContainer{TargetContainerName: "main"}
	c.Name, c.Image, c.Command = "look", "busybox:1", []string{"ps"}
	job := &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "dump"}}
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	job.Spec.Template.EphemeralContainers = []corev1.EphemeralContainer{c}
	for _, change := range changes {
		change(job)
	}
	w.must(w.Create(w.Context(), job))
	return job
}

// set says as a kubelet how far the ephemeral containers of a pod are.
func (w *world) set(name string, state corev1.ContainerState) {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, pod))
	pod.Status.Phase, pod.Status.EphemeralContainerStatuses = corev1.PodRunning, nil
	for _, c := range pod.Spec.EphemeralContainers {
		pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses,
			corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state})
	}
	w.must(w.Status().Update(w.Context(), pod))
}

func ended(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code,
		FinishedAt: metav1.NewTime(time.Now())}}
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now())}}
}

// expect waits until the job, and the pods that have its containers, are as described.
func (w *world) expect(what, status, injected, ready string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, func() string {
		job := &v1alpha1.EphemeralJob{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "dump"}, job); err != nil {
			return err.Error()
		}
		s := job.Status
		got := fmt.Sprintf("%s %d:w%d,r%d,s%d,f%d", s.Phase, s.Match, s.Waiting, s.Running, s.Succeeded, s.Failed)
		var has []string
		var pods corev1.PodList
		if err := w.List(w.Context(), &pods, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			for _, c := range pod.Spec.EphemeralContainers {
				if len(c.Env) == 0 || c.Env[len(c.Env)-1].Value != string(job.UID) || c.TargetContainerName != "main" {
					return fmt.Sprintf("pod %s has %+v", pod.Name, c)
				}
				has = append(has, pod.Name)
			}
		}
		said := ""
		for _, c := range s.Conditions {
			if c.Type == "Ready" {
				said = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
			}
		}
		if got != status || strings.Join(has, ",") != injected || !strings.Contains(said, ready) {
			return fmt.Sprintf("%s, in %v, %s; want %s, in %s, %s", got, has, said, status, injected, ready)
		}
		return ""
	})
}

func oneByOne(w *world) {
	w.create()
	w.expect("no pods", "Waiting 0:w0,r0,s0,f0", "", "False MatchEmpty")
	w.pods(3)
	w.expect("the first", "Waiting 3:w3,r0,s0,f0", "a", "False Running")
	w.set("a", runs())
	w.expect("the first runs", "Running 3:w2,r1,s0,f0", "a", "False Running")
	w.set("a", ended(0))
	w.expect("the second", "Waiting 3:w2,r0,s1,f0", "a,b", "False Running")
	w.set("b", ended(7))
	w.expect("the third", "Waiting 3:w1,r0,s1,f1", "a,b,c", "False Running")
	w.set("c", ended(0))
	w.expect("the end", "Failed 3:w0,r0,s2,f1", "a,b,c", "False JobFailed: 3 of 3 pods have ended, 1 of them failed")
}

func pauses(w *world) {
	w.pods(2)
	job := w.create(func(job *v1alpha1.EphemeralJob) { job.Spec.Paused = true })
	w.expect("paused", "Paused 2:w2,r0,s0,f0", "", "False Paused")
	w.must(w.Patch(w.Context(), job, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"paused":false,"parallelism":2}}`))))
	w.expect("both", "Waiting 2:w2,r0,s0,f0", "a,b", "False Running")
	w.set("a", ended(0))
	w.set("b", ended(0))
	w.expect("the end", "Succeeded 2:w0,r0,s2,f0", "a,b", "True JobSucceeded")
}

func goes(w *world) {
	w.pods(2)
	w.create(func(job *v1alpha1.EphemeralJob) { job.Spec.Replicas = new(int32(1)) })
	w.expect("the first", "Waiting 1:w1,r0,s0,f0", "a", "False Running")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "a"}}
	w.must(w.Delete(w.Context(), pod, client.GracePeriodSeconds(0)))
	w.expect("the next", "Waiting 1:w1,r0,s0,f0", "b", "False Running")
	w.set("b", ended(0))
	w.expect("the end", "Succeeded 1:w0,r0,s1,f0", "b", "True JobSucceeded")
}

// refused has an admission policy refuse one pod: the next one is taken, and the job says what keeps it from its end.
func refused(w *world) {
	w.pods(2)
	policy := &admission.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-debugging"}}
	match := &admission.MatchResources{ResourceRules: []admission.NamedRuleWithOperations{{
		RuleWithOperations: admission.RuleWithOperations{
			Operations: []admission.OperationType{"UPDATE"},
			Rule: admission.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
				Resources: []string{"pods/ephemeralcontainers"}}}}}}
	policy.Spec.MatchConstraints = match
	policy.Spec.Validations = []admission.Validation{{
		Expression: "object.metadata.name != 'a'", Message: "pod a is not to be debugged"}}
	w.must(w.Create(w.Context(), policy))
	binding := &admission.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "no-debugging"}}
	binding.Spec.PolicyName = "no-debugging"
	binding.Spec.ValidationActions = []admission.ValidationAction{"Deny"}
	w.must(w.Create(w.Context(), binding))
	w.Cleanup(func() {
		ctx := context.WithoutCancel(w.Context())
		_, _ = w.Delete(ctx, binding), w.Delete(ctx, policy)
	})
	apiserver.Eventually(w, limit, "the policy holds", func() string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "a"}}
		err := w.SubResource("ephemeralcontainers").Patch(w.Context(), pod, client.RawPatch(
			"application/strategic-merge-patch+json", []byte(`{"spec":{"ephemeralContainers":[{"name":"x","image":"x"}]}}`)),
			&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{"All"}}})
		if err == nil || !strings.Contains(err.Error(), "not to be debugged") {
			return fmt.Sprint("no refusal: ", err)
		}
		return ""
	})
	w.create()
	w.expect("the other pod", "Waiting 2:w2,r0,s0,f0", "b", "False")
	w.set("b", ended(0))
	w.expect("why it waits", "Waiting 2:w1,r0,s1,f0", "b", "False ContainersRefused: add ephemeral containers to pod")
	w.must(w.Delete(w.Context(), binding))
	w.expect("it goes on", "Waiting 2:w1,r0,s1,f0", "a,b", "False Running")
}

func released(w *world) {
	job := w.create(func(job *v1alpha1.EphemeralJob) { job.Finalizers = []string{v1alpha1.FinalizerEphemeralJob} })
	w.must(w.Delete(w.Context(), job))
	w.gone()
}

func (w *world) gone() {
	w.Helper()
	apiserver.Eventually(w, limit, "it is gone", func() string {
		job := &v1alpha1.EphemeralJob{}
		err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "dump"}, job)
		if !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
}

func ends(w *world) {
	w.pods(1)
	job := w.create(func(job *v1alpha1.EphemeralJob) { job.Spec.ActiveDeadlineSeconds = new(int64(600)) })
	w.expect("waits", "Waiting 1:w1,r0,s0,f0", "a", "False Running")
	// The counts of a job that has failed stay: the container runs before the clock does.
	w.set("a", runs())
	w.expect("runs", "Running 1:w0,r1,s0,f0", "a", "False Running")
	w.clock.ahead.Store(int64(601 * time.Second))
	w.must(w.Patch(w.Context(), job, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"look":"once"}}}`))))
	w.expect("overdue", "Failed 1:w0,r1,s0,f0", "a", "False DeadlineExceeded: the job was active for longer than")
	w.clock.ahead.Store(int64(601*time.Second + 1801*time.Second))
	w.must(w.Patch(w.Context(), job, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"look":"again"}}}`))))
	w.gone()
}
