package workloadspread

import (
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// hook is the server that the API server asks about new pods. It can be down: then connections break.
type hook struct {
	https *httptest.Server
	mux   *http.ServeMux
	down  atomic.Bool
	asked atomic.Int64
}

func newHook(t *testing.T) *hook {
	h := &hook{mux: http.NewServeMux()}
	h.https = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.down.Load() {
			panic(http.ErrAbortHandler)
		}
		h.asked.Add(1)
		h.mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.https.Close)
	return h
}

func (h *hook) Register(path string, handler http.Handler) { h.mux.Handle(path, handler) }

func (h *hook) ClientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	return admissionregistrationv1.WebhookClientConfig{
		URL:      new(h.https.URL + path),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.https.Certificate().Raw}),
	}, nil
}

func (h *hook) OnChange(func()) {}

// TestWithTheWebhook runs the stories in which the agent gives pods their subsets at admission.
func TestWithTheWebhook(t *testing.T) {
	w := newWorld(t, newHook(t))
	t.Run("down and up again", func(t *testing.T) { downAndUpAgain(w.space(t, nil)) })
	t.Run("Case13 removed subset of a Deployment", func(t *testing.T) { removedSubsetOfADeployment(w.space(t, nil)) })
	t.Run("full zone", func(t *testing.T) { fullZoneOfADeployment(w.space(t, nil)) })
}

// removedSubsetOfADeployment: pods of a subset that the spec no longer has go first at scale-in, new pods go to the
// others, and a rollout leaves none of them.
func removedSubsetOfADeployment(s *space) {
	s.spread(aSpread("Deployment", "a=2", "b*"))
	s.asked()
	s.deployment(4)
	s.eventuallyCosts("a/200=2 b/100=2")
	s.subsets("b*")
	s.eventuallyCosts("a/-200=2 b/100=2")
	s.eventuallyRows("b 2/-1")
	s.quiet()
	s.scale(&appsv1.Deployment{}, 3)
	s.eventuallyCosts("a/-200=1 b/100=2")
	s.scale(&appsv1.Deployment{}, 5)
	s.eventuallyCosts("a/-200=1 b/100=4")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	s.must(s.Patch(s.Context(), d, client.RawPatch(types.MergePatchType, patch)))
	s.eventuallyCosts("b/100=5")
	s.quiet()
}

// asked waits until the API server asks about pods of the Deployment "web".
func (s *space) asked() {
	s.Helper()
	s.eventually("the API server asks", func() string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "probe",
			Labels: map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-x", UID: "0",
				Controller: new(true)}}}, Spec: template().Spec}
		before := s.hook.asked.Load()
		s.must(s.Create(s.Context(), pod, client.DryRunAll))
		if s.hook.asked.Load() == before {
			return "not yet"
		}
		return ""
	})
}

// downAndUpAgain: pods are stamped at admission and cost no write; those made while the webhook is down are adopted,
// and put right by their costs at the next scale-in.
func downAndUpAgain(s *space) {
	s.spread(aSpread("Deployment", "a=2", "b"))
	s.asked()
	s.deployment(5)
	s.eventuallyPods("a/a/200=2 b/b/100=3")
	s.eventuallyRows("a 2/0, b 3/-1")
	if patched, _ := s.written.counted(s.namespace); patched != 0 {
		s.Errorf("%d patches for 5 pods that were stamped", patched)
	}
	s.quiet()
	s.hook.down.Store(true)
	s.scale(&appsv1.Deployment{}, 11)
	s.eventually("11 pods are in subsets", func() string {
		pods := s.pods()
		if got := tally(pods, subsetOf); len(pods) != 11 || strings.Contains(got, "-=") {
			return "pods: " + got
		}
		return ""
	})
	extra := int(s.eventuallyCounted("a")) - 2
	patched, _ := s.written.counted(s.namespace)
	s.Logf("figure: %d patches for 6 pods made without the webhook, %d of which landed above a cap", patched, extra)
	s.hook.down.Store(false)
	s.scale(&appsv1.Deployment{}, 12)
	s.eventually("the twelfth pod is stamped for b", func() string {
		if got, want := tally(s.pods(), subsetOf), fmt.Sprintf("a=%d b=%d", 2+extra, 10-extra); got != want {
			return "pods: " + got
		}
		return ""
	})
	s.quiet()
	s.scale(&appsv1.Deployment{}, 4)
	s.eventuallyPods("a/a/200=2 b/b/100=2")
	s.quiet()
}

// eventuallyCounted returns the pods of a subset once the status tells of all active pods.
func (s *space) eventuallyCounted(subset string) (replicas int32) {
	s.Helper()
	s.eventually("the status counts all pods", func() string {
		total := int32(0)
		for _, row := range s.get("web").Status.SubsetStatuses {
			if total += row.Replicas; row.Name == subset {
				replicas = row.Replicas
			}
		}
		if int(total) != len(s.pods()) {
			return fmt.Sprintf("%d are counted", total)
		}
		return ""
	})
	return replicas
}

// fullZoneOfADeployment: pods that find no place move, at admission, to the next subset.
func fullZoneOfADeployment(s *space) {
	s.addNode(fleet.NodeSpec{Name: "solo-g-0", Zone: "g", CPU: "1"})
	ws := adaptive(aSpread("Deployment", "g=3", "b"))
	// Longer than a busy scheduler takes to bind the one pod that fits: for as long as its binding fails, none fits.
	ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(5))
	s.spread(ws)
	s.asked()
	begun := time.Now()
	s.deployment(4)
	s.eventuallyPods("b/b/100=3 g/g/200=1")
	s.Logf("figure: moved %.1f s after the Deployment was made, with 5 s of critical time", time.Since(begun).Seconds())
	s.eventuallySchedulable("g", metav1.ConditionFalse)
	ran := s.pods()
	s.addNode(fleet.NodeSpec{Name: "solo-g-1", Zone: "g", CPU: "4"})
	s.time.forward(301 * time.Second)
	s.quiet()
	s.eventuallySchedulable("g", metav1.ConditionTrue)
	s.scale(&appsv1.Deployment{}, 5)
	s.eventuallyPods("b/b/100=3 g/g/200=2")
	if same := sameUIDs(ran, s.pods()); same != 4 {
		s.Errorf("%d of the 4 pods that ran are left", same)
	}
}
