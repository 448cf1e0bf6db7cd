package uniteddeployment_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/uniteddeployment"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// One cluster serves all stories; each has its own namespace and nodes.
func TestStories(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	w.tell(t, "any number has an answer", anyNumber, "a", "b", "c")
	w.tell(t, "partitions of subsets", partitions, "a", "b")
	w.tell(t, "patches of subsets", patches, "a", "b")
	w.tell(t, "a subset is removed under load", subsetRemoved, "a", "b", "c")
	w.tell(t, "a removed subset waits for the others", removedSubsetWaits, "b")
	w.tell(t, "another kind of template", anotherKind, "a", "b")
	w.tell(t, "stateful sets", func(w *world) { statefulSetChildren(w, statefulSets) }, "a", "b", "c")
	w.tell(t, "advanced stateful sets", func(w *world) { statefulSetChildren(w, advancedSets) }, "a", "b", "c")
	w.tell(t, "joins during an update", func(w *world) { joinsDuringUpdate(w, func(*v1beta1.UnitedDeployment) {}) }, "a")
	w.tell(t, "joins during an update with stateful sets", func(w *world) { joinsDuringUpdate(w, statefulSets) }, "a")
	w.tell(t, "joins during an update with advanced stateful sets", func(w *world) { joinsDuringUpdate(w, advancedSets) },
		"a")
	t.Run("Case4", func(t *testing.T) { waitsOfControllers(t, w) }) // last, because it moves the clock
}

// Pods that find no node.
func TestAdaptive(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	w.tell(t, "full and recovered", fullAndRecovered, "a", "b", "c")
	w.tell(t, "full and recovered with deployments", fullAndRecoveredDeployments, "a", "b")
	w.tell(t, "full and recovered with stateful sets", fullAndRecoveredStatefulSets, "a", "b")
	w.tell(t, "partly full", partlyFull, "b")
	w.tell(t, "tried in vain", triedInVain, "a", "b")
	w.tell(t, "restarted while a subset is closed", restarted, "a", "b")
	w.tell(t, "pods that do not start move nothing", notStarting, "a", "b")
	w.tell(t, "reservation", func(w *world) { reservation(w, func(*v1beta1.UnitedDeployment) {}) }, "a", "b")
	w.tell(t, "reservation with deployments", func(w *world) { reservation(w, deployments) }, "a", "b")
	w.tell(t, "rollout past reserved pods", rolloutPastReserved, "b")
	w.tell(t, "Case6 an update keeps stand-ins ready", updateKeepsStandIns, "c")
	w.tell(t, "Case7 a closed subset keeps its min", closedSubsetKeepsMin, "b")
	w.tell(t, "Case10 replicas without reserved pods", replicasWithoutReserved, "b")
}

func anyNumber(w *world) {
	for _, tt := range []struct {
		subsets []string
		want    map[int32]string
	}{
		{[]string{"a", "b", "c"}, map[int32]string{7: "a=2 b=2 c=3", 8: "a=2 b=3 c=3", 2: "b=1 c=1", 1: "c=1"}},
		{[]string{"a=33%", "b=33%", "c=34%"}, map[int32]string{10: "a=3 b=3 c=4", 1: "c=1", 5: "a=1 b=2 c=2"}},
		{[]string{"a=50%", "b=50%"}, map[int32]string{5: "", 4: "a=2 b=2"}},
		{[]string{"a[2,4]", "b[2,]"}, map[int32]string{1: "a=1", 3: "a=2 b=1", 5: "a=3 b=2", 9: "a=4 b=5"}},
		{[]string{"a=3", "b"}, map[int32]string{5: "a=3 b=2", 2: "a=2", 0: ""}},
	} {
		w.create(w.newUD(9, tt.subsets...)) // fewer than the fixed ones together are refused at creation
		for _, n := range slices.Sorted(func(yield func(int32) bool) {
			for n := range tt.want {
				if !yield(n) {
					return
				}
			}
		}) {
			w.scale(n)
			ud := w.settle()
			w.eventually(fmt.Sprintf("%v with %d", tt.subsets, n), func() string {
				pods := w.pods()
				if got := spreadOf(pods); int32(len(pods)) != n || tt.want[n] != "" && got != tt.want[n] {
					return fmt.Sprintf("%d pods: %s, want %s", len(pods), got, tt.want[n])
				}
				return ""
			})
			if ud.Status.Replicas != n || ud.Status.ReadyReplicas != n {
				w.Errorf("%v with %d: status %+v", tt.subsets, n, ud.Status)
			}
		}
		w.quiet()
		w.remove()
	}
}

// scale sets the replicas as an autoscaler does.
func (w *world) scale(n int32) {
	w.Helper()
	w.must(w.SubResource("scale").Update(w.Context(), w.get(),
		client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}})))
}

// remove deletes the UnitedDeployment and waits until its pods are gone.
func (w *world) remove() {
	w.Helper()
	w.must(w.Delete(w.Context(), w.get()))
	w.eventually("all pods are gone", func() string {
		var list corev1.PodList
		w.must(w.List(w.Context(), &list, client.InNamespace(w.name)))
		if len(list.Items) > 0 {
			return fmt.Sprint(len(list.Items), " are there")
		}
		return ""
	})
}

// images says how many pods of each subset run each image: "a:1=2".
func (w *world) images() string {
	w.Helper()
	count := map[string]int{}
	for _, pod := range w.pods() {
		_, tag, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
		count[pod.Labels[v1beta1.LabelSubset]+":"+tag]++
	}
	var parts []string
	for key, n := range count {
		parts = append(parts, fmt.Sprintf("%s=%d", key, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (w *world) expectImages(want string) {
	w.Helper()
	w.eventually("images are "+want, func() string {
		if got := w.images(); got != want {
			return got + ": " + summary(w.get())
		}
		return ""
	})
}

func image(name string) func(*v1beta1.UnitedDeployment) {
	return func(ud *v1beta1.UnitedDeployment) {
		switch t := &ud.Spec.Template; {
		case t.CloneSetTemplate != nil:
			t.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = name
		case t.DeploymentTemplate != nil:
			t.DeploymentTemplate.Spec.Template.Spec.Containers[0].Image = name
		case t.StatefulSetTemplate != nil:
			t.StatefulSetTemplate.Spec.Template.Spec.Containers[0].Image = name
		case t.AdvancedStatefulSetTemplate != nil:
			t.AdvancedStatefulSetTemplate.Spec.Template.Spec.Containers[0].Image = name
		}
	}
}

func partition(values map[string]int32) func(*v1beta1.UnitedDeployment) {
	return func(ud *v1beta1.UnitedDeployment) {
		ud.Spec.UpdateStrategy.ManualUpdate = &v1beta1.ManualUpdate{Partitions: values}
	}
}

// joinsDuringUpdate: what a hub writes into a member that joins when one of four pods is updated.
func joinsDuringUpdate(w *world, change func(*v1beta1.UnitedDeployment)) {
	ud := w.newUD(4, "a=4")
	change(ud)
	before, err := json.Marshal(ud.Spec.Template)
	w.must(err)
	image("nginx:2")(ud)
	partition(map[string]int32{"a": 3})(ud)
	ud.Annotations = map[string]string{
		topology.AnnotationTemplateBefore: string(before),
		topology.AnnotationSubsetLimits:   `{"a":{"maxUnavailable":1,"maxSurge":0}}`,
	}
	w.create(ud)
	w.expectImages("a:1=3 a:2=1")
	w.settle()
	w.edit(func(ud *v1beta1.UnitedDeployment) {
		delete(ud.Annotations, topology.AnnotationTemplateBefore)
		partition(nil)(ud)
	})
	w.expectImages("a:2=4")
	w.settle()
	w.quiet()
}

func partitions(w *world) {
	w.create(w.newUD(6, "a", "b"))
	w.expectPods("a=3 b=3")
	first := w.settle().Status.UpdatedRevision
	w.edit(func(ud *v1beta1.UnitedDeployment) {
		image("nginx:2")(ud)
		partition(map[string]int32{"a": 1, "b": 99})(ud)
	})
	w.expectImages("a:1=1 a:2=2 b:1=3")
	ud := w.settle()
	if ud.Status.UpdatedReplicas != 2 || ud.Status.UpdatedReadyReplicas != 2 || ud.Status.CurrentRevision != first ||
		ud.Status.SubsetStatuses[1].Partition != 3 {
		w.Errorf("status: %+v", ud.Status)
	}
	w.edit(partition(map[string]int32{"b": 2}))
	w.expectImages("a:2=3 b:1=2 b:2=1")
	w.edit(partition(nil))
	w.expectImages("a:2=3 b:2=3")
	w.eventually("all are updated", func() string {
		if s := w.get().Status; s.UpdatedReadyReplicas != 6 || s.CurrentRevision == first {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.quiet()
}

func patches(w *world) {
	ud := w.newUD(4, "a", "b")
	ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{"metadata":{"labels":{"tier":"hot"}},"spec":{"containers":[{"name":"main","env":[{"name":"ZONE","value":"a"}]}]}}`)
	ud.Spec.Topology.Subsets[0].NodeSelectorTerm.MatchFields = []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"broken"}}}
	w.create(ud)
	w.expectPods("a=2 b=2")
	for _, pod := range w.pods() {
		subset := pod.Labels[v1beta1.LabelSubset]
		term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		if hot := pod.Labels["tier"] == "hot" && len(pod.Spec.Containers[0].Env) == 1 &&
			len(term.MatchFields) == 1; hot != (subset == "a") {
			w.Errorf("pod of %s: labels %v, term %+v", subset, pod.Labels, term)
		}
	}
	w.settle()
	w.quiet()
}

func subsetRemoved(w *world) {
	w.create(w.newUD(9, "a", "b", "c"))
	w.expectPods("a=3 b=3 c=3")
	w.settle()
	film := w.film()
	w.edit(func(ud *v1beta1.UnitedDeployment) { ud.Spec.Topology.Subsets = ud.Spec.Topology.Subsets[:2] })
	w.expectPods("a=4 b=5")
	w.eventually("the removed subset leaves the status", func() string {
		if ud := w.settle(); len(ud.Status.SubsetStatuses) != 2 {
			return summary(ud)
		}
		return ""
	})
	film.expect(9, 12)
	w.quiet()
}

// The nodes of a do not exist, so the pods of the removed subset b are all that there is.
func removedSubsetWaits(w *world) {
	w.create(w.newUD(2, "b"))
	w.expectPods("b=2")
	w.settle()
	film := w.film()
	w.edit(func(ud *v1beta1.UnitedDeployment) { ud.Spec.Topology.Subsets = []v1beta1.Subset{w.subset("a")} })
	w.expectPods("a=0+2 b=2")
	w.eventually("it is told that there are pods too many", func() string {
		if c := condition(w.get(), v1beta1.ConditionReconciling); c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	w.quiet()
	w.addNode("a", 0)
	w.expectPods("a=2")
	w.settle()
	film.expect(2, 4)
}

func anotherKind(w *world) {
	w.create(w.newUD(4, "a", "b"))
	w.expectPods("a=2 b=2")
	w.settle()
	film := w.film()
	w.edit(func(ud *v1beta1.UnitedDeployment) {
		deployments(ud)
		image("nginx:2")(ud)
	})
	w.expectImages("a:2=2 b:2=2")
	w.settle()
	film.expect(4, 8)
	var sets v1beta1.CloneSetList
	w.must(w.List(w.Context(), &sets, client.InNamespace(w.name)))
	if len(sets.Items) != 0 {
		w.Errorf("%d CloneSets are left", len(sets.Items))
	}
	w.quiet()
}

func statefulSetChildren(w *world, template func(*v1beta1.UnitedDeployment)) {
	w.create(w.newUD(6, "a", "b"), template)
	w.expectPods("a=3 b=3")
	first := w.settle().Status.UpdatedRevision
	w.quiet()
	w.edit(func(ud *v1beta1.UnitedDeployment) {
		image("nginx:2")(ud)
		partition(map[string]int32{"a": 2, "b": 99})(ud)
	})
	w.expectImages("a:1=2 a:2=1 b:1=3")
	ud := w.settle()
	if ud.Status.UpdatedReplicas != 1 || ud.Status.CurrentRevision != first ||
		ud.Status.SubsetStatuses[1].Partition != 3 || ud.Status.SubsetStatuses[0].CanGoBack {
		w.Errorf("status: %+v", ud.Status)
	}
	for _, pod := range w.pods() {
		last := strings.HasSuffix(pod.Name, "-2") && pod.Labels[v1beta1.LabelSubset] == "a"
		if updated := pod.Spec.Containers[0].Image == "nginx:2"; updated != last {
			w.Errorf("pod %s runs %s", pod.Name, pod.Spec.Containers[0].Image)
		}
	}
	w.edit(partition(nil))
	w.expectImages("a:2=3 b:2=3")
	w.eventually("all are updated", func() string {
		s := w.get().Status
		if s.UpdatedReadyReplicas != 6 || s.CurrentRevision == first || s.SubsetStatuses[0].AvailableReplicas != 3 ||
			s.SubsetStatuses[0].UpdatedAvailableReplicas != 3 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.scale(3)
	w.expectPods("a=1 b=2")
	w.settle()
	film := w.film()
	w.edit(func(ud *v1beta1.UnitedDeployment) {
		ud.Spec.Topology.Subsets = []v1beta1.Subset{ud.Spec.Topology.Subsets[1], w.subset("c")}
	})
	w.expectPods("b=2 c=1")
	w.settle()
	film.expect(3, 5)
	w.quiet()
}

// Times of the strategy in these stories.
const (
	critical = 2 * time.Second
	closed   = 6 * time.Second
)

// The subset b between a and c is full, and has room again.
func fullAndRecovered(w *world) {
	w.cordon("b", true)
	begin := time.Now()
	w.create(w.newUD(8, "a[,2]", "b[,4]", "c"), adaptive(critical, closed))
	w.eventually("b is full, and its pods are in c", func() string {
		got, ud := spreadOf(w.pods()), w.get()
		if b := schedulable(ud, "b"); got != "a=2 c=6" || b.Status != corev1.ConditionFalse ||
			b.Reason != division.SubsetUnschedulable || b.LastTransitionTime.IsZero() ||
			!strings.Contains(b.Message, "c runs 4 more") || !strings.Contains(b.Message, "it is tried again at ") ||
			schedulable(ud, "a").Status != corev1.ConditionTrue {
			return got + ": " + summary(ud) // where all of that took long, b is being tried again
		}
		return ""
	})
	moved := time.Since(begin)
	w.settle()
	w.Logf("%s from full to moved (rescheduleCriticalSeconds %s), %d writes for 8 pods", moved.Round(time.Millisecond),
		critical, len(w.written()))
	writes := len(w.written())
	film := w.film()
	w.cordon("b", false)
	returned := w.expectPods("a=2 b=4 c=2")
	w.settle()
	film.expect(8, 10)
	if gone := film.taken(); gone["a"]+gone["b"] > 0 || gone["c"] != 4 {
		w.Errorf("ready pods that were taken away: %v", gone)
	}
	w.Logf("%s from recovered to returned (unschedulableDuration %s, 4 pods in steps of 2), %d writes",
		returned.Round(time.Millisecond), closed, len(w.written())-writes)
	if got := w.get().Spec.Replicas; *got != 8 {
		w.Errorf("replicas are %d", *got)
	}
	w.quiet()
}

func fullAndRecoveredDeployments(w *world) {
	w.cordon("a", true)
	w.create(w.newUD(3, "a", "b"), deployments, adaptive(critical, closed))
	w.expectPods("b=3")
	w.settle()
	film := w.film()
	w.cordon("a", false)
	w.expectPods("a=3")
	w.settle()
	film.expect(3, 4)
	w.quiet()
}

func fullAndRecoveredStatefulSets(w *world) {
	w.cordon("a", true)
	w.create(w.newUD(3, "a", "b"), statefulSets, adaptive(critical, closed))
	w.expectPods("b=3")
	w.settle()
	film := w.film()
	w.cordon("a", false)
	w.expectPods("a=3")
	w.settle()
	film.expect(3, 4)
	w.quiet()
}

// a takes three pods only; later it gets another node.
func partlyFull(w *world) {
	w.addNode("a", 3)
	w.create(w.newUD(6, "a", "b"), adaptive(critical, closed))
	w.expectPods("a=3 b=3")
	w.settle()
	w.edit(image("nginx:2"))
	w.expectImages("a:2=3 b:2=3") // a rollout does not make a closed subset smaller
	w.eventually("all are ready again", func() string {
		if s := w.get().Status; s.UpdatedReadyReplicas < 6 {
			return fmt.Sprint(s.UpdatedReadyReplicas)
		}
		return ""
	})
	film := w.film()
	w.addNode("a", 0)
	w.expectPods("a=6")
	w.settle()
	film.expect(6, 8)
}

func triedInVain(w *world) {
	w.cordon("a", true)
	w.create(w.newUD(4, "a", "b"), adaptive(critical, 3*time.Second))
	w.expectPods("b=4")
	film := w.film()
	writes := len(w.written())
	begin := time.Now()
	tries := 0
	w.eventually("it is tried three times", func() string {
		film.mu.Lock()
		defer film.mu.Unlock()
		if tries = film.onPod["a"]; tries < 3 {
			return fmt.Sprint(tries)
		}
		return ""
	})
	film.expect(4, 5)
	if gone := film.taken(); gone["b"] > 0 {
		w.Errorf("ready pods that were taken away: %v", gone)
	}
	w.Logf("%d tries in %s, each of one pod, %d writes", tries, time.Since(begin).Round(time.Second),
		len(w.written())-writes)
}

func restarted(w *world) {
	w.cordon("a", true)
	w.create(w.newUD(2, "a", "b"), adaptive(critical, 20*time.Second))
	w.expectPods("b=2")
	w.quiet() // what was to be told before the restart is told
	var since metav1.Time
	w.eventually("a is closed, and all is at rest", func() string {
		c := schedulable(w.settle(), "a")
		if c.Status != corev1.ConditionFalse {
			return fmt.Sprintf("%+v", c)
		}
		since = c.LastTransitionTime
		return ""
	})
	w.root.stop()
	film := w.film()
	writes := len(w.written())
	w.root.start()
	w.cordon("a", false)
	w.pause(time.Second)
	more := w.written()[writes:]
	if len(more) > 0 && time.Since(since.Time) < 20*time.Second { // later it tries a, as it should
		w.Errorf("after the restart it writes %v", more)
	}
	w.expectPods("a=2")
	w.settle()
	film.expect(2, 3)
	if after := time.Since(since.Time); after < 20*time.Second {
		w.Errorf("a was tried %s after it was closed", after)
	}
}

func notStarting(w *world) {
	w.create(w.newUD(2, "a", "b"), adaptive(time.Hour, closed), image("does-not-exist:1"))
	w.expectPods("a=0+2")
	w.eventually("all pods have nodes", func() string {
		for _, pod := range w.pods() {
			if pod.Spec.NodeName == "" {
				return pod.Name + " has none"
			}
		}
		return ""
	})
	w.edit(adaptive(time.Second, closed)) // only now, since a scheduler may need more than a second
	w.pause(3 * time.Second)
	if got := spreadOf(w.pods()); got != "a=0+2" || schedulable(w.get(), "a").Status != corev1.ConditionTrue {
		w.Errorf("pods are %s; %s", got, summary(w.get()))
	}
}

// reserving keeps pods that find no node.
func reserving(ud *v1beta1.UnitedDeployment) {
	ud.Spec.Topology.ScheduleStrategy.Adaptive.ReserveUnschedulablePods = true
}

func reservation(w *world, kind func(*v1beta1.UnitedDeployment)) {
	w.cordon("a", true)
	begin := time.Now()
	w.create(w.newUD(2, "a", "b"), kind, adaptive(critical, closed), reserving)
	w.expectPods("a=0+2 b=2")
	w.Logf("%s from full to replaced (rescheduleCriticalSeconds %s)", time.Since(begin).Round(time.Millisecond), critical)
	ud := w.settle()
	if ud.Status.ReservedPods != 2 || ud.Status.SubsetStatuses[0].ReservedPods != 2 ||
		schedulable(ud, "a").Reason != division.SubsetReserved {
		w.Errorf("status: %+v", ud.Status)
	}
	selector, err := labels.Parse(ud.Status.LabelSelector)
	w.must(err)
	var seen []corev1.Pod
	for _, pod := range w.pods() {
		if selector.Matches(labels.Set(pod.Labels)) {
			seen = append(seen, pod)
		}
	}
	if got := spreadOf(seen); got != "b=2" {
		w.Errorf("the selector %s finds %s", ud.Status.LabelSelector, got)
	}
	w.quiet()
	film := w.film()
	begin = time.Now() // before it: the answer may come late
	w.cordon("a", false)
	w.expectPods("a=2")
	back := time.Since(begin)
	w.Logf("%s from recovered to returned (unschedulableDuration %s)", back.Round(time.Millisecond), closed)
	ud = w.settle()
	film.expect(2, 4)
	if gone := film.taken(); gone["a"] > 0 || back < closed-2*time.Second {
		w.Errorf("returned after %s; ready pods that were taken away: %v", back, gone)
	}
	if ud.Status.ReservedPods != 0 || schedulable(ud, "a").Status != corev1.ConditionTrue {
		w.Errorf("status: %+v", ud.Status)
	}
	for _, pod := range w.pods() {
		if got := pod.Labels[uniteddeployment.LabelReservedPod]; got != "false" {
			w.Errorf("pod %s has the mark %q", pod.Name, got)
		}
	}
	w.quiet()
}

// Half of the pods of a are reserved; the others are updated nevertheless.
func rolloutPastReserved(w *world) {
	w.addNode("a", 2)
	w.create(w.newUD(4, "a", "b"), deployments, adaptive(critical, closed), reserving)
	w.expectPods("a=2+2 b=2")
	w.settle()
	w.edit(image("nginx:2"))
	w.expectImages("a:2=4 b:2=2")
	w.eventually("it comes to rest", func() string {
		ud := w.get()
		if got := spreadOf(w.pods()); got != "a=2+2 b=2" ||
			condition(ud, v1beta1.ConditionReady).Status != corev1.ConditionTrue || ud.Status.ReservedPods != 2 {
			return got + ": " + summary(ud)
		}
		return ""
	})
}
