package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
)

// reading returns an environment that reads a label.
func reading(name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + key + "']"}}}
}

// newPod returns a pod that can be updated in place, with a container that reads the label version.
func newPod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u",
		Labels: map[string]string{"version": "1"}, Annotations: map[string]string{}}}
	pod.Spec.NodeName = "a"
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: v1beta1.InPlaceUpdateReady}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Env: []corev1.EnvVar{reading("VERSION", "version")}},
		{Name: "other"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: v1beta1.InPlaceUpdateReady, Status: corev1.ConditionTrue}}
	return pod
}

// update makes the pod one in the middle of an update in place that changed the label.
func update(pod *corev1.Pod) {
	pod.Labels["version"] = "2"
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotationState] = `{"revision":"r","updateEnvFromMetadata":true}`
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
}

func withContainer(pod *corev1.Pod, id string) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://" + id,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func TestPlan(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		env    map[string]string // nil: not known
		want   string
	}{
		"as it is to be":         {func(*corev1.Pod) {}, map[string]string{"VERSION": "1"}, "reported"},
		"an update":              {update, map[string]string{"VERSION": "1"}, "reported restart main"},
		"an update that arrived": {update, map[string]string{"VERSION": "2"}, "reported"},
		"a label that was changed": {func(pod *corev1.Pod) { pod.Labels["version"] = "2" },
			map[string]string{"VERSION": "1"}, "reported"},
		"an update of images": {func(pod *corev1.Pod) {
			update(pod)
			pod.Annotations[annotationState] = `{"updateImages":true}`
		}, map[string]string{"VERSION": "1"}, "reported"},
		"a label that was removed": {func(pod *corev1.Pod) {
			update(pod)
			delete(pod.Labels, "version")
		}, map[string]string{"VERSION": ""}, "reported"},
		"a variable that is set later": {func(pod *corev1.Pod) {
			update(pod)
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "VERSION", Value: "x"},
				reading("OTHER", "other"))
		}, map[string]string{"VERSION": "x"}, "reported"},
		"not known":       {update, nil, ""},
		"it does not run": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }, nil, ""},
		"it has no record": {func(pod *corev1.Pod) { update(pod); delete(pod.Annotations, annotationState) },
			map[string]string{"VERSION": "1"}, "reported"},
		"a record of others": {func(pod *corev1.Pod) { update(pod); pod.Annotations[annotationState] = "{" },
			map[string]string{"VERSION": "1"}, "reported"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, known := newPod(), map[string]created{}
			withContainer(pod, "c1")
			row.change(pod)
			if row.env != nil {
				known["c1"] = created{env: row.env, hash: 7}
			}
			annotation, restart, err := plan(pod, known)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if annotation != "" {
				got = "reported"
			}
			if len(restart) > 0 {
				got += " restart " + strings.Join(restart, ",")
			}
			if got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

func TestCares(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"yes":         {func(*corev1.Pod) {}, true},
		"no gate":     {func(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }, false},
		"no variable": {func(pod *corev1.Pod) { pod.Spec.Containers[0].Env = nil }, false},
		"another path": {func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "metadata.name"
		}, false},
		"ended": {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, false},
	} {
		pod := newPod()
		row.change(pod)
		if cares(pod) != row.want {
			t.Errorf("%s: %t", name, !row.want)
		}
	}
}

// node is a node with a scripted runtime.
type node struct {
	*testing.T
	*fakecri.Server
	client client.Client
	events *events.FakeRecorder
	env    nodedaemon.Env
	clock  *shifted
	r      *reconciler
}

// shifted is a clock that the test puts forward.
type shifted struct {
	clock.RealClock
	by time.Duration
}

func (s *shifted) Now() time.Time { return s.RealClock.Now().Add(s.by) }

func (s *shifted) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

func newNode(t *testing.T, pod *corev1.Pod) *node {
	t.Helper()
	klog.SetLogger(logr.Discard()) // the client of the runtime logs every failed call
	folder, err := os.MkdirTemp("", "meta")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	n := &node{T: t, Server: fakecri.New(filepath.Join(folder, "cri.sock")), events: events.NewFakeRecorder(100),
		clock: &shifted{}}
	if err := n.Server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Server.Stop)
	connection, err := cri.Connect(t.Context(), cri.Options{Endpoint: n.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close(context.WithoutCancel(t.Context())) })
	// An API server takes annotations on the status of pods; the fake one does not.
	n.client = fake.NewClientBuilder().WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption,
	) error {
		return c.Patch(ctx, o, p)
	}}).Build()
	n.env = nodedaemon.Env{Node: "a", Client: n.client, Live: n.client, Runtime: connection.RuntimeService,
		Clock: n.clock, Log: logr.Discard(), Events: n.events}
	n.begin()
	return n
}

// begin starts a daemon, also again: it remembers nothing.
func (n *node) begin() {
	n.Helper()
	n.r = newReconciler(n.env)
	n.r.stops = n.Context()
	go func(ended <-chan event.GenericEvent) {
		for {
			select {
			case <-ended:
			case <-n.Context().Done():
				return
			}
		}
	}(n.r.ended)
}

// starts adds a container with this version in its environment, as a kubelet does.
func (n *node) starts(version string) string {
	n.Helper()
	info, err := json.Marshal(map[string]any{"runtimeSpec": map[string]any{"process": map[string]any{
		"env": []string{"PATH=/bin", "VERSION=" + version}}}})
	if err != nil {
		n.Fatal(err)
	}
	return n.AddContainer(fakecri.Container{Namespace: "shop", Pod: "web", UID: "u", Name: "main", Image: "web:1",
		Annotations: map[string]string{annotationHash: "ff"}, Info: map[string]string{"info": string(info)}})
}

// look has the daemon look at the pod once, after a change of it, and waits for stops that begin.
func (n *node) look(change func(*corev1.Pod)) error {
	n.Helper()
	request := n.change(change)
	err := n.reconcile(n.Context(), request)
	n.r.running.Wait()
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	return errors.Join(err, n.r.failed[request.NamespacedName])
}

// reconcile runs a pass, and the one for which it asks later.
func (n *node) reconcile(ctx context.Context, request ctrl.Request) error {
	n.Helper()
	result, err := n.r.Reconcile(ctx, request)
	if err != nil || result.RequeueAfter == 0 {
		return err
	}
	n.clock.by += result.RequeueAfter
	_, err = n.r.Reconcile(ctx, request)
	return err
}

// change changes the pod, and returns the request of the pass that follows.
func (n *node) change(change func(*corev1.Pod)) ctrl.Request {
	n.Helper()
	pod := n.pod()
	change(pod)
	status := pod.DeepCopy()
	if err := n.client.Update(n.Context(), pod); err != nil {
		n.Fatal(err)
	}
	status.ResourceVersion = pod.ResourceVersion
	if err := n.client.Status().Update(n.Context(), status); err != nil {
		n.Fatal(err)
	}
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
}

func (n *node) pod() *corev1.Pod {
	n.Helper()
	pod := &corev1.Pod{}
	if err := n.client.Get(n.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, pod); err != nil {
		n.Fatal(err)
	}
	return pod
}

func same(*corev1.Pod) {}

func TestContainerSeesChangedLabels(t *testing.T) {
	pod := newPod()
	pod.Spec.TerminationGracePeriodSeconds = new(int64(7))
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
	n := newNode(t, pod)
	first := n.starts("1")
	if err := n.look(func(pod *corev1.Pod) { withContainer(pod, first) }); err != nil {
		t.Fatal(err)
	}
	var meta containersMeta
	err := json.Unmarshal([]byte(n.pod().Annotations[annotationMeta]), &meta)
	if err != nil || len(meta.Containers) != 1 ||
		meta.Containers[0].ContainerID != "containerd://"+first || meta.Containers[0].Hashes.PlainHash != 0xff {
		t.Fatalf("%+v (%v)", meta, err)
	}
	for range 3 {
		if err := n.look(update); err != nil {
			t.Fatal(err)
		}
	}
	stops := n.Calls("StopContainer")
	if len(stops) != 1 || n.Running(first) {
		t.Fatalf("%d stops, runs %t", len(stops), n.Running(first))
	}
	if stop := stops[0].Request.(*runtimeapi.StopContainerRequest); stop.ContainerId != first || stop.Timeout < 5 ||
		stop.Timeout > 7 {
		t.Errorf("stopped by %v", stop)
	}
	if ran := n.Calls("ExecSync"); len(ran) != 1 || ran[0].Request.(*runtimeapi.ExecSyncRequest).Cmd[0] != "drain" {
		t.Errorf("ran %v: the hook alone runs in the container", ran)
	}
	second := n.starts("2")
	if err := n.look(func(pod *corev1.Pod) { withContainer(pod, second) }); err != nil {
		t.Fatal(err)
	}
	if !n.Running(second) || !strings.Contains(n.pod().Annotations[annotationMeta], second) {
		t.Errorf("the next container was stopped, or is not reported: %s", n.pod().Annotations[annotationMeta])
	}
	before := len(n.Calls(""))
	if err := n.look(same); err != nil {
		t.Fatal(err)
	}
	if calls := len(n.Calls("")) - before; calls > 0 {
		t.Errorf("%d calls at rest", calls)
	}
	if told := <-n.events.Events; !strings.Contains(told, "Killing Stopping container main") {
		t.Error(told)
	}
}

// TestContainersWaitForTheKubelet: no container is stopped before a change has been known for a while, and the wait
// begins again with another change.
func TestContainersWaitForTheKubelet(t *testing.T) {
	n := newNode(t, newPod())
	first := n.starts("1")
	request := n.change(func(pod *corev1.Pod) { withContainer(pod, first); update(pod) })
	pass := func(want time.Duration) {
		t.Helper()
		result, err := n.r.Reconcile(t.Context(), request)
		n.r.running.Wait()
		if err != nil || result.RequeueAfter > want || want > 0 && result.RequeueAfter < want-time.Second/2 {
			t.Fatalf("again after %s, want %s (%v)", result.RequeueAfter, want, err)
		}
	}
	pass(settle)
	n.clock.by += settle / 2
	pass(settle / 2)
	n.change(func(pod *corev1.Pod) { pod.Labels["version"] = "3" })
	pass(settle)
	if !n.Running(first) {
		t.Fatal("the container was stopped")
	}
	n.clock.by += settle
	pass(0)
	if n.Running(first) {
		t.Error("the container runs on")
	}
}

// TestDaemonEndsInTheMiddle: the next daemon goes on, and stops no container that has started since.
func TestDaemonEndsInTheMiddle(t *testing.T) {
	pod := newPod()
	n := newNode(t, pod)
	first := n.starts("1")
	n.Script("StopContainer", fakecri.Answer{After: true, Code: codes.Unavailable, Message: "gone"})
	if err := n.look(func(pod *corev1.Pod) { withContainer(pod, first); update(pod) }); err == nil {
		t.Error("a lost answer is no error")
	}
	n.begin()
	if err := n.look(same); err != nil || n.Running(first) {
		t.Errorf("%v, runs %t", err, n.Running(first))
	}
	second := n.starts("2")
	n.begin()
	if err := n.look(func(pod *corev1.Pod) { withContainer(pod, second) }); err != nil || !n.Running(second) {
		t.Errorf("%v, runs %t", err, n.Running(second))
	}
}

// TestRuntimeThatDoesNotTell: without the environment nothing is reported and nothing restarted, so that the agent does
// not count on it.
func TestRuntimeThatDoesNotTell(t *testing.T) {
	n := newNode(t, newPod())
	id := n.AddContainer(fakecri.Container{Namespace: "shop", Pod: "web", UID: "u", Name: "main", Image: "web:1"})
	if err := n.look(func(pod *corev1.Pod) { withContainer(pod, id); update(pod) }); err != nil || !n.Running(id) {
		t.Fatalf("%v, runs %t", err, n.Running(id))
	}
	if _, there := n.pod().Annotations[annotationMeta]; there {
		t.Error("the pod has the annotation")
	}
	n.Server.Stop()
	if err := n.look(same); err == nil {
		t.Error("a runtime that does not answer is no error, so that it is not asked again")
	}
}

func TestHookThatHangsEndsWithTheGracePeriod(t *testing.T) {
	pod := newPod()
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"stuck"}}}}
	n := newNode(t, pod)
	n.OnExec(func(ctx context.Context, _ string, _ []string) fakecri.ExecResult {
		<-ctx.Done()
		return fakecri.ExecResult{}
	})
	id := n.starts("1")
	begun := time.Now()
	if err := n.look(func(pod *corev1.Pod) { withContainer(pod, id); update(pod) }); err != nil || n.Running(id) {
		t.Fatalf("%v, runs %t", err, n.Running(id))
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	told := fmt.Sprint(<-n.events.Events, <-n.events.Events)
	if !strings.Contains(told, "FailedPreStopHook") {
		t.Error(told)
	}
}

// TestStopThatFails: it is tried again, without the hook, and not for a container that has ended.
func TestStopThatFails(t *testing.T) {
	for name, ends := range map[string]bool{"it runs on": false, "it ends meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			pod := newPod()
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
			n := newNode(t, pod)
			id := n.starts("1")
			n.Script("StopContainer", fakecri.Answer{Code: codes.Internal, Message: "cannot signal"})
			if err := n.look(func(pod *corev1.Pod) { withContainer(pod, id); update(pod) }); err == nil {
				t.Fatal("a stop that failed is no error")
			}
			if ends {
				n.Exit(id, 1)
			}
			if err := n.look(same); err == nil || len(n.Calls("StopContainer")) != 1 {
				t.Fatalf("%v: the failure is not returned once, so that the next try waits", err)
			}
			if err := n.look(same); err != nil || n.Running(id) {
				t.Fatalf("%v, runs %t", err, n.Running(id))
			}
			if stops, hooks := len(n.Calls("StopContainer")), len(n.Calls("ExecSync")); hooks != 1 || ends != (stops == 1) {
				t.Errorf("%d hooks and %d stops", hooks, stops)
			}
		})
	}
}

// TestSlowStopsHoldNoOtherPodUp: a pass does not wait for them.
func TestSlowStopsHoldNoOtherPodUp(t *testing.T) {
	n := newNode(t, newPod())
	id := n.starts("1")
	wait := make(chan struct{})
	n.Script("StopContainer", fakecri.Answer{Wait: wait})
	request := n.change(func(pod *corev1.Pod) { withContainer(pod, id); update(pod) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 {
		if err := n.reconcile(ctx, request); err != nil || ctx.Err() != nil {
			t.Fatalf("%v: the pass waits for the stop", errors.Join(err, ctx.Err()))
		}
	}
	if _, err := n.WaitForCalls(ctx, "StopContainer", 1); err != nil {
		t.Fatal(err)
	}
	close(wait)
	n.r.running.Wait()
	if stops := len(n.Calls("StopContainer")); stops != 1 || n.Running(id) {
		t.Errorf("%d stops, runs %t", stops, n.Running(id))
	}
}
