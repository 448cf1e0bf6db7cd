package daemonset_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/daemonset"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// world is one cluster with the controller running in it.
type world struct {
	*testing.T
	client.Client
	cluster *fleet.Cluster
}

// TestOnAServer runs every scenario on one cluster, in parallel, each with nodes of its own.
func TestOnAServer(t *testing.T) {
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: fleet.Nodes("solo", "eu", []string{"a"}, 1)}, false,
		"daemonsets.apps.kruise.io")
	config := c.RESTConfig()
	config.QPS = -1
	own := rest.CopyConfig(config)
	own.UserAgent = "daemonset-under-test"
	apiserver.Run(t, own, func(ctx context.Context, mgr ctrl.Manager) error {
		return daemonset.Add(ctx, &workload.Env{Manager: mgr})
	})
	api, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("scenarios", func(t *testing.T) {
		for name, scenario := range scenarios() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(&world{t, api, c})
			})
		}
	})
}

func scenarios() map[string]func(*world) {
	return map[string]func(*world){
		"follows nodes that join, change and leave":       followsNodes,
		"updates nodes in order, above a partition":       updatesInOrder,
		"updates a canary by node labels":                 updatesCanary,
		"replaces pods beside the old ones with surge":    surges,
		"updates pods in place":                           updatesInPlace,
		"updates nothing while paused, or with OnDelete":  updatesOnDelete,
		"waits for the hook preDelete":                    waitsForHook,
		"takes over pods and revisions of OpenKruise":     takesOver,
		"keeps its pods when the template cannot be used": keepsPodsOfAWrongTemplate,
	}
}

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

// start adds nodes "<name>-<letter>" and creates a DaemonSet of this name for them.
func (w *world) start(name, letters string, change ...func(*v1beta1.DaemonSet)) {
	w.Helper()
	w.join(name, letters)
	app := map[string]string{"app": name}
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(app)},
				Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": name},
					Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}},
			}),
		},
	}
	for _, f := range change {
		f(set)
	}
	w.must(w.Create(w.Context(), set))
}

func (w *world) join(name, letters string) {
	w.Helper()
	for _, letter := range letters {
		w.must(w.cluster.AddNodes(w.Context(), fleet.NodeSpec{Name: fmt.Sprintf("%s-%c", name, letter),
			Labels: map[string]string{"pool": name}}))
	}
}

// node changes a node.
func (w *world) node(name string, change func(*corev1.Node)) {
	w.Helper()
	node := &corev1.Node{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: name}, node))
	before := node.DeepCopy()
	change(node)
	w.must(w.Patch(w.Context(), node, client.MergeFrom(before)))
}

func taint(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Effect: effect})
	}
}

func (w *world) get(name string) *v1beta1.DaemonSet {
	w.Helper()
	set := &v1beta1.DaemonSet{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, set))
	return set
}

// change updates the DaemonSet by a patch.
func (w *world) change(name string, f func(*v1beta1.DaemonSet)) {
	w.Helper()
	set := w.get(name)
	before := set.DeepCopy()
	f(set)
	w.must(w.Patch(w.Context(), set, client.MergeFrom(before)))
}

func rolling(change func(*v1beta1.RollingUpdateDaemonSet)) func(*v1beta1.DaemonSet) {
	return func(set *v1beta1.DaemonSet) {
		if set.Spec.UpdateStrategy.RollingUpdate == nil {
			set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{}
		}
		change(set.Spec.UpdateStrategy.RollingUpdate)
	}
}

func partition(n int32) func(*v1beta1.DaemonSet) {
	return rolling(func(r *v1beta1.RollingUpdateDaemonSet) { r.Partition = new(intstr.FromInt32(n)) })
}

func image(name string) func(*v1beta1.DaemonSet) {
	return func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = name }
}

// pods returns the pods of a DaemonSet that are not being deleted, by node.
func (w *world) pods(name string) []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": name}))
	out := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	slices.SortFunc(out, func(a, b corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return out
}

// show says which image runs on which node, such as "a:1 b:2".
func show(pods []corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		node := pod.Spec.NodeName[strings.LastIndex(pod.Spec.NodeName, "-")+1:]
		out = append(out, node+":"+strings.TrimPrefix(pod.Spec.Containers[0].Image, "nginx:"))
	}
	return strings.Join(out, " ")
}

func condition(set *v1beta1.DaemonSet, name string) v1beta1.DaemonSetCondition {
	for _, c := range set.Status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.DaemonSetCondition{}
}

// settle waits until the DaemonSet is at rest with these pods and its status says so.
func (w *world) settle(name, want string) []corev1.Pod {
	w.Helper()
	var pods []corev1.Pod
	w.eventually(name+" comes to rest", func() string {
		set := w.get(name)
		pods = w.pods(name)
		s, all := set.Status, int32(len(strings.Fields(want)))
		switch {
		case s.ObservedGeneration != set.Generation:
			return fmt.Sprintf("generation %d is not observed", set.Generation)
		case show(pods) != want:
			return fmt.Sprintf("%s, want %s; %+v", show(pods), want, s)
		case s.DesiredNumberScheduled != all || s.CurrentNumberScheduled != all || s.NumberAvailable != all ||
			s.NumberReady != all || s.NumberUnavailable != 0:
			return fmt.Sprintf("status %+v", s)
		case condition(set, v1beta1.ConditionReconciling).Status != corev1.ConditionFalse:
			return "reconciling: " + condition(set, v1beta1.ConditionReconciling).Message
		}
		return ""
	})
	return pods
}

func followsNodes(w *world) {
	w.start("follow", "ab")
	before := w.settle("follow", "a:1 b:1")
	set := w.get("follow")
	if pod := before[0]; pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision ||
		!strings.HasPrefix(pod.Name, "follow-") || set.Status.CurrentRevision != set.Status.UpdateRevision {
		w.Errorf("pod %s has labels %v, status %+v", pod.Name, pod.Labels, set.Status)
	}
	w.join("follow", "c")
	w.settle("follow", "a:1 b:1 c:1")
	w.node("follow-a", taint(corev1.TaintEffectNoSchedule)) // its pod may stay
	w.node("follow-b", taint(corev1.TaintEffectNoExecute))
	if after := w.settle("follow", "a:1 c:1"); after[0].UID != before[0].UID {
		w.Error("the pod of a node with a taint NoSchedule was replaced")
	}
	w.node("follow-b", func(node *corev1.Node) { node.Spec.Taints = nil })
	w.settle("follow", "a:1 b:1 c:1")
	w.must(w.Delete(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "follow-c"}}))
	w.settle("follow", "a:1 b:1")
	for _, node := range []string{"follow-a", "follow-b"} {
		w.node(node, func(node *corev1.Node) { node.Labels["pool"] = "none" })
	}
	w.settle("follow", "")
	w.eventually("the condition says that no node fits", func() string {
		if ready := condition(w.get("follow"), v1beta1.ConditionReady); ready.Reason != "NoNodeFits" {
			return fmt.Sprintf("%+v", ready)
		}
		return ""
	})
}

func updatesInOrder(w *world) {
	w.start("order", "abcd", partition(2))
	w.settle("order", "a:1 b:1 c:1 d:1")
	w.change("order", image("nginx:2"))
	w.settle("order", "a:1 b:1 c:2 d:2")
	if s := w.get("order").Status; s.UpdatedNumberScheduled != 2 || s.CurrentRevision == s.UpdateRevision {
		w.Errorf("status %+v", s)
	}
	// A node that joins, and one that loses its pod, get the revision that the partition keeps.
	w.join("order", "e")
	w.must(w.Delete(w.Context(), &w.pods("order")[0]))
	w.settle("order", "a:1 b:1 c:2 d:2 e:2")
	w.change("order", partition(0))
	w.settle("order", "a:2 b:2 c:2 d:2 e:2")
	w.eventually("the current revision is the newest", func() string {
		if s := w.get("order").Status; s.CurrentRevision != s.UpdateRevision {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	var list appsv1.ControllerRevisionList
	w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": "order"}))
	if len(list.Items) != 2 {
		w.Errorf("%d revisions", len(list.Items))
	}
	for _, revision := range list.Items {
		if hash := revision.Labels[appsv1.ControllerRevisionHashLabelKey]; revision.Name != "order-"+hash {
			w.Errorf("revision %s has the hash %q", revision.Name, hash)
		}
	}
}

func updatesCanary(w *world) {
	w.start("canary", "abc", rolling(func(r *v1beta1.RollingUpdateDaemonSet) {
		r.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
	}))
	w.settle("canary", "a:1 b:1 c:1")
	w.node("canary-b", func(node *corev1.Node) { node.Labels["canary"] = "yes" })
	w.change("canary", image("nginx:2"))
	w.settle("canary", "a:1 b:2 c:1")
	// A node that is updated and no longer selected keeps the new revision.
	w.node("canary-b", func(node *corev1.Node) { delete(node.Labels, "canary") })
	w.node("canary-a", func(node *corev1.Node) { node.Labels["canary"] = "yes" })
	w.settle("canary", "a:2 b:2 c:1")
	w.change("canary", rolling(func(r *v1beta1.RollingUpdateDaemonSet) { r.Selector = nil }))
	w.settle("canary", "a:2 b:2 c:2")
}

func surges(w *world) {
	w.start("surge", "abc", rolling(func(r *v1beta1.RollingUpdateDaemonSet) {
		r.MaxUnavailable, r.MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
	}))
	w.settle("surge", "a:1 b:1 c:1")
	w.change("surge", image("nginx:2"))
	w.eventually("all nodes are updated, and none is ever without a ready pod", func() string {
		ready := map[string]bool{}
		for _, pod := range w.pods("surge") {
			for _, c := range pod.Status.Conditions {
				ready[pod.Spec.NodeName] = ready[pod.Spec.NodeName] || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}
		}
		delete(ready, "")
		if len(ready) != 3 || !ready["surge-a"] || !ready["surge-b"] || !ready["surge-c"] {
			w.Fatalf("ready are %v", ready)
		}
		return strings.Trim(show(w.pods("surge")), "abc:2 ")
	})
	w.settle("surge", "a:2 b:2 c:2")
}

func inPlace(r *v1beta1.RollingUpdateDaemonSet) {
	r.Type = v1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType
}

func updatesInPlace(w *world) {
	w.start("place", "ab", rolling(inPlace))
	before := w.settle("place", "a:1 b:1")
	w.change("place", func(set *v1beta1.DaemonSet) {
		image("nginx:2")(set)
		set.Spec.Template.Labels["tier"] = "new"
	})
	after := w.settle("place", "a:2 b:2")
	revision := w.get("place").Status.UpdateRevision
	for i := range after {
		_, other := after[i].Labels[v1beta1.LabelPodTemplateHash]
		if after[i].UID != before[i].UID || after[i].Labels[appsv1.ControllerRevisionHashLabelKey] != revision || other ||
			after[i].Labels["tier"] != "new" {
			w.Errorf("%s was recreated, or has labels %v", after[i].Name, after[i].Labels)
		}
	}
	// What cannot be changed in place recreates pods.
	w.change("place", func(set *v1beta1.DaemonSet) {
		set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	})
	w.eventually("all pods are recreated", func() string {
		for i, pod := range w.settle("place", "a:2 b:2") {
			if pod.UID == before[i].UID {
				return pod.Name + " is the same"
			}
		}
		return ""
	})
}

func updatesOnDelete(w *world) {
	w.start("manual", "ab", rolling(func(r *v1beta1.RollingUpdateDaemonSet) { r.Paused = new(true) }))
	w.settle("manual", "a:1 b:1")
	w.change("manual", image("nginx:2"))
	w.eventually("it says that the update is paused", func() string {
		if ready := condition(w.get("manual"), v1beta1.ConditionReady); ready.Reason != "Paused" {
			return fmt.Sprintf("%+v", ready)
		}
		return ""
	})
	w.change("manual", func(set *v1beta1.DaemonSet) {
		set.Spec.UpdateStrategy = v1beta1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	})
	pods := w.settle("manual", "a:1 b:1")
	w.must(w.Delete(w.Context(), &pods[0]))
	w.settle("manual", "a:2 b:1")
}

func waitsForHook(w *world) {
	w.start("hook", "a", func(set *v1beta1.DaemonSet) {
		set.Spec.Template.Labels["held"] = "true"
		set.Spec.Lifecycle = &v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{
			LabelsHandler: map[string]string{"held": "true"}, MarkPodNotReady: true}}
	})
	pod := w.settle("hook", "a:1")[0]
	w.change("hook", image("nginx:2"))
	w.eventually("the pod waits", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(&pod), &pod))
		ready := condition(w.get("hook"), v1beta1.ConditionReady)
		if pod.Labels[v1beta1.LabelLifecycleState] != string(v1beta1.LifecyclePreparingDelete) ||
			ready.Reason != "WaitingForHook" {
			return fmt.Sprintf("%v, %+v", pod.Labels, ready)
		}
		return ""
	})
	w.must(w.Patch(w.Context(), &pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"held":null}}}`))))
	w.settle("hook", "a:2")
}

// takesOver begins with what an OpenKruise manager left in the middle of an update, as recorded from one: revisions and
// pods that name them by their hashes, without labels and gates of ours.
func takesOver(w *world) {
	w.join("over", "abcdef")
	labels := map[string]string{"app": "over"}
	revision := func(hash, image string, number int64) {
		w.must(w.Create(w.Context(), &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "over-" + hash,
				Labels: map[string]string{"app": "over", appsv1.ControllerRevisionHashLabelKey: hash}},
			Revision: number, Data: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":{"$patch":"replace",`+
				`"metadata":{"creationTimestamp":null,"labels":{"app":"over"}},"spec":{"containers":[{"image":%q,"name":"main",`+
				`"resources":{}}],"nodeSelector":{"pool":"over"}}}}}`, image)}}))
	}
	revision("69fffdc556", "nginx:1", 1)
	revision("659b75bfc5", "nginx:2", 2)
	for i, letter := range "abcdef" {
		hash, image := "69fffdc556", "nginx:1"
		if i >= 3 {
			hash, image = "659b75bfc5", "nginx:2"
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "over-",
			Labels: map[string]string{"app": "over", appsv1.ControllerRevisionHashLabelKey: hash}},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("over-%c", letter),
				Containers: []corev1.Container{{Name: "main", Image: image}}}}
		w.must(w.Create(w.Context(), pod))
	}
	before := w.pods("over")
	w.start("over", "", partition(3), image("nginx:2"), func(set *v1beta1.DaemonSet) {
		set.Spec.Template.Labels = labels
	}, rolling(inPlace))
	after := w.settle("over", "a:1 b:1 c:1 d:2 e:2 f:2")
	for i := range before {
		if after[i].UID != before[i].UID {
			w.Errorf("%s was recreated", before[i].Name)
		}
	}
	if s := w.get("over").Status; s.UpdateRevision != "659b75bfc5" || s.CurrentRevision != "69fffdc556" {
		w.Errorf("status %+v", s)
	}
	// A pod that the partition keeps comes back as it was.
	w.must(w.Delete(w.Context(), &after[0]))
	w.eventually("the deleted pod comes back", func() string {
		if again := w.settle("over", "a:1 b:1 c:1 d:2 e:2 f:2"); again[0].UID == after[0].UID {
			return "it is the same"
		}
		return ""
	})
	w.change("over", partition(0))
	w.settle("over", "a:2 b:2 c:2 d:2 e:2 f:2")
}

func keepsPodsOfAWrongTemplate(w *world) {
	w.start("wrong", "ab")
	before := w.settle("wrong", "a:1 b:1")
	w.change("wrong", func(set *v1beta1.DaemonSet) {
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Like"}}}}}}}
	})
	stalls := func(what, message string) {
		w.Helper()
		w.eventually(what, func() string {
			c := condition(w.get("wrong"), v1beta1.ConditionStalled)
			if c.Status != corev1.ConditionTrue || c.Reason != "InvalidTemplate" || !strings.Contains(c.Message, message) {
				return fmt.Sprintf("%+v", c)
			}
			return ""
		})
		if pods := w.pods("wrong"); len(pods) != 2 || pods[0].UID != before[0].UID || pods[1].UID != before[1].UID {
			w.Errorf("%s: pods %s", what, show(pods))
		}
	}
	stalls("affinity that cannot be read", "nodeAffinity cannot be used")
	w.change("wrong", func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.Affinity = nil })
	w.settle("wrong", "a:1 b:1")
	// A template that is no pod at all: nothing is known of it but that the pods run.
	raw := []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/ports","value":[{"containerPort":"eighty"}]}]`)
	w.must(w.Patch(w.Context(), w.get("wrong"), client.RawPatch("application/json-patch+json", raw)))
	stalls("a template of other types", "spec.template.spec.containers")
	w.must(w.Delete(w.Context(), w.get("wrong")))
	w.eventually("it can be deleted", func() string { return show(w.pods("wrong")) })
}
