package cloneset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestSpread holds where the pods of spread CloneSets are made, and which of them go.
func TestSpread(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t, "workloadspreads")
	w.pools()
	t.Run("stories", func(t *testing.T) {
		for _, story := range []struct {
			name string
			run  func(*world, string)
		}{
			{"percentages", spreadPercentages},
			{"caps-and-an-open-end", spreadCaps},
			{"recreate", spreadRecreate},
			{"surge", spreadSurge},
			{"partition", spreadPartition},
			{"in-place", spreadInPlace},
			{"stamped", spreadStamped},
			{"later-and-gone", spreadLater},
			{"changed", spreadChanged},
			{"closed", spreadClosed},
			{"oldest", spreadOldest},
			{"invalid", spreadInvalid},
			{"refused", spreadRefused},
			{"claims", spreadClaims},
			{"two-writes", spreadWrites},
			{"of-the-hub", spreadOfTheHub},
		} {
			t.Run(story.name, func(t *testing.T) {
				t.Parallel()
				one := *w
				one.TB = t
				story.run(&one, story.name)
			})
		}
	})
	t.Run("restarted", func(t *testing.T) {
		one := *w
		one.TB = t
		one.spread("restarted", "2", "")
		w.stop()
		one.must(one.Create(one.Context(), newCloneSet("restarted", 5)))
		w.start()
		one.expectSpread("restarted", "a2 b3") // not one pod is made before the WorkloadSpreads are known
	})
}

// TestSpreadKindComesLater: a cluster need not know WorkloadSpreads, and may learn of them.
func TestSpreadKindComesLater(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	w.pools()
	w.create(newCloneSet("early", 2))
	w.install("workloadspreads")
	w.spread("early", "1", "")
	w.eventually("a new pod is spread", func() string {
		for pod, object := range w.pods("early") {
			if subset(&object) != "" {
				return ""
			}
			w.must(client.IgnoreNotFound(w.Delete(w.Context(),
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}})))
		}
		w.settle("early")
		return "none is"
	})
}

// pools gives the cluster a tainted node for each of the subsets a and b.
func (w *world) pools() {
	w.Helper()
	for _, pool := range []string{"a", "b"} {
		w.must(w.cluster.AddNodes(w.Context(), fleet.NodeSpec{Name: "pool-" + pool, Zone: "a",
			Labels: map[string]string{"pool": pool},
			Taints: []corev1.Taint{{Key: "pool", Value: pool, Effect: corev1.TaintEffectNoSchedule}}}))
	}
}

// newSpread returns a WorkloadSpread of the CloneSet of this name over the pools a and b, with these caps: "3", "30%",
// or "" for none.
func newSpread(name string, caps ...string) *v1beta1.WorkloadSpread {
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1beta1.WorkloadSpreadSpec{
			TargetReference: &v1beta1.TargetReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: name}}}
	for i, limit := range caps {
		pool := string(rune('a' + i))
		s := v1beta1.WorkloadSpreadSubset{
			Name: pool,
			RequiredNodeSelector: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{pool}}}},
			Tolerations: []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpEqual, Value: pool}},
		}
		if limit != "" {
			s.MaxReplicas = new(intstr.Parse(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

func (w *world) spread(name string, caps ...string) *v1beta1.WorkloadSpread {
	w.Helper()
	ws := newSpread(name, caps...)
	w.must(w.Create(w.Context(), ws))
	w.known(ws)
	return ws
}

// known waits until the cache of the controller has the WorkloadSpread as it is now, or has it no more.
func (w *world) known(ws *v1beta1.WorkloadSpread) {
	w.Helper()
	key := client.ObjectKeyFromObject(ws)
	w.eventually("the controller knows the WorkloadSpread", func() string {
		var truth, cached v1beta1.WorkloadSpread
		w.must(client.IgnoreNotFound(w.Get(w.Context(), key, &truth)))
		if err := client.IgnoreNotFound(w.cached.Get(w.Context(), key, &cached)); err != nil {
			return err.Error()
		}
		if truth.ResourceVersion != cached.ResourceVersion {
			return fmt.Sprintf("it has version %q of %q", cached.ResourceVersion, truth.ResourceVersion)
		}
		return ""
	})
}

// respread changes the WorkloadSpread.
func (w *world) respread(name string, change func(*v1beta1.WorkloadSpread)) {
	w.Helper()
	ws := &v1beta1.WorkloadSpread{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, ws))
	before := ws.DeepCopy()
	change(ws)
	w.must(w.Patch(w.Context(), ws, client.MergeFrom(before)))
	w.known(ws)
}

// subset returns the subset of the annotation, or "".
func subset(pod *corev1.Pod) string {
	_, rest, _ := strings.Cut(pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread], `"subset":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// expectSpread waits for rest and compares how many pods each subset has, "-" being none. Every pod runs where its
// subset is.
func (w *world) expectSpread(name, want string) map[string]corev1.Pod {
	w.Helper()
	pods, count := w.settle(name), map[string]int{}
	for pod, object := range pods {
		s := subset(&object)
		if s != "" && object.Spec.NodeName != "pool-"+s {
			w.Errorf("pod %s of subset %s is on node %s", pod, s, object.Spec.NodeName)
		}
		if s == "" {
			s = "-"
		}
		count[s]++
	}
	var got []string
	for _, s := range []string{"a", "b", "-"} {
		if count[s] > 0 {
			got = append(got, fmt.Sprintf("%s%d", s, count[s]))
		}
	}
	if text := strings.Join(got, " "); text != want {
		w.Errorf("%s, want %s", text, want)
	}
	return pods
}

func recreates(surge, unavailable int32) func(*v1beta1.CloneSet) {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.PodUpdatePolicy = v1beta1.ReCreatePodUpdatePolicy
		r.MaxSurge, r.MaxUnavailable = new(intstr.FromInt32(surge)), new(intstr.FromInt32(unavailable))
	})
}

func spreadPercentages(w *world, name string) {
	w.spread(name, "30%", "70%")
	w.must(w.Create(w.Context(), newCloneSet(name, 3)))
	for _, step := range []struct {
		replicas int32
		want     string
	}{{3, "a1 b2"}, {5, "a2 b3"}, {10, "a3 b7"}, {5, "a2 b3"}, {1, "a1"}} {
		w.change(name, replicas(step.replicas))
		w.expectSpread(name, step.want)
	}
}

func spreadCaps(w *world, name string) {
	w.spread(name, "2", "")
	w.must(w.Create(w.Context(), newCloneSet(name, 5)))
	for _, pod := range w.expectSpread(name, "a2 b3") {
		if cost, want := pod.Annotations[corev1.PodDeletionCost],
			map[string]string{"a": "200", "b": "100"}[subset(&pod)]; cost != want {
			w.Errorf("pod %s of subset %s has the cost %s, want %s", pod.Name, subset(&pod), cost, want)
		}
	}
	w.change(name, replicas(3))
	w.expectSpread(name, "a2 b1")
	w.change(name, replicas(1))
	w.expectSpread(name, "a1")
	w.change(name, replicas(4))
	w.expectSpread(name, "a2 b2")
}

func spreadRecreate(w *world, name string) {
	w.spread(name, "3", "")
	w.must(w.Create(w.Context(), newCloneSet(name, 6, recreates(0, 2))))
	before := w.expectSpread(name, "a3 b3")
	f := w.film(name)
	w.change(name, image("nginx:2"))
	w.expectUpdated(name, 6)
	w.expectAnew(before, w.expectSpread(name, "a3 b3"))
	for _, s := range f.end() {
		a := 0
		for _, pod := range s.now {
			if pod.DeletionTimestamp == nil && subset(pod) == "a" {
				a++
			}
		}
		if a > 3 {
			w.Fatalf("subset a has %d pods in the middle", a)
		}
	}
}

func spreadSurge(w *world, name string) {
	w.spread(name, "3", "3")
	w.must(w.Create(w.Context(), newCloneSet(name, 6, recreates(2, 0))))
	before := w.expectSpread(name, "a3 b3")
	w.change(name, image("nginx:2"))
	w.expectUpdated(name, 6)
	w.expectAnew(before, w.expectSpread(name, "a3 b3"))
}

func spreadPartition(w *world, name string) {
	w.spread(name, "50%", "50%")
	w.must(w.Create(w.Context(), newCloneSet(name, 6, recreates(1, 1))))
	w.expectSpread(name, "a3 b3")
	for _, step := range []struct {
		partition string
		updated   int32
	}{{"4", 2}, {"5", 1}, {"0", 6}} {
		w.change(name, func(cs *v1beta1.CloneSet) { image("nginx:2")(cs); partition(step.partition)(cs) })
		w.expectUpdated(name, step.updated)
		w.expectSpread(name, "a3 b3")
	}
}

func spreadInPlace(w *world, name string) {
	w.spread(name, "1", "")
	w.must(w.Create(w.Context(), newCloneSet(name, 3)))
	before := w.expectSpread(name, "a1 b2")
	w.change(name, func(cs *v1beta1.CloneSet) {
		image("nginx:2")(cs)
		cs.Spec.Template.Annotations = map[string]string{"note": "2"}
	})
	w.expectUpdated(name, 3)
	after := w.expectSpread(name, "a1 b2")
	w.expectSame(before, after)
	for pod, object := range after {
		if old := before[pod]; subset(&object) != subset(&old) || object.Annotations["note"] != "2" {
			w.Errorf("pod %s has annotations %v, had %v", pod, object.Annotations, old.Annotations)
		}
	}
}

func spreadStamped(w *world, name string) {
	ws := newSpread(name, "1", "")
	ws.Spec.Subsets[0].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: 7,
		Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}}}
	ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(
		`{"metadata":{"labels":{"tier":"cheap"}},"spec":{"containers":[{"name":"main","env":[{"name":"WHERE","value":"a"}]}]}}`)}
	w.must(w.Create(w.Context(), ws))
	w.known(ws)
	w.must(w.Create(w.Context(), newCloneSet(name, 2, func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpExists}}},
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}}},
			}}}}
	})))
	for _, pod := range w.expectSpread(name, "a1 b1") {
		node := pod.Spec.Affinity.NodeAffinity
		terms := node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 2 || len(terms[0].MatchExpressions) != 2 || len(terms[1].MatchExpressions) != 2 {
			w.Errorf("pod %s has the terms %v", pod.Name, terms)
		}
		first := subset(&pod) == "a"
		tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == "pool" && t.Value == subset(&pod)
		})
		if !tolerates || (len(node.PreferredDuringSchedulingIgnoredDuringExecution) == 1) != first ||
			(pod.Labels["tier"] == "cheap") != first ||
			(len(pod.Spec.Containers[0].Env) == 1) != first {
			w.Errorf("pod %s of subset %s: %v, %v, %v", pod.Name, subset(&pod), pod.Labels, pod.Spec.Tolerations,
				pod.Spec.Containers[0].Env)
		}
	}
}

func spreadLater(w *world, name string) {
	before := w.create(newCloneSet(name, 2))
	ws := w.spread(name, "1", "")
	w.change(name, replicas(4))
	after := w.expectSpread(name, "a1 b1 -2")
	for pod := range before {
		if _, ok := after[pod]; !ok {
			w.Errorf("pod %s is gone", pod)
		}
	}
	w.must(w.Delete(w.Context(), ws))
	w.known(ws)
	w.change(name, replicas(6))
	w.expectSpread(name, "a1 b1 -4")
}

// A WorkloadSpread that changes decides about the next pods, and touches none that runs.
func spreadChanged(w *world, name string) {
	w.spread(name, "1", "")
	w.must(w.Create(w.Context(), newCloneSet(name, 3)))
	before := w.expectSpread(name, "a1 b2")
	w.respread(name, func(ws *v1beta1.WorkloadSpread) {
		ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt32(3))
		ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)}
	})
	w.expectSame(before, w.expectSpread(name, "a1 b2"))
	w.change(name, replicas(5))
	for pod, object := range w.expectSpread(name, "a3 b2") {
		_, old := before[pod]
		if patched := object.Labels["patched"] == "yes"; patched == old {
			w.Errorf("pod %s, old: %v, has labels %v", pod, old, object.Labels)
		}
	}
}

func spreadClosed(w *world, name string) {
	ws := w.spread(name, "3", "")
	w.must(w.Create(w.Context(), newCloneSet(name, 2)))
	w.expectSpread(name, "a2")
	ws.Status.SubsetStatuses = []v1beta1.WorkloadSpreadSubsetStatus{{Name: "a", Conditions: []metav1.Condition{{
		Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse, Reason: "Unschedulable",
		LastTransitionTime: metav1.Now()}}}}
	w.must(w.Status().Update(w.Context(), ws))
	w.known(ws)
	w.change(name, replicas(4))
	w.expectSpread(name, "a2 b2")
	ws.Status.SubsetStatuses[0].Conditions[0].Status = metav1.ConditionTrue
	w.must(w.Status().Update(w.Context(), ws))
	w.known(ws)
	w.change(name, replicas(5))
	w.expectSpread(name, "a3 b2")
}

func spreadOldest(w *world, name string) {
	old := w.spread(name, "1", "")
	second := newSpread(name+"-second", "3", "")
	second.Spec.TargetReference.Name = name
	w.must(w.Create(w.Context(), second)) // if within the same second, the name decides
	w.known(second)
	w.must(w.Create(w.Context(), newCloneSet(name, 3)))
	w.expectSpread(name, "a1 b2")
	w.must(w.Delete(w.Context(), old))
	w.known(old)
	// Pods of the other spread are none of this one's; those of the nodes of its subsets count.
	w.change(name, replicas(6))
	count := 0
	for _, pod := range w.settle(name) {
		if strings.Contains(pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread], second.Name) {
			count++
		}
	}
	if pods := w.expectSpread(name, "a3 b3"); count != 3 {
		w.Errorf("%d of %d pods are the second one's", count, len(pods))
	}
}

// A WorkloadSpread that cannot be used keeps no pod from starting.
func spreadInvalid(w *world, name string) {
	ws := newSpread(name, "1", "")
	ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"containers":"none"}}`)}
	w.must(w.Create(w.Context(), ws))
	w.known(ws)
	w.must(w.Create(w.Context(), newCloneSet(name, 2)))
	w.expectSpread(name, "-2")
	for _, kind := range []v1beta1.CloneSetConditionType{v1beta1.ConditionStalled, v1beta1.CloneSetConditionFailedScale} {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				w.Errorf("condition %s: %s", kind, c.Message)
			}
		}
	}
}

// What the API server refuses is told, and tried again as soon as somebody has corrected it.
func spreadRefused(w *world, name string) {
	ws := newSpread(name, "")
	ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","imagePullPolicy":"Sometimes"}]}}`)}
	w.must(w.Create(w.Context(), ws))
	w.known(ws)
	w.must(w.Create(w.Context(), newCloneSet(name, 2)))
	w.stalled(name, "InvalidTemplate", "WorkloadSpread "+name, "Sometimes")
	w.respread(name, func(ws *v1beta1.WorkloadSpread) { ws.Spec.Subsets[0].Patch = runtime.RawExtension{} })
	w.expectSpread(name, "a2")
}

// The claims of a pod go to its successor, whatever subset that is in.
func spreadClaims(w *world, name string) {
	w.spread(name, "1", "")
	w.disks(name, 4)
	w.must(w.Create(w.Context(), newCloneSet(name, 2, disk("1Gi", true))))
	before := w.expectSpread(name, "a1 b1")
	for pod := range before {
		w.must(w.Delete(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}}))
	}
	w.eventually("both pods are made again under their names", func() string {
		for pod, object := range w.pods(name) {
			if old, ok := before[pod]; !ok || old.UID == object.UID {
				return pod + " is not new"
			}
		}
		return ""
	})
	w.expectSpread(name, "a1 b1")
}

// A spread costs no request: each pod is created and its gates are opened.
func spreadWrites(w *world, name string) {
	w.spread(name, "2", "")
	r := w.record(name)
	w.must(w.Create(w.Context(), newCloneSet(name, 4)))
	r.expectWrites(w.expectSpread(name, "a2 b2"), "create", "patch status")
}

// spreadOfTheHub: a WorkloadSpread of a hub needs no object in the member, and goes before one that stands there.
func spreadOfTheHub(w *world, name string) {
	w.spread(name, "0", "")
	part := func(a, b int) func(*v1beta1.CloneSet) {
		return func(cs *v1beta1.CloneSet) {
			text := `{"name":"of-the-hub","subsets":[`
			for i, n := range []int{a, b} {
				pool := string(rune('a' + i))
				text += fmt.Sprintf(`%s{"name":%q,"maxReplicas":%d,"requiredNodeSelector":{"matchExpressions":[{"key":"pool","operator":"In","values":[%q]}]},"tolerations":[{"key":"pool","operator":"Exists"}]}`,
					strings.Repeat(",", i), pool, n, pool)
			}
			cs.Annotations, cs.Spec.Replicas = map[string]string{topology.AnnotationSpread: text + "]}"}, new(int32(a+b))
		}
	}
	w.must(w.Create(w.Context(), newCloneSet(name, 5, part(3, 2))))
	before := w.expectSpread(name, "a3 b2")
	for _, pod := range before {
		if got := pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]; !strings.Contains(got, "of-the-hub") {
			w.Errorf("pod %s has %s", pod.Name, got)
		}
	}
	w.change(name, part(2, 3))
	w.eventually("the controller has seen it", func() string {
		if cs := w.get(name); cs.Status.ObservedSpread != topology.SpreadSeen(cs.Annotations) {
			return cs.Status.ObservedSpread
		}
		return ""
	})
	w.expectSame(before, w.expectSpread(name, "a3 b2")) // nothing that runs moves
	w.change(name, part(2, 2))
	w.expectSpread(name, "a2 b2")
}
