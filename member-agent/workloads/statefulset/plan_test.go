package statefulset

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

type change = func(*v1beta1.StatefulSet)

func scaleLimit(value intstr.IntOrString) change {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: &value}
	}
}

func reserve(entries ...intstr.IntOrString) change {
	return func(set *v1beta1.StatefulSet) { set.Spec.ReserveOrdinals = entries }
}

func start(n int32) change {
	return func(set *v1beta1.StatefulSet) { set.Spec.Ordinals = &v1beta1.StatefulSetOrdinals{Start: n} }
}

func paused(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Paused = true }

func unordered(set *v1beta1.StatefulSet) {
	set.Spec.UpdateStrategy.RollingUpdate.UnorderedUpdate = &v1beta1.UnorderedUpdateStrategy{
		PriorityStrategy: &v1beta1.UpdatePriorityStrategy{OrderPriority: []v1beta1.UpdatePriorityOrderTerm{
			{OrderedKey: "first"}}}}
}

// TestPlan shows what one pass does. have is as world.have reads it, want as describe writes it.
func TestPlan(t *testing.T) {
	one, ten := intstr.FromInt32(1), intstr.FromInt32(10)
	tests := []struct {
		why      string
		replicas int32
		changes  []change
		have     string
		want     string
	}{
		// Creation.
		{"OrderedReady creates the first pod alone", 3, nil, "---", "+0:2"},
		{"OrderedReady waits for a pod that is not available", 3, nil, "U--", ""},
		{"OrderedReady creates the next pod", 3, nil, "u--", "+1:2"},
		{"OrderedReady fills a gap first", 3, nil, "-uu", "+0:2"},
		{"Parallel creates all missing pods", 4, []change{parallel}, "-U--", "+0:2 +2:2 +3:2"},
		{"ordinals begin at start", 2, []change{parallel, start(3)}, "", "+3:2 +4:2"},
		{"reserved ordinals are skipped", 3, []change{parallel, reserve(intstr.FromInt32(1), intstr.FromString("3-5"))},
			"", "+0:2 +2:2 +6:2"},
		{"a reserved ordinal is deleted and replaced", 3, []change{parallel, reserve(intstr.FromInt32(1))}, "uuu",
			"+3:2 -1:ScaleIn"},
		{"the limit of scaling out counts pods that are down", 6, []change{parallel, scaleLimit(intstr.FromInt32(2))},
			"uU----", "+2:2"},
		{"the limit of scaling out in percent rounds down", 5, []change{parallel, scaleLimit(intstr.FromString("50%"))},
			"-----", "+0:2 +1:2"},
		{"the limit of scaling out is at least 1", 3, []change{parallel, scaleLimit(intstr.FromString("10%"))},
			"---", "+0:2"},
		{"a block of broken low ordinals does not use up more than its number", 5,
			[]change{parallel, scaleLimit(intstr.FromInt32(3))}, "UU---", "+2:2"},
		{"new pods below the partition get the current revision", 4, []change{parallel, partition(2)}, "----",
			"+0:1 +1:1 +2:2 +3:2"},
		{"the partition counts pods, not ordinals", 3, []change{parallel, partition(1), start(5)}, "", "+5:1 +6:2 +7:2"},
		{"unordered, new pods get the current revision while fewer than partition have it", 4,
			[]change{parallel, unordered, partition(2)}, "u-o-", "+1:1 +3:2"},
		{"OnDelete gives new pods the newest revision", 3, []change{parallel, onDelete}, "oo-", "+2:2"},

		// Pods that ended.
		{"a failed pod is replaced", 3, nil, "ufu", "-1:PodEnded"},
		{"OrderedReady replaces failed pods one by one", 3, nil, "uff", "-1:PodEnded"},
		{"OrderedReady waits with a failed pod for a lower one", 3, nil, "Uuf", ""},
		{"Parallel replaces all failed pods", 3, []change{parallel}, "fuf", "-0:PodEnded -2:PodEnded"},

		// Scale-in.
		{"OrderedReady deletes the highest ordinal alone", 2, nil, "uuuu", "-3:ScaleIn"},
		{"OrderedReady waits until the last one is gone", 2, nil, "uuut", ""},
		{"OrderedReady deletes no pod while one in range is not available", 2, nil, "uUuu", ""},
		{"OrderedReady deletes a broken pod out of range", 2, nil, "uuUU", "-3:ScaleIn"},
		{"Parallel deletes all pods out of range", 1, []change{parallel}, "uuuu", "-3:ScaleIn -2:ScaleIn -1:ScaleIn"},
		{"failed pods out of range are deleted", 1, []change{parallel}, "uf", "-1:ScaleIn"},
		{"everything is deleted", 0, []change{parallel}, "uo", "-1:ScaleIn -0:ScaleIn"},

		// Update.
		{"the highest ordinal is updated first", 3, nil, "ooo", "-2:Update"},
		{"the next one waits for it", 3, nil, "ooU", ""},
		{"the next one waits until it is created", 3, nil, "oo-", "+2:2"},
		{"the next one follows at once", 3, nil, "oou", "-1:Update"},
		{"the partition keeps the lowest ordinals", 3, []change{partition(1)}, "ouu", ""},
		{"partition above replicas keeps all", 3, []change{partition(9)}, "ooo", ""},
		{"updated pods below the partition stay", 3, []change{partition(2)}, "ouu", ""},
		{"several pods at a time", 5, []change{parallel, maxUnavailable(2)}, "ooooo", "-4:Update -3:Update"},
		{"pods that are down count, wherever they are", 5, []change{parallel, maxUnavailable(2), partition(1)}, "Ooooo",
			"-4:Update"},
		{"a broken pod in the partition is kept", 3, []change{partition(1)}, "Ouo", ""},
		{"paused", 3, []change{paused}, "ooo", ""},
		{"paused, and scaling goes on", 4, []change{paused}, "ooo", "+3:2"},
		{"OnDelete updates nothing", 3, []change{onDelete}, "oOo", ""},
		{"an update in place", 3, []change{inPlace}, "ooo", "~2"},
		{"several updates in place", 4, []change{parallel, inPlace, maxUnavailable(2)}, "oooo", "~3 ~2"},

		// Better than elsewhere.
		{"an unavailable pod is repaired whatever its place in the order", 4, nil, "oOoo", "-1:Update"},
		{"OrderedReady repairs one pod at a time", 4, nil, "OOoo", "-1:Update"},
		{"OrderedReady repairs a pod that keeps another from being created", 3, nil, "Ou-", "-0:Update"},
		{"Parallel repairs all unavailable pods at once", 4, []change{parallel}, "OOoO", "-3:Update -1:Update -0:Update"},
		{"a terminating pod blocks only its own ordinal in Parallel", 4, []change{parallel, maxUnavailable(2)}, "to-o",
			"+2:2"},
		{"a terminating pod blocks OrderedReady", 4, nil, "utO-", ""},
		{"freed budget is used at once", 6, []change{parallel, maxUnavailable(3)}, "oooUuU", "-2:Update"},
		{"reservations above the range do nothing", 3, []change{reserve(intstr.FromInt32(7), intstr.FromString("3-5"))},
			"uuu", ""},
		{"more budget than pods", 3, []change{parallel, maxUnavailable(10)}, "ooo", "-2:Update -1:Update -0:Update"},
		{"limits of scaling out that allow everything", 3, []change{parallel, scaleLimit(ten)}, "---", "+0:2 +1:2 +2:2"},
		{"one at a time", 3, []change{parallel, scaleLimit(one)}, "U--", ""},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			w := newWorld(t, tt.replicas, tt.changes...).have(tt.have)
			if got := describe(w.plan()); got != tt.want {
				t.Errorf("%d replicas, %q: %q, want %q", tt.replicas, tt.have, got, tt.want)
			}
		})
	}
}

// TestUnavailablePodsNeverBlockTheirOwnRepair holds also in the first revision: no pod was ever available.
func TestUnavailablePodsNeverBlockTheirOwnRepair(t *testing.T) {
	for name, policy := range map[string][]change{"OrderedReady": nil, "Parallel": {parallel},
		"OrderedReady in place": {inPlace}, "Parallel in place": {parallel, inPlace}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, policy...)
			w.image("app:broken")
			sick := func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == "app:broken" }
			for range 5 {
				w.pass()
				w.kubelet(sick)
			}
			w.image("app:good")
			w.settle(sick)
			for i := range 3 {
				if got := w.pod(i).Spec.Containers[0].Image; got != "app:good" {
					t.Errorf("pod %d has image %s", i, got)
				}
			}
			if s := w.set.Status; s.AvailableReplicas != 3 || s.CurrentRevision != s.UpdateRevision {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestScaleInRechecksMinReadySecondsByATimer: no event comes when a pod has been ready for long enough.
func TestScaleInRechecksMinReadySecondsByATimer(t *testing.T) {
	w := newWorld(t, 2, minReady(60)).have("uuu")
	w.ready(w.pod(1), true)
	w.now = w.now.Add(20 * time.Second)
	if plan := w.plan(); describe(plan) != "" || plan.Wake != 40*time.Second {
		t.Fatalf("%q, and again in %s, want nothing, and again in 40 s", describe(plan), plan.Wake)
	}
	w.now = w.now.Add(40 * time.Second)
	if got := describe(w.plan()); got != "-2:ScaleIn" {
		t.Errorf("%q after minReadySeconds", got)
	}
}

// TestUpdateWaitsForMinReadySeconds: a young pod is unavailable.
func TestUpdateWaitsForMinReadySeconds(t *testing.T) {
	w := newWorld(t, 2, minReady(60)).have("ou")
	w.ready(w.pod(1), true)
	if plan := w.plan(); describe(plan) != "" || plan.Wake != time.Minute {
		t.Fatalf("%q, and again in %s", describe(plan), plan.Wake)
	}
	w.now = w.now.Add(time.Minute)
	if got := describe(w.plan()); got != "-0:Update" {
		t.Errorf("%q after minReadySeconds", got)
	}
}

// TestFailedPodsAreNotReplacedInALoop: a node that refuses pods refuses the next one too.
func TestFailedPodsAreNotReplacedInALoop(t *testing.T) {
	w := newWorld(t, 1).have("f")
	w.pods[0].CreationTimestamp = metav1.NewTime(w.now.Add(-4 * time.Second))
	if plan := w.plan(); describe(plan) != "" || plan.Wake != 6*time.Second {
		t.Errorf("%q, and again in %s", describe(plan), plan.Wake)
	}
}

func TestUnorderedUpdatesGoByPriority(t *testing.T) {
	w := newWorld(t, 4, parallel, unordered, partition(1), maxUnavailable(2)).have("oooo")
	w.pod(1).Labels["first"], w.pod(2).Labels["first"] = "7", "9"
	if got := describe(w.plan()); got != "-2:Update -1:Update" {
		t.Errorf("%q", got)
	}
	// The partition keeps the last of the order, here the lowest ordinal without the label.
	w.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(4))
	if got := describe(w.plan()); got != "-2:Update -1:Update -3:Update" {
		t.Errorf("%q", got)
	}
	w.ready(w.pod(0), false)
	if got := describe(w.plan()); got != "-2:Update -1:Update -3:Update" {
		t.Errorf("%q: a broken pod that the partition keeps is updated", got)
	}
}

func TestSpecifiedDeleteGoesFirst(t *testing.T) {
	w := newWorld(t, 4, partition(4)).have("oooo")
	for _, i := range []int{0, 2} {
		w.pod(i).Labels[v1beta1.LabelSpecifiedDelete] = "true"
	}
	if got := describe(w.plan()); got != "-2:SpecifiedDelete" {
		t.Errorf("%q, want the highest ordinal, whatever the partition, within maxUnavailable", got)
	}
	w.ready(w.pod(0), false)
	if got := describe(w.plan()); got != "-0:SpecifiedDelete" {
		t.Errorf("%q, want the pod that is down already", got)
	}
	w.budget = workloadBudget(true, true)
	if got := describe(w.plan()); got != "" {
		t.Errorf("%q without a budget of the hub", got)
	}
}

// TestPlanHoldsBackUnconfirmedOrdinals shows what a member does whose hub may have moved its ordinals.
func TestPlanHoldsBackUnconfirmedOrdinals(t *testing.T) {
	for _, tc := range []struct {
		name       string
		since      time.Duration // before now
		readySince time.Duration // of the first pod, before now
		changes    []change
		have, want string
		held       bool
	}{
		{"no pod is created", time.Hour, time.Hour, []change{parallel}, "u-u", "", true},
		{"no pod is created one by one", time.Hour, time.Hour, nil, "u--", "", true},
		{"a pod that was Ready all the time proves that the machines were not off", time.Hour, 2 * time.Hour,
			[]change{parallel}, "u-u", "+1:2", false},
		{"an old condition of a stopped node proves nothing", time.Minute, 2 * time.Hour,
			[]change{parallel}, "u-u", "", true},
		{"pods out of range are deleted", time.Hour, time.Hour, []change{parallel}, "uuuu", "-3:ScaleIn", false},
		{"a failed pod is deleted", time.Hour, time.Hour, []change{parallel}, "fuu", "-0:PodEnded", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 3, tc.changes...)
			w.have(tc.have)
			w.budget = workload.Budget{Granted: true, Expired: true, UnconfirmedSince: w.now.Add(-tc.since)}
			if c := podstate.Condition(w.pods[0], corev1.PodReady); c != nil {
				c.LastTransitionTime = metav1.NewTime(w.now.Add(-tc.readySince))
			}
			plan := w.plan()
			if got := describe(plan); got != tc.want || plan.Held != tc.held {
				t.Errorf("%q, held %t; want %q, held %t", got, plan.Held, tc.want, tc.held)
			}
		})
	}
}

func amounts(updated, unavailable int32, paused bool) workload.Budget {
	return workload.Budget{Granted: true, Amounts: &topology.MemberBudget{
		Budget: topology.Budget{Updated: updated, Unavailable: unavailable}, Paused: paused}}
}

// TestGrantedAmountsHoldInPlaceOfTheSpec: the spec has the user's limits for all members together.
func TestGrantedAmountsHoldInPlaceOfTheSpec(t *testing.T) {
	for _, tt := range []struct {
		why    string
		budget workload.Budget
		want   string
	}{
		{"more than the spec", amounts(3, 2, false), "-3:Update -2:Update"},
		{"fewer updated pods", amounts(1, 2, false), "-3:Update"},
		{"it waits for its turn", amounts(3, 0, true), ""},
		{"paused by the user", amounts(3, 2, true), ""},
	} {
		w := newWorld(t, 4, parallel, partition(4), maxUnavailable(1)).have("oooo")
		w.budget = tt.budget
		if got := describe(w.plan()); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.why, got, tt.want)
		}
	}
	w := newWorld(t, 4, parallel).have("oooo")
	w.budget = amounts(4, 0, true)
	w.pod(0).Labels[v1beta1.LabelSpecifiedDelete], w.pod(1).Labels[v1beta1.LabelSpecifiedDelete] = "true", "true"
	if got := describe(w.plan()); got != "-1:SpecifiedDelete" {
		t.Errorf("%q, want the pods that a person names, one by one", got)
	}
	w.budget = amounts(0, 1, false)
	w.have("o--o")
	w.image("app:2")
	if got := describe(w.plan()); got != "+1:1 +2:1" {
		t.Errorf("%q, want pods of the earlier revision, as long as none may be updated", got)
	}
}

func TestReportsSayWhichOrderIsFollowed(t *testing.T) {
	reporting := Reporting()
	live := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
		"metadata": map[string]any{"name": "db", "generation": int64(2),
			"annotations": map[string]any{topology.AnnotationSequence: "7"}},
		"spec": map[string]any{"replicas": int64(4)},
		"status": map[string]any{"observedGeneration": int64(2), "observedSequence": int64(6), "replicas": int64(3),
			"readyReplicas": int64(2), "availableReplicas": int64(1), "updatedReplicas": int64(2)},
	}}
	if reporting.Observed(live) {
		t.Error("a budget that the controller has not read is answered")
	}
	for sequence, generation := range map[int64]int64{7: 2, 8: 2, 9: 1} {
		_ = unstructured.SetNestedField(live.Object, sequence, "status", "observedSequence")
		_ = unstructured.SetNestedField(live.Object, generation, "status", "observedGeneration")
		if got := reporting.Observed(live); got != (generation == 2) {
			t.Errorf("sequence %d and generation %d observed: %t", sequence, generation, got)
		}
	}
	use, err := reporting.Use(live)
	if want := (work.SubsetUse{Desired: 4, Total: 3, Ready: 2, Available: 1, Updated: 2}); err != nil || use[0] != want {
		t.Errorf("%+v, %v", use, err)
	}
}

func TestHubThatIsSilent(t *testing.T) {
	w := newWorld(t, 4, parallel, maxUnavailable(2)).have("oOo-uu")
	w.budget = workloadBudget(true, true)
	if got := describe(w.plan()); got != "+3:2" {
		t.Errorf("%q, want only what is missing", got)
	}
	w.have("oooouu")
	if got := describe(w.plan()); got != "-5:ScaleIn -4:ScaleIn" {
		t.Errorf("%q, want the scale-in that the hub ordered", got)
	}
}

func TestInPlaceOnlyStandsStill(t *testing.T) {
	w := newWorld(t, 2, inPlace, func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnlyPodUpdatePolicy
	}).have("oo")
	w.set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(7))
	plan := w.plan()
	if describe(plan) != "" || plan.Stalled == nil || plan.Stalled.Reason != "InPlaceImpossible" {
		t.Errorf("%q, stalled %v", describe(plan), plan.Stalled)
	}
}

// TestAdoptedPodsWithoutTheGateAreRecreated: they cannot leave their Service while they are updated.
func TestAdoptedPodsWithoutTheGateAreRecreated(t *testing.T) {
	w := newWorld(t, 2, inPlace).have("oo")
	w.pod(1).Spec.ReadinessGates = nil
	if got := describe(w.plan()); got != "-1:Update" {
		t.Errorf("%q", got)
	}
	w.set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnlyPodUpdatePolicy
	if plan := w.plan(); plan.Stalled == nil || len(plan.Delete) > 0 {
		t.Errorf("%q, stalled %v", describe(plan), plan.Stalled)
	}
}

func TestHooks(t *testing.T) {
	hook := func(key string) *v1beta1.LifecycleHook {
		return &v1beta1.LifecycleHook{LabelsHandler: map[string]string{key: "true"}}
	}
	w := newWorld(t, 2, inPlace, func(set *v1beta1.StatefulSet) {
		set.Spec.Lifecycle = &v1beta1.Lifecycle{PreDelete: hook("drain"), InPlaceUpdate: hook("drain")}
	}).have("oo")
	for _, pod := range w.pods {
		pod.Labels["drain"] = "true"
	}
	if got := describe(w.pass()); got != "1=PreparingUpdate" {
		t.Fatalf("%q", got)
	}
	plan := w.pass()
	if describe(plan) != "" || plan.Waiting.Message() == "" {
		t.Fatalf("%q, waiting %q", describe(plan), plan.Waiting.Message())
	}
	w.set.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(2))
	if got := describe(w.pass()); got != "1=Normal" {
		t.Fatalf("%q, want the pod back that the partition keeps", got)
	}
	w.set.Spec.UpdateStrategy.RollingUpdate.Partition = nil
	w.pass()
	delete(w.pod(1).Labels, "drain")
	if got := describe(w.pass()); got != "~1" {
		t.Fatalf("%q, want the update that the hook has let go", got)
	}
	w.set.Spec.Replicas = new(int32(1))
	w.pod(1).Labels["drain"] = "true"
	w.kubelet(nil)
	if got := describe(w.pass()); got != "1=PreparingDelete open 1" {
		t.Fatalf("%q", got)
	}
	delete(w.pod(1).Labels, "drain")
	if got := describe(w.pass()); got != "-1:ScaleIn" {
		t.Errorf("%q", got)
	}
}

func TestPreNormalHoldsTheNextPod(t *testing.T) {
	w := newWorld(t, 2, func(set *v1beta1.StatefulSet) {
		hook := &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"in": "lb"}}
		set.Spec.Lifecycle = &v1beta1.Lifecycle{PreNormal: hook}
	})
	w.pass()
	w.kubelet(nil)
	if plan := w.pass(); describe(plan) != "" || plan.Waiting.Message() == "" {
		t.Fatalf("%q, waiting %q", describe(plan), plan.Waiting.Message())
	}
	w.pod(0).Labels["in"] = "lb"
	w.settle(func(pod *corev1.Pod) bool { return false })
	if len(w.pods) != 2 || w.pod(0).Labels[v1beta1.LabelLifecycleState] != string(v1beta1.LifecycleNormal) {
		t.Errorf("%d pods", len(w.pods))
	}
}

func TestClaims(t *testing.T) {
	w := newWorld(t, 2, parallel, withClaims, func(set *v1beta1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &v1beta1.PersistentVolumeClaimRetentionPolicy{
			WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	}).have("uu")
	for range 2 { // claims of running pods are protected; those of waiting ones are not
		w.pod(0).Status.Phase = corev1.PodPending
		w.pass()
	}
	if len(w.claims) != 1 || w.claims[0].Name != "data-db-0" {
		t.Fatalf("claims %v, want the one that a pod waits for", w.claims)
	}
	w = newWorld(t, 3, parallel, withClaims, func(set *v1beta1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = w.set.Spec.PersistentVolumeClaimRetentionPolicy
	})
	w.settle(nil)
	if len(w.claims) != 3 || len(w.claims[0].OwnerReferences) > 0 {
		t.Fatalf("claims %v", w.claims)
	}
	// Scaled in: the claim is deleted with its pod.
	w.set.Spec.Replicas = new(int32(2))
	plan := w.pass()
	if describe(plan) != "-2:ScaleIn" || len(plan.Claims.Own) != 1 ||
		w.claim("data-db-2").OwnerReferences[0].Name != "db-2" {
		t.Fatalf("%q, claims %v", describe(plan), plan.Claims.Own)
	}
	// Scaled out again: the ordinal waits until the garbage collector is done, the others do not.
	w.kubelet(nil)
	w.set.Spec.Replicas = new(int32(4))
	plan = w.pass()
	if describe(plan) != "+3:1" || plan.Blocked == nil {
		t.Fatalf("%q, blocked by %v", describe(plan), plan.Blocked)
	}
	w.claim("data-db-2").Name = "gone"
	if plan = w.pass(); describe(plan) != "+2:1" || plan.Blocked != nil {
		t.Fatalf("%q, blocked by %v", describe(plan), plan.Blocked)
	}
}

func TestTerminatingClaimsBlockTheirOrdinal(t *testing.T) {
	w := newWorld(t, 2, parallel, withClaims)
	w.settle(nil)
	w.pods = nil
	w.claims[0].DeletionTimestamp = &metav1.Time{Time: w.now}
	plan := w.plan()
	if describe(plan) != "+1:1" || plan.Blocked == nil {
		t.Errorf("%q, blocked by %v", describe(plan), plan.Blocked)
	}
	w.set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	if plan = w.plan(); describe(plan) != "" || plan.Blocked == nil {
		t.Errorf("OrderedReady: %q, blocked by %v", describe(plan), plan.Blocked)
	}
}

func TestPodsWithoutOurNamesAreReleased(t *testing.T) {
	w := newWorld(t, 1).have("u")
	f := w.facts()
	f.Pods = members(w.set, podsetOf(w.pods[0], &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other-0"}}))
	plan, err := Compute(f)
	w.must(err)
	if len(plan.Release) != 1 || plan.Release[0].Name != "other-0" || plan.Counters.Replicas != 1 {
		t.Errorf("released %v, %d replicas", plan.Release, plan.Counters.Replicas)
	}
}

func TestManyReplicasCostOnePass(t *testing.T) {
	w := newWorld(t, 2_000_000_000, parallel)
	if got := len(w.plan().Create); got != 5000 {
		t.Errorf("%d pods in one pass", got)
	}
}

func TestClaimsGrowBeforeTheirPodIsUpdated(t *testing.T) {
	w := newWorld(t, 3, parallel, withClaims, func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
	})
	w.settle(nil)
	for _, claim := range w.claims {
		claim.Status.Capacity = claim.Spec.Resources.Requests
	}
	w.image("app:2")
	w.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{
		corev1.ResourceStorage: resource.MustParse("2Gi")}
	plan := w.plan()
	if describe(plan) != "" || len(plan.Grow) != 1 || plan.Grow[0].Claim.Name != "data-db-2" {
		t.Fatalf("%q, grows %v, want the claim of the highest ordinal", describe(plan), plan.Grow)
	}
	claim := plan.Grow[0].Claim
	claim.Spec.Resources.Requests = w.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests
	if plan = w.plan(); describe(plan) != "" || len(plan.Grow) != 0 {
		t.Fatalf("%q, grows %v, and a claim is growing", describe(plan), plan.Grow)
	}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
	if plan = w.plan(); describe(plan) != "-2:Update" {
		t.Fatalf("%q, want the pod whose file system grows with it", describe(plan))
	}
	// A broken pod's claims grow without budget, and the partition keeps claims too.
	claim.Status.Conditions = nil
	w.ready(w.pod(0), false)
	if plan = w.plan(); len(plan.Grow) != 1 || plan.Grow[0].Claim.Name != "data-db-0" {
		t.Errorf("grows %v", plan.Grow)
	}
	w.set.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(3))
	if plan = w.plan(); len(plan.Grow) != 0 {
		t.Errorf("grows %v of pods that the partition keeps", plan.Grow)
	}
}

// TestClaimsGrowWithoutANewRevision: a size alone restarts no pod.
func TestClaimsGrowWithoutANewRevision(t *testing.T) {
	w := newWorld(t, 2, withClaims, func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
	})
	w.settle(nil)
	w.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{
		corev1.ResourceStorage: resource.MustParse("2Gi")}
	grown := 0
	for range 4 {
		plan := w.pass()
		if describe(plan) != "" {
			t.Fatalf("%q", describe(plan))
		}
		for _, growth := range plan.Grow {
			growth.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: growth.Storage}
			growth.Claim.Status.Capacity = growth.Claim.Spec.Resources.Requests
			grown++
		}
	}
	if grown != 2 || w.set.Status.VolumeClaims[0].CompatibleReadyReplicas != 2 {
		t.Errorf("%d claims grew, status %+v", grown, w.set.Status.VolumeClaims)
	}
}

// BenchmarkPlan is a pass over 500 pods at rest.
func BenchmarkPlan(b *testing.B) {
	w := newWorld(b, 500, parallel, withClaims)
	w.settle(nil)
	f := w.facts()
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, claim := range w.claims {
		claims[claim.Name] = claim
	}
	f.Claim = func(name string) *corev1.PersistentVolumeClaim { return claims[name] }
	b.ReportAllocs()
	for b.Loop() {
		if plan, err := Compute(f); err != nil || describe(plan) != "" {
			b.Fatal(plan, err)
		}
	}
}
