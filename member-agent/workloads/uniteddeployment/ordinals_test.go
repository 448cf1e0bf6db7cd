package uniteddeployment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// ordinalPods reads the pods of a StatefulSet from a text: n for one of the newest revision, o for an old one, - for
// none.
func ordinalPods(text string) []ordinalPod {
	var pods []ordinalPod
	for i, c := range text {
		if c != '-' {
			pods = append(pods, ordinalPod{int32(i), c == 'n'})
		}
	}
	return pods
}

// podsOfSet makes the pods of such a text, and their newest revision that of the StatefulSet.
func podsOfSet(set *appsv1.StatefulSet, text string) []*corev1.Pod {
	set.Status.UpdateRevision = "new"
	var pods []*corev1.Pod
	for _, pod := range ordinalPods(text) {
		revision := map[bool]string{true: "new", false: "old"}[pod.updated]
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("%s-%d", set.Name, pod.rank),
			Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: revision},
		}})
	}
	return pods
}

func TestPartitionOf(t *testing.T) {
	tests := []struct {
		why             string
		n, share, stood int32
		pods            string
		frozen          bool
		want            int32
	}{
		{"none may be updated", 4, 0, 0, "oooo", false, 4},
		{"one may", 4, 1, 4, "oooo", false, 3},
		{"one may and is", 4, 1, 3, "ooon", false, 3},
		{"all may", 4, 4, 3, "ooon", false, 0},
		{"one may, and more are: no further one, and one goes back if its pod is lost", 4, 1, 1, "onnn", false, 3},
		{"a pod more, and no more may be updated: it is made of the old revision", 5, 1, 3, "ooon", false, 5},
		{"a pod more that may be of the newest revision", 5, 2, 3, "ooon", false, 3},
		{"two pods more, one of them of the newest revision", 6, 2, 3, "ooon", false, 5},
		{"an updated pod below an old one counts", 5, 1, 5, "ooono", false, 5},
		{"an updated pod below an old one is lost: the highest one is updated for it", 5, 1, 5, "ooo-o", false, 4},
		{"a pod fewer: an updated one goes, and the next one is updated for it", 3, 1, 3, "ooon", false, 2},
		{"a pod fewer, and as many fewer may be updated", 3, 0, 3, "ooon", false, 3},
		{"frozen in the middle: no pod that runs is updated", 4, 4, 0, "oonn", true, 2},
		{"frozen, and a pod is on its way down: it comes back updated", 4, 4, 0, "oo-n", true, 2},
		{"frozen, and all are updated: one that is lost comes back updated", 4, 4, 0, "n-nn", true, 0},
		{"frozen before it began: an old pod that is lost comes back old", 4, 4, 4, "ooo-", true, 4},
		{"frozen before it began, a pod more: it may come updated", 5, 5, 4, "oooo", true, 4},
		{"no pods", 3, 1, 0, "", false, 2},
		{"no replicas", 0, 0, 0, "oo", false, 0},
		{"a share that cannot be", 3, 9, 0, "ooo", false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			if got := partitionOf(tt.n, tt.share, tt.stood, ordinalPods(tt.pods), tt.frozen); got != tt.want {
				t.Errorf("partition %d, want %d", got, tt.want)
			}
		})
	}
}

// TestPartitionOfHolds plays a StatefulSet's controller against random orders: it makes missing pods and updates pods
// from the top as its partition says, and pods are lost. However it goes, it has never more pods of the newest revision
// than the most that an order let it have since it had fewer, none is updated while frozen, and in the end it has as
// many as it may. TestPartitionOfWalks holds that the partition is the one that a walk from the last rank down finds,
// one after another.
func TestPartitionOfWalks(t *testing.T) {
	walked := func(n, share, partition int32, pods []ordinalPod, frozen bool) int32 {
		const old, updated = 1, 2
		at, total := make([]int, n), int32(0)
		for _, pod := range pods {
			switch {
			case pod.rank >= n:
			case pod.updated:
				at[pod.rank] = updated
				total++
			default:
				at[pod.rank] = old
			}
		}
		least := max(n-share, 0)
		if frozen {
			least = max(least, partition)
		}
		q := n
		for ; q > least; q-- {
			if at[q-1] == updated {
				continue
			}
			if total++; total > share || frozen && at[q-1] == old {
				break
			}
		}
		return q
	}
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := int32(r.IntN(12))
		share, partition, frozen := int32(r.IntN(14)), int32(r.IntN(14)), r.IntN(3) == 0
		var pods []ordinalPod
		for rank := range int32(r.IntN(15)) {
			if r.IntN(3) > 0 {
				pods = append(pods, ordinalPod{rank, r.IntN(2) == 0})
			}
		}
		if got, want := partitionOf(n, share, partition, pods, frozen),
			walked(n, share, partition, pods, frozen); got != want {
			t.Fatalf("seed %d: %d of %d pods, share %d, partition %d, frozen %t, pods %v: want %d", seed, got, n, share,
				partition, frozen, pods, want)
		}
	}
	const many = math.MaxInt32 // no memory of that size, and no walk of that length
	if got := partitionOf(many, many-5, many, ordinalPods("ooo"), false); got != 5 {
		t.Errorf("of %d pods the partition is %d, want 5", many, got)
	}
}

func TestPartitionOfHolds(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var pods []byte // 'n', 'o' or '-'
		n, share, partition, frozen := int32(r.IntN(8)), int32(0), int32(0), false
		for range n {
			pods = append(pods, 'o')
		}
		partition = n
		count := func() (c int32) {
			for _, p := range pods {
				if p == 'n' {
					c++
				}
			}
			return c
		}
		turn := func() (moved bool) {
			partition = partitionOf(n, share, partition, ordinalPods(string(pods)), frozen)
			for int32(len(pods)) > n {
				pods = pods[:len(pods)-1]
			}
			for int32(len(pods)) < n {
				pods = append(pods, '-')
			}
			for i := range pods {
				if pods[i] == '-' {
					pods[i] = 'o'
					if int32(i) >= partition {
						pods[i] = 'n'
					}
					return true
				}
			}
			for i := n - 1; i >= partition; i-- {
				if pods[i] == 'o' {
					if frozen {
						t.Fatalf("seed %d: pod %d of %s is updated while frozen (partition %d)", seed, i, pods, partition)
					}
					pods[i] = 'n'
					return true
				}
			}
			return false
		}
		for range 20 {
			n, frozen = int32(r.IntN(8)), r.IntN(3) == 0
			share = int32(r.IntN(int(n) + 1))
			for range r.IntN(6) {
				before := count()
				if len(pods) > 0 && r.IntN(4) == 0 {
					pods[r.IntN(len(pods))] = '-'
				}
				turn()
				if after := count(); after > max(before, share) {
					t.Fatalf("seed %d: %d pods of the newest revision in %s, %d may be", seed, after, pods, share)
				}
			}
		}
		frozen = false
		for turn() {
		}
		if count() < share {
			t.Fatalf("seed %d: %d of %d pods of the newest revision in %s, partition %d", seed, count(), share, pods, partition)
		}
	}
}

// TestOrdersOfStatefulSets: what a hub lends to a StatefulSet becomes a partition, as far as its pods are known.
func TestOrdersOfStatefulSets(t *testing.T) {
	lent := topology.SubsetLimit{MaxUnavailable: 1}
	frozen := topology.SubsetLimit{Paused: true}
	tests := []struct {
		why     string
		stays   int32 // of 3 replicas
		limit   topology.SubsetLimit
		pods    string
		seen    int32 // updated pods that the StatefulSet's status counts
		change  func(*observed, *appsv1.StatefulSet)
		want    int32 // the partition that is written, -1 for no write
		settles bool
	}{
		{"as it stands", 2, lent, "oon", 1, func(_ *observed,
			set *appsv1.StatefulSet) {
			*set.Spec.UpdateStrategy.RollingUpdate.Partition = 2
		}, -1, false},
		{"more may be updated", 1, lent, "oon", 1, nil, 1, true},
		{"fewer may be updated", 2, lent, "onn", 2, nil, 2, true},
		{"frozen while one is to be updated", 0, frozen, "onn", 2, nil, 1, true},
		{"frozen and done", 0, frozen, "nnn", 3, nil, -1, false},
		{"the cache lacks a pod that the status counts", 2, lent, "oon", 2, nil, -1, true},
		{"its controller has not seen our last write", 2, lent, "oon", 1,
			func(_ *observed, set *appsv1.StatefulSet) { set.Generation = 2 }, -1, true},
		{"a new template: nothing is updated before its pods are counted", 2, lent, "oon", 1,
			func(o *observed, _ *appsv1.StatefulSet) { o.revision = "web-2" }, 3, true},
		{"a new template for all", 0, lent, "nnn", 3, func(o *observed, _ *appsv1.StatefulSet) { o.revision = "web-2" }, 0,
			true},
		{"without pods the order is the partition", 2, frozen, "", 0, func(_ *observed, set *appsv1.StatefulSet) {
			set.Spec.Replicas, set.Status.Replicas = new(int32(0)), 0
		}, 2, true},
		{"OnDelete has no partition", 2, lent, "oon", 1, func(o *observed, set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			o.ud.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy = set.Spec.UpdateStrategy
		}, -1, false},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			o := &observed{ud: fixture(t, statefulSets, 3, "a=3"), revision: "web-1",
				limits: map[string]topology.SubsetLimit{"a": tt.limit}}
			set, _ := asPlanned(t, o, "a", 3).object.(*appsv1.StatefulSet)
			o.pods = map[types.UID][]*corev1.Pod{set.UID: podsOfSet(set, tt.pods)}
			set.Status.UpdatedReplicas, set.Status.Replicas = tt.seen, int32(len(tt.pods))
			if tt.change != nil {
				tt.change(o, set)
			}
			o.children = []child{fromStatefulSet(set)}
			o.ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": tt.stays}}
			p, err := makePlan(o)
			if err != nil || p.refused != nil {
				t.Fatalf("plan: %v, %v", err, p.refused)
			}
			got := int32(-1)
			if len(p.change) == 1 {
				changed, _ := p.change[0].object.(*appsv1.StatefulSet)
				got = *changed.Spec.UpdateStrategy.RollingUpdate.Partition
			}
			if got != tt.want || p.subsets[0].settling != tt.settles {
				t.Errorf("partition %d, settling %t; want %d, %t (%v)", got, p.subsets[0].settling, tt.want, tt.settles, actions(p))
			}
		})
	}
}

// TestMaxUnavailableOfStatefulSets: what the hub lends takes the place of the template's maxUnavailable, if it has one.
func TestMaxUnavailableOfStatefulSets(t *testing.T) {
	spec := &appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{}}}
	limitStatefulSet(spec, topology.SubsetLimit{MaxUnavailable: 2})
	if spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil {
		t.Errorf("without one in the template: %v", spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
	}
	spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("50%"))
	limitStatefulSet(spec, topology.SubsetLimit{MaxUnavailable: 2})
	if *spec.UpdateStrategy.RollingUpdate.MaxUnavailable != intstr.FromInt32(2) {
		t.Errorf("with one in the template: %v", spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
	}
	limitStatefulSet(spec, topology.SubsetLimit{})
	if *spec.UpdateStrategy.RollingUpdate.MaxUnavailable != intstr.FromInt32(1) {
		t.Errorf("with nothing lent, for a StatefulSet cannot say 0: %v", spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
	}
}

// Advanced StatefulSets take every limit of the hub, but in order no more than the one pod that their schema takes.
func TestLimitsOfAdvancedStatefulSets(t *testing.T) {
	type limits struct {
		unavailable int32
		paused      bool
	}
	for _, tt := range []struct {
		policy appsv1.PodManagementPolicyType
		limit  topology.SubsetLimit
		want   limits
	}{
		{appsv1.ParallelPodManagement, topology.SubsetLimit{MaxUnavailable: 3}, limits{3, false}},
		{appsv1.OrderedReadyPodManagement, topology.SubsetLimit{MaxUnavailable: 3}, limits{1, false}},
		{"", topology.SubsetLimit{MaxUnavailable: 3, Paused: true}, limits{1, true}},
		{appsv1.ParallelPodManagement, topology.SubsetLimit{}, limits{1, true}},
		{appsv1.ParallelPodManagement, topology.SubsetLimit{MaxSurge: 2}, limits{1, true}},
	} {
		spec := &kruise.StatefulSetSpec{PodManagementPolicy: tt.policy}
		limitAdvanced(spec, tt.limit)
		rolling := spec.UpdateStrategy.RollingUpdate
		if got := (limits{rolling.MaxUnavailable.IntVal, rolling.Paused}); got != tt.want {
			t.Errorf("%q with %+v: %+v, want %+v", tt.policy, tt.limit, got, tt.want)
		}
	}
	set := &kruise.StatefulSet{Spec: kruise.StatefulSetSpec{UpdateStrategy: kruise.StatefulSetUpdateStrategy{
		Type: appsv1.OnDeleteStatefulSetStrategyType}}}
	if limitAdvanced(&set.Spec, topology.SubsetLimit{}); set.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("OnDelete updates nothing by itself, and has limits: %+v", set.Spec.UpdateStrategy)
	}
}

// The rank of a pod counts the ordinals below it that are not reserved.
func TestRankOfAdvancedPods(t *testing.T) {
	set := &kruise.StatefulSet{}
	set.Name, set.Spec.Replicas = "db", new(int32(4))
	set.Spec.Ordinals = &kruise.StatefulSetOrdinals{Start: 2}
	set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(3)}
	for name, want := range map[string]int32{"db-2": 0, "db-3": 0, "db-4": 1, "db-6": 3, "db-0": 0, "other-4": 0} {
		pod := &corev1.Pod{}
		pod.Name = name
		c := fromAdvanced(set)
		if got := rank(&c, pod); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
