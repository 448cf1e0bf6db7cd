package podprobemarker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/podprobemarker"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// world is one namespace and node of a cluster with the controllers running in it. The test plays the node daemon.
type world struct {
	*testing.T
	client.Client
	writes          *atomic.Int64
	refuses         *atomic.Bool // writes to the status of pods
	namespace, node string
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// forbidden is the answer of an API server that refuses a request.
func forbidden(request *http.Request) (*http.Response, error) {
	status := apierrors.NewForbidden(corev1.Resource("pods"), "db-0", errors.New("policy marks")).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(&status)
	return &http.Response{StatusCode: http.StatusForbidden, Request: request, Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}}}, err
}

// TestOnAServer runs every scenario on one API server, each in a namespace and on a node of its own.
func TestOnAServer(t *testing.T) {
	config := apiserver.ForTest(t, "podprobemarkers.apps.kruise.io", "nodepodprobes.apps.kruise.io")
	config.QPS = -1
	writes, refuses := &atomic.Int64{}, &atomic.Bool{}
	own := rest.CopyConfig(config)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/events") {
				writes.Add(1)
			}
			if refuses.Load() && strings.Contains(request.URL.Path, "/pods/") && request.Method == http.MethodPatch {
				return forbidden(request)
			}
			return next.RoundTrip(request)
		})
	})
	apiserver.Run(t, own, func(ctx context.Context, mgr ctrl.Manager) error {
		return podprobemarker.Add(ctx, &workload.Env{Manager: mgr})
	})
	c, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i, scenario := range []struct {
		name string
		run  func(*world)
	}{
		{"marks pods by their results, and takes the marks back", roles},
		{"leaves the probes of another marker alone", neighbours},
		{"follows the address of a pod, and pods that go", addresses},
		{"says what is in the way", obstacles},
		{"leaves the finalizer of OpenKruise behind", released},
		{"says which marks are refused", refused},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			w := &world{T: t, Client: c, writes: writes, refuses: refuses,
				namespace: fmt.Sprintf("shop-%d", i), node: fmt.Sprintf("node-%d", i)}
			w.must(w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
			w.must(w.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}}))
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

// pod creates a running pod.
func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name,
		Labels: map[string]string{"app": "db"}}}
	pod.Spec.NodeName = w.node
	pod.Spec.Containers = []corev1.Container{{Name: "db", Image: "db:1",
		Ports: []corev1.ContainerPort{{Name: "sql", ContainerPort: 5432}}}}
	w.must(w.Create(w.Context(), pod))
	w.run(pod, "10.0.0.1")
	return pod
}

func (w *world) run(pod *corev1.Pod, address string) {
	w.Helper()
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(pod), pod))
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db", Image: "db:1",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	w.must(w.Status().Update(w.Context(), pod))
}

// marker creates a PodProbeMarker with one probe, leader.
func (w *world) marker(
	name string, port intstr.IntOrString, changes ...func(*v1alpha1.PodProbeMarker),
) *v1alpha1.PodProbeMarker {
	w.Helper()
	m := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	m.Spec.Probes = []v1alpha1.PodContainerProbe{{Name: "leader", ContainerName: "db",
		PodConditionType: "example.org/" + name,
		MarkerPolicy: []v1alpha1.ProbeMarkerPolicy{
			{State: "Succeeded", Labels: map[string]string{name: "leader"}},
			{State: "Failed", Labels: map[string]string{name: "follower"}, Annotations: map[string]string{"cost": "-1"}},
		}}}
	m.Spec.Probes[0].Probe.TCPSocket = &corev1.TCPSocketAction{Port: port}
	for _, change := range changes {
		change(m)
	}
	w.must(w.Create(w.Context(), m))
	return m
}

// answer writes as the daemon the state of each probe of a pod.
func (w *world) answer(pod *corev1.Pod, state v1alpha1.ProbeState, message string) {
	w.Helper()
	apiserver.Eventually(w, limit, "the probes of "+pod.Name, func() string {
		object := &v1alpha1.NodePodProbe{}
		if err := w.Get(w.Context(), client.ObjectKey{Name: w.node}, object); err != nil {
			return err.Error()
		}
		status := v1alpha1.PodProbeStatus{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
		for _, entry := range object.Spec.PodProbes {
			for _, probe := range entry.Probes {
				if entry.UID == pod.UID {
					status.ProbeStates = append(status.ProbeStates, v1alpha1.ContainerProbeState{Name: probe.Name, State: state,
						Message: message, LastProbeTime: metav1.Now(), LastTransitionTime: metav1.Now()})
				}
			}
		}
		if len(status.ProbeStates) == 0 {
			return fmt.Sprintf("none in %+v", object.Spec)
		}
		object.Status.PodProbeStatuses = []v1alpha1.PodProbeStatus{status}
		if err := w.Status().Update(w.Context(), object); err != nil {
			return err.Error()
		}
		return ""
	})
}

// expectProbes waits until the NodePodProbe has these probes, as pod@IP probe:port.
func (w *world) expectProbes(want string) {
	w.Helper()
	apiserver.Eventually(w, limit, "the NodePodProbe", func() string {
		object := &v1alpha1.NodePodProbe{}
		if err := w.Get(w.Context(), client.ObjectKey{Name: w.node}, object); err != nil {
			return err.Error()
		}
		var got []string
		for _, entry := range object.Spec.PodProbes {
			text := entry.Name + "@" + entry.IP
			for _, probe := range entry.Probes {
				text += " " + probe.Name + ":" + probe.Probe.TCPSocket.Port.String()
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != want || len(object.OwnerReferences) != 1 {
			return fmt.Sprintf("%q, owners %v; want %q", text, object.OwnerReferences, want)
		}
		return ""
	})
}

// expectMarks waits until the pod has these values of the label and the annotation, and this status of the condition.
func (w *world) expectMarks(pod *corev1.Pod, marker, label, cost, condition string) {
	w.Helper()
	apiserver.Eventually(w, limit, "the marks of "+pod.Name, func() string {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		status := ""
		for _, c := range pod.Status.Conditions {
			if string(c.Type) == "example.org/"+marker {
				status = string(c.Status) + " " + c.Message
			}
		}
		if pod.Labels[marker] != label || pod.Annotations["cost"] != cost || status != condition {
			return fmt.Sprintf("%v, %v, %q; want %s, %s, %q", pod.Labels, pod.Annotations, status, label, cost, condition)
		}
		return ""
	})
}

// expectStatus waits until the marker has so many pods and this condition Ready.
func (w *world) expectStatus(name string, pods int64, ready string) {
	w.Helper()
	apiserver.Eventually(w, limit, "the status of "+name, func() string {
		m := &v1alpha1.PodProbeMarker{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, m); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(m.Status.Conditions, "Ready")
		if c == nil || m.Status.MatchedPods != pods ||
			!strings.Contains(fmt.Sprint(c.Status, " ", c.Reason, ": ", c.Message), ready) {
			return fmt.Sprintf("%+v; want %d, %s", m.Status, pods, ready)
		}
		return ""
	})
}

func roles(w *world) {
	pod := w.pod("db-0")
	m := w.marker("role", intstr.FromString("sql"))
	w.expectProbes("db-0@10.0.0.1 role#leader:5432")
	w.expectStatus("role", 1, "False AwaitingResults: 0 of 1 pods have results; results of node "+w.node)
	w.answer(pod, v1alpha1.ProbeSucceeded, "yes")
	w.expectMarks(pod, "role", "leader", "", "True yes")
	w.expectStatus("role", 1, "True Probed")
	w.answer(pod, v1alpha1.ProbeFailed, "no")
	w.expectMarks(pod, "role", "follower", "-1", "False no")
	w.answer(pod, v1alpha1.ProbeUnknown, "connection refused")
	w.expectMarks(pod, "role", "follower", "-1", "Unknown connection refused")
	w.expectStatus("role", 1, "False ProbeUnreachable: probes do not reach pod db-0")

	w.answer(pod, v1alpha1.ProbeSucceeded, "yes")
	w.expectMarks(pod, "role", "leader", "", "True yes")
	w.expectStatus("role", 1, "True Probed")
	// The same results once more are written by the daemon alone.
	before := w.writes.Load()
	w.answer(pod, v1alpha1.ProbeSucceeded, "yes")
	w.must(w.Patch(w.Context(), pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"look":"again"}}}`))))
	w.expectStatus("role", 1, "True Probed")
	w.expectMarks(pod, "role", "leader", "", "True yes")
	if n := w.writes.Load() - before; n > 0 {
		w.Errorf("%d writes for results that changed nothing", n)
	}

	w.must(w.Delete(w.Context(), m))
	w.expectMarks(pod, "role", "", "", "")
	if _, there := pod.Annotations[v1alpha1.AnnotationProbeMarks]; there {
		w.Errorf("the record is left: %v", pod.Annotations)
	}
	w.expectProbes("")
}

// neighbours has two markers, one with the name of the other one in its own.
func neighbours(w *world) {
	pod := w.pod("db-0")
	other := w.marker("my-role", intstr.FromInt32(81))
	w.marker("role", intstr.FromInt32(80))
	w.expectProbes("db-0@10.0.0.1 my-role#leader:81 role#leader:80")
	w.answer(pod, v1alpha1.ProbeSucceeded, "yes")
	w.expectMarks(pod, "my-role", "leader", "", "True yes")
	w.expectMarks(pod, "role", "leader", "", "True yes")
	w.must(w.Delete(w.Context(), other))
	w.expectProbes("db-0@10.0.0.1 role#leader:80")
	w.expectMarks(pod, "my-role", "", "", "")
	w.expectMarks(pod, "role", "leader", "", "True yes")
}

func addresses(w *world) {
	first, second := w.pod("db-0"), w.pod("db-1")
	w.marker("role", intstr.FromInt32(80))
	w.expectProbes("db-0@10.0.0.1 role#leader:80, db-1@10.0.0.1 role#leader:80")
	w.run(first, "10.0.0.9")
	w.expectProbes("db-0@10.0.0.9 role#leader:80, db-1@10.0.0.1 role#leader:80")
	w.must(w.Delete(w.Context(), second, client.GracePeriodSeconds(0)))
	w.expectProbes("db-0@10.0.0.9 role#leader:80")
	w.answer(first, v1alpha1.ProbeSucceeded, "yes")
	w.expectMarks(first, "role", "leader", "", "True yes")
	w.must(w.Patch(w.Context(), first, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"app":"other"}}}`))))
	w.expectMarks(first, "role", "", "", "")
	w.expectProbes("")
}

func obstacles(w *world) {
	w.marker("none", intstr.FromInt32(80))
	w.marker("early", intstr.FromString("nowhere"))
	w.expectStatus("none", 0, "True NoPod")
	w.expectStatus("early", 0, "True NoPod")
	pod := w.pod("db-0")
	w.expectStatus("early", 0, "False PortNotFound: no container has a port named nowhere")
	w.expectStatus("none", 1, "False AwaitingResults")
	w.marker("port", intstr.FromString("nowhere"))
	w.expectStatus("port", 0, "False PortNotFound: no container has a port named nowhere")
	w.marker("keys", intstr.FromInt32(80), func(m *v1alpha1.PodProbeMarker) {
		m.Spec.Probes[0].MarkerPolicy[0].Annotations = map[string]string{"a b": "c"}
	})
	w.expectStatus("keys", 1, "False InvalidMarks: markerPolicy sets a b")
	w.must(w.Delete(w.Context(), pod, client.GracePeriodSeconds(0)))
	w.expectStatus("early", 0, "True NoPod")
	w.expectStatus("none", 0, "True NoPod")
}

func refused(w *world) {
	w.refuses.Store(true)
	defer w.refuses.Store(false)
	pod := w.pod("db-0")
	w.marker("role", intstr.FromInt32(80))
	w.answer(pod, v1alpha1.ProbeSucceeded, "yes")
	w.expectStatus("role", 1, "False MarksRefused: a write for pod db-0 is refused, and tried again: ")
	apiserver.Eventually(w, limit, "the event", func() string {
		var list eventsv1.EventList
		if err := w.List(w.Context(), &list, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		if len(list.Items) != 1 || list.Items[0].Reason != "MarksRefused" || list.Items[0].Series != nil ||
			list.Items[0].Type != corev1.EventTypeWarning || !strings.Contains(list.Items[0].Note, "policy marks") {
			return fmt.Sprintf("%+v", list.Items)
		}
		return ""
	})
	w.refuses.Store(false)
	w.expectMarks(pod, "role", "leader", "", "True yes")
	w.expectStatus("role", 1, "True Probed")
}

func released(w *world) {
	m := w.marker("role", intstr.FromInt32(80), func(m *v1alpha1.PodProbeMarker) {
		m.Finalizers = []string{v1alpha1.FinalizerNodePodProbe}
	})
	w.must(w.Delete(w.Context(), m))
	apiserver.Eventually(w, limit, "it is gone", func() string {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(m), m); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
}
