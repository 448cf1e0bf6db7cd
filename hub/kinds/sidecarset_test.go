package kinds

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// sidecarSet returns a SidecarSet with one sidecar, by the JSON of its strategy and of other fields.
func sidecarSet(t *testing.T, image, strategy string) *apps.SidecarSet {
	t.Helper()
	set := &apps.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "logs", Generation: 3}}
	text := `{"selector":{"matchLabels":{"app":"web"}},"containers":[{"name":"log","image":"` + image +
		`"}],"updateStrategy":` + strategy + `}`
	if err := json.Unmarshal([]byte(text), &set.Spec); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestLimitsOfSidecarSets(t *testing.T) {
	for strategy, want := range map[string]lending.Amounts{
		`{}`:                                 {Updated: 10, Unavailable: 1},
		`{"partition":3,"maxUnavailable":2}`: {Updated: 7, Unavailable: 2},
		`{"partition":"31%","maxUnavailable":"1%"}`: {Updated: 6, Unavailable: 1},
		`{"partition":99,"maxUnavailable":99}`:      {Updated: 0, Unavailable: 10},
		`{"type":"NotUpdate"}`:                      {Updated: 10, Unavailable: 1},
	} {
		w, rejection := readSidecarSet(sidecarSet(t, "log:1", strategy))
		if rejection != nil {
			t.Errorf("%s: %+v", strategy, rejection)
			continue
		}
		if got := w.Subsets[0].Amounts(10); got != want || w.NoWaves != "" || w.CountsFailures {
			t.Errorf("%s: %+v, want %+v", strategy, got, want)
		}
	}
	for strategy, says := range map[string]string{
		`{"partition":"half"}`:      "spec.updateStrategy.partition of SidecarSet logs",
		`{"maxUnavailable":"many"}`: "spec.updateStrategy.maxUnavailable of SidecarSet logs",
	} {
		_, rejection := readSidecarSet(sidecarSet(t, "log:1", strategy))
		if rejection == nil || rejection.Reason != InvalidAmount || !strings.Contains(rejection.Message, says) {
			t.Errorf("%s: %+v", strategy, rejection)
		}
	}
}

// TestExpressionsOfSidecarSets: the hub rejects what no member can compute.
func TestExpressionsOfSidecarSets(t *testing.T) {
	for text, says := range map[string]string{
		`{"limits":{"cpu":"max(cpu*50%, 50m)"}}`: "",
		`{"limits":{"cpu":"max(cpu*50%"}}`:       "spec.containers[0].resourcesPolicy: resourcesExpr.limits.cpu",
		`{"requests":{"memory":"cpu"}}`:          "spec.containers[0].resourcesPolicy: resourcesExpr.requests.memory",
	} {
		set := sidecarSet(t, "log:1", `{}`)
		policy := &apps.ResourcesPolicy{}
		if err := json.Unmarshal([]byte(`{"resourcesExpr":`+text+`}`), policy); err != nil {
			t.Fatal(err)
		}
		set.Spec.Containers[0].ResourcesPolicy = policy
		_, rejection := readSidecarSet(set)
		if says == "" && rejection != nil || says != "" && (rejection == nil || rejection.Reason != InvalidTemplate ||
			!strings.Contains(rejection.Message, says)) {
			t.Errorf("%s: %+v", text, rejection)
		}
	}
	set := sidecarSet(t, "log:1", `{}`)
	set.Spec.Containers[0].ResourcesPolicy = &apps.ResourcesPolicy{TargetContainersNameRegex: "("}
	if _, rejection := readSidecarSet(set); rejection == nil || !strings.Contains(rejection.Message, "NameRegex") {
		t.Errorf("a wrong regular expression: %+v", rejection)
	}
}

func TestSidecarSetsThatAreRead(t *testing.T) {
	plain, rejection := readSidecarSet(sidecarSet(t, "log:1", `{}`))
	if rejection != nil || plain.Paused || plain.Selective || plain.Kept != defaultKept || !plain.Key.ClusterScoped() ||
		len(plain.Needs) > 0 {
		t.Errorf("%+v, %v", plain, rejection)
	}
	other, _ := readSidecarSet(sidecarSet(t, "log:1", `{"paused":true,"selector":{"matchLabels":{"canary":"yes"}}}`))
	if !other.Paused || !other.Selective || other.Revision != plain.Revision {
		t.Errorf("%+v", other)
	}
	if changed, _ := readSidecarSet(sidecarSet(t, "log:2", `{}`)); changed.Revision == plain.Revision {
		t.Error("another image has the same revision")
	}
	defaulted := sidecarSet(t, "log:1", `{}`)
	defaulted.Spec.Containers[0].PodInjectPolicy = apps.BeforeAppContainerType
	defaulted.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	if same, _ := readSidecarSet(defaulted); same.Revision != plain.Revision {
		t.Error("defaults make another revision")
	}
	wrong := &apps.SidecarSet{}
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"logs"},"spec":{"containers":[{"name":"log","image":5}]}}`),
		wrong); err != nil {
		t.Fatal(err)
	}
	if _, rejection := readSidecarSet(wrong); rejection == nil || rejection.Reason != InvalidTemplate ||
		!strings.Contains(rejection.Message, "spec.containers[0]") {
		t.Errorf("%+v", rejection)
	}
}

// TestTemplateOfSidecarSets: a placement keeps what a revision keeps, and puts it back; the strategy stays.
func TestTemplateOfSidecarSets(t *testing.T) {
	kind := sidecarSetKind()
	old := sidecarSet(t, "log:1", `{"partition":2}`)
	old.Spec.PatchPodMetadata = []apps.SidecarSetPatchPodMetadata{{Annotations: map[string]string{"a": "b"}}}
	w, rejection := readSidecarSet(old)
	if rejection != nil {
		t.Fatal(rejection)
	}
	if got := kind.Template.Revision(old); got != w.Revision {
		t.Errorf("revision %s, want %s", got, w.Revision)
	}
	back := kind.Template.Restore(sidecarSet(t, "log:2", `{"partition":5}`), w.Template, w.Revision).(*apps.SidecarSet)
	if back.Spec.Containers[0].Image != "log:1" || back.Spec.UpdateStrategy.Partition.IntValue() != 5 ||
		kind.Template.Revision(back) != w.Revision {
		t.Errorf("put back %+v", back.Spec)
	}
	data, err := kind.Template.RevisionData(w.Template)
	if err != nil || !strings.Contains(string(data), `"$patch":"replace"`) {
		t.Errorf("%s, %v", data, err)
	}
	canonical, err := kind.Template.Canonical(data)
	if err != nil || string(canonical) != string(w.Template) {
		t.Errorf("%s, %v; want %s", canonical, err, w.Template)
	}
	spec, err := json.Marshal(old.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if of, err := kind.Template.Of(spec); err != nil || string(of) != string(w.Template) {
		t.Errorf("%s, %v", of, err)
	}
	if kind.Template.Restore(old, []byte("5"), "") != nil || kind.Template.Restore(old, []byte("null"), "") != nil {
		t.Error("what is no content is put back")
	}
}

// TestNewPodsOfSidecarSets: new pods may get the newest sidecars while others keep older ones, unless each of them lets
// fewer others be updated.
func TestNewPodsOfSidecarSets(t *testing.T) {
	for strategy, want := range map[string]bool{
		`{}`: true, `{"partition":4}`: true, `{"partition":"0%"}`: true, `{"partition":"40%"}`: false,
	} {
		if got := newPodsGetNewSidecars(sidecarSet(t, "log:1", strategy)); got != want {
			t.Errorf("%s: %t", strategy, got)
		}
	}
}

// TestManifestsOfSidecarSets: a member that reads budgets has the user's limits beside its own; for another one the
// amounts are in the spec, which stays valid.
func TestManifestsOfSidecarSets(t *testing.T) {
	const users = `{"partition":"50%","maxUnavailable":"20%","scatterStrategy":[{"key":"zone","value":"*"}]}`
	cell := func(updated, unavailable int32) []topology.Cell {
		return []topology.Cell{{Cluster: "east", Replicas: 5, Waiting: unavailable == 0,
			Granted: topology.Budget{Updated: updated, Unavailable: unavailable}}}
	}
	for _, tt := range []struct {
		name, strategy         string
		order                  Order
		partition, unavailable string
		paused                 bool
	}{
		{"a budget", users, Order{Cells: cell(3, 0), Budget: &topology.MemberBudget{}}, "50%", "20%", false},
		{"amounts", users, Order{Cells: cell(3, 2)}, "2", "2", false},
		{"nothing may be unavailable", users, Order{Cells: cell(3, 0)}, "2", "1", true},
		{"more than there are", users, Order{Cells: cell(9, 2)}, "0", "2", false},
	} {
		manifest, err := renderSidecarSet(sidecarSet(t, "log:1", tt.strategy), &tt.order)
		if err != nil {
			t.Fatal(err)
		}
		got := manifest.Spec.(*apps.SidecarSetSpec).UpdateStrategy
		if got.Partition.String() != tt.partition || got.MaxUnavailable.String() != tt.unavailable ||
			got.Paused != tt.paused || len(got.ScatterStrategy) != 1 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	manifest, err := renderSidecarSet(sidecarSet(t, "log:1", `{"selector":{"matchLabels":{"canary":"yes"}}}`),
		&Order{Cells: cell(0, 1)})
	if got := manifest.Spec.(*apps.SidecarSetSpec).UpdateStrategy; err != nil || got.Partition != nil || !got.Paused {
		t.Errorf("a selector: %+v, %v", got, err)
	}
}

func TestStatusOfSidecarSets(t *testing.T) {
	member := func(matched, ready, notUpdatable int32) []byte {
		data, err := json.Marshal(apps.SidecarSetStatus{MatchedPods: matched, ReadyPods: ready, UpdatedPods: matched,
			NotUpdatablePods: notUpdatable, ObservedSequence: 9, LatestRevision: "logs-other"})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	whole := func(reason string) []conditions.Condition {
		return []conditions.Condition{
			{Type: apps.ConditionFederated, Status: corev1.ConditionTrue, Reason: "Placed"},
			{Type: apps.ConditionReady, Status: corev1.ConditionTrue, Reason: reason, Message: "as summed"},
			{Type: apps.ConditionReconciling, Status: corev1.ConditionFalse, Reason: reason},
			{Type: apps.ConditionStalled, Status: corev1.ConditionFalse, Reason: conditions.ReasonNotStalled},
			{Type: apps.ConditionProgressing, Status: corev1.ConditionTrue, Reason: "SidecarSetAvailable"},
		}
	}
	held := &conditions.Cause{Reason: podsNotUpgradable, Message: "west: more than images differ in shop/a"}
	for name, tt := range map[string]struct {
		sum           *Sum
		reason, says  string
		ready         metav1.ConditionStatus
		matched       int32
		notUpdateable int32
	}{
		"all is as asked": {&Sum{Conditions: whole(conditions.ReasonAllAvailable), Statuses: [][]byte{member(3, 3, 0),
			member(2, 2, 0), []byte("x")}}, conditions.ReasonAllAvailable, "as summed", metav1.ConditionTrue, 5, 0},
		"no pods": {&Sum{Conditions: whole(conditions.ReasonAllAvailable), Statuses: [][]byte{member(0, 0, 0)}},
			conditions.ReasonAllAvailable, "no pod of 1 members has the sidecars", metav1.ConditionTrue, 0, 0},
		"changes cannot reach pods": {&Sum{Conditions: whole(conditions.ReasonAllAvailable), Held: held,
			Statuses: [][]byte{member(4, 4, 1)}}, podsNotUpgradable, held.Message, metav1.ConditionFalse, 4, 1},
		"an update is under way": {&Sum{Conditions: whole(conditions.ReasonUpdating), Held: held,
			Statuses: [][]byte{member(-4, 9, 1)}}, conditions.ReasonUpdating, "as summed", metav1.ConditionTrue, 0, 0},
	} {
		set := sidecarSet(t, "log:1", `{}`)
		tt.sum.ObservedGeneration, tt.sum.UpdateRevision = 3, "logs-1"
		tt.sum.Whole = Counts{Updated: 2, UpdatedReady: 1}
		if !sidecarSetStatus(set, tt.sum, time.Unix(100, 0)) || sidecarSetStatus(set, tt.sum, time.Unix(200, 0)) {
			t.Errorf("%s: the status changes once", name)
		}
		s := &set.Status
		ready := meta.FindStatusCondition(s.Conditions, apps.ConditionReady)
		if ready.Status != tt.ready || ready.Reason != tt.reason || ready.Message != tt.says ||
			!meta.IsStatusConditionTrue(s.Conditions, apps.ConditionFederated) ||
			meta.FindStatusCondition(s.Conditions, apps.ConditionProgressing) == nil {
			t.Errorf("%s: %+v", name, s.Conditions)
		}
		if s.MatchedPods != tt.matched || s.UpdatedPods != 2 || s.UpdatedReadyPods != 1 ||
			s.NotUpdatablePods != tt.notUpdateable || s.ObservedSequence != 0 || s.LatestRevision != "logs-1" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestReflectedSidecarSets(t *testing.T) {
	got, err := reflectSidecarSet(&Reflected{Seen: true, Current: true,
		Status: []byte(`{"matchedPods":4,"readyPods":3,"updatedPods":2,"updatedReadyPods":1}`)})
	want := work.SubsetUse{Desired: 4, Total: 4, Ready: 3, Available: 3, Updated: 2, UpdatedReady: 1, UpdatedAvailable: 1}
	if err != nil || !got.Answered || got.InUse[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
	if out := observeSidecarSet(sidecarSet(t, "log:1", `{"type":"NotUpdate","paused":true}`)); !out.OnDelete || !out.Paused {
		t.Errorf("%+v", out)
	}
	if limit := sidecarSet(t, "log:1", `{"maxUnavailable":1}`).Spec.UpdateStrategy.MaxUnavailable; limit.Type != intstr.Int {
		t.Errorf("%v", limit)
	}
}
