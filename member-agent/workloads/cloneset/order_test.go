package cloneset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// TestOrder holds which pods are updated and removed first, and what bounds how fast.
func TestOrder(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	t.Run("stories", func(t *testing.T) {
		for _, story := range []struct {
			name string
			run  func(*world, string)
		}{
			{"weight-priority", weightPriority},
			{"order-priority", orderPriority},
			{"scatter", scatter},
			{"deletion-cost", deletionCost},
			{"topology-scale-in", topologyScaleIn},
			{"pods-to-delete", podsToDelete},
			{"pods-to-delete-scale-in", podsToDeleteScaleIn},
			{"specified-delete-in-rollout", specifiedDeleteInRollout},
			{"scale-max-unavailable", scaleMaxUnavailable},
			{"min-ready-seconds", minReadySeconds},
			{"progress", progress},
			{"case11-progressing", case11Progressing},
			{"partition-up-and-down", partitionUpAndDown},
			{"undo", undo},
			{"undo-in-rollout", undoInRollout},
			{"release-and-adopt", releaseAndAdopt},
			{"uniform-labels", uniformLabels},
		} {
			t.Run(story.name, func(t *testing.T) {
				t.Parallel()
				one := *w
				one.TB = t
				story.run(&one, story.name)
			})
		}
	})
	t.Run("short-hash", func(t *testing.T) {
		one := *w
		one.TB = t
		one.create(newCloneSet("full-hash", 3))
		w.stop()
		w.env = workload.Env{ShortHash: true}
		w.start()
		shortHash(&one, "short-hash")
	})
}

func oneByOne(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = new(intstr.FromInt32(1)) }

// labelled creates a CloneSet and gives its pods the labels, in the order of their names; it returns the labels by pod.
func (w *world) labelled(cs *v1beta1.CloneSet, key string, values ...string) map[string]string {
	w.Helper()
	pods, out := w.create(cs), map[string]string{}
	for i, pod := range sorted(pods) {
		out[pod] = values[i]
		if values[i] != "" {
			w.relabel(pod, map[string]string{key: values[i]})
		}
	}
	w.knownPods(cs.Name)
	return out
}

// knownPods waits until the controller knows the pods as they are: it may learn of a change of the CloneSet before it
// learns of one of its pods that was made earlier.
func (w *world) knownPods(name string) {
	w.Helper()
	w.eventually("the controller knows the pods of "+name, func() string {
		for _, pod := range w.pods(name) {
			var cached corev1.Pod
			if err := w.cached.Get(w.Context(), client.ObjectKeyFromObject(&pod), &cached); err != nil {
				return err.Error()
			}
			if cached.ResourceVersion != pod.ResourceVersion {
				return "not " + pod.Name
			}
		}
		return ""
	})
}

// rollout updates to nginx:2 behind a partition while one pod, which the order has last, is not ready; it is not
// touched. Then that pod gets well and all others follow. It returns the labels of the pods in the order in which they
// were updated.
func (w *world) rollout(name string, labels map[string]string, partitioned int32, want []string) []string {
	w.Helper()
	sick := ""
	for pod, value := range labels {
		if value == "" && (sick == "" || pod < sick) {
			sick = pod
		}
	}
	f := w.film(name)
	w.relabel(sick, map[string]string{fleet.LabelNeverReady: "true"})
	w.expectSoon(name, "one pod is not ready", func(cs *v1beta1.CloneSet) string {
		if n := cs.Status.ReadyReplicas; n != int32(len(labels))-1 {
			return fmt.Sprintf("%d are ready", n)
		}
		return ""
	})
	w.change(name, func(cs *v1beta1.CloneSet) {
		image("nginx:2")(cs)
		rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
			r.Partition, r.MaxUnavailable = new(intstr.FromInt32(partitioned)), new(intstr.FromInt32(2))
		})(cs)
	})
	w.expectUpdated(name, int32(len(labels))-partitioned)
	var got []string
	for pod, object := range w.pods(name) {
		if runs("nginx:2")(&object) {
			got = append(got, labels[pod])
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("behind the partition the pods with %q are updated, want %q", got, want)
	}
	w.relabel(sick, map[string]string{fleet.LabelNeverReady: ""})
	w.settle(name)
	w.change(name, func(cs *v1beta1.CloneSet) { partition("0")(cs); rolling(oneByOne)(cs) })
	w.expectUpdated(name, int32(len(labels)))
	w.settle(name)
	var order []string
	for _, pod := range f.firsts(f.end(), runs("nginx:2")) {
		order = append(order, labels[pod])
	}
	return order
}

func weightPriority(w *world, name string) {
	term := func(weight int32, tier string) v1beta1.UpdatePriorityWeightTerm {
		return v1beta1.UpdatePriorityWeightTerm{Weight: weight,
			MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}}
	}
	cs := newCloneSet(name, 6, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.PriorityStrategy = &v1beta1.UpdatePriorityStrategy{WeightPriority: []v1beta1.UpdatePriorityWeightTerm{term(30,
			"back"), term(60, "front")}}
	}))
	labels := w.labelled(cs, "tier", "", "front", "back", "front", "", "back")
	got := w.rollout(name, labels, 3, []string{"back", "front", "front"})
	if want := []string{"front", "front", "back", "back", "", ""}; !slices.Equal(got, want) {
		w.Errorf("updated in the order %q, want %q", got, want)
	}
}

func orderedBy(key string) func(*v1beta1.CloneSet) {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.PriorityStrategy = &v1beta1.UpdatePriorityStrategy{OrderPriority: []v1beta1.UpdatePriorityOrderTerm{{OrderedKey: key}}}
	})
}

func orderPriority(w *world, name string) {
	labels := w.labelled(newCloneSet(name, 5, orderedBy("step")), "step", "", "s-3", "s-20", "", "s-1")
	got := w.rollout(name, labels, 2, []string{"s-1", "s-20", "s-3"})
	// Pods without the key come last.
	if want := []string{"s-20", "s-3", "s-1", "", ""}; !slices.Equal(got, want) {
		w.Errorf("updated in the order %q, want %q", got, want)
	}
}

func scatter(w *world, name string) {
	cs := newCloneSet(name, 6, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		oneByOne(r)
		r.ScatterStrategy = []v1beta1.UpdateScatterTerm{{Key: "role", Value: "writer"}}
	}))
	labels := w.labelled(cs, "role", "writer", "writer", "writer", "reader", "reader", "reader")
	f := w.film(name)
	for _, step := range []string{"4", "2", "0"} { // the order goes on where the last step stopped
		w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition(step)(cs) })
		w.settle(name)
	}
	w.expectUpdated(name, 6)
	var got []string
	for _, pod := range f.firsts(f.end(), runs("nginx:2")) {
		got = append(got, labels[pod])
	}
	if want := []string{"writer", "reader", "reader", "writer", "reader", "writer"}; !slices.Equal(got, want) {
		w.Errorf("updated in the order %q, want %q", got, want)
	}
}

// cost sets the deletion cost of a pod.
func (w *world) cost(pod, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, corev1.PodDeletionCost, value)
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}}
	w.must(w.Patch(w.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func deletionCost(w *world, name string) {
	costs := map[string]string{}
	for i, pod := range sorted(w.create(newCloneSet(name, 4))) {
		costs[pod] = []string{"-10", "5", "", "100"}[i]
		if costs[pod] != "" {
			w.cost(pod, costs[pod])
		}
	}
	w.knownPods(name)
	for _, want := range [][]string{{"", "100", "5"}, {"100", "5"}} {
		w.change(name, replicas(int32(len(want))))
		var left []string
		for pod := range w.settle(name) {
			left = append(left, costs[pod])
		}
		if slices.Sort(left); !slices.Equal(left, want) {
			w.Errorf("pods with the costs %q are left, want %q", left, want)
		}
	}
}

// Zone a has two full nodes and zone b one: every node has as many pods as the others, and the pods of zone b are
// younger. So only the zones tell that those of zone a are to go.
func topologyScaleIn(w *world, name string) {
	taint := corev1.Taint{Key: "pool", Value: name, Effect: corev1.TaintEffectNoSchedule}
	node := func(zone string, n int) fleet.NodeSpec {
		return fleet.NodeSpec{Name: fmt.Sprintf("%s-%s-%d", name, zone, n), Zone: zone, Pods: 2,
			Labels: map[string]string{"pool": name}, Taints: []corev1.Taint{taint}}
	}
	w.must(w.cluster.AddNodes(w.Context(), node("a", 0), node("a", 1)))
	w.create(newCloneSet(name, 4, func(cs *v1beta1.CloneSet) {
		spec := &cs.Spec.Template.Spec
		spec.NodeSelector = map[string]string{"pool": name}
		spec.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: cs.Spec.Selector,
		}}
	}))
	w.must(w.cluster.AddNodes(w.Context(), node("b", 0)))
	w.change(name, replicas(6))
	zones := func(pods map[string]corev1.Pod) map[string]int {
		out := map[string]int{}
		for _, pod := range pods {
			out[strings.TrimPrefix(pod.Spec.NodeName, name)[:2]]++
		}
		return out
	}
	if got := zones(w.settle(name)); !maps.Equal(got, map[string]int{"-a": 4, "-b": 2}) {
		w.Fatalf("the pods are in the zones %v", got)
	}
	w.change(name, replicas(4))
	if got := zones(w.settle(name)); !maps.Equal(got, map[string]int{"-a": 2, "-b": 2}) {
		w.Errorf("the pods left are in the zones %v", got)
	}
}

func toDelete(names ...string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.PodsToDelete = names }
}

// expectPruned waits until the list is empty and none of the pods is left; it returns those that are there.
func (w *world) expectPruned(name string, gone []string) map[string]corev1.Pod {
	w.Helper()
	var pods map[string]corev1.Pod
	w.eventually("the pods are gone and the list is empty", func() string {
		pods = w.settle(name)
		if left := w.get(name).Spec.ScaleStrategy.PodsToDelete; len(left) > 0 {
			return fmt.Sprintf("podsToDelete %v", left)
		}
		for _, pod := range gone {
			if _, ok := pods[pod]; ok {
				return pod + " is there"
			}
		}
		return ""
	})
	return pods
}

func podsToDelete(w *world, name string) {
	before := w.create(newCloneSet(name, 5))
	f := w.film(name)
	named := sorted(before)[:3]
	w.change(name, toDelete(append([]string{name + "-none"}, named...)...))
	after := w.expectPruned(name, named)
	for _, pod := range sorted(before)[3:] {
		if after[pod].UID != before[pod].UID {
			w.Errorf("pod %s was not asked for and is gone", pod)
		}
	}
	f.expectBounds(f.end(), 3, 5)
}

func podsToDeleteScaleIn(w *world, name string) {
	before := w.create(newCloneSet(name, 5))
	f := w.film(name)
	named := sorted(before)[1:3]
	w.change(name, func(cs *v1beta1.CloneSet) { replicas(3)(cs); toDelete(named...)(cs) })
	after := w.expectPruned(name, named)
	for pod := range after {
		if _, ok := before[pod]; !ok {
			w.Errorf("pod %s was made though pods were to go", pod)
		}
	}
	f.expectBounds(f.end(), 3, 5)
}

func specifiedDeleteInRollout(w *world, name string) {
	before := w.create(newCloneSet(name, 8, rolling(oneByOne)))
	f := w.film(name)
	w.change(name, image("nginx:2"))
	var doomed string
	w.eventually("the rollout has begun", func() string {
		pods := w.pods(name)
		if imagesOf(pods)["nginx:2"] == 0 {
			return "no pod is updated"
		}
		for pod, object := range pods {
			if runs("nginx:1")(&object) {
				doomed = pod
			}
		}
		return ""
	})
	w.relabel(doomed, map[string]string{v1beta1.LabelSpecifiedDelete: "true"})
	labelled := time.Now()
	w.expectUpdated(name, 8)
	after := w.settle(name)
	if _, ok := after[doomed]; ok {
		w.Errorf("pod %s is still there", doomed)
	}
	delete(before, doomed)
	for pod, object := range before {
		if after[pod].UID != object.UID {
			w.Errorf("pod %s was made anew", pod)
		}
	}
	scenes := f.end()
	f.expectBounds(scenes, 7, 8)
	// The label may come when the update of the pod has been decided: only one that begins a pass later is wrong.
	const longestPass = 5 * time.Second
	for _, s := range scenes {
		gate := podstate.Condition(s.pod, v1beta1.InPlaceUpdateReady)
		if s.pod.Name == doomed && runs("nginx:2")(s.pod) && gate != nil && gate.Status == corev1.ConditionFalse &&
			gate.LastTransitionTime.After(labelled.Add(longestPass)) {
			w.Errorf("pod %s was updated though it was to go", doomed)
		}
	}
}

func scaleMaxUnavailable(w *world, name string) {
	f := w.film(name)
	w.must(w.Create(w.Context(), newCloneSet(name, 6, image("nginx:does-not-exist"), func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromString("25%")) // of 6, rounded up: 2
	})))
	w.expectSoon(name, "two pods are made, and no more while they are not available", func(cs *v1beta1.CloneSet) string {
		if cs.Status.Replicas != 2 {
			return fmt.Sprintf("%d pods", cs.Status.Replicas)
		}
		return ""
	})
	w.change(name, image("nginx:1"))
	w.expectUpdated(name, 6)
	w.settle(name)
	for _, s := range f.end() {
		if n := tally(s.now, active) - tally(s.now, serving); n > 2 {
			w.Fatalf("%d pods were not available at a time", n)
		}
	}
}

// readySince returns when the pod became ready, zero if it is not.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func minReadySeconds(w *world, name string) {
	const seconds = 3
	w.create(newCloneSet(name, 3, rolling(oneByOne), func(cs *v1beta1.CloneSet) { cs.Spec.MinReadySeconds = seconds }))
	f := w.film(name)
	w.change(name, image("nginx:2"))
	w.expectUpdated(name, 3)
	scenes, begun := f.end(), map[string]bool{}
	updates := 0
	for _, s := range scenes {
		if !runs("nginx:2")(s.pod) || begun[s.pod.Name] {
			continue
		}
		begun[s.pod.Name] = true
		updates++
		var shut time.Time
		for _, c := range s.pod.Status.Conditions {
			if c.Type == v1beta1.InPlaceUpdateReady {
				shut = c.LastTransitionTime.Time
			}
		}
		for other, pod := range s.now {
			if since := readySince(pod); other != s.pod.Name && (since.IsZero() || shut.Sub(since) < seconds*time.Second) {
				w.Errorf("the update of pod %s began at %v; pod %s had been ready since %v, less than %d s", s.pod.Name, shut,
					other, since, seconds)
			}
		}
	}
	if updates != 3 {
		w.Errorf("the film shows %d updates", updates)
	}
}

func (w *world) expectProgress(name string, status corev1.ConditionStatus, reason string) {
	w.Helper()
	w.expectSoon(name, "Progressing is "+reason, func(cs *v1beta1.CloneSet) string {
		if c := conditionOf(cs, v1beta1.CloneSetConditionProgressing); c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
}

func progress(w *world, name string) {
	deadline := func(seconds int32) func(*v1beta1.CloneSet) {
		return func(cs *v1beta1.CloneSet) { cs.Spec.ProgressDeadlineSeconds = &seconds }
	}
	pause := func(paused bool) func(*v1beta1.CloneSet) {
		return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = paused })
	}
	w.create(newCloneSet(name, 3, rolling(oneByOne), deadline(600)))
	w.expectProgress(name, corev1.ConditionTrue, "CloneSetAvailable")
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition("2")(cs) })
	w.expectProgress(name, corev1.ConditionTrue, "ProgressPartitionAvailable")
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:does-not-exist")(cs); partition("0")(cs) })
	w.expectProgress(name, corev1.ConditionTrue, "CloneSetUpdated")
	w.change(name, deadline(2))
	w.expectProgress(name, corev1.ConditionFalse, "ProgressDeadlineExceeded")
	w.expectSoon(name, "Case4: the image that cannot be pulled is Stalled", func(cs *v1beta1.CloneSet) string {
		c := conditionOf(cs, v1beta1.ConditionStalled)
		if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "ContainerFailing: pod "+name) {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	w.change(name, pause(true))
	w.expectProgress(name, corev1.ConditionTrue, "CloneSetPaused")
	// The time of the pause does not count: the deadline begins anew.
	w.change(name, func(cs *v1beta1.CloneSet) { pause(false)(cs); deadline(600)(cs) })
	w.expectProgress(name, corev1.ConditionTrue, "CloneSetUpdated")
	w.change(name, image("nginx:2"))
	w.expectProgress(name, corev1.ConditionTrue, "CloneSetAvailable")
	w.expectImages(w.settle(name), map[string]int{"nginx:2": 3})
}

// Case 11: without a deadline, or with the largest number, the condition is absent; with one its texts are the
// published ones.
func case11Progressing(w *world, name string) {
	deadline := func(seconds *int32) func(*v1beta1.CloneSet) {
		return func(cs *v1beta1.CloneSet) { cs.Spec.ProgressDeadlineSeconds = seconds }
	}
	expect := func(want string) {
		w.Helper()
		w.expectSoon(name, "Progressing is "+want, func(cs *v1beta1.CloneSet) string {
			c := conditionOf(cs, v1beta1.CloneSetConditionProgressing)
			got := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
			if cs.Status.ObservedGeneration != cs.Generation || got != want {
				return got
			}
			return ""
		})
	}
	w.create(newCloneSet(name, 2, rolling(oneByOne)))
	expect("")
	for _, seconds := range []*int32{new(int32(600)), new(int32(2147483647)), new(int32(2147483646)), nil} {
		w.change(name, deadline(seconds))
		if conditions.HasDeadline(seconds) {
			expect("True CloneSetAvailable CloneSet is available")
		} else {
			expect("")
		}
	}
	w.change(name, func(cs *v1beta1.CloneSet) { deadline(new(int32(600)))(cs); image("nginx:2")(cs); partition("1")(cs) })
	expect("True ProgressPartitionAvailable CloneSet has been paused due to partition ready")
	w.change(name, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = true }))
	expect("True CloneSetPaused CloneSet is paused")
	w.change(name, func(cs *v1beta1.CloneSet) {
		cs.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDeleteCloneSetUpdateStrategyType}
	})
	expect("True CloneSetUpdated CloneSet is progressing")
	w.must(w.DeleteAllOf(w.Context(), &corev1.Pod{}, client.InNamespace("default"), client.MatchingLabels{"app": name}))
	expect("True CloneSetAvailable CloneSet is available")
	w.change(name, func(cs *v1beta1.CloneSet) {
		cs.Spec.UpdateStrategy.Type = v1beta1.RollingUpdateCloneSetUpdateStrategyType
		deadline(new(int32(2)))(cs)
		image("nginx:does-not-exist")(cs)
	})
	w.expectProgress(name, corev1.ConditionFalse, "ProgressDeadlineExceeded")
	expect("False ProgressDeadlineExceeded CloneSet revision " + w.get(name).Status.UpdateRevision +
		" has timed out progressing")
	w.change(name, deadline(nil))
	expect("")
}

func partitionUpAndDown(w *world, name string) {
	before := w.create(newCloneSet(name, 10, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = new(intstr.FromInt32(5)) })))
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition("100%")(cs) })
	w.settle(name)
	old := w.get(name).Status.CurrentRevision
	for _, step := range []struct {
		partition string
		updated   int
	}{{"100%", 0}, {"95%", 1}, {"99%", 1}, {"45%", 5}, {"7", 3}, {"70%", 3}, {"2", 8}, {"10", 0}, {"50%", 5}, {"25", 0},
		{"1", 9}} {
		w.change(name, partition(step.partition))
		pods := w.settle(name)
		w.expectSame(before, pods)
		if got := imagesOf(pods); got["nginx:2"] != step.updated || got["nginx:1"] != 10-step.updated {
			w.Errorf("at rest behind the partition %s: images %v, want %d of nginx:2", step.partition, got, step.updated)
		}
		if s := w.get(name).Status; int(s.ExpectedUpdatedReplicas) != step.updated ||
			int(s.UpdatedReplicas) != step.updated || s.CurrentRevision != old {
			w.Errorf("behind the partition %s: status %+v", step.partition, s)
		}
	}
	w.change(name, partition("0%"))
	w.expectImages(w.settle(name), map[string]int{"nginx:2": 10})
	if s := w.get(name).Status; s.CurrentRevision != s.UpdateRevision {
		w.Errorf("status %+v", s)
	}
}

func undo(w *world, name string) {
	before := w.create(newCloneSet(name, 3))
	first := w.get(name).Status.UpdateRevision
	w.change(name, image("nginx:2"))
	w.settle(name)
	if got := w.get(name).Status.UpdateRevision; got == first {
		w.Errorf("two templates have the revision %s", got)
	}
	w.change(name, image("nginx:1"))
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:1": 3})
	if s := w.get(name).Status; s.UpdateRevision != first || s.CurrentRevision != first {
		w.Errorf("the first template has the revision %s now, it had %s; current is %s", s.UpdateRevision, first,
			s.CurrentRevision)
	}
	revisions := w.revisions(name)
	if len(revisions) != 2 {
		w.Errorf("%d revisions, want 2", len(revisions))
	}
	for _, revision := range revisions {
		if newest := revision.Revision == 3; newest != (revision.Name == first) {
			w.Errorf("revision %s has the number %d", revision.Name, revision.Revision)
		}
	}
}

func undoInRollout(w *world, name string) {
	before := w.create(newCloneSet(name, 4))
	first := w.get(name).Status.UpdateRevision
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition("2")(cs) })
	w.settle(name)
	f := w.film(name)
	w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:1")(cs); partition("0")(cs) })
	w.expectUpdated(name, 4)
	after := w.settle(name)
	w.expectSame(before, after)
	w.expectImages(after, map[string]int{"nginx:1": 4})
	if s := w.get(name).Status; s.UpdateRevision != first || s.CurrentRevision != first {
		w.Errorf("status %+v, want the revision %s", s, first)
	}
	f.expectBounds(f.end(), 2, 4)
}

func releaseAndAdopt(w *world, name string) {
	before := w.create(newCloneSet(name, 3))
	one := sorted(before)[0]
	controller := func() *metav1.OwnerReference {
		pod := &corev1.Pod{}
		w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: one}, pod))
		if pod.UID != before[one].UID || pod.DeletionTimestamp != nil {
			w.Fatalf("pod %s was touched: %+v", one, pod.ObjectMeta)
		}
		return metav1.GetControllerOf(pod)
	}
	w.relabel(one, map[string]string{"app": name + "-aside"})
	w.eventually("the pod is released, and runs on", func() string {
		if ref := controller(); ref != nil {
			return fmt.Sprint("it belongs to ", ref.Name)
		}
		return ""
	})
	after := w.settle(name)
	if len(after) != 3 {
		w.Fatalf("%d pods", len(after))
	}
	// When it matches again it is taken back, and there is one pod too many: its deletion cost says that it is to stay.
	w.cost(one, "100")
	w.relabel(one, map[string]string{"app": name})
	w.eventually("the pod is adopted", func() string {
		if ref := controller(); ref == nil || ref.UID != w.get(name).UID {
			return fmt.Sprint("it belongs to ", ref)
		}
		return ""
	})
	if after = w.settle(name); len(after) != 3 || after[one].UID != before[one].UID {
		w.Errorf("pod %s is gone: %v", one, sorted(after))
	}
}

func hashes(pods map[string]corev1.Pod) (short, full int) {
	for _, pod := range pods {
		switch label, hash := pod.Labels["controller-revision-hash"], pod.Labels[v1beta1.LabelPodTemplateHash]; {
		case hash == "" || !strings.HasSuffix(label, hash):
		case label == hash:
			short++
		default:
			full++
		}
	}
	return short, full
}

// Pods that were taken over with short labels stay as they are, and new ones are like them.
func uniformLabels(w *world, name string) {
	for pod, object := range w.create(newCloneSet(name, 3)) {
		w.relabel(pod, map[string]string{"controller-revision-hash": object.Labels[v1beta1.LabelPodTemplateHash]})
	}
	w.change(name, replicas(5))
	w.eventually("all labels are short", func() string {
		if short, full := hashes(w.pods(name)); short != 5 || full != 0 {
			return fmt.Sprintf("%d are, %d are not", short, full)
		}
		return ""
	})
	w.change(name, image("nginx:2"))
	w.expectUpdated(name, 5)
	if short, full := hashes(w.pods(name)); short != 5 || full != 0 {
		w.Errorf("after an update %d labels are short, %d are not", short, full)
	}
}

func shortHash(w *world, name string) {
	w.must(w.Create(w.Context(), newCloneSet(name, 3)))
	w.expectUpdated(name, 3)
	if short, full := hashes(w.pods(name)); short != 3 || full != 0 {
		w.Errorf("%d labels are short, %d are not", short, full)
	}
	cs := w.get(name)
	if !strings.HasPrefix(cs.Status.UpdateRevision, name+"-") {
		w.Errorf("the status names the revision %q", cs.Status.UpdateRevision)
	}
	// Pods that were there before keep their labels through updates.
	w.change("full-hash", image("nginx:3"))
	w.expectUpdated("full-hash", 3)
	w.change("full-hash", replicas(4))
	w.expectUpdated("full-hash", 4)
	if short, full := hashes(w.pods("full-hash")); short != 1 || full != 3 {
		w.Errorf("of the pods of before %d labels are short, %d are not", short, full)
	}
}
