package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// workloadSpread reads "x:a=30% y:east= z:": name:zone or cluster=maxReplicas.
func workloadSpread(name, text string) apps.WorkloadSpread {
	ws := apps.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	ws.Spec.TargetReference = &apps.TargetReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"}
	for _, part := range strings.Fields(text) {
		rest, limit, _ := strings.Cut(part, "=")
		subset, at, _ := strings.Cut(rest, ":")
		s := apps.WorkloadSpreadSubset{Name: subset}
		if limit != "" {
			s.MaxReplicas = new(intstr.Parse(limit))
		}
		if at != "" {
			key := corev1.LabelTopologyZone
			if len(at) > 1 {
				key = topology.LabelCluster
			}
			s.RequiredNodeSelector = &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{at}}}}
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

// showSpread prints cells as "subset@cluster/zone:replicas".
func showSpread(cells []topology.Cell) string {
	var parts []string
	for _, c := range cells {
		at := c.Cluster
		if c.Zone != "" {
			at += "/" + c.Zone
		}
		parts = append(parts, fmt.Sprintf("%s@%s:%d", c.SpreadSubset, at, c.Replicas))
	}
	return strings.Join(parts, " ")
}

// TestDecideByAnAdaptiveSpread takes the strategy from the WorkloadSpread through a reconcile's decision: members are
// asked, and what one of them tells moves.
func TestDecideByAnAdaptiveSpread(t *testing.T) {
	ws := workloadSpread("ws", "a:east=2 b:west")
	ws.Spec.ScheduleStrategy = apps.WorkloadSpreadScheduleStrategy{Type: "Adaptive",
		Adaptive: &apps.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(20))}}
	now := time.Unix(1_000_000, 0)
	s := &State{
		key:       wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"},
		Object:    cloneSet(func(cs *apps.CloneSet) { cs.Spec.Replicas = new(int32(4)) }),
		federated: true, now: now, heard: now.Add(-time.Hour), dividers: []kinds.Object{&ws},
		Policies: []policy.Policy{{Ref: topology.PolicyReference{Kind: policy.KindPolicy, Name: "all"},
			Spec: topology.FederationPolicySpec{Workloads: []topology.WorkloadSelector{{Kind: "CloneSet"}}}}},
	}
	for _, name := range []string{"east", "west"} {
		m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: topology.MemberClusterSpec{Accepted: true}}
		for _, kind := range []string{topology.MemberAccepted, topology.MemberReady} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
		}
		s.Members = append(s.Members, m)
	}
	decided := func() *topology.WorkloadPlacementSpec {
		t.Helper()
		next := Decide(s, kinds.Workloads())
		if next.Spec == nil {
			t.Fatalf("nothing is decided: %+v", next.Outcome)
		}
		return next.Spec
	}
	first := decided()
	if got := showSpread(first.Cells); got != "a@east:2 b@west:2" || first.RescheduleAfter != "20s" {
		t.Fatalf("%s, and members are asked for pods that wait %q", got, first.RescheduleAfter)
	}
	s.Placement = &topology.WorkloadPlacement{Spec: *first}
	s.reports = map[string]capacity.Report{
		"east": {Sequence: first.Sequence, Applied: true, Use: map[string]work.SubsetUse{"": {Desired: 2, Total: 2}},
			Unschedulable: []work.UnschedulablePods{{Subset: "a", Pods: 2}}},
		"west": {Sequence: first.Sequence, Applied: true,
			Use: map[string]work.SubsetUse{"": {Desired: 2, Total: 2, Ready: 2}}},
	}
	second := decided()
	if got := showSpread(second.Cells); got != "a@east:0 b@west:4" {
		t.Fatal(got)
	}
	if u := second.Cells[0].Unschedulable; u == nil || u.Replicas != 0 ||
		!u.RetryAfter.Time.Equal(now.Add(5*time.Minute)) {
		t.Errorf("%+v", u)
	}
}

func TestJudgeUnderAPolicy(t *testing.T) {
	now := time.Unix(10_000, 0)
	since := metav1.NewTime(now.Add(-time.Minute))
	cluster := func(name string, ready metav1.ConditionStatus, fence *topology.Fence) topology.MemberCluster {
		m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: topology.MemberClusterSpec{Accepted: true, Fence: fence}}
		m.Status.Conditions = []metav1.Condition{
			{Type: topology.MemberAccepted, Status: metav1.ConditionTrue},
			// one that is Ready was so before
			{Type: topology.MemberReady, Status: ready, Reason: topology.ReasonLeaseExpired, LastTransitionTime: since},
		}
		return m
	}
	later := metav1.NewTime(since.Add(time.Second))
	for _, tc := range []struct {
		reason   string
		failover topology.Failover
		fence    *topology.Fence
		heard    time.Duration // since when the hub is in contact, before now
		pods     string
		ordered  string // replicas of the order, and by how much it is newer than the report; empty for no cell
		lost     bool
		fencing  bool
		again    time.Duration
	}{
		{"no failover", topology.Failover{}, nil, time.Hour, "", "", false, false, 0},
		{"never", topology.Failover{Mode: topology.FailoverNever, After: "20s"}, nil, time.Hour, "", "", false, false, 0},
		{"its time has not come", topology.Failover{Mode: topology.FailoverReplace, After: "5m"}, nil, time.Hour, "", "",
			false, false, 4 * time.Minute},
		{"its time has come", topology.Failover{Mode: topology.FailoverReplace, After: "1m"}, nil, time.Hour, "", "", true,
			false, 0},
		{"the hub has just started", topology.Failover{Mode: topology.FailoverReplace, After: "1m"}, nil, 10 * time.Second,
			"", "", false, false, 30 * time.Second},
		{"a person confirms it", topology.Failover{Mode: topology.FailoverReplace, After: "5m"},
			&topology.Fence{LostSince: since}, 0, "", "", true, false, 0},
		{"a person confirmed another loss", topology.Failover{Mode: topology.FailoverReplace, After: "5m"},
			&topology.Fence{LostSince: later}, time.Hour, "", "", false, false, 4 * time.Minute},
		{"fence, and nobody knows", topology.Failover{Mode: topology.FailoverFence, After: "1m"}, nil, time.Hour, "west:3",
			"3 0", false, true, 0},
		{"fence, and it never reported", topology.Failover{Mode: topology.FailoverFence, After: "1m"}, nil, time.Hour, "", "",
			false, true, 0},
		{"fence, and it has reported none", topology.Failover{Mode: topology.FailoverFence, After: "1m"}, nil, time.Hour,
			"west:0", "0 0", true, false, 0},
		{"fence, and it has no cell", topology.Failover{Mode: topology.FailoverFence, After: "1m"}, nil, time.Hour, "west:0",
			"", true, false, 0},
		{"fence, and it has reported none, and was told to have three",
			topology.Failover{Mode: topology.FailoverFence, After: "1m"}, nil, time.Hour, "west:0", "3 0", false, true, 0},
		{"fence, and it has reported none, and not under the order of none",
			topology.Failover{Mode: topology.FailoverFence, After: "1m"}, nil, time.Hour, "west:0", "0 1", false, true, 0},
		{"fence, and a person confirms it", topology.Failover{Mode: topology.FailoverFence, After: "5m"},
			&topology.Fence{LostSince: since}, time.Hour, "west:3", "3 0", true, false, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := &State{now: now, heard: now.Add(-tc.heard), reports: reported(tc.pods), Members: []topology.MemberCluster{
				cluster("east", metav1.ConditionTrue, nil), cluster("west", metav1.ConditionFalse, tc.fence),
			}}
			var cell topology.Cell
			if n, _ := fmt.Sscan(tc.ordered, &cell.Replicas, &cell.Sequence); n == 2 {
				cell.Cluster = "west"
				s.Placement = &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{Cells: []topology.Cell{cell}}}
			}
			members := decision.MembersFor(s.Members, &topology.ClusterSelector{})
			again := JudgeMembers(s, members, &tc.failover)
			if west := members[1]; west.Lost != tc.lost || west.Fencing != tc.fencing || again != tc.again || members[0].Lost {
				t.Errorf("lost %t, fencing %t, again in %s", west.Lost, west.Fencing, again)
			}
		})
	}
}

// TestForgedFindsCountAsFarAsTheyCan holds that what a member says to have found is read like every other report.
func TestForgedFindsCountAsFarAsTheyCan(t *testing.T) {
	w := &work.Work{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationAdopt: topology.AdoptLook}}}
	w.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionFalse,
		Reason: work.ReasonAdopting}}
	w.Status.Report = &work.Report{InUse: []work.SubsetUse{{Subset: "a", Desired: 1 << 30}, {Subset: "b", Desired: -7},
		{Subset: "c", Desired: 3}}}
	found, ok := foundBy(nil, w)
	if !ok || found["a"] != wire.MaxPods || found["b"] != 0 || found["c"] != 3 {
		t.Errorf("found %v, %t", found, ok)
	}
}

// reported reads "west:3": the pods of a member.
func reported(text string) map[string]capacity.Report {
	out := map[string]capacity.Report{}
	if name, pods, ok := strings.Cut(text, ":"); ok {
		var n int32
		if _, err := fmt.Sscan(pods, &n); err != nil {
			panic(err)
		}
		out[name] = capacity.Report{Applied: true, Use: map[string]work.SubsetUse{"": {Desired: n, Total: n, Ready: n,
			Available: n, Updated: n}}}
	}
	return out
}

// TestTheStepsOfThePolicyHoldBeforeThoseOfTheWorkload holds also for its waves.
func TestTheStepsOfThePolicyHoldBeforeThoseOfTheWorkload(t *testing.T) {
	steps := func(partition string) []topology.RolloutStep {
		return []topology.RolloutStep{{Partition: intstr.Parse(partition)}}
	}
	w := kinds.Workload{Steps: steps("1")}
	for name, tt := range map[string]struct {
		policy topology.Rollout
		want   []topology.RolloutStep
	}{
		"no steps":  {topology.Rollout{Strategy: topology.RolloutProportional}, steps("1")},
		"its steps": {topology.Rollout{Steps: steps("2")}, steps("2")},
		"waves":     {topology.Rollout{Strategy: topology.RolloutWaves}, nil},
	} {
		if diff := cmp.Diff(tt.want, rolloutOf(&tt.policy, &w).Steps); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
