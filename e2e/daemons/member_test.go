package daemons

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const namespace = "shop"

var began = time.Date(2026, 11, 28, 1, 0, 0, 0, time.UTC)

// nodeWith is a node with a pod, a request to restart the pod's container, an image to pull and a probe.
func nodeWith(t *testing.T, o Options) (*Member, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-1", UID: "u1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{runs(0)}
	request := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "again",
		UID: "r1", Labels: map[string]string{v1beta1.LabelCRRNodeName: "n1", v1beta1.LabelCRRPodUID: "u1"}}}
	request.Spec.PodName = "web-1"
	request.Spec.Containers = []v1beta1.ContainerRecreateRequestContainer{{Name: "main",
		StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "sim://0"}}}
	image := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	image.Spec.Images = map[string]v1beta1.ImageSpec{"web": {Tags: []v1beta1.ImageTagSpec{{Tag: "2",
		PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: new(int32(0))}}}}}
	probe := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	probe.Spec.PodProbes = []v1alpha1.PodProbe{{Namespace: namespace, Name: "web-1", UID: "u1",
		Probes: []v1alpha1.ContainerProbe{{Name: "roles#leader", ContainerName: "main"}}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(pod, request, image, probe).
		WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}, pod, request, image, probe).
		Build()
	return newMember(c, c, o), c
}

// runs is the container main after some restarts.
func runs(restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "main", ContainerID: fmt.Sprint("sim://", restarts), RestartCount: restarts,
		Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}}
}

// TestAContainerRestartsOnce: one request stops one container, whenever the daemon is killed.
func TestAContainerRestartsOnce(t *testing.T) {
	for seed := range uint64(40) {
		var stops []Stop
		m, c := nodeWith(t, Options{Seed: seed, Stopped: func(s Stop) { stops = append(stops, s) }})
		restarted, now := int32(0), began
		for step := range 60 {
			now = now.Add(200 * time.Millisecond)
			if err := m.Look(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			if step < 30 && m.draw.IntN(4) == 0 {
				m.Kill("n1", now.Add(m.upTo(time.Second)))
			}
			pod, request := &corev1.Pod{}, &v1beta1.ContainerRecreateRequest{}
			read(t, c, "web-1", pod)
			read(t, c, "again", request)
			if pod.Status.ContainerStatuses[0].State.Terminated != nil { // the kubelet
				restarted++
				pod.Status.ContainerStatuses[0] = runs(restarted)
				write(t, c, pod)
			} else if restarted > 0 && len(request.Status.ContainerStatusSnapshot) == 0 { // the agent
				request.Status.ContainerStatusSnapshot = []v1beta1.ContainerStatusSnapshot{{Name: "main", Ready: true,
					ContainerID: "sim://1", RestartCount: 1}}
				write(t, c, request)
			}
		}
		request := &v1beta1.ContainerRecreateRequest{}
		read(t, c, "again", request)
		if len(stops) != 1 || stops[0].ID != "0" || stops[0].Wanted != "0" || restarted != 1 ||
			request.Status.Phase != v1beta1.CRRCompleted ||
			request.Status.ContainerRecreateStates[0].Phase != v1beta1.CRRSucceeded {
			t.Fatalf("seed %d: stops %+v, %d restarts, status %+v", seed, stops, restarted, request.Status)
		}
	}
}

func TestImagesAndProbes(t *testing.T) {
	for _, broken := range []bool{false, true} {
		m, c := nodeWith(t, Options{Broken: func(string) bool { return broken }})
		for step := range 30 {
			if step == 2 {
				m.Kill("n1", began.Add(time.Second))
			}
			if err := m.Look(t.Context(), began.Add(time.Duration(step)*200*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
		image, probe := &v1beta1.NodeImage{}, &v1alpha1.NodePodProbe{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, image); err != nil {
			t.Fatal(err)
		}
		want := v1beta1.ImagePhaseSucceeded
		if broken {
			want = v1beta1.ImagePhaseFailed
		}
		if tags := image.Status.ImageStatuses["web"].Tags; len(tags) != 1 || tags[0].Phase != want {
			t.Errorf("broken %t: %+v", broken, image.Status)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, probe); err != nil {
			t.Fatal(err)
		}
		states := probe.Status.PodProbeStatuses
		if len(states) != 1 || len(states[0].ProbeStates) != 1 ||
			states[0].ProbeStates[0].State != m.Result("u1", "roles#leader") || m.Result("u1", "roles#leader") == "" {
			t.Errorf("probes: %+v", states)
		}
	}
}

func read(t *testing.T, c client.Client, name string, into client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}
