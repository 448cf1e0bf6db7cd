package restarts

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
)

const (
	namespace, podName, podUID, node = "shop", "web", "uid-web", "node-1"
	limit                            = 30 * time.Second
)

// daemon is a node with the pod web, whose kubelet starts containers again that were stopped.
type daemon struct {
	*testing.T
	*fakecri.Server
	client client.WithWatch
	events *events.FakeRecorder
	server *server
	end    func()

	mu  sync.Mutex
	ids map[string]string // of the newest container of each name
}

func start(t *testing.T, containers ...string) *daemon {
	t.Helper()
	folder, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	d := &daemon{T: t, Server: fakecri.New(filepath.Join(folder, "cri.sock")), ids: map[string]string{},
		events: events.NewFakeRecorder(1000)}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	for _, name := range containers {
		d.ids[name] = d.AddContainer(fakecri.Container{
			Namespace: namespace, Pod: podName, UID: podUID, Name: name, Image: "web:1"})
	}
	d.OnStop(func(id string) {
		for name, newest := range d.newest() {
			if newest == id {
				d.restart(name)
			}
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName, UID: podUID},
		Status: corev1.PodStatus{PodIP: "127.0.0.1"}}
	d.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod).
		WithStatusSubresource(&v1beta1.ContainerRecreateRequest{}).Build()
	d.begin()
	return d
}

func (d *daemon) newest() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]string{}
	for name, id := range d.ids {
		out[name] = id
	}
	return out
}

// restart starts the next container of the name.
func (d *daemon) restart(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids[name] = d.Replace(d.ids[name])
}

// begin starts the daemon, also again: it remembers nothing.
func (d *daemon) begin() {
	d.Helper()
	if d.end != nil {
		d.end()
	}
	connection, err := cri.Connect(d.Context(), cri.Options{Endpoint: d.Socket()})
	if err != nil {
		d.Fatal(err)
	}
	d.server = &server{
		node: node, client: d.client, runtime: connection.RuntimeService, clock: clock.RealClock{}, log: logr.Discard(),
		stopper: &stopper{runtime: connection.RuntimeService, live: d.client, events: d.events, clock: clock.RealClock{}},
		pods:    map[types.UID]*memory{}, ended: make(chan event.GenericEvent),
	}
	ctx, cancel := context.WithCancel(d.Context())
	served := make(chan struct{})
	server := d.server
	go func() {
		defer close(served)
		_ = server.run(ctx)
	}()
	d.end = func() { cancel(); <-served; _ = connection.Close(context.Background()) }
	d.Cleanup(func() { d.end() })
}

// create adds a request for containers as they are now.
func (d *daemon) create(name string, containers []string, changes ...func(*v1beta1.ContainerRecreateRequest)) {
	d.Helper()
	request := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{
			v1beta1.LabelCRRPodUID: podUID, v1beta1.LabelCRRNodeName: node, v1beta1.LabelCRRActive: "true"}},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: podName, Strategy: &v1beta1.ContainerRecreateRequestStrategy{
			FailurePolicy: v1beta1.CRRFail, TerminationGracePeriodSeconds: new(int64(10))}},
	}
	newest := d.newest()
	for _, c := range containers {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: c,
			StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://" + newest[c]}})
	}
	for _, change := range changes {
		change(request)
	}
	if err := d.client.Create(d.Context(), request); err != nil {
		d.Fatal(err)
	}
}

func (d *daemon) get(name string) *v1beta1.ContainerRecreateRequest {
	d.Helper()
	request := &v1beta1.ContainerRecreateRequest{}
	if err := d.client.Get(d.Context(), types.NamespacedName{Namespace: namespace, Name: name}, request); err != nil {
		d.Fatal(err)
	}
	return request
}

// snapshot plays the agent: all running containers are ready.
func (d *daemon) snapshot() {
	d.Helper()
	var list v1beta1.ContainerRecreateRequestList
	if err := d.client.List(d.Context(), &list); err != nil {
		d.Fatal(err)
	}
	for i := range list.Items {
		request := &list.Items[i]
		if request.Status.Phase != v1beta1.CRRRecreating {
			continue
		}
		request.Status.ContainerStatusSnapshot = nil
		for name, id := range d.newest() {
			request.Status.ContainerStatusSnapshot = append(request.Status.ContainerStatusSnapshot,
				v1beta1.ContainerStatusSnapshot{Name: name, Ready: d.Running(id), ContainerID: "containerd://" + id})
		}
		_ = d.client.Status().Update(d.Context(), request) // a conflict passes
	}
}

// until makes passes until done is true.
func (d *daemon) until(what string, done func() bool) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		// Errors, as conflicts, are retried.
		_, err := d.server.Reconcile(ctx, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: namespace, Name: podUID}})
		if done() {
			return
		}
		d.snapshot()
		select {
		case <-ctx.Done():
			d.Fatalf("%s: last error %v", what, err)
		case <-d.server.ended:
		case <-ticker.C:
		}
	}
}

func (d *daemon) completed(name string) func() bool {
	return func() bool { return d.get(name).Status.Phase == v1beta1.CRRCompleted }
}

// stops returns the IDs that the runtime was asked to stop.
func (d *daemon) stops() []string {
	var ids []string
	for _, call := range d.Calls("StopContainer") {
		if r, ok := call.Request.(*runtimeapi.StopContainerRequest); ok {
			ids = append(ids, r.ContainerId)
		}
	}
	return ids
}

func (d *daemon) expect(name, want string) {
	d.Helper()
	status := d.get(name).Status
	got := string(status.Phase)
	for _, s := range status.ContainerRecreateStates {
		got += fmt.Sprintf(" %s=%s", s.Name, s.Phase)
		if s.IsKilled {
			got += "(killed)"
		}
	}
	if got != want {
		d.Errorf("%s is %s (%s), want %s", name, got, status.Message, want)
	}
}

func (d *daemon) expectStops(want ...string) {
	d.Helper()
	if got := d.stops(); !slices.Equal(got, want) {
		d.Errorf("stopped %v, want %v", got, want)
	}
}

func hook(handler v1beta1.ContainerRecreateRequestHandler) func(*v1beta1.ContainerRecreateRequest) {
	return func(r *v1beta1.ContainerRecreateRequest) { r.Spec.Containers[0].PreStop = &handler }
}

func grace(seconds int64) func(*v1beta1.ContainerRecreateRequest) {
	return func(r *v1beta1.ContainerRecreateRequest) { r.Spec.Strategy.TerminationGracePeriodSeconds = &seconds }
}

func TestRestartsContainersOfAPod(t *testing.T) {
	d := start(t, "a", "b")
	before := d.newest()
	d.create("one", []string{"a", "b"})
	d.until("the request ends", d.completed("one"))
	d.expect("one", "Completed a=Succeeded(killed) b=Succeeded(killed)")
	d.expectStops(before["a"], before["b"])
	if got := d.get("one").Status; got.CompletionTime == nil || got.Message != "" {
		t.Errorf("completed at %v: %s", got.CompletionTime, got.Message)
	}
	if event := <-d.events.Events; !strings.HasPrefix(event, "Normal Killing Stopping container a") {
		t.Errorf("event %q", event)
	}
}

func TestRunsTheHookBeforeTheStop(t *testing.T) {
	d := start(t, "a")
	id := d.newest()["a"]
	d.OnExec(func(_ context.Context, container string, command []string) fakecri.ExecResult {
		if container != id || !slices.Equal(command, []string{"drain"}) || len(d.stops()) > 0 {
			t.Errorf("ran %v in %s after %v", command, container, d.stops())
		}
		return fakecri.ExecResult{}
	})
	d.create("one", []string{"a"}, hook(v1beta1.ContainerRecreateRequestHandler{
		Exec: &corev1.ExecAction{Command: []string{"drain"}}}))
	d.until("the request ends", d.completed("one"))
	d.expectStops(id)
	if calls := d.Calls("ExecSync"); len(calls) != 1 {
		t.Errorf("%d hooks ran", len(calls))
	}
}

func TestAHookThatSleepsEndsWithTheGracePeriod(t *testing.T) {
	d := start(t, "a")
	d.create("one", []string{"a"}, grace(1), hook(v1beta1.ContainerRecreateRequestHandler{
		Sleep: &corev1.SleepAction{Seconds: 1000}}))
	begun := time.Now()
	d.until("the request ends", d.completed("one"))
	if took := time.Since(begun); took < time.Second {
		t.Errorf("stopped after %s", took)
	}
}

func TestAHookThatFailsDoesNotKeepTheContainer(t *testing.T) {
	for name, run := range map[string]fakecri.ExecFunc{
		"exit code": func(context.Context, string, []string) fakecri.ExecResult { return fakecri.ExecResult{ExitCode: 3} },
		"refused": func(context.Context, string, []string) fakecri.ExecResult {
			return fakecri.ExecResult{Code: codes.Internal, Message: "no such file"}
		},
		"never ends": func(ctx context.Context, _ string, _ []string) fakecri.ExecResult {
			<-ctx.Done()
			return fakecri.ExecResult{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, "a")
			id := d.newest()["a"]
			d.OnExec(run)
			d.create("one", []string{"a"}, grace(1), hook(v1beta1.ContainerRecreateRequestHandler{
				Exec: &corev1.ExecAction{Command: []string{"drain"}}}))
			d.until("the request ends", d.completed("one"))
			d.expect("one", "Completed a=Succeeded(killed)")
			d.expectStops(id)
			request, _ := d.Calls("StopContainer")[0].Request.(*runtimeapi.StopContainerRequest)
			if request.GetTimeout() != 2 {
				t.Errorf("the container had %d s to stop after its hook", request.GetTimeout())
			}
			<-d.events.Events
			if event := <-d.events.Events; !strings.HasPrefix(event, "Warning FailedPreStopHook") {
				t.Errorf("event %q", event)
			}
		})
	}
}

func TestHookOverHTTP(t *testing.T) {
	asked := make(chan *http.Request, 1)
	pod := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r }))
	t.Cleanup(pod.Close)
	_, text, _ := strings.Cut(strings.TrimPrefix(pod.URL, "https://"), ":")
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, "a")
	action := &corev1.HTTPGetAction{Path: "/drain?now=1", Port: intstr.FromString("admin"), Scheme: corev1.URISchemeHTTPS,
		HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Why", Value: "restart"}, {Name: "host", Value: "web.shop"}}}
	d.create("one", []string{"a"}, hook(v1beta1.ContainerRecreateRequestHandler{HTTPGet: action}),
		func(r *v1beta1.ContainerRecreateRequest) {
			r.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "admin", ContainerPort: int32(port)}}
		})
	d.until("the request ends", d.completed("one"))
	r := <-asked
	if r.URL.String() != "/drain?now=1" || r.Header.Get("X-Why") != "restart" || r.Host != "web.shop" {
		t.Errorf("asked %s of %s with %v", r.URL, r.Host, r.Header)
	}
}

func TestHookAsksNoOtherHost(t *testing.T) {
	d := start(t, "a")
	d.create("one", []string{"a"}, hook(v1beta1.ContainerRecreateRequestHandler{
		HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}))
	d.until("the request ends", d.completed("one"))
	<-d.events.Events
	if event := <-d.events.Events; !strings.Contains(event, "169.254.169.254 is not the address of the pod") {
		t.Errorf("event %q", event)
	}
}

func TestTwoRequestsOnOnePodAreServedOneAfterTheOther(t *testing.T) {
	d := start(t, "a", "b")
	before := d.newest()
	release := make(chan struct{})
	d.Script("StopContainer", fakecri.Answer{Wait: release})
	d.create("one", []string{"a"})
	d.create("two", []string{"a", "b"})
	d.until("the second one waits", func() bool { return d.get("two").Status.Phase == v1beta1.CRRPending })
	close(release)
	d.until("both end", func() bool { return d.completed("one")() && d.completed("two")() })
	d.expect("one", "Completed a=Succeeded(killed)")
	d.expect("two", "Completed a=Succeeded b=Succeeded(killed)")
	d.expectStops(before["a"], before["b"])
}

func TestARefusedStopFailsTheRequest(t *testing.T) {
	d := start(t, "a", "b")
	d.Always("StopContainer", fakecri.Answer{Code: codes.Internal, Message: "cannot signal"})
	d.create("one", []string{"a", "b"})
	d.until("the request ends", d.completed("one"))
	d.expect("one", "Completed a=Failed b=Pending")
	if message := d.get("one").Status.Message; !strings.Contains(message, "kill container error: cannot signal") {
		t.Errorf("it says %q", message)
	}
	if len(d.stops()) != 1 {
		t.Errorf("asked %d times", len(d.stops()))
	}
}

func TestAContainerThatRestartedMeanwhileIsNotStopped(t *testing.T) {
	d := start(t, "a")
	d.create("one", []string{"a"})
	d.restart("a")
	d.until("the request ends", d.completed("one"))
	d.expect("one", "Completed a=Succeeded")
	d.expectStops()
}

func TestTheRuntimeRestartsInTheMiddleOfAStop(t *testing.T) {
	for name, after := range map[string]bool{"before the container stopped": false, "after it stopped": true} {
		t.Run(name, func(t *testing.T) {
			d := start(t, "a")
			before := d.newest()
			d.Script("StopContainer", fakecri.Answer{Stuck: true, After: after})
			d.create("one", []string{"a"})
			d.until("the stop begins", func() bool { return len(d.stops()) == 1 })
			d.Stop()
			if err := d.Start(); err != nil {
				t.Fatal(err)
			}
			d.until("the request ends", d.completed("one"))
			d.expect("one", "Completed a=Succeeded(killed)")
			for _, id := range d.stops() {
				if id != before["a"] {
					t.Errorf("stopped %s", id)
				}
			}
		})
	}
}

func TestTheDaemonRestartsInTheMiddleOfAStop(t *testing.T) {
	for name, after := range map[string]bool{"before the container stopped": false, "after it stopped": true} {
		for _, force := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, forced %t", name, force), func(t *testing.T) {
				d := start(t, "a")
				before := d.newest()
				d.Script("StopContainer", fakecri.Answer{Stuck: true, After: after})
				d.create("one", []string{"a"}, func(r *v1beta1.ContainerRecreateRequest) {
					r.Spec.Strategy.ForceRecreate = force
				})
				d.until("the stop begins", func() bool { return len(d.stops()) == 1 })
				d.begin()
				d.until("the request ends", d.completed("one"))
				d.expect("one", "Completed a=Succeeded(killed)")
				for _, id := range d.stops() {
					if id != before["a"] {
						t.Errorf("stopped %s", id)
					}
				}
			})
		}
	}
}

func TestAStopThatEndsAfterItsRequestIsReported(t *testing.T) {
	d := start(t, "a")
	release := make(chan struct{})
	d.Script("StopContainer", fakecri.Answer{Wait: release})
	d.create("one", []string{"a"})
	d.until("the stop begins", func() bool { return len(d.stops()) == 1 })
	request := d.get("one")
	request.Status.Phase = v1beta1.CRRCompleted
	request.Status.ContainerRecreateStates[0].Phase = v1beta1.CRRFailed
	if err := d.client.Status().Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	close(release)
	d.until("the stop is reported", func() bool { return d.get("one").Status.ContainerRecreateStates[0].IsKilled })
	d.expect("one", "Completed a=Failed(killed)")
	d.until("nothing is remembered", func() bool { return len(d.server.pods) == 0 })
}

func TestThePodOfAnotherNamespaceIsNotTouched(t *testing.T) {
	d := start(t, "a")
	d.create("one", []string{"a"})
	request := d.get("one")
	other := request.DeepCopy()
	other.Namespace, other.Name, other.ResourceVersion = "other", "forged", ""
	if err := d.client.Delete(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := d.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := d.server.Reconcile(t.Context(), reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: "other", Name: podUID}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Fatal(err)
	}
	d.expectStops()
	if got := other.Status.ContainerRecreateStates[0].Phase; got != v1beta1.CRRPending {
		t.Errorf("its container is %s", got)
	}
}

func TestMinStartedSecondsCountFromTheStart(t *testing.T) {
	d := start(t, "a")
	d.create("one", []string{"a"}, func(r *v1beta1.ContainerRecreateRequest) { r.Spec.Strategy.MinStartedSeconds = 1 })
	d.until("the request ends", d.completed("one"))
	stopped := d.Calls("StopContainer")[0].At
	if got := d.get("one").Status.CompletionTime.Sub(stopped); got < -time.Second || time.Since(stopped) < time.Second {
		t.Errorf("completed %s after the stop", got)
	}
}
