package decision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// cronStart is when the AdvancedCronJob of these tests is created.
func cronStart() time.Time { return time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC) }

func cronJob() *apps.AdvancedCronJob {
	job := &apps.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "clean",
		CreationTimestamp: metav1.NewTime(cronStart())}}
	job.Spec.Schedule = "* * * * *"
	job.Spec.Template.JobTemplate = &apps.JobTemplate{}
	return job
}

// inOne is an AdvancedCronJob that a policy places in one member.
func inOne(t *testing.T, job *apps.AdvancedCronJob) Facts {
	t.Helper()
	kind := kinds.Workloads()[apps.AdvancedCronJobKind.GroupKind()]
	w, rejection := kind.Read(job)
	if rejection != nil {
		t.Fatal(rejection)
	}
	if remark := PlaceOne(kind, &w, topology.PolicyReference{}, topology.PlacementOne); remark != "" {
		t.Fatal(remark)
	}
	return Facts{Kind: kind, Workload: w, Now: cronStart(), Ticks: map[string]kinds.Ticks{"": kind.Ticks(job, nil)}}
}

// showOne prints cells as "east:1(Alone)", with "<" if ticks up to some time may have run elsewhere.
func showOne(spec *topology.WorkloadPlacementSpec) string {
	var parts []string
	for _, c := range spec.Cells {
		text := fmt.Sprintf("%s:%d(%s)", c.Cluster, c.Replicas, c.Reason.Code)
		if c.Replicas > 0 && c.Ticks != nil && c.Ticks.StartAfter != nil {
			text += "<"
		}
		parts = append(parts, text)
	}
	for _, u := range spec.Unplaced {
		parts = append(parts, u.Reason.Code)
	}
	return strings.Join(parts, " ")
}

// starts reads "east:1 west:0": whether members that have carried out the last decision start jobs. A "?" behind it is
// one that has not carried it out.
func starts(last *topology.WorkloadPlacementSpec, text string) map[string]capacity.Report {
	out := map[string]capacity.Report{}
	for _, part := range strings.Fields(text) {
		name, rest, _ := strings.Cut(part, ":")
		total := int32(rest[0] - '0')
		report := capacity.Report{Applied: true, Use: map[string]work.SubsetUse{"": {Desired: 1, Total: total}}}
		for _, c := range last.Cells {
			if c.Cluster == name && !strings.HasSuffix(rest, "?") {
				report.Sequence = c.Sequence
			}
		}
		out[name] = report
	}
	return out
}

func TestPlaceOne(t *testing.T) {
	type stage struct{ reason, members, reports, want string }
	const each = "each" // as stage.members: the decision before was one with placement Each
	for name, stages := range map[string][]stage{
		"the member is drained": {
			{"one is chosen", "west east", "", "east:1(Alone)"},
			{"it stays", "west east south", "east:1", "east:1(Alone)"},
			{"it is told to stop", "west east~", "east:1", "east:0(Stopping) Moving"},
			{"it has not read that", "west east~", "east:1?", "east:0(Stopping) Moving"},
			{"it is cut off", "west east~!", "east:1?", "east:0(Stopping) Moving"},
			{"it has stopped", "west east~", "east:0", "east:0(Standby) west:1(Alone)"},
			{"it stays behind", "west east", "west:1 east:0", "east:0(Standby) west:1(Alone)"},
			{"it gets them back", "west~ east", "west:1 east:0", "east:0(Standby) west:0(Stopping) Moving"},
			{"after the other one has stopped", "west~ east", "west:0 east:0", "east:1(Alone) west:0(Standby)"},
		},
		"the member is no longer selected": {
			{"one is chosen", "west east", "", "east:1(Alone)"},
			{"it is told to stop", "west east-", "east:1", "east:0(Stopping) Moving"},
			{"its object is removed", "west east-", "east:0", "west:1(Alone)"},
		},
		"nobody else can start jobs": {
			{"one is chosen", "west! east", "", "east:1(Alone)"},
			{"so it stays", "west! east~", "east:1", "east:1(Alone)"},
			{"also if it is not selected", "west! east-", "east:1", "east:1(Alone)"},
			{"until another one can", "west east-", "east:1", "east:0(Stopping) Moving"},
			{"which is away when it has stopped", "west! east-", "east:0", "east:0(Stopped) Moving"},
			{"and comes back", "west east-", "east:0", "west:1(Alone)"},
		},
		"the member is lost": {
			{"one is chosen", "west east", "", "east:1(Alone)"},
			{"it is unreachable", "west east!", "east:1", "east:1(Alone)"},
			{"it is fenced", "west east*", "east:1", "east:0(TicksMoved) west:1(Alone)<"},
			{"it stays away", "west east!", "west:1 east:1?", "east:0(TicksMoved) west:1(Alone)<"},
			{"it is back", "west east", "west:1 east:1?", "east:0(Stopping) west:1(Alone)<"},
			{"the other one is told to stop", "west~ east", "west:1 east:1?", "east:0(Stopping) west:0(Stopping) Moving"},
			{"the first one need not stop to go on", "west~ east", "west:0 east:1?", "east:1(Alone) west:0(Standby)"},
		},
		"the member is lost, comes back, and gets the jobs again": {
			{"one is chosen", "west east", "", "east:1(Alone)"},
			{"it is fenced", "west east*", "east:1", "east:0(TicksMoved) west:1(Alone)<"},
			{"it has read its order", "west east", "west:1 east:0", "east:0(Standby) west:1(Alone)<"},
			{"the other one is drained", "west~ east", "west:1 east:0", "east:0(Standby) west:0(Stopping) Moving"},
			{"and has stopped", "west~ east", "west:0 east:0", "east:1(Alone) west:0(Standby)"},
		},
		"a member that stops is lost": {
			{"one is chosen", "west east", "", "east:1(Alone)"},
			{"it is told to stop", "west east~", "east:1", "east:0(Stopping) Moving"},
			{"nobody can start jobs when it is fenced", "west! east~*", "east:1?", "east:0(Stopping) Moving"},
			{"then one can", "west east~*", "east:1?", "east:0(TicksMoved) west:1(Alone)<"},
		},
		"the member is removed": {
			{"one is chosen", "west east", "", "east:1(Alone)"},
			{"without a word", "west", "", "west:1(Alone)<"},
		},
		"the policy had each member run it": {
			{"each runs it", "west east " + each, "west:1 east:1", "east:1(PerMember) west:1(PerMember)"},
			{"one goes on", "west east", "west:1 east:1", "east:1(Alone) west:0(Stopping)"},
			{"the other one has stopped", "west east", "west:0 east:1", "east:1(Alone) west:0(Standby)"},
			{"each runs it again", "west east " + each, "west:0 east:1", "east:1(PerMember) west:1(PerMember)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := inOne(t, cronJob())
			for _, s := range stages {
				members, isEach := strings.CutSuffix(s.members, each)
				f.Members, f.Workload.Alone = flags(members), !isEach
				f.Now = f.Now.Add(20 * time.Second)
				if f.Last != nil {
					f.Reports = starts(f.Last, s.reports)
				} else if isEach {
					f.Reports = starts(&topology.WorkloadPlacementSpec{}, s.reports)
				}
				next := mustPlan(t, f)
				if got := showOne(&next); got != s.want {
					t.Fatalf("%s: %s, want %s", s.reason, got, s.want)
				}
				f.Last = &next
				again := mustPlan(t, f)
				if !slices.EqualFunc(again.Cells, next.Cells, func(a, b topology.Cell) bool {
					return a.Replicas == b.Replicas && a.Sequence == b.Sequence
				}) && len(next.Unplaced) == 0 {
					t.Fatalf("%s: decided again: %s", s.reason, showOne(&again))
				}
			}
		})
	}
}

func TestNotesOfOneMember(t *testing.T) {
	for name, tt := range map[string]struct {
		members string
		change  func(*Member)
		reports string
		says    []string
	}{
		"all is well": {"east west", nil, "east:1", []string{"member east starts the jobs"}},
		"unreachable, without failover": {"east! west", nil, "east:1",
			[]string{"member east, which starts the jobs, is unreachable", "only with failover.mode Fence"}},
		"unreachable": {"east! west", func(m *Member) { m.State = failover.Silent }, "east:1",
			[]string{"goes on by its own clock"}},
		"lost, and not confirmed": {"east! west", func(m *Member) { m.State, m.Fencing = failover.Lost, true }, "east:1",
			[]string{"counts as lost", "flotilla fence east --confirm"}},
		"nobody else can": {"east~ west!", nil, "east:1", []string{"the jobs stay in member east"}},
		"it is to stop":   {"east~ west", nil, "east:1", []string{"member east has not confirmed yet", "after that"}},
		"it is to stop, and is unreachable": {"east!~ west", nil, "east:1",
			[]string{"member east has not confirmed yet", "flotilla fence east --confirm"}},
	} {
		f := inOne(t, cronJob())
		f.Members = flags("east west")
		first := mustPlan(t, f)
		f.Last, f.Members, f.Reports = &first, flags(tt.members), starts(&first, tt.reports)
		if tt.change != nil {
			tt.change(&f.Members[0])
		}
		d, rejection := Plan(f)
		if rejection != nil {
			t.Fatal(rejection)
		}
		var all string
		for _, note := range d.Notes {
			all += note.Message + "\n"
		}
		for _, says := range tt.says {
			if !strings.Contains(all, says) {
				t.Errorf("%s: %q does not say %q", name, all, says)
			}
		}
	}
}

func TestPlacementOneOfOtherKinds(t *testing.T) {
	policy := topology.PolicyReference{Kind: "FederationPolicy", Name: "all"}
	for kind, rule := range kinds.Workloads() {
		w := kinds.Workload{Key: wire.Key{Kind: kind.Kind, Namespace: "ns", Name: "web"}}
		remark := PlaceOne(rule, &w, policy, topology.PlacementOne)
		if can := rule.Ticks != nil; w.Alone != can || (remark == "") != can {
			t.Errorf("%s: alone %t, %q", kind, w.Alone, remark)
		}
		w.Alone = false
		if remark := PlaceOne(rule, &w, policy, topology.PlacementEach); remark != "" || w.Alone {
			t.Errorf("%s with Each: %q", kind, remark)
		}
	}
	alone := kinds.Workload{Alone: true}
	for mode, want := range map[topology.FailoverMode]topology.FailoverMode{
		topology.FailoverReplace: topology.FailoverNever, topology.FailoverFence: topology.FailoverFence,
		topology.FailoverNever: topology.FailoverNever,
	} {
		if f, remark := FailoverOf(&alone, topology.Failover{Mode: mode}); f.Mode != want || (remark != "") != (mode != want) {
			t.Errorf("%s: %s, %q", mode, f.Mode, remark)
		}
	}
}
