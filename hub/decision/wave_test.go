package decision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// carryOut makes every member report its last order as done.
func carryOut(f *Facts, d *Decision) {
	f.Last, f.Reports = &d.Spec, map[string]capacity.Report{}
	for i := range d.Spec.Cells {
		c := &d.Spec.Cells[i]
		r, ok := f.Reports[c.Cluster]
		if !ok {
			r = capacity.Report{Sequence: c.Sequence, Applied: true, Use: map[string]work.SubsetUse{}}
			f.Reports[c.Cluster] = r
		}
		use := r.Use[c.Subset]
		use.Desired, use.Total, use.Available = use.Desired+c.Replicas, use.Total+c.Replicas, use.Available+c.Replicas
		use.Updated, use.UpdatedAvailable = use.Updated+c.Granted.Updated, use.UpdatedAvailable+c.Granted.Updated
		use.CanGoBack = use.Updated < use.Total
		r.Use[c.Subset] = use
	}
}

// shares prints what each cell may update.
func shares(d *Decision) string {
	var parts []string
	for i := range d.Spec.Cells {
		parts = append(parts, fmt.Sprintf("%s:%d", d.Spec.Cells[i].Cluster, d.Spec.Cells[i].Granted.Updated))
	}
	return strings.Join(parts, " ")
}

func TestWaves(t *testing.T) {
	now := time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)
	f := Facts{
		Workload: open(9), Members: members("east south west"), Now: now, Object: &apps.CloneSet{},
		Rollout: topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
			{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}}, Soak: "1m",
				Checks: []topology.WaveCheck{{Name: "ready", Expression: "object.status.readyReplicas >= 9", Patience: "20s"}}},
			{Name: "second", Clusters: topology.WaveClusters{Names: []string{"west"}}},
		}},
	}
	d := plan(t, f)
	if got := shares(&d); got != "east:3 south:3 west:3" || d.Spec.Wave != nil || d.Again != 0 {
		t.Fatalf("a new workload has waves: %s, %+v", got, d.Spec.Wave)
	}
	carryOut(&f, &d)
	again := plan(t, f)
	if again.Spec.Sequence != d.Spec.Sequence {
		t.Fatal("nothing changed, and orders are new")
	}
	f.Workload.Revision = "two"
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:0 west:0" || !strings.HasPrefix(d.Wave, "wave 1 of 2 (canary)") {
		t.Fatalf("the first wave is %s, %q", got, d.Wave)
	}
	carryOut(&f, &d)
	d = plan(t, f) // what another member held comes free
	carryOut(&f, &d)
	d = plan(t, f)
	if d.Spec.Wave.Settled == nil || d.Spec.Wave.Unmet == nil ||
		!strings.Contains(d.Wave, `check "ready" does not hold`) || d.Again != 10*time.Second {
		t.Fatalf("the check is not looked at: %+v, %q", d.Spec.Wave, d.Wave)
	}
	if shares(&d) != "east:3 south:0 west:0" {
		t.Fatalf("the wave ended before its soak: %s", shares(&d))
	}
	f.Last, f.Now = &d.Spec, f.Now.Add(time.Minute)
	failed := plan(t, f)
	if !failed.Spec.Cells[0].Waiting || !failed.Spec.Cells[2].Waiting || failed.Notes[0].Reason != WaveFailed ||
		!failed.Notes[0].Stalled {
		t.Fatalf("a failed wave does not stop the update: %+v, %+v", failed.Spec.Cells, failed.Notes)
	}
	f.Last = &failed.Spec
	f.Word = waves.RetryWord("two", failed.Spec.RevisionSequence, failed.Spec.Wave)
	f.Object = &apps.CloneSet{Status: apps.CloneSetStatus{ReadyReplicas: 9}}
	d = plan(t, f)
	if d.Spec.Wave.Failed != nil || d.Wave == "" || len(d.Notes) > 0 {
		t.Fatalf("it is not tried again: %+v", d.Spec.Wave)
	}
	f.Last, f.Now = &d.Spec, f.Now.Add(time.Minute)
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:0 west:3" {
		t.Fatalf("the second wave is %s", got)
	}
	carryOut(&f, &d)
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:3 west:3" || d.Spec.Wave.Number != 3 || d.Wave != "" {
		t.Fatalf("the rest is %s, %+v", got, d.Spec.Wave)
	}
	f.Workload.NoWaves, f.Workload.Revision = "use cloneSetTemplate", "three"
	carryOut(&f, &d)
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:3 west:3" || d.Spec.Wave != nil || len(d.Notes) == 0 ||
		!strings.Contains(d.Notes[0].Message, "cloneSetTemplate") {
		t.Fatalf("Deployments cannot go in waves: %s, %+v", got, d.Notes)
	}
}

// inWaves are facts of an update whose first wave is under way in east.
func inWaves(t *testing.T, list ...topology.Wave) (Facts, Decision) {
	t.Helper()
	f := Facts{
		Workload: open(9), Members: members("east south west"), Now: time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC),
		Object:  &apps.CloneSet{},
		Rollout: topology.Rollout{Strategy: topology.RolloutWaves, Waves: list},
	}
	first := f.Workload.Revision
	d := plan(t, f)
	carryOut(&f, &d)
	f.Workload.Revision = "two"
	d = plan(t, f)
	if d.Spec.Wave == nil || d.Spec.Wave.From != first {
		t.Fatalf("the update leaves %q: %+v", first, d.Spec.Wave)
	}
	return f, d
}

// TestTakenBack: the template that an update leaves comes back everywhere at once, so that no pod of the one that
// failed stays behind a wave.
func TestTakenBack(t *testing.T) {
	f, d := inWaves(t, topology.Wave{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}},
		Size: new(intstr.FromInt32(1)), Soak: "1m"})
	if got := shares(&d); got != "east:1 south:0 west:0" {
		t.Fatalf("the canary is %s", got)
	}
	first := d.Spec.Wave.From
	carryOut(&f, &d)
	f.Workload.Revision = first
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:3 west:3" || d.Spec.Wave != nil || d.Wave != "" {
		t.Fatalf("taken back it is %s, %+v", got, d.Spec.Wave)
	}
	carryOut(&f, &d)
	if d = plan(t, f); d.Spec.Wave != nil || shares(&d) != "east:3 south:3 west:3" {
		t.Fatalf("and then %s, %+v", shares(&d), d.Spec.Wave)
	}
}

// TestWavesWithoutNews: a soak waits for a report of the members of its wave.
// TestWaveWaitsForPodsInAState: a check counts pods by the states that probes found, over all members.
func TestWaveWaitsForPodsInAState(t *testing.T) {
	now := time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)
	f := Facts{
		Workload: open(9), Members: members("east south west"), Now: now, Object: &apps.CloneSet{},
		Rollout: topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
			{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}},
				Checks: []topology.WaveCheck{{Name: "leader", Expression: `pods("role=leader") == 1`}}},
			{Name: "second", Clusters: topology.WaveClusters{Names: []string{"west"}}},
		}},
	}
	d := plan(t, f)
	carryOut(&f, &d)
	f.Workload.Revision = "two"
	for range 3 {
		d = plan(t, f)
		carryOut(&f, &d)
	}
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:0 west:0" || !strings.Contains(d.Wave, "pods in role=leader: 0") {
		t.Fatalf("without a leader: %s, %q", got, d.Wave)
	}
	lead := func(cluster string, pods int32) {
		report := f.Reports[cluster]
		report.States = []work.PodState{{State: "role=leader", Pods: pods}}
		f.Reports[cluster] = report
	}
	lead("east", 1)
	lead("west", 1)
	if d = plan(t, f); !strings.Contains(d.Wave, "pods in role=leader: 2") {
		t.Fatalf("with two leaders: %q", d.Wave)
	}
	if f.Members[2].Name != "west" {
		t.Fatalf("members %+v", f.Members)
	}
	f.Members[2].Silent = true
	if d = plan(t, f); strings.Contains(d.Wave, "pods in role=leader") {
		t.Fatalf("a member that is silent still leads: %q", d.Wave)
	}
	f.Members[2].Silent = false
	lead("west", 0)
	for range 3 {
		d = plan(t, f)
		carryOut(&f, &d)
		lead("east", 1)
	}
	if got := shares(&d); !strings.Contains(got, "west:3") {
		t.Fatalf("with one leader: %s, %q", got, d.Wave)
	}
}

func TestWavesWithoutNews(t *testing.T) {
	f, d := inWaves(t, topology.Wave{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}}, Soak: "1m"})
	carryOut(&f, &d)
	f.Members[0].Ready = false
	d = plan(t, f)
	if !strings.Contains(d.Wave, "waits for a report of east") || !d.Spec.Wave.Unheard {
		t.Fatalf("%q, %+v", d.Wave, d.Spec.Wave)
	}
	f.Last, f.Now = &d.Spec, f.Now.Add(time.Hour)
	f.Members[0].Ready, f.Heard = true, f.Now.Add(-time.Minute)
	d = plan(t, f)
	if !strings.Contains(d.Wave, "soaks until 2026-03-01T16:01:00Z") {
		t.Fatalf("%q, %+v", d.Wave, d.Spec.Wave)
	}
	f.News = map[string]time.Time{"east": f.Now.Add(59 * time.Second)}
	f.Last, f.Now = &d.Spec, f.Now.Add(70*time.Second)
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:0 west:0" ||
		!strings.Contains(d.Wave, "has soaked until 2026-03-01T16:01:00Z, and waits for a report since then of east") {
		t.Fatalf("the wave ended on news of before the end of its soak: %s, %q", got, d.Wave)
	}
	f.News["east"] = f.Now
	f.Last = &d.Spec
	d = plan(t, f)
	if got := shares(&d); got != "east:3 south:3 west:3" {
		t.Fatalf("with the news it goes on: %s, %q", got, d.Wave)
	}
}

// TestWavesOfMembersWithoutPods: a wave of a member that has no pod of the workload is over at once; one that selects
// no member waits for a person.
func TestWavesOfMembersWithoutPods(t *testing.T) {
	for name, want := range map[string]int32{"north": 2, "nowhere": 1} {
		f := Facts{
			Workload: open(9), Members: members("east north south west"), Object: &apps.CloneSet{},
			Rollout: topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
				{Name: "one", Clusters: topology.WaveClusters{Names: []string{name}}},
				{Name: "two", Clusters: topology.WaveClusters{Names: []string{"east"}}},
			}},
		}
		f.Members[1].Taint = division.NoSchedule
		d := plan(t, f)
		carryOut(&f, &d)
		f.Workload.Revision = "two"
		d = plan(t, f)
		if d.Spec.Wave == nil || d.Spec.Wave.Number != want {
			t.Errorf("%s: %q, %+v, want wave %d", name, d.Wave, d.Spec.Wave, want)
		}
	}
}

// TestWavesWithAJob: a decision has the Job made in the members of the wave, and the next wave waits for it.
func TestWavesWithAJob(t *testing.T) {
	f := Facts{
		Workload: open(9), Members: members("east south west"),
		Rollout: topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
			{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}},
				Checks: []topology.WaveCheck{{Name: "smoke", Job: &topology.WaveJob{Template: runtime.RawExtension{Raw: []byte(`{}`)}}}}},
		}},
	}
	d := plan(t, f)
	carryOut(&f, &d)
	f.Workload.Revision = "two"
	d = plan(t, f)
	for range 3 {
		carryOut(&f, &d)
		d = plan(t, f)
	}
	jobs := d.Spec.Wave.Jobs
	if len(jobs) != 1 || strings.Join(jobs[0].Clusters, " ") != "east" || shares(&d) != "east:3 south:0 west:0" ||
		!strings.Contains(d.Wave, "under way in east") {
		t.Fatalf("Jobs %+v, shares %s, %q", jobs, shares(&d), d.Wave)
	}
	f.Runs = map[waves.RunKey]waves.Run{{Cluster: "east", Job: jobs[0].Name}: {Succeeded: true}}
	if d = plan(t, f); d.Spec.Wave.Number != 2 || d.Spec.Wave.Jobs != nil {
		t.Errorf("it goes on to %+v", d.Spec.Wave)
	}
}
