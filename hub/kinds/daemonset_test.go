package kinds

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

func daemonSet(change ...func(*apps.RollingUpdateDaemonSet)) *apps.DaemonSet {
	set := &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "log"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.PodTemplateSpec = podTemplate()
	set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateDaemonSet{}
	for _, c := range change {
		c(set.Spec.UpdateStrategy.RollingUpdate)
	}
	return set
}

// daemonsBy sets the limits, "" for none.
func daemonsBy(partition, unavailable, surge string) func(*apps.RollingUpdateDaemonSet) {
	amount := func(text string) *intstr.IntOrString {
		if text == "" {
			return nil
		}
		return new(intstr.Parse(text))
	}
	return func(rolling *apps.RollingUpdateDaemonSet) {
		rolling.Partition, rolling.MaxUnavailable, rolling.MaxSurge = amount(partition), amount(unavailable), amount(surge)
	}
}

func TestLimitsOfDaemonSets(t *testing.T) {
	byHand := daemonSet(daemonsBy("5", "3", ""))
	byHand.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	for name, tt := range map[string]struct {
		set  *apps.DaemonSet
		want lending.Amounts
	}{
		"defaults":                     {daemonSet(), lending.Amounts{Updated: 10, Unavailable: 1}},
		"a partition rounds down":      {daemonSet(daemonsBy("59%", "2", "")), lending.Amounts{Updated: 5, Unavailable: 2}},
		"a partition above the sum":    {daemonSet(daemonsBy("40", "", "")), lending.Amounts{Unavailable: 1}},
		"maxUnavailable rounds up":     {daemonSet(daemonsBy("", "11%", "")), lending.Amounts{Updated: 10, Unavailable: 2}},
		"surge alone, which rounds up": {daemonSet(daemonsBy("", "", "11%")), lending.Amounts{Updated: 10, Surge: 2}},
		"OnDelete uses no limits":      {byHand, lending.Amounts{Updated: 10, Unavailable: 1}},
	} {
		w, rejection := readDaemonSet(tt.set)
		if rejection != nil {
			t.Errorf("%s: %+v", name, rejection)
			continue
		}
		if got := w.Subsets[0].Amounts(10); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestDaemonSetsThatAreRead(t *testing.T) {
	w, rejection := readDaemonSet(daemonSet(func(rolling *apps.RollingUpdateDaemonSet) {
		rolling.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
		rolling.Paused = new(true)
	}))
	if rejection != nil || !w.Selective || !w.Paused || w.Kept != defaultKept || len(w.Template) == 0 {
		t.Errorf("%+v, %v", w, rejection)
	}
	plain, _ := readDaemonSet(daemonSet())
	if plain.Selective || plain.Paused || plain.Revision != w.Revision {
		t.Errorf("%+v", plain)
	}
	for name, tt := range map[string]struct {
		change       func(*apps.DaemonSet)
		reason, says string
	}{
		"selector": {func(set *apps.DaemonSet) { set.Spec.Selector.MatchLabels["app"] = "x" }, InvalidSelector, "selector"},
		"maxUnavailable": {func(set *apps.DaemonSet) {
			daemonsBy("", "x", "")(set.Spec.UpdateStrategy.RollingUpdate)
		}, InvalidAmount, `spec.updateStrategy.rollingUpdate of DaemonSet shop/log: maxUnavailable "x"`},
		"partition": {func(set *apps.DaemonSet) {
			daemonsBy("x", "", "")(set.Spec.UpdateStrategy.RollingUpdate)
		}, InvalidAmount, `partition "x"`},
	} {
		set := daemonSet()
		tt.change(set)
		_, rejection := readDaemonSet(set)
		if rejection == nil || rejection.Reason != tt.reason || !strings.Contains(rejection.Message, tt.says) {
			t.Errorf("%s: %+v", name, rejection)
		}
	}
}

// TestManifestsOfDaemonSets: a member that reads budgets has the user's limits beside its own; for another one the
// amounts are in the spec, which stays valid. The selector of nodes goes to all members as it is.
func TestManifestsOfDaemonSets(t *testing.T) {
	canary := func(rolling *apps.RollingUpdateDaemonSet) {
		rolling.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
	}
	cell := func(granted topology.Budget, waiting bool) []topology.Cell {
		return []topology.Cell{{Cluster: "east", Replicas: 5, Granted: granted, Waiting: waiting}}
	}
	paused := func(rolling apps.RollingUpdateDaemonSet, is bool) apps.RollingUpdateDaemonSet {
		rolling.Paused, rolling.Selector = &is, &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
		return rolling
	}
	limits := func(partition, unavailable, surge string) apps.RollingUpdateDaemonSet {
		var rolling apps.RollingUpdateDaemonSet
		daemonsBy(partition, unavailable, surge)(&rolling)
		return rolling
	}
	set := daemonSet(canary, daemonsBy("30%", "20%", ""))
	for name, tt := range map[string]struct {
		order *Order
		want  apps.RollingUpdateDaemonSet
	}{
		"a budget": {&Order{Cells: cell(topology.Budget{Updated: 2}, false), Budget: &topology.MemberBudget{}},
			*set.Spec.UpdateStrategy.RollingUpdate},
		"amounts": {&Order{Cells: cell(topology.Budget{Updated: 2, Unavailable: 3}, false)},
			paused(limits("3", "3", ""), false)},
		"surge": {&Order{Cells: cell(topology.Budget{Updated: 5, Surge: 2}, false)},
			paused(limits("0", "0", "2"), false)},
		"nothing is granted": {&Order{Cells: cell(topology.Budget{Updated: 5}, true)}, paused(limits("0", "1", ""), true)},
	} {
		manifest, err := renderDaemonSet(set, tt.order)
		if err != nil {
			t.Fatal(err)
		}
		got := *manifest.Spec.(*apps.DaemonSetSpec).UpdateStrategy.RollingUpdate
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	if set.Spec.UpdateStrategy.RollingUpdate.Partition.String() != "30%" {
		t.Error("the user's object has changed")
	}
}

// statusesOf are the statuses of member objects as reports carry them.
func statusesOf(t *testing.T, statuses ...apps.DaemonSetStatus) (out [][]byte) {
	t.Helper()
	for i := range statuses {
		data, err := json.Marshal(&statuses[i])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

func TestStatusOfDaemonSetsIsTheSum(t *testing.T) {
	member := apps.DaemonSetStatus{
		DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, NumberMisscheduled: 1, NumberReady: 3, NumberAvailable: 3,
		NumberUnavailable: 2, UpdatedNumberScheduled: 2, ObservedGeneration: 7, ObservedSequence: 9,
		CollisionCount: new(int32(1)), UpdateRevision: "of-the-member",
		NodeCounts: &apps.DaemonSetNodeCounts{UpdatedAvailable: 1, Surging: 1, Withheld: 1, NotUpdatable: 2,
			LostUnavailable: 1, LostOutdated: 1},
	}
	set := daemonSet()
	set.Status.ObservedSequence = 3
	ready := conditions.Condition{Type: apps.ConditionReady, Status: corev1.ConditionFalse, Reason: "Updating"}
	sum := &Sum{
		ObservedGeneration: 4, UpdateRevision: "log-abc", CurrentRevision: "log-def",
		Whole: Counts{Updated: 3, UpdatedAvailable: 2}, Statuses: append(statusesOf(t, member, member), []byte("7")),
		Conditions: []conditions.Condition{ready},
		Failures:   map[string]*conditions.Cause{failedCreateDaemon: {Reason: "Quota", Message: "east: full"}},
	}
	now := time.Unix(100, 0)
	if !daemonSetStatus(set, sum, now) || daemonSetStatus(set, sum, now) {
		t.Error("the status changes once")
	}
	want := apps.DaemonSetStatus{
		DesiredNumberScheduled: 10, CurrentNumberScheduled: 8, NumberMisscheduled: 2, NumberReady: 6, NumberAvailable: 6,
		NumberUnavailable: 4, UpdatedNumberScheduled: 3, ObservedGeneration: 4, UpdateRevision: "abc", CurrentRevision: "def",
		NodeCounts: &apps.DaemonSetNodeCounts{UpdatedAvailable: 2, Surging: 2, Withheld: 2, NotUpdatable: 4,
			LostUnavailable: 2, LostOutdated: 2},
	}
	if diff := cmp.Diff(want, set.Status, cmpopts.IgnoreFields(want, "Conditions")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c := daemonSetCondition(set, failedCreateDaemon); c.Status != corev1.ConditionTrue || c.Message != "east: full" {
		t.Errorf("%+v", set.Status.Conditions)
	}
}

func TestNoNodeFitsInAnyMember(t *testing.T) {
	ready := conditions.Condition{Type: apps.ConditionReady, Status: corev1.ConditionTrue, Reason: "AllAvailable"}
	for name, tt := range map[string]struct {
		statuses [][]byte
		reason   string
	}{
		"none fits": {statusesOf(t, apps.DaemonSetStatus{}, apps.DaemonSetStatus{}), noNodeFits},
		"one fits": {statusesOf(t, apps.DaemonSetStatus{}, apps.DaemonSetStatus{DesiredNumberScheduled: 1}),
			"AllAvailable"},
		"no member yet": {nil, "AllAvailable"},
	} {
		set := daemonSet()
		daemonSetStatus(set, &Sum{Statuses: tt.statuses, Conditions: []conditions.Condition{ready}}, time.Unix(100, 0))
		if c := daemonSetCondition(set, apps.ConditionReady); c.Reason != tt.reason {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func daemonSetCondition(set *apps.DaemonSet, of string) apps.DaemonSetCondition {
	for _, c := range set.Status.Conditions {
		if string(c.Type) == of {
			return c
		}
	}
	return apps.DaemonSetCondition{}
}

// TestNodesOfReportsAreKeptWithinReason: no node count of a report is below 0 or above the nodes that should run a pod.
func TestNodesOfReportsAreKeptWithinReason(t *testing.T) {
	use := work.SubsetUse{Desired: 4, Total: 5, NodeUse: work.NodeUse{Surging: 5, Withheld: -1, NotUpdatable: 9,
		LostUnavailable: 4, LostOutdated: 7}}
	want := work.NodeUse{Surging: 4, NotUpdatable: 4, LostUnavailable: 4, LostOutdated: 4}
	if got := cleanUse(use); got.NodeUse != want {
		t.Errorf("%+v, want %+v", got.NodeUse, want)
	}
	if says := implausible(&use); !strings.Contains(says, "-1 pods (withheld)") {
		t.Error(says)
	}
}
