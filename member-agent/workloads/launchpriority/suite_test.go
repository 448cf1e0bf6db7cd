package launchpriority_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/launch"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/launchpriority"
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

// TestOrder: an API server sends pods that ask for an order, and keys come one after the other.
func TestOrder(t *testing.T) {
	config := apiserver.ForTest(t, "clonesets.apps.kruise.io")
	mux := http.NewServeMux()
	server := &hooks{httptest.NewTLSServer(mux), mux}
	t.Cleanup(server.Close)
	mgr, _ := apiserver.Run(t, config, func(_ context.Context, mgr ctrl.Manager) error {
		if err := launchpriority.Add(mgr); err != nil {
			return err
		}
		return admission.Setup(mgr, admission.Options{
			Server: server, Mutators: []admission.Mutator{launchpriority.New()},
		})
	})
	c, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	newPod := func(annotation string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "web-",
				Annotations: map[string]string{launch.Annotation: annotation}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "i"}}},
		}
	}
	pod := newPod(launch.Ordered)
	fleet.Eventually(t, limit, "pods are sent", func(ctx context.Context) string {
		pod = newPod(launch.Ordered)
		if err := c.Create(ctx, pod); err != nil || !launch.Waits(pod) {
			return fmt.Sprint("its containers do not wait: ", err)
		}
		return ""
	}, nil)
	expect := func(keys string) {
		t.Helper()
		fleet.Eventually(t, limit, "keys "+keys, func(ctx context.Context) string {
			barrier := &corev1.ConfigMap{}
			err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: launch.Barrier(pod.Name)}, barrier)
			if got := fmt.Sprint(barrier.Data); err != nil || got != keys {
				return fmt.Sprint(got, err)
			}
			if len(barrier.OwnerReferences) != 1 || barrier.OwnerReferences[0].UID != pod.UID {
				return fmt.Sprint(barrier.OwnerReferences)
			}
			return ""
		}, nil)
	}
	expect("map[p_0:true]")
	start := func(name string) {
		t.Helper()
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Ready: true,
			Image: "i", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		if err := c.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	start("a")
	expect("map[p_-1:true p_0:true]")
	start("b")
	fleet.Eventually(t, limit, "it is completed", func(ctx context.Context) string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil ||
			pod.Annotations[launch.AnnotationCompleted] != "true" {
			return fmt.Sprint(pod.Annotations, err)
		}
		return ""
	}, nil)

	// The ConfigMap is deleted later, and a container restarts.
	barrier := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: launch.Barrier(pod.Name)}}
	if err := c.Delete(t.Context(), barrier); err != nil {
		t.Fatal(err)
	}
	pod.Status.ContainerStatuses[0].Ready = false
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CreateContainerConfigError", Message: fmt.Sprintf("configmap %q not found", barrier.Name)}}
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	expect("map[p_-1:true p_0:true]")

	plain := newPod("no")
	if err := c.Create(t.Context(), plain); err != nil || launch.Waits(plain) {
		t.Errorf("another pod waits: %v", err)
	}
	wrong := newPod("no")
	wrong.Spec.Containers[1].Env = []corev1.EnvVar{{Name: launch.EnvPriority, Value: "high"}}
	if err := c.Create(t.Context(), wrong); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "no whole number") {
		t.Errorf("a priority that is no number: %v", err)
	}
	testForeign(t, c, newPod(launch.Ordered))
}

// testForeign: a ConfigMap of others with the name of the barrier stays as it is.
func testForeign(t *testing.T, c client.Client, pod *corev1.Pod) {
	pod.GenerateName, pod.Name = "", "foreign"
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign-barrier"},
		Data: map[string]string{"mine": "x"}}
	for _, object := range []client.Object{foreign, pod} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	fleet.Eventually(t, limit, "an event says it", func(ctx context.Context) string {
		list := &corev1.EventList{}
		if err := c.List(ctx, list, client.InNamespace("default")); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == "FailedLaunch" && e.InvolvedObject.Name == pod.Name {
				return ""
			}
		}
		return fmt.Sprintf("%d events", len(list.Items))
	}, nil)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil ||
		fmt.Sprint(foreign.Data) != "map[mine:x]" {
		t.Errorf("it was changed: %v, %v", foreign.Data, err)
	}
}
