package kinds

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func statefulSet(change ...func(*apps.StatefulSet)) *apps.StatefulSet {
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	set.Spec.Replicas = new(int32(10))
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.PodTemplateSpec = podTemplate()
	set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateStatefulSetStrategy{}
	for _, c := range change {
		c(set)
	}
	return set
}

func rollingBy(partition int32, maxUnavailable string) func(*apps.StatefulSet) {
	return func(set *apps.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.Partition = &partition
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.Parse(maxUnavailable))
	}
}

func onDeleteSet(set *apps.StatefulSet) {
	set.Spec.UpdateStrategy = apps.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

// TestStepsOfAStatefulSetStayOnTheHub: they hold over all members, whose StatefulSets have none.
func TestStepsOfAStatefulSetStayOnTheHub(t *testing.T) {
	inSteps := func(set *apps.StatefulSet) {
		set.Spec.Flotilla = &apps.FlotillaSpec{Steps: []apps.UpdateStep{{Partition: intstr.FromString("50%"), Soak: "1m"}}}
		set.Status.UpdateProgress = &apps.UpdateProgress{Revision: "db-1"}
	}
	w, rejection := readStatefulSet(statefulSet(inSteps))
	if want := []topology.RolloutStep{{Partition: intstr.FromString("50%"), Soak: "1m"}}; rejection != nil ||
		!cmp.Equal(want, w.Steps) {
		t.Errorf("%+v, %v", w.Steps, rejection)
	}
	if w, _ := readStatefulSet(statefulSet(inSteps, onDeleteSet)); w.Steps != nil {
		t.Errorf("%+v with OnDelete", w.Steps)
	}
	manifest, err := renderStatefulSet(statefulSet(inSteps),
		&Order{Cells: []topology.Cell{{Cluster: "east", Replicas: 2}}})
	if err != nil || manifest.Spec.(*apps.StatefulSetSpec).Flotilla != nil {
		t.Errorf("%+v, %v", manifest, err)
	}
	set := statefulSet(inSteps)
	if statefulSetStatus(set, &Sum{}, time.Now()); set.Status.UpdateProgress != nil {
		t.Errorf("%+v", set.Status.UpdateProgress)
	}
}

// TestAWorkloadSpreadDividesNoStatefulSet: the condition Federated names it, and nothing else depends on it.
func TestAWorkloadSpreadDividesNoStatefulSet(t *testing.T) {
	kind, cloneSet := statefulSetKind(), cloneSetKind()
	ws := &apps.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "zones"}}
	for _, tt := range []struct {
		version, kind string
		want          bool
	}{{"apps.kruise.io/v1beta1", "StatefulSet", true}, {"apps/v1", "StatefulSet", false},
		{"apps.kruise.io/v1beta1", "CloneSet", false}} {
		ws.Spec.TargetReference = &apps.TargetReference{APIVersion: tt.version, Kind: tt.kind, Name: "db"}
		key, ok := kind.Divider.Target(ws)
		if ok != tt.want || ok && (key.Kind != "StatefulSet" || key.Group != apps.GroupVersion.Group || key.Name != "db") {
			t.Errorf("%s %s: %v, %v", tt.version, tt.kind, key, ok)
		}
		if _, ok := cloneSet.Divider.Target(ws); ok != (tt.kind == "CloneSet") {
			t.Errorf("%s %s names a CloneSet: %v", tt.version, tt.kind, ok)
		}
	}
	w, rejection := readStatefulSet(statefulSet())
	if rejection != nil {
		t.Fatal(rejection)
	}
	division, remarks, rejection := kind.Divider.Read(&w, statefulSet(), []Object{ws})
	if division != nil || rejection != nil || len(remarks) != 1 ||
		!strings.Contains(remarks[0], "WorkloadSpread zones is not used") || !strings.Contains(remarks[0], "in the members") {
		t.Errorf("%v, %q, %v", division, remarks, rejection)
	}
	if _, remarks, _ := kind.Divider.Read(&w, statefulSet(), nil); len(remarks) > 0 {
		t.Errorf("%q without a WorkloadSpread", remarks)
	}
}

func TestLimitsOfStatefulSets(t *testing.T) {
	ordered := func(set *apps.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }
	for name, tt := range map[string]struct {
		set  *apps.StatefulSet
		want lending.Amounts
	}{
		"defaults":                   {statefulSet(), lending.Amounts{Updated: 10, Unavailable: 1}},
		"the partition is a number":  {statefulSet(rollingBy(4, "2")), lending.Amounts{Updated: 6, Unavailable: 2}},
		"a partition above replicas": {statefulSet(rollingBy(40, "2")), lending.Amounts{Unavailable: 2}},
		"percentages round down": {
			statefulSet(rollingBy(0, "39%")), lending.Amounts{Updated: 10, Unavailable: 3}},
		"percentages are at least one": {
			statefulSet(rollingBy(0, "1%")), lending.Amounts{Updated: 10, Unavailable: 1}},
		"OrderedReady is one over all": {
			statefulSet(ordered, rollingBy(1, "50%")), lending.Amounts{Updated: 9, Unavailable: 1}},
		"OnDelete holds back no new revision": {statefulSet(onDeleteSet), lending.Amounts{Updated: 10, Unavailable: 1}},
	} {
		w, rejection := readStatefulSet(tt.set)
		if rejection != nil {
			t.Errorf("%s: %+v", name, rejection)
			continue
		}
		if got := w.Subsets[0].Amounts(10); got != tt.want || !w.Open {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestStatefulSetsThatAreRejected(t *testing.T) {
	for name, tt := range map[string]struct {
		change       func(*apps.StatefulSet)
		reason, says string
	}{
		"selector": {func(set *apps.StatefulSet) { set.Spec.Selector.MatchLabels["app"] = "x" }, InvalidSelector, "selector"},
		"maxUnavailable": {rollingBy(0, "x"), InvalidAmount,
			"spec.updateStrategy.rollingUpdate of StatefulSet shop/db: maxUnavailable"},
		"start": {func(set *apps.StatefulSet) { set.Spec.Ordinals = &apps.StatefulSetOrdinals{Start: mostStart + 1} },
			InvalidOrdinals, "spec.ordinals.start 1000000001"},
		"reserveOrdinals": {func(set *apps.StatefulSet) {
			set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString("7-3")}
		}, InvalidOrdinals, `reserveOrdinals[0] is "7-3"`},
		"too many reserved": {func(set *apps.StatefulSet) {
			set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString("0-2147483647")}
		}, InvalidOrdinals, "2147483648 ordinals"},
	} {
		_, rejection := readStatefulSet(statefulSet(tt.change))
		if rejection == nil || rejection.Reason != tt.reason || !strings.Contains(rejection.Message, tt.says) {
			t.Errorf("%s: %+v", name, rejection)
		}
	}
}

// TestHeadlessServicesGoAlong: pods start without the Service, and so it is no reason to complain.
func TestHeadlessServicesGoAlong(t *testing.T) {
	w, rejection := readStatefulSet(statefulSet(func(set *apps.StatefulSet) {
		set.Spec.ServiceName = "db"
		set.Spec.Template.Spec.ServiceAccountName = "db"
		set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}}}
	}))
	need := func(kind, name string, optional bool) Need {
		return Need{topology.DependencyReference{Kind: kind, Name: name}, optional}
	}
	want := []Need{need("ConfigMap", "conf", false), need("Service", "db", true), need("ServiceAccount", "db", false)}
	if diff := cmp.Diff(want, w.Needs); rejection != nil || diff != "" {
		t.Errorf("%+v, want -, got +:\n%s", rejection, diff)
	}
}

func TestMembersGetValuesOfTheirOrdinals(t *testing.T) {
	values := func(ordinals ...int32) (out []topology.OrdinalValues) {
		for _, ordinal := range ordinals {
			out = append(out, topology.OrdinalValues{Ordinal: ordinal, Values: map[string]string{"a": "b"}})
		}
		return out
	}
	recorded := &topology.Ordinals{Start: 5, Blocks: []topology.OrdinalBlock{
		{Cluster: "east", Ranges: []topology.OrdinalRange{{Start: 0, End: 0}, {Start: 1000, End: 1999}}},
		{Cluster: "west", Ranges: []topology.OrdinalRange{{Start: 2000, End: 2999}}},
	}, HandOver: &topology.HandOverValues{Pods: values(5, 1005, 1006, 2005)}}
	for cluster, want := range map[string]string{
		"east":  `[{"ordinal":5,"values":{"a":"b"}},{"ordinal":1005,"values":{"a":"b"}}]`,
		"west":  `[{"ordinal":2005,"values":{"a":"b"}}]`,
		"north": "",
	} {
		order := &Order{Cells: []topology.Cell{{Cluster: cluster, Replicas: 2}}, Ordinals: recorded}
		manifest, err := renderStatefulSet(statefulSet(), order)
		if got := manifest.Annotations[topology.AnnotationHandedOver]; err != nil || got != want {
			t.Errorf("%s: %s, %v", cluster, got, err)
		}
	}
	if len(recorded.HandOver.Pods) != 4 || recorded.HandOver.Pods[3].Ordinal != 2005 {
		t.Errorf("the placement changed: %+v", recorded.HandOver)
	}
	recorded.HandOver = nil
	manifest, err := renderStatefulSet(statefulSet(),
		&Order{Cells: []topology.Cell{{Cluster: "east"}}, Ordinals: recorded})
	if err != nil || manifest.Annotations != nil {
		t.Errorf("annotations %v without values, %v", manifest.Annotations, err)
	}
}

func TestManifestsOfStatefulSets(t *testing.T) {
	recorded := &topology.Ordinals{Start: 5, Blocks: []topology.OrdinalBlock{
		{Cluster: "east", Ranges: []topology.OrdinalRange{{Start: 0, End: 999}}},
		{Cluster: "west", Ranges: []topology.OrdinalRange{{Start: 1000, End: 1999}, {Start: 3, End: 4}}},
	}}
	cell := func(cluster string, replicas, updated, unavailable int32) []topology.Cell {
		return []topology.Cell{{Cluster: cluster, Replicas: replicas, Waiting: unavailable == 0,
			Granted: topology.Budget{Updated: updated, Unavailable: unavailable}}}
	}
	for name, tt := range map[string]struct {
		set    *apps.StatefulSet
		cells  []topology.Cell
		budget bool
		want   string
	}{
		"amounts in the spec": {statefulSet(rollingBy(7, "3")), cell("east", 4, 1, 2), false,
			`{"replicas":4,"ordinals":{"start":5},"rollingUpdate":{"partition":3,"maxUnavailable":2}}`},
		"amounts in the annotation": {statefulSet(rollingBy(7, "30%")), cell("east", 4, 1, 2), true,
			`{"replicas":4,"ordinals":{"start":5},"rollingUpdate":{"partition":7,"maxUnavailable":"30%"}}`},
		"no permission is a pause": {statefulSet(rollingBy(0, "3")), cell("east", 4, 4, 0), false,
			`{"replicas":4,"ordinals":{"start":5},"rollingUpdate":{"partition":0,"maxUnavailable":1,"paused":true}}`},
		"OnDelete has no limits": {statefulSet(onDeleteSet), cell("east", 4, 4, 1), false,
			`{"replicas":4,"ordinals":{"start":5}}`},
		"ordinals that were taken over": {statefulSet(rollingBy(0, "3")), cell("west", 4, 4, 1), true,
			`{"replicas":4,"ordinals":{"start":8},"reserveOrdinals":["10-1004"],` +
				`"rollingUpdate":{"partition":0,"maxUnavailable":3}}`},
		"reserved by the user": {statefulSet(rollingBy(0, "3"), func(set *apps.StatefulSet) {
			set.Spec.ReserveOrdinals = []intstr.IntOrString{
				intstr.FromInt32(6), intstr.FromString("0-2"), intstr.FromString("1006-1007")}
		}), cell("east", 4, 4, 1), true,
			`{"replicas":4,"ordinals":{"start":5},"reserveOrdinals":[6],"rollingUpdate":{"partition":0,"maxUnavailable":3}}`},
		"no more replicas than ordinals": {statefulSet(rollingBy(0, "3")), cell("east", 1500, 1500, 1), true,
			`{"replicas":1000,"ordinals":{"start":5},"rollingUpdate":{"partition":0,"maxUnavailable":3}}`},
		"none without a block": {statefulSet(rollingBy(0, "3")), cell("north", 3, 3, 1), true,
			`{"replicas":0,"ordinals":{"start":5},"rollingUpdate":{"partition":0,"maxUnavailable":3}}`},
	} {
		order := &Order{Cells: tt.cells, Ordinals: recorded}
		if tt.budget {
			order.Budget = BudgetOf(tt.cells, nil)
		}
		manifest, err := renderStatefulSet(tt.set, order)
		if err != nil {
			t.Fatal(err)
		}
		spec := manifest.Spec.(*apps.StatefulSetSpec)
		got, err := json.Marshal(struct {
			Replicas        *int32                                 `json:"replicas"`
			Ordinals        *apps.StatefulSetOrdinals              `json:"ordinals,omitempty"`
			ReserveOrdinals []intstr.IntOrString                   `json:"reserveOrdinals,omitempty"`
			RollingUpdate   *apps.RollingUpdateStatefulSetStrategy `json:"rollingUpdate,omitempty"`
		}{spec.Replicas, spec.Ordinals, spec.ReserveOrdinals, spec.UpdateStrategy.RollingUpdate})
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, tt.want)
		}
	}
}

func TestStatusOfStatefulSetsIsTheSum(t *testing.T) {
	set := statefulSet(func(set *apps.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	})
	sum := &Sum{
		ObservedGeneration: 3, UpdateRevision: "db-2", CurrentRevision: "db-1",
		Whole: Counts{Replicas: 9, Ready: 8, Available: 7, Updated: 4, UpdatedReady: 3, UpdatedAvailable: 2},
		Statuses: [][]byte{
			[]byte(`{"volumeClaims":[{"volumeClaimName":"data","compatibleReplicas":3,"compatibleReadyReplicas":2}]}`),
			[]byte(`{"volumeClaims":[{"volumeClaimName":"data","compatibleReplicas":4,"compatibleReadyReplicas":4},` +
				`{"volumeClaimName":"gone","compatibleReplicas":1}]}`),
			[]byte(`{"volumeClaims":7}`),
		},
		Failures: map[string]*conditions.Cause{failedCreatePod: {Reason: "Retrying", Message: "east: quota"}},
	}
	now := time.Unix(1_000_000, 0)
	if !statefulSetStatus(set, sum, now) || statefulSetStatus(set, sum, now) {
		t.Error("a status is written twice, or not at all")
	}
	want := apps.StatefulSetStatus{
		ObservedGeneration: 3, Replicas: 9, ReadyReplicas: 8, AvailableReplicas: 7, CurrentReplicas: 5, UpdatedReplicas: 4,
		UpdatedReadyReplicas: 3, UpdatedAvailableReplicas: 2, UpdateRevision: "db-2", CurrentRevision: "db-1",
		LabelSelector: "app=web",
		VolumeClaims:  []apps.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 7, CompatibleReadyReplicas: 6}},
		Conditions: []apps.StatefulSetCondition{{Type: apps.StatefulSetConditionFailedCreatePod,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now), Reason: "Retrying", Message: "east: quota"}},
	}
	if diff := cmp.Diff(want, set.Status); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestReflectedStatefulSets(t *testing.T) {
	status := []byte(`{"replicas":3,"readyReplicas":2,"availableReplicas":1,"updatedReplicas":2}`)
	use, err := reflectStatefulSet(&Reflected{Status: status, Current: true, Seen: true, Replicas: new(int32(5))})
	want := Usage{InUse: []work.SubsetUse{{Desired: 5, Total: 3, Ready: 2, Available: 1, Updated: 2}}, Answered: true}
	if diff := cmp.Diff(want, use); err != nil || diff != "" {
		t.Errorf("%v, want -, got +:\n%s", err, diff)
	}
	if use, _ := reflectStatefulSet(&Reflected{Status: status, Seen: true, Replicas: new(int32(5))}); use.Answered ||
		use.InUse[0].Desired != 3 {
		t.Errorf("an earlier order: %+v", use)
	}
}
