package rollout

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

func TestRestartContainers(t *testing.T) {
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app"}, {Name: "proxy"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	sidecars := &apps.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "mesh"}}
	sidecars.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	sidecars.Spec.Containers = []apps.SidecarContainer{{Container: corev1.Container{Name: "envoy"}}, {
		Container:       corev1.Container{Name: "log"},
		UpgradeStrategy: apps.SidecarContainerUpgradeStrategy{UpgradeType: apps.SidecarContainerHotUpgrade}}}
	others := sidecars.DeepCopy()
	others.Spec.Selector.MatchLabels["app"] = "db"
	elsewhere, here := sidecars.DeepCopy(), sidecars.DeepCopy()
	elsewhere.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "bank"}}
	here.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{topology.LabelFederated: ""}}
	namespace := func(federated string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
			Labels: map[string]string{topology.LabelFederated: federated}}}
	}
	placement := func(unavailable int32) client.Object {
		return &topology.WorkloadPlacement{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cloneset-web"},
			Spec: topology.WorkloadPlacementSpec{
				Workload: topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"},
				Limits:   []topology.SubsetLimits{{Budget: topology.Budget{Unavailable: unavailable}}},
				Cells: []topology.Cell{
					{Cluster: "east", Replicas: 2, Granted: topology.Budget{Unavailable: unavailable}},
					{Cluster: "west", Replicas: 2},
				},
			},
		}
	}
	daemon := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "d",
			Labels: map[string]string{"app.kubernetes.io/name": "flotilla-node"}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, tt := range []struct {
		name       string
		there      []client.Object
		workload   string
		containers []string
		want       string // the annotation, or a part of the error
	}{
		{"all containers", []client.Object{namespace(""), daemon}, "clone/web", nil, `{"at":"2026-03-04T05:06:07Z"}`},
		{"one container", []client.Object{namespace(""), daemon}, "clone/web", []string{"proxy"},
			`{"at":"2026-03-04T05:06:07Z","containers":["proxy"]}`},
		{"on a hub, where no daemon runs", []client.Object{namespace("true")}, "clone/web", nil, `{"at":`},
		{"on a hub, where members restart in turn", []client.Object{namespace("true"), placement(1)}, "clone/web", nil,
			`{"at":`},
		{"on a hub, where maxUnavailable is 0", []client.Object{namespace("true"), placement(0)}, "clone/web", nil,
			"its maxUnavailable is 0: raise it to 1"},
		{"without a daemon", []client.Object{namespace("")}, "clone/web", nil, "flotilla rollout restart cloneset/web"},
		{"no such container", []client.Object{namespace(""), daemon}, "clone/web", []string{"db"}, "they have app, proxy"},
		{"a container of a SidecarSet", []client.Object{namespace(""), daemon, sidecars}, "clone/web",
			[]string{"envoy", "log-2"}, `{"at":"2026-03-04T05:06:07Z","containers":["envoy","log-2"]}`},
		{"a container of a SidecarSet for other pods", []client.Object{namespace(""), daemon, others}, "clone/web",
			[]string{"envoy"}, "they have app, proxy"},
		{"a container of a SidecarSet for other namespaces", []client.Object{namespace(""), daemon, elsewhere}, "clone/web",
			[]string{"envoy"}, "they have app, proxy"},
		{"a container of a SidecarSet for this namespace", []client.Object{namespace(""), daemon, here}, "clone/web",
			[]string{"envoy"}, `{"at":"2026-03-04T05:06:07Z","containers":["envoy"]}`},
		{"a namespace that cannot be read", []client.Object{daemon, sidecars}, "clone/web", []string{"envoy"},
			"which ones SidecarSets add could not be read: read namespace shop"},
		{"another kind", []client.Object{namespace(""), daemon}, "ud/web", nil, "use flotilla rollout restart"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, corev1.AddToScheme, topology.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(tt.there, set.DeepCopy())...).Build()
			key, err := console.Workload(tt.workload, "shop")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = restartContainers(t.Context(), c, &out, key, tt.containers,
				clocktesting.NewFakePassiveClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Error(err)
				}
				return
			}
			got := &apps.CloneSet{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), got); err != nil {
				t.Fatal(err)
			}
			if text := got.Annotations[apps.AnnotationRestart]; !strings.HasPrefix(text, tt.want) {
				t.Errorf("annotation %s after %s", text, out.String())
			}
		})
	}
}
