package containerrecreaterequest_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/containerrecreaterequest/guard"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// shifted is a clock that can be set ahead.
type shifted struct{ ahead atomic.Int64 }

func (c *shifted) Now() time.Time                  { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *shifted) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// world is an API server with the controllers and the guard; the test plays kubelets and the daemon.
type world struct {
	*testing.T
	client.Client
	clock *shifted
}

func newWorld(t *testing.T) *world {
	t.Helper()
	logf.SetLogger(logr.Discard())
	config := apiserver.ForTest(t, "containerrecreaterequests.apps.kruise.io", "clonesets.apps.kruise.io",
		"statefulsets.apps.kruise.io", "daemonsets.apps.kruise.io")
	clock := &shifted{}
	mgr, _ := apiserver.Run(t, config, func(ctx context.Context, mgr ctrl.Manager) error {
		return containerrecreaterequest.Add(ctx, &workload.Env{Manager: mgr, Clock: clock})
	})
	c, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(&webhook.Admission{Handler: admission.HandlerFunc(guard.New(c).Handle)})
	t.Cleanup(server.Close)
	hook := guard.Webhook()
	hook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(server.URL),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	w := &world{t, c, clock}
	w.must(c.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: guard.Configuration},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{hook}}))
	w.eventually("the API server asks the guard", func(ctx context.Context) string {
		err := c.Create(ctx, requestFor("probe", "none"), client.DryRunAll)
		if err == nil {
			return "a request for no pod is accepted"
		}
		return ""
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, check func(context.Context) string) {
	w.Helper()
	fleet.Eventually(w, limit, what, check, nil)
}

func requestFor(name, pod string, containers ...string) *v1beta1.ContainerRecreateRequest {
	r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: pod}}
	for _, c := range append(containers, "a")[:max(len(containers), 1)] {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: c})
	}
	return r
}

// run creates a pod with the containers on node-1 and has them started.
func (w *world) run(name string, change func(*corev1.Pod), containers ...string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: "node-1"}}
	podready.InjectGate(&pod.Spec)
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "i"})
	}
	if change != nil {
		change(pod)
	}
	w.must(w.Create(w.Context(), pod))
	return w.start(pod, "0")
}

// start has all containers of the pod run, with IDs of this suffix.
func (w *world) start(pod *corev1.Pod, suffix string) *corev1.Pod {
	w.Helper()
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, ContainerID: "containerd://" + c.Name + "-" + suffix, Ready: true, Image: "i", ImageID: "i",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
	}
	if podstate.Condition(pod, corev1.PodReady) == nil {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	}
	w.must(w.Status().Update(w.Context(), pod))
	return pod
}

func (w *world) request(name string) *v1beta1.ContainerRecreateRequest {
	w.Helper()
	r := &v1beta1.ContainerRecreateRequest{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, r))
	return r
}

// report plays the daemon: it changes the status of a request.
func (w *world) report(name string, change func(*v1beta1.ContainerRecreateRequestStatus)) {
	w.Helper()
	w.eventually("the daemon reports", func(ctx context.Context) string {
		r := w.request(name)
		change(&r.Status)
		if err := w.Status().Update(ctx, r); err != nil {
			return err.Error()
		}
		return ""
	})
}

func succeed(status *v1beta1.ContainerRecreateRequestStatus) {
	status.Phase, status.CompletionTime = v1beta1.CRRCompleted, new(metav1.Now())
	status.ContainerRecreateStates = []v1beta1.ContainerRecreateState{{Name: "a", Phase: v1beta1.CRRSucceeded}}
}

// TestRequest: a request is filled in, makes its pod not ready, sees new containers, ends and is deleted.
func TestRequest(t *testing.T) {
	w := newWorld(t)
	err := w.Create(t.Context(), requestFor("wrong", "none"))
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "namespace default has no such pod") {
		t.Errorf("a request for no pod: %v", err)
	}
	pod := w.run("web", nil, "a")
	r := requestFor("one", "web")
	r.Spec.TTLSecondsAfterFinished = new(int32(600))
	r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: new(int64(1))}
	w.must(w.Create(t.Context(), r))
	if r.Labels[v1beta1.LabelCRRPodUID] != string(pod.UID) || r.Labels[v1beta1.LabelCRRNodeName] != "node-1" ||
		r.Spec.Containers[0].StatusContext.ContainerID != "containerd://a-0" ||
		*r.Spec.Strategy.TerminationGracePeriodSeconds != 30 {
		t.Errorf("filled in: %v %+v", r.Labels, r.Spec)
	}
	moved := r.DeepCopy()
	moved.Labels[v1beta1.LabelCRRNodeName] = "node-2"
	if err := w.Update(t.Context(), moved); !apierrors.IsForbidden(err) {
		t.Errorf("a request moves to another node: %v", err)
	}
	w.report("one", func(s *v1beta1.ContainerRecreateRequestStatus) { s.Phase = v1beta1.CRRRecreating })
	w.eventually("the pod is not ready", func(ctx context.Context) string {
		w.must(w.Get(ctx, client.ObjectKeyFromObject(pod), pod))
		c, r := podstate.Condition(pod, podready.Condition), w.request("one")
		if c == nil || c.Status != corev1.ConditionFalse || !slices.Contains(r.Finalizers, v1beta1.FinalizerCRRUnready) ||
			len(r.Status.Conditions) == 0 {
			return fmt.Sprintf("%+v %v %+v", c, r.Finalizers, r.Status)
		}
		return ""
	})
	w.start(pod, "1")
	w.eventually("the new container is seen", func(context.Context) string {
		s := w.request("one").Status.ContainerStatusSnapshot
		if len(s) != 1 || s[0].ContainerID != "containerd://a-1" {
			return fmt.Sprint(s)
		}
		return ""
	})
	w.report("one", succeed)
	w.eventually("the pod is ready again, and the request at rest", func(ctx context.Context) string {
		w.must(w.Get(ctx, client.ObjectKeyFromObject(pod), pod))
		c, r := podstate.Condition(pod, podready.Condition), w.request("one")
		if c.Status != corev1.ConditionTrue || len(r.Finalizers) > 0 || r.Labels[v1beta1.LabelCRRActive] != "" {
			return fmt.Sprintf("%+v %v %v", c, r.Finalizers, r.Labels)
		}
		return ""
	})
	version := w.request("one").ResourceVersion
	w.clock.ahead.Store(int64(time.Hour))
	if w.request("one").ResourceVersion != version {
		t.Error("it is written at rest")
	}
	w.start(pod, "2") // an event of the pod is no event of a request that has ended; that of the request is
	w.report("one", func(s *v1beta1.ContainerRecreateRequestStatus) { s.Message = "look again" })
	w.eventually("the request is deleted", func(ctx context.Context) string {
		if err := w.Get(ctx, client.ObjectKeyFromObject(r), r); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// TestRequestWithoutDaemon: no daemon answers, so the request ends after a minute.
func TestRequestWithoutDaemon(t *testing.T) {
	w := newWorld(t)
	w.run("web", nil, "a")
	w.clock.ahead.Store(int64(2 * time.Minute))
	w.must(w.Create(t.Context(), requestFor("one", "web")))
	w.eventually("the request ends", func(context.Context) string {
		s := w.request("one").Status
		if s.Phase != v1beta1.CRRCompleted || !strings.Contains(s.Message, "flotilla-node of node node-1") {
			return fmt.Sprint(s.Phase, s.Message)
		}
		return ""
	})
}

// TestTerminator: the sidecar of a job is stopped by a request, or with its pod.
func TestTerminator(t *testing.T) {
	w := newWorld(t)
	job := func(policy corev1.RestartPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = policy
			pod.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", Value: "true"}}
		}
	}
	end := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		w.must(w.Status().Update(t.Context(), pod))
	}
	never := w.run("never", job(corev1.RestartPolicyNever), "main", "side")
	retried := w.run("retried", job(corev1.RestartPolicyOnFailure), "main", "side")
	end(never)
	end(retried)
	w.eventually("a request stops the sidecar", func(ctx context.Context) string {
		r := &v1beta1.ContainerRecreateRequest{}
		key := client.ObjectKey{Namespace: "default", Name: "sidecar-termination-" + string(never.UID)}
		if err := w.Get(ctx, key, r); err != nil {
			return err.Error()
		}
		if len(r.Spec.Containers) != 1 || r.Spec.Containers[0].Name != "side" || !r.Spec.Strategy.ForceRecreate {
			return fmt.Sprintf("%+v", r.Spec)
		}
		return ""
	})
	r := &v1beta1.ContainerRecreateRequest{}
	key := client.ObjectKey{Namespace: "default", Name: "sidecar-termination-" + string(never.UID)}
	w.must(w.Get(t.Context(), key, r))
	first := r.UID
	patch := client.MergeFrom(r.DeepCopy())
	r.Status.Phase, r.Status.Message = v1beta1.CRRCompleted, "no answer"
	r.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-time.Hour)))
	w.must(w.Status().Patch(t.Context(), r, patch))
	w.eventually("a request that stopped nothing is made again, and an event says so", func(ctx context.Context) string {
		if err := w.Get(ctx, key, r); err != nil || r.UID == first {
			return fmt.Sprint(err, r.Status)
		}
		var list eventsv1.EventList
		w.must(w.List(ctx, &list, client.InNamespace("default")))
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.UID == never.UID && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, "no answer")
		}) {
			return "no event"
		}
		return ""
	})
	w.eventually("the pod ends", func(ctx context.Context) string {
		w.must(w.Get(ctx, client.ObjectKeyFromObject(retried), retried))
		if c := podstate.Condition(retried, "SidecarTerminated"); retried.Status.Phase != corev1.PodSucceeded || c == nil {
			return fmt.Sprint(retried.Status.Phase, c)
		}
		return ""
	})
}

// restartable creates a CloneSet with the pods web-0 and web-1, and returns it and a function that asks for a restart.
func (w *world) restartable() (set *v1beta1.CloneSet, restart func(at string)) {
	w.Helper()
	set = &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	set.Spec.Replicas = new(int32(2))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "i"}}
	w.must(w.Create(w.Context(), set))
	set.Status.ObservedGeneration = set.Generation
	w.must(w.Status().Update(w.Context(), set))
	for _, name := range []string{"web-0", "web-1"} {
		w.run(name, func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"app": "web"}
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1beta1.CloneSetKind)}
		}, "a")
	}
	return set, func(at string) {
		patch := client.MergeFrom(set.DeepCopy())
		set.Annotations = map[string]string{v1beta1.AnnotationRestart: fmt.Sprintf(`{"at":%q}`, at)}
		w.must(w.Patch(w.Context(), set, patch))
	}
}

// active waits until only this pod has a request that has not ended, and returns its name.
func (w *world) active(pod string) (name string) {
	w.Helper()
	w.eventually("there is a request for "+pod, func(ctx context.Context) string {
		var list v1beta1.ContainerRecreateRequestList
		w.must(w.List(ctx, &list, client.InNamespace("default")))
		active := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase != v1beta1.CRRCompleted {
				active++
				name = list.Items[i].Name
			}
		}
		if active != 1 || !strings.HasPrefix(name, pod+"-") {
			return fmt.Sprintf("%d active requests, %s", active, name)
		}
		return ""
	})
	return name
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod))
	return pod
}

// TestRestart: the annotation of a workload makes requests one after the other, and pods say that they have restarted.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	_, restart := w.restartable()
	at := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	restart(at)
	for _, pod := range []string{"web-1", "web-0"} {
		name := w.active(pod)
		if spec := w.request(name).Spec; spec.TTLSecondsAfterFinished != nil || *spec.ActiveDeadlineSeconds != 3630 {
			t.Errorf("the request has TTL %v, deadline %v", spec.TTLSecondsAfterFinished, spec.ActiveDeadlineSeconds)
		}
		if _, marked := w.pod(pod).Labels[v1beta1.LabelRestarting]; !marked {
			t.Errorf("controllers count pod %s as available while it restarts", pod)
		}
		w.report(name, succeed)
		w.eventually(pod+" says that it has restarted", func(context.Context) string {
			p := w.pod(pod)
			if _, marked := p.Labels[v1beta1.LabelRestarting]; marked || p.Annotations[v1beta1.AnnotationRestarted] != at {
				return fmt.Sprint(p.Labels, p.Annotations)
			}
			return ""
		})
	}
	w.eventually("an event says that all have restarted", func(ctx context.Context) string {
		var list eventsv1.EventList
		w.must(w.List(ctx, &list, client.InNamespace("default")))
		for i := range list.Items {
			if list.Items[i].Reason == "Restarted" {
				return ""
			}
		}
		return fmt.Sprintf("none of %d events", len(list.Items))
	})
}

// TestRestartStops: after a failure no other pod restarts, also when the failed request is gone. A new order goes on.
func TestRestartStops(t *testing.T) {
	w := newWorld(t)
	set, restart := w.restartable()
	at := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	restart(at)
	failed := w.active("web-1")
	w.report(failed, func(s *v1beta1.ContainerRecreateRequestStatus) {
		succeed(s)
		s.ContainerRecreateStates[0].Phase = v1beta1.CRRFailed
	})
	w.eventually("the restart stops", func(ctx context.Context) string {
		w.must(w.Get(ctx, client.ObjectKeyFromObject(set), set))
		_, marked := w.pod("web-1").Labels[v1beta1.LabelRestarting]
		if marked || set.Annotations[v1beta1.AnnotationRestartFailed] != at {
			return fmt.Sprint(marked, set.Annotations)
		}
		return ""
	})
	w.must(w.Delete(t.Context(), w.request(failed)))
	other := w.pod("web-0")
	patch := client.MergeFrom(other.DeepCopy())
	other.Labels[v1beta1.LabelRestarting] = "true" // as if it were to restart next
	w.must(w.Patch(t.Context(), other, patch))
	w.eventually("web-0 is let go", func(ctx context.Context) string {
		var list v1beta1.ContainerRecreateRequestList
		w.must(w.List(ctx, &list, client.InNamespace("default")))
		if len(list.Items) > 0 {
			return list.Items[0].Name
		}
		return w.pod("web-0").Labels[v1beta1.LabelRestarting]
	})
	restart(time.Now().Add(2 * time.Minute).UTC().Format(time.RFC3339))
	if name := w.active("web-1"); name == failed {
		t.Errorf("the other restart has the name of the failed request, %s", name)
	}
}
