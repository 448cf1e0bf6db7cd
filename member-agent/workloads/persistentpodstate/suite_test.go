package persistentpodstate_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/persistentpodstate"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/persistentpodstate/mutator"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// hooks is the server that the API server sends pods to.
type hooks struct {
	*httptest.Server
	mux *http.ServeMux
}

func (h *hooks) Register(path string, handler http.Handler) { h.mux.Handle(path, handler) }
func (h *hooks) OnChange(func())                            {}

func (h *hooks) ClientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	return admissionregistrationv1.WebhookClientConfig{
		URL:      new(h.URL + path),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}),
	}, nil
}

// shifted is a clock that can be set ahead.
type shifted struct{ ahead atomic.Int64 }

func (c *shifted) Now() time.Time                  { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *shifted) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// world is one cluster in which the controllers and the mutator run.
type world struct {
	*testing.T
	client.Client
	clock *shifted
}

func newWorld(t *testing.T) *world {
	t.Helper()
	nodes := fleet.Nodes("solo", "r", []string{"a", "b"}, 1)
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: nodes}, false,
		"persistentpodstates.apps.kruise.io", "statefulsets.apps.kruise.io")
	mux := http.NewServeMux()
	server := &hooks{httptest.NewTLSServer(mux), mux}
	t.Cleanup(server.Close)
	clock := &shifted{}
	mgr, _ := apiserver.Run(t, c.RESTConfig(), func(ctx context.Context, mgr ctrl.Manager) error {
		if err := persistentpodstate.Add(ctx, &workload.Env{Manager: mgr, Clock: clock}); err != nil {
			return err
		}
		nowhere := func(context.Context, string) (bool, error) { return false, nil }
		states, err := mutator.New(mgr, nowhere)
		if err != nil {
			return err
		}
		return admission.Setup(mgr, admission.Options{Server: server, Mutators: []admission.Mutator{states}})
	})
	live, err := client.New(c.RESTConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, live, clock}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, problem func(context.Context) string) {
	w.Helper()
	fleet.Eventually(w, limit, what, problem, nil)
}

func (w *world) patch(object client.Object, text string) {
	w.Helper()
	w.must(w.Patch(w.Context(), object, client.RawPatch("application/merge-patch+json", []byte(text))))
}

func (w *world) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, w.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, pod)
}

// expectState waits until what a PersistentPodState says of the pod, and its condition Ready, contain the texts.
func (w *world) expectState(pod, record, ready string) {
	w.Helper()
	w.eventually("the record of "+pod, func(ctx context.Context) string {
		state := &v1beta1.PersistentPodState{}
		if err := w.Get(ctx, client.ObjectKey{Namespace: "default", Name: "db"}, state); err != nil {
			return err.Error()
		}
		got, cond := fmt.Sprint(state.Status.PodStates[pod]), meta.FindStatusCondition(state.Status.Conditions, "Ready")
		if cond == nil || !strings.Contains(got, record) || !strings.Contains(cond.Reason+": "+cond.Message, ready) {
			return fmt.Sprintf("%s, %+v; want %s, %s", got, cond, record, ready)
		}
		return ""
	})
}

// recreate deletes the pod, and returns the next one of its name when it satisfies a condition.
func (w *world) recreate(name string, is func(*corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	old, err := w.pod(w.Context(), name)
	w.must(err)
	w.must(client.IgnoreNotFound(w.Delete(w.Context(), old, client.GracePeriodSeconds(0))))
	var pod *corev1.Pod
	w.eventually("the next "+name, func(ctx context.Context) string {
		if pod, err = w.pod(ctx, name); err != nil {
			return err.Error()
		}
		if pod.UID == old.UID || !is(pod) {
			return fmt.Sprintf("%+v %+v %v", pod.ObjectMeta, pod.Spec.NodeSelector, pod.Spec.NodeName)
		}
		return ""
	})
	return pod
}

func bound(pod *corev1.Pod) bool   { return pod.Spec.NodeName != "" }
func unbound(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }

// TestNativeStatefulSet: pods of a StatefulSet with the annotation come back to their zone with their annotations, and
// are released from a zone that has no node any more.
func TestNativeStatefulSet(t *testing.T) {
	w := newWorld(t)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", Annotations: map[string]string{
			v1beta1.AnnotationAutoPersistentPodState: "true", v1beta1.AnnotationPersistentAnnotations: "example.org/ip",
			v1beta1.AnnotationRequiredTopology: corev1.LabelTopologyZone,
		}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}},
			},
		},
	}
	w.must(w.Create(t.Context(), set))
	w.expectState("db-0", "topology.kubernetes.io/zone:", "Recorded")
	w.expectState("db-1", "topology.kubernetes.io/zone:", "Recorded")

	first, err := w.pod(t.Context(), "db-0")
	w.must(err)
	w.patch(first, `{"metadata":{"annotations":{"example.org/ip":"10.0.0.1"}}}`)
	w.expectState("db-0", "example.org/ip:10.0.0.1", "Recorded")
	node := &corev1.Node{}
	w.must(w.Get(t.Context(), client.ObjectKey{Name: first.Spec.NodeName}, node))
	zone := node.Labels[corev1.LabelTopologyZone]
	second := w.recreate("db-0", bound)
	if second.Spec.NodeSelector[corev1.LabelTopologyZone] != zone || second.Annotations["example.org/ip"] != "10.0.0.1" ||
		second.Annotations[v1beta1.AnnotationInjectedPersistentPodState] != "db" {
		t.Errorf("the pod got nothing back: %v, %v", second.Spec.NodeSelector, second.Annotations)
	}

	w.must(w.Delete(t.Context(), node))
	w.recreate("db-0", unbound)
	w.expectState("db-0", "zone:"+zone, "NodesMissing: pod db-0 waits for node "+node.Name)
	state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	w.patch(state, `{"spec":{"flotilla":{"missingNodes":"Release"}}}`)
	w.expectState("db-0", "zone:"+zone, "after 5m0s without such a node the pod is released")
	w.clock.ahead.Store(int64(persistentpodstate.ReleaseAfter))
	waits, err := w.pod(t.Context(), "db-0")
	w.must(err)
	w.patch(waits, `{"metadata":{"annotations":{"example.org/look":"again"}}}`)
	w.eventually("it is released", func(ctx context.Context) string {
		pod, err := w.pod(ctx, "db-0")
		if err != nil || !bound(pod) {
			return fmt.Sprint(err, pod.Spec.NodeSelector, pod.Status.Conditions)
		}
		return ""
	})
	w.expectState("db-0", "example.org/ip:10.0.0.1", "Recorded")

	w.patch(set, `{"spec":{"replicas":1}}`)
	w.expectState("db-1", "{ map[] map[]}", "Recorded")
	w.patch(set, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, v1beta1.AnnotationAutoPersistentPodState))
	w.eventually("it is deleted", func(ctx context.Context) string {
		if err := w.Get(ctx, client.ObjectKeyFromObject(state), state); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
}
