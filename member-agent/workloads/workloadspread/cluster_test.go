package workloadspread

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestInCluster runs the stories on one real cluster, each in a namespace of its own.
func TestInCluster(t *testing.T) {
	w := newWorld(t, nil)
	for _, story := range []struct {
		name string
		run  func(*space)
	}{
		{"percentages and scale-in", percentages},
		{"deployment adopted", deploymentAdopted},
		{"deployment rolled", deploymentRolled},
		{"statefulset and job adopted", otherTargets},
		{"advanced statefulset", advancedStatefulSet},
		{"full zone of an advanced statefulset", fullZoneOfAStatefulSet},
		{"replicaset by percentage", replicaSetTarget},
		{"target filter", targetFilter},
		{"missing target", missingTarget},
		{"problems are told", problems},
		{"two spreads", twoSpreads},
		{"spreads of a deployment and its replicaset", spreadOfItsReplicaSet},
		{"Case13 pods of a removed subset go first", removedSubset},
		{"deleted spread", deletedSpread},
		{"full zone", fullZone},
		{"full zone of a job", fullZoneOfAJob},
	} {
		t.Run(story.name, func(t *testing.T) { story.run(w.space(t, nil)) })
	}
	t.Run("federated namespace", func(t *testing.T) {
		federatedNamespace(w.space(t, map[string]string{topology.LabelFederated: "true"}))
	})
	t.Run("restarted", func(t *testing.T) { restarted(w.space(t, nil)) })
}

// percentages: a CloneSet gets 30 % and 70 %, grows and shrinks; the controller writes to no pod but those above a cap.
func percentages(s *space) {
	s.spread(aSpread("CloneSet", "a=30%", "b=70%"))
	s.cloneSet(10)
	s.eventuallyPods("a/a/200=3 b/b/100=7")
	s.eventuallyRows("a 3/0, b 7/0")
	if patched, _ := s.written.counted(s.namespace); patched != 0 {
		s.Errorf("%d patches for 10 new pods, want none", patched)
	}
	s.quiet()
	s.scale(&v1beta1.CloneSet{}, 20)
	s.eventuallyPods("a/a/200=6 b/b/100=14")
	_, statusWrites := s.written.counted(s.namespace)
	s.Logf("figure: 0 pod writes and %d status writes for the start of 20 pods, scale-out and rest", statusWrites)
	s.scale(&v1beta1.CloneSet{}, 5)
	// The caps of 5 are 2 and 4: what is above them goes first, then what is last.
	s.eventuallyPods("a/a/200=2 b/b/100=3")
	s.quiet()
}

// deploymentAdopted: pods that no webhook stamped get subsets from their nodes, and costs; the next scale-in puts the
// numbers right.
func deploymentAdopted(s *space) {
	s.deployment(8)
	s.eventually("pods run", func() string {
		if got := tally(s.pods(), func(p *corev1.Pod) string { return string(p.Status.Phase) }); got != "Running=8" {
			return "pods: " + got
		}
		return ""
	})
	inA := 0
	for _, pod := range s.pods() {
		if zoneOf(pod.Spec.NodeName) == "a" {
			inA++
		}
	}
	s.known()
	before := s.pods()
	ws := aSpread("Deployment", "a=2", "b")
	ws.Spec.Subsets[0].Patch.Raw = []byte(`{"metadata":{"annotations":{"tier":"fixed"}}}`)
	s.spread(ws)
	want := fmt.Sprintf("a/a/-100=%d a/a/200=%d b/b/100=%d", max(0, inA-2), min(2, inA), 8-inA)
	if inA <= 2 {
		want = fmt.Sprintf("a/a/200=%d b/b/100=%d", inA, 8-inA)
	}
	s.eventuallyPods(want)
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
	patched, _ := s.written.counted(s.namespace)
	if patched != 8 {
		s.Errorf("%d patches for 8 pods, want one each", patched)
	}
	for _, pod := range s.pods() {
		if (subsetOf(&pod) == "a") != (pod.Annotations["tier"] == "fixed") {
			s.Errorf("pod %s of subset %s has annotations %v", pod.Name, subsetOf(&pod), pod.Annotations)
		}
	}
	if same := sameUIDs(before, s.pods()); same != 8 {
		s.Errorf("%d of 8 pods are the same after the spread came", same)
	}
	s.quiet()
	s.scale(&appsv1.Deployment{}, 3)
	s.eventually("what is above the cap goes first", func() string {
		pods := s.pods()
		if got := tally(pods, subsetOf); len(pods) != 3 || !strings.HasPrefix(got, fmt.Sprintf("a=%d", min(2, inA))) {
			return "pods: " + got
		}
		return ""
	})
	ready := s.get("web").Status.VersionedSubsetStatuses
	if len(ready) != 1 {
		s.Errorf("versions %v, want one", ready)
	}
	s.quiet()
}

func sameUIDs(before, after []corev1.Pod) int {
	known := map[types.UID]bool{}
	for _, pod := range before {
		known[pod.UID] = true
	}
	same := 0
	for _, pod := range after {
		if known[pod.UID] {
			same++
		}
	}
	return same
}

// deploymentRolled: while a Deployment is rolled its old pods get costs in the opposite order, and the status tells
// both versions.
func deploymentRolled(s *space) {
	s.spread(aSpread("Deployment", "a", "b"))
	s.deployment(4)
	s.eventually("pods are adopted", func() string {
		if got := tally(s.pods(), subsetOf); strings.Contains(got, "-=") || got == "" {
			return "pods: " + got
		}
		return ""
	})
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	// The new pods never get ready, so that the old ones stay.
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{%q:"true"}}}}}`, fleet.LabelNeverReady)
	s.must(s.Patch(s.Context(), d, client.RawPatch(types.MergePatchType, []byte(patch))))
	s.eventually("old pods of a have the lower cost", func() string {
		old, fresh := 0, 0
		for _, pod := range s.pods() {
			want := map[string]string{"a": "200", "b": "100"}
			if pod.Labels[fleet.LabelNeverReady] == "" {
				want = map[string]string{"a": "100", "b": "200"}
				old++
			} else {
				fresh++
			}
			if got := pod.Annotations[corev1.PodDeletionCost]; got != want[subsetOf(&pod)] {
				return fmt.Sprintf("%s of %q has %s", pod.Name, subsetOf(&pod), got)
			}
		}
		if old == 0 || fresh == 0 {
			return fmt.Sprintf("%d old and %d new pods", old, fresh)
		}
		return ""
	})
	s.eventually("both versions are told", func() string {
		if n := len(s.get("web").Status.VersionedSubsetStatuses); n != 2 {
			return fmt.Sprintf("%d versions", n)
		}
		return ""
	})
}

// otherTargets: pods of StatefulSets and Jobs get subsets and no costs.
func otherTargets(s *space) {
	s.spread(aSpread("StatefulSet", "a=1", "b"))
	s.make(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), Selector: selector(), Template: template()}})
	check := func(name string, n int) {
		s.eventually("the pods of "+name+" are adopted", func() string {
			mine := 0
			for _, pod := range s.pods() {
				if !strings.HasPrefix(pod.Name, name+"-") {
					continue
				}
				mine++
				if pod.Spec.NodeName == "" || subsetOf(&pod) != zoneOf(pod.Spec.NodeName) {
					return pod.Name + " is in " + where(&pod)
				}
				if cost, ok := pod.Annotations[corev1.PodDeletionCost]; ok {
					s.Fatalf("pod %s has cost %s", pod.Name, cost)
				}
			}
			if mine != n {
				return fmt.Sprintf("%d pods", mine)
			}
			return ""
		})
	}
	check("web", 3)
	job := aSpread("Job", "a=50%", "b=50%")
	job.Name, job.Spec.TargetReference.Name = "batch", "batch"
	s.spread(job)
	pods := template()
	pods.Spec.RestartPolicy = corev1.RestartPolicyNever
	pods.Annotations = map[string]string{fleet.AnnotationRunFor: "1h"}
	s.make(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "batch"},
		Spec: batchv1.JobSpec{Parallelism: new(int32(4)), Completions: new(int32(4)), Template: pods}})
	check("batch", 4)
	s.eventually("the caps are half of the parallelism", func() string {
		total := int32(0)
		for _, row := range s.get("batch").Status.SubsetStatuses {
			if row.MissingReplicas != max(0, 2-row.Replicas) {
				return rows(s.get("batch").Status.SubsetStatuses)
			}
			total += row.Replicas
		}
		if total != 4 {
			return fmt.Sprintf("%d pods are counted", total)
		}
		return ""
	})
}

// statefulSet creates the advanced StatefulSet "web": ordinal 3 is the first one, and 4 is reserved.
func (s *space) statefulSet(replicas int32) {
	s.Helper()
	s.make(&v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1beta1.StatefulSetSpec{
		Replicas: &replicas, Selector: selector(), Template: v1beta1.NewPodTemplate(template()),
		PodManagementPolicy: appsv1.ParallelPodManagement, Ordinals: &v1beta1.StatefulSetOrdinals{Start: 3},
		ReserveOrdinals: []intstr.IntOrString{intstr.FromInt32(4)},
	}})
}

// eventuallyOrdinals waits until the active pods run in these subsets: "3:a 5:b". Each runs where its subset is.
func (s *space) eventuallyOrdinals(want string) {
	s.Helper()
	s.eventually("pods by ordinal and subset", func() string {
		var got []string
		for _, pod := range s.pods() {
			if _, ok := pod.Annotations[corev1.PodDeletionCost]; ok {
				s.Fatalf("pod %s has a deletion cost", pod.Name)
			}
			if subset := subsetOf(&pod); subset != "-" && zoneOf(pod.Spec.NodeName) != subset {
				return where(&pod) + " of " + pod.Name
			}
			got = append(got, strings.TrimPrefix(pod.Name, "web-")+":"+subsetOf(&pod))
		}
		if text := strings.Join(got, " "); text != want {
			return fmt.Sprintf("%s, want %s", text, want)
		}
		return ""
	})
}

// advancedStatefulSet: its own controller gives the pods their subsets by the positions of their ordinals. No webhook
// runs, and a native StatefulSet of the same name is another workload.
func advancedStatefulSet(s *space) {
	s.spread(aSpread(advanced, "a=2", "b"))
	s.statefulSet(3)
	s.eventuallyOrdinals("3:a 5:a 6:b")
	s.eventuallyRows("a 2/0, b 1/-1")
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
	if patched, _ := s.written.counted(s.namespace); patched != 0 {
		s.Errorf("%d patches for 3 new pods, want none", patched)
	}
	s.quiet()
	native := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(0)), Selector: selector(), Template: template()}}
	s.make(native)
	s.subsets("a=3", "b")
	before := s.pods()
	s.scale(&v1beta1.StatefulSet{}, 4)
	s.eventuallyOrdinals("3:a 5:a 6:b 7:b")
	if same := sameUIDs(before, s.pods()); same != 3 {
		s.Errorf("%d of 3 pods are the same", same)
	}
	s.must(s.Delete(s.Context(), &before[2]))
	s.eventuallyOrdinals("3:a 5:a 6:a 7:b")
	s.must(s.Delete(s.Context(), native))
	s.scale(&v1beta1.StatefulSet{}, 1)
	s.eventuallyOrdinals("3:a")
	s.eventuallyRows("a 1/2, b 0/-1")
	s.quiet()
}

// fullZoneOfAStatefulSet: a pod that no node of its subset takes gets the next one, under the same name.
func fullZoneOfAStatefulSet(s *space) {
	s.addNode(fleet.NodeSpec{Name: "solo-g-0", Zone: "g", CPU: "1"})
	ws := adaptive(aSpread(advanced, "g=2", "b"))
	ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(2))
	s.spread(ws)
	s.statefulSet(3)
	s.eventually("one pod moves", func() string {
		if got := tally(s.pods(), where); got != "b/b=2 g/g=1" {
			return got
		}
		return ""
	})
	s.eventuallySchedulable("g", metav1.ConditionFalse)
	s.quiet()
}

// replicaSetTarget: the numbers of a ReplicaSet are read from the API server, once for each generation.
func replicaSetTarget(s *space) {
	s.spread(aSpread("ReplicaSet", "a=100%"))
	pods := template()
	pods.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"}
	s.make(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: selector(), Template: pods}})
	s.eventuallyPods("a/a/100=3")
	s.eventuallyRows("a 3/0")
	s.scale(&appsv1.ReplicaSet{}, 5)
	s.eventuallyPods("a/a/100=5")
	s.eventuallyRows("a 5/0")
}

// targetFilter: only the pods that it selects count, and paths give the number.
func targetFilter(s *space) {
	ws := aSpread("CloneSet", "a=50%", "b=50%")
	ws.Spec.TargetFilter = &v1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, ReplicasPathList: []string{"spec.replicas", "spec.replicas"}}
	s.spread(ws)
	s.cloneSet(2)
	s.eventually("caps of twice the replicas", func() string {
		for _, row := range s.get("web").Status.SubsetStatuses {
			if row.Replicas+row.MissingReplicas != 2 {
				return rows(s.get("web").Status.SubsetStatuses)
			}
		}
		if len(s.pods()) != 2 || len(s.get("web").Status.SubsetStatuses) != 2 {
			return "pods or rows are missing"
		}
		return ""
	})
	s.filter(`{"selector":{"matchLabels":{"app":"nothing"}}}`)
	s.eventuallyRows("a 0/1, b 0/1")
	s.filter(`{"replicasPathList":["spec.nothing"]}`)
	s.eventuallyTold("web", v1beta1.ConditionStalled, metav1.ConditionTrue, ReasonInvalidSpread)
}

func missingTarget(s *space) {
	s.spread(aSpread("Deployment", "a=1", "b"))
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionFalse, ReasonTargetNotFound)
	s.eventuallyTold("web", v1beta1.ConditionStalled, metav1.ConditionFalse, "NotStalled")
	s.deployment(1)
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
	s.must(s.Delete(s.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}))
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionFalse, ReasonTargetNotFound)
}

func problems(s *space) {
	s.deployment(2)
	unsupported := aSpread("DaemonSet", "a")
	unsupported.Name = "unsupported"
	s.spread(unsupported)
	s.eventuallyTold("unsupported", v1beta1.ConditionStalled, metav1.ConditionTrue, ReasonUnsupportedTarget)
	patch := aSpread("Deployment", "a", "b")
	patch.Name = "patch"
	patch.Spec.Subsets[0].Patch.Raw = []byte(`{"metadata":{"labels":{"app":"other"}}}`)
	s.spread(patch)
	s.eventuallyTold("patch", v1beta1.ConditionStalled, metav1.ConditionTrue, ReasonInvalidPatch)
	for _, pod := range s.pods() {
		if pod.Labels["app"] != "web" {
			s.Errorf("pod %s has labels %v", pod.Name, pod.Labels)
		}
	}
	invalid := aSpread("CloneSet", "a", "b")
	invalid.Name = "invalid"
	invalid.Spec.Subsets[0].Patch.Raw = []byte(`{"spec":{"containers":7}}`)
	if err := s.Create(s.Context(), func() client.Object {
		invalid.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: "invalid"}
		return invalid
	}()); err == nil {
		s.eventuallyTold("invalid", v1beta1.ConditionStalled, metav1.ConditionTrue, ReasonInvalidSpread)
	}
}

// twoSpreads: the older one rules, the other says so, and takes over when the older one is gone.
func twoSpreads(s *space) {
	s.cloneSet(2)
	first := s.spread(aSpread("CloneSet", "a=1", "b"))
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
	second := aSpread("CloneSet", "b")
	second.Name = "xenia" // later by name too, for clocks that tick in seconds
	s.spread(second)
	s.eventuallyTold("xenia", v1beta1.ConditionStalled, metav1.ConditionTrue, ReasonTargetTaken)
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
	s.must(s.Delete(s.Context(), first))
	s.eventuallyTold("xenia", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
}

// spreadOfItsReplicaSet: the pods of a Deployment have one spread, its own, also if that of the ReplicaSet is older.
func spreadOfItsReplicaSet(s *space) {
	s.deployment(2)
	var sets appsv1.ReplicaSetList
	s.eventually("the ReplicaSet is there", func() string {
		s.must(s.List(s.Context(), &sets, client.InNamespace(s.namespace)))
		if len(sets.Items) != 1 {
			return fmt.Sprintf("%d ReplicaSets", len(sets.Items))
		}
		return ""
	})
	older := aSpread("ReplicaSet", "b", "a")
	older.Name, older.Spec.TargetReference.Name = "older", sets.Items[0].Name
	s.spread(older)
	s.eventuallyTold("older", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
	s.spread(aSpread("Deployment", "a", "b"))
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
	s.eventuallyTold("older", v1beta1.ConditionStalled, metav1.ConditionTrue, ReasonTargetTaken)
}

// removedSubset: pods of a subset that the spec no longer has are in no subset, though their nodes match another one.
// They run on, and go first at scale-in.
func removedSubset(s *space) {
	s.spread(aSpread("CloneSet", "a=2", "b*"))
	s.cloneSet(4)
	s.eventuallyCosts("a/200=2 b/100=2")
	before := s.pods()
	s.subsets("a=0", "b*")
	s.eventuallyCosts("a/-100=2 b/100=2")
	s.subsets("b*")
	s.eventuallyCosts("a/-200=2 b/100=2")
	s.eventuallyRows("b 2/-1")
	ready := meta.FindStatusCondition(s.get("web").Status.Conditions, v1beta1.ConditionReady)
	if !strings.Contains(ready.Message, "2 of 4 pods are in no subset") {
		s.Errorf("Ready is %+v", ready)
	}
	s.quiet()
	if same := sameUIDs(before, s.pods()); same != 4 {
		s.Errorf("%d of 4 pods are the same after a subset was removed", same)
	}
	s.scale(&v1beta1.CloneSet{}, 3)
	s.eventuallyCosts("a/-200=1 b/100=2")
	s.scale(&v1beta1.CloneSet{}, 4)
	s.eventuallyCosts("a/-200=1 b/100=3")
	s.subsets("a=2", "b*") // it comes back
	s.eventuallyCosts("a/200=1 b/100=3")
	s.subsets("b*", "c") // it has another name and another place in the order
	s.eventuallyCosts("a/-300=1 b/200=3")
	s.scale(&v1beta1.CloneSet{}, 3)
	s.eventuallyCosts("b/200=3")
	s.quiet()
}

// deletedSpread: the pods run on as they are.
func deletedSpread(s *space) {
	ws := s.spread(aSpread("CloneSet", "a=1", "b"))
	s.cloneSet(3)
	s.eventuallyPods("a/a/200=1 b/b/100=2")
	before := s.pods()
	s.unspread(ws)
	s.scale(&v1beta1.CloneSet{}, 4)
	s.eventually("a fourth pod comes, unspread", func() string {
		if got := tally(s.pods(), subsetOf); got != "-=1 a=1 b=2" {
			return "pods: " + got
		}
		return ""
	})
	if same := sameUIDs(before, s.pods()); same != 3 {
		s.Errorf("%d of 3 pods run on", same)
	}
}

// fullZone: two of four pods find no place in their zone; they move, and the zone is tried again after 300 s and what
// was added.
func fullZone(s *space) {
	s.addNode(fleet.NodeSpec{Name: "solo-f-0", Zone: "f", CPU: "1"})
	ws := adaptive(aSpread("CloneSet", "f=3", "b"))
	ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(2))
	s.spread(ws)
	begun := time.Now()
	s.cloneSet(4)
	s.eventuallyPods("b/b/100=3 f/f/200=1")
	s.Logf("figure: moved %.1f s after the workload was made, with 2 s of critical time", time.Since(begun).Seconds())
	s.eventuallySchedulable("f", metav1.ConditionFalse)
	ran := s.pods()
	s.quiet()
	s.scale(&v1beta1.CloneSet{}, 5)
	s.eventuallyPods("b/b/100=4 f/f/200=1")
	s.addNode(fleet.NodeSpec{Name: "solo-f-1", Zone: "f", CPU: "4"})
	s.time.forward(301 * time.Second)
	s.quiet() // brings a pass
	s.eventuallySchedulable("f", metav1.ConditionTrue)
	s.scale(&v1beta1.CloneSet{}, 6)
	s.eventuallyPods("b/b/100=4 f/f/200=2")
	if same := sameUIDs(ran, s.pods()); same != 4 {
		s.Errorf("%d of the 4 pods that ran are left", same)
	}
	s.eventuallySchedulable("f", metav1.ConditionTrue)
}

// fullZoneOfAJob: there is no zone n. No more pods of a Job are deleted than half of its backoffLimit. Its controller
// counts them as failed.
func fullZoneOfAJob(s *space) {
	pods := template()
	pods.Spec.RestartPolicy = corev1.RestartPolicyNever
	pods.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "n"}
	pods.Annotations = map[string]string{fleet.AnnotationRunFor: "1h",
		v1beta1.AnnotationMatchedWorkloadSpread: `{"name":"web","subset":"n"}`}
	ws := adaptive(aSpread("Job", "n=6", "b"))
	ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(1))
	s.spread(ws)
	s.make(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: batchv1.JobSpec{
		Parallelism: new(int32(4)), Completions: new(int32(4)), BackoffLimit: new(int32(4)), Template: pods,
	}})
	s.eventuallySchedulable("n", metav1.ConditionFalse)
	job := &batchv1.Job{}
	s.eventually("two pods were deleted", func() string {
		s.must(s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, job))
		if job.Status.Failed != 2 {
			return fmt.Sprintf("%d failed", job.Status.Failed)
		}
		return ""
	})
	s.pass()
	s.must(s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, job))
	// The controller of the Job makes others instead, when its own time to wait is over.
	if n := len(s.pods()); job.Status.Failed > 2 || n < 2 {
		s.Errorf("%d pods are left; %d pods of the Job count as failed, of a backoffLimit of 4", n, job.Status.Failed)
	}
}

func federatedNamespace(s *space) {
	s.spread(aSpread("Deployment", "a=1", "b"))
	s.deployment(2)
	s.eventually("pods run", func() string {
		if got := tally(s.pods(), func(p *corev1.Pod) string { return string(p.Status.Phase) }); got != "Running=2" {
			return "pods: " + got
		}
		return ""
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if ws := s.get("web"); ws.Status.ObservedGeneration != 0 {
		s.Errorf("the hub owns it, and its status is %+v", ws.Status)
	}
	s.must(s.Patch(s.Context(), ns, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+topology.LabelFederated+`":null}}}`))))
	s.eventuallyTold("web", v1beta1.ConditionReady, metav1.ConditionTrue, ReasonInForce)
}

// restarted: another process goes on with a closed subset, writes nothing at rest, and opens it in time.
func restarted(s *space) {
	ws := adaptive(aSpread("CloneSet", "n=2", "b"))
	ws.Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(1))
	s.spread(ws)
	s.cloneSet(3)
	s.eventuallyPods("b/b/100=3")
	s.eventuallySchedulable("n", metav1.ConditionFalse)
	since := schedulableOf(s.get("web"), "n").LastTransitionTime
	s.stop()
	s.start(s.T)
	s.quiet()
	if c := schedulableOf(s.get("web"), "n"); c.Status != metav1.ConditionFalse || !c.LastTransitionTime.Equal(&since) {
		s.Errorf("after the restart: %+v, want closed since %s", c, since)
	}
	s.time.forward(301 * time.Second)
	s.quiet()
	s.eventuallySchedulable("n", metav1.ConditionTrue)
	s.eventuallyPods("b/b/100=3")
}
