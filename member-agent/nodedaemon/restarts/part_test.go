package restarts_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/restarts"
)

// TestPartServesRequestsOfItsNode: on a real API server the daemon stops the container of a request of its node, and
// leaves that of another node alone.
func TestPartServesRequestsOfItsNode(t *testing.T) {
	apiConfig := apiserver.ForTest(t, "containerrecreaterequests.apps.kruise.io")
	folder, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	server := fakecri.New(filepath.Join(folder, "cri.sock"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	id := server.AddContainer(fakecri.Container{Namespace: "default", Pod: "web", UID: "uid", Name: "a", Image: "i"})
	next := make(chan string, 1)
	server.OnStop(func(id string) { next <- server.Replace(id) })

	scheme := runtime.NewScheme()
	part := restarts.Part()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, part.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(apiConfig, ctrl.Options{Scheme: scheme, Logger: logr.Discard(),
		Cache: cache.Options{ByObject: part.Reads("node-1")}, Metrics: metrics.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	connection, err := cri.Connect(t.Context(), cri.Options{Endpoint: server.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	if err := part.Add(mgr, nodedaemon.Env{
		Node: "node-1", Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(),
		Runtime: connection.RuntimeService, Clock: clock.RealClock{}, Log: logr.Discard(),
		Events: mgr.GetEventRecorder(nodedaemon.Program),
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(apiConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for name, node := range map[string]string{"ours": "node-1", "others": "node-2"} {
		r := requestFor(name, "a")
		r.Namespace, r.UID, r.CreationTimestamp = "default", "", metav1.Time{}
		r.Labels = map[string]string{v1beta1.LabelCRRNodeName: node, v1beta1.LabelCRRPodUID: "uid"}
		r.Spec.Containers[0].StatusContext.ContainerID = "containerd://" + id
		if err := c.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) *request {
		r := &request{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	newID := <-next
	fleet.Eventually(t, time.Minute, "the request ends", func(ctx context.Context) string {
		r := get("ours")
		if r.Status.Phase == v1beta1.CRRCompleted {
			return ""
		}
		r.Status.ContainerStatusSnapshot = []v1beta1.ContainerStatusSnapshot{
			{Name: "a", Ready: true, RestartCount: 1, ContainerID: "containerd://" + newID}}
		if err := c.Status().Update(ctx, r); err != nil {
			return err.Error()
		}
		return string(r.Status.Phase)
	}, nil)
	if states := get("ours").Status.ContainerRecreateStates; !states[0].IsKilled ||
		states[0].Phase != v1beta1.CRRSucceeded {
		t.Errorf("%+v", states)
	}
	if phase := get("others").Status.Phase; phase != "" {
		t.Errorf("the request of another node is %s", phase)
	}
	if calls := server.Calls("StopContainer"); len(calls) != 1 {
		t.Errorf("%d stops", len(calls))
	}
}
