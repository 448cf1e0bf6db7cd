package cloneset_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// world is one cluster with the controller running in it.
type world struct {
	testing.TB
	client.Client
	config  *rest.Config
	cluster *fleet.Cluster
	stop    func()
	env     workload.Env
	// cached reads what the controller knows.
	cached client.Reader
}

// newWorld starts a cluster and the controller. kinds are those that the cluster has beside CloneSets, in lower case
// and plural.
func newWorld(t testing.TB, kinds ...string) *world {
	t.Helper()
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: fleet.Nodes("solo", "eu", []string{"a", "b"}, 2)},
		true,
		"clonesets.apps.kruise.io") // the others' rules are not under test here
	w := &world{TB: t, cluster: c, config: c.RESTConfig()}
	w.install(kinds...)
	w.config.QPS = -1
	var err error
	if w.Client, err = client.New(w.config, client.Options{Scheme: apiserver.Scheme(t)}); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// install makes the cluster know more of our kinds.
func (w *world) install(kinds ...string) {
	w.Helper()
	for _, kind := range kinds {
		apiserver.Install(w, w.cluster, kind+".apps.kruise.io")
	}
}

// start runs the controller until w.stop is called or the test ends.
func (w *world) start() {
	w.Helper()
	own := rest.CopyConfig(w.config)
	own.UserAgent = controllerAgent
	mgr, stop := apiserver.Run(w, own, func(ctx context.Context, mgr ctrl.Manager) error {
		env := w.env
		env.Manager = mgr
		return cloneset.Add(ctx, &env)
	})
	w.cached, w.stop = mgr.GetCache(), stop
}

const controllerAgent = "cloneset-under-test"

// eventually polls until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func newCloneSet(name string, replicas int32, change ...func(*v1beta1.CloneSet)) *v1beta1.CloneSet {
	app := map[string]string{"app": name}
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}},
			}),
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{
				PodUpdatePolicy: v1beta1.InPlaceIfPossiblePodUpdatePolicy,
				MaxUnavailable:  new(intstr.FromInt32(2)),
			}},
		},
	}
	for _, f := range change {
		f(cs)
	}
	return cs
}

// change updates the CloneSet by a patch.
func (w *world) change(name string, f func(*v1beta1.CloneSet)) {
	w.Helper()
	cs := w.get(name)
	before := cs.DeepCopy()
	f(cs)
	w.must(w.Patch(w.Context(), cs, client.MergeFrom(before)))
}

func (w *world) get(name string) *v1beta1.CloneSet {
	w.Helper()
	cs := &v1beta1.CloneSet{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, cs))
	return cs
}

// pods returns the pods of a CloneSet that are not being deleted, by name.
func (w *world) pods(name string) map[string]corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": name}))
	out := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			out[pod.Name] = pod
		}
	}
	return out
}

// settle waits until the status is at rest and says what the pods say.
func (w *world) settle(name string) map[string]corev1.Pod {
	w.Helper()
	var pods map[string]corev1.Pod
	w.eventually(name+" comes to rest", func() string {
		cs := w.get(name)
		pods = w.pods(name)
		want := count(cs, pods)
		got := cs.Status
		if got.ObservedGeneration != cs.Generation {
			return fmt.Sprintf("generation %d is not observed", cs.Generation)
		}
		if s := [6]int32{got.Replicas, got.ReadyReplicas, got.AvailableReplicas, got.UpdatedReplicas,
			got.UpdatedReadyReplicas, got.UpdatedAvailableReplicas}; s != want {
			return fmt.Sprintf("status %v, pods %v", s, want)
		}
		if got.Replicas != *cs.Spec.Replicas || got.AvailableReplicas != got.Replicas {
			return fmt.Sprintf("%d of %d pods are available", got.AvailableReplicas, *cs.Spec.Replicas)
		}
		for _, c := range got.Conditions {
			if c.Type == v1beta1.ConditionReconciling && c.Status != corev1.ConditionFalse {
				return "reconciling: " + c.Message
			}
		}
		return ""
	})
	return pods
}

func count(cs *v1beta1.CloneSet, pods map[string]corev1.Pod) (n [6]int32) {
	for _, pod := range pods {
		ready := false
		for _, c := range pod.Status.Conditions {
			ready = ready || (c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue)
		}
		updated := pod.Labels["controller-revision-hash"] == cs.Status.UpdateRevision
		for i, yes := range []bool{true, ready, ready, updated, updated && ready, updated && ready} {
			if yes {
				n[i]++
			}
		}
	}
	return n
}

func imagesOf(pods map[string]corev1.Pod) map[string]int {
	out := map[string]int{}
	for _, pod := range pods {
		out[pod.Spec.Containers[0].Image]++
	}
	return out
}

func selectorOf(cs *v1beta1.CloneSet) string {
	return labels.Set(cs.Spec.Selector.MatchLabels).String()
}
