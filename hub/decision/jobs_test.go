package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

var jobStart = time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)

// job is a job over these members, with pods on at most so many nodes at once, and batches of so many nodes, 0 for
// none.
func job(parallelism, size int32, soak, names string) Facts {
	f := perMember("", func(n int32) lending.Amounts {
		return lending.Amounts{Updated: n, Unavailable: min(parallelism, n)}
	})
	f.Members, f.Now = members(names), jobStart
	f.Workload.Job = &kinds.Job{}
	if size > 0 {
		f.Workload.Job.Batches = &waves.Batches{Size: func(int32) int32 { return size }, Soak: soak}
	}
	return f
}

// jobReport is a report of a member with n nodes, of which touched have a pod, active of them one that has not ended.
func jobReport(sequence int64, n, touched, active int32) capacity.Report {
	return capacity.Report{Sequence: sequence, Applied: true, Use: map[string]work.SubsetUse{"": {
		Desired: n, Total: n, Ready: n - active, Available: n - active, Updated: touched, UpdatedReady: touched - active,
		UpdatedAvailable: touched - active,
	}}}
}

// beginJob makes the first decisions, and lets the members report their nodes.
func beginJob(t *testing.T, f *Facts, nodes map[string]int32) {
	t.Helper()
	spec := mustPlan(t, *f)
	f.Last, f.Reports = &spec, map[string]capacity.Report{}
	for cluster, n := range nodes {
		f.Reports[cluster] = jobReport(spec.Sequence, n, 0, 0)
	}
	again := mustPlan(t, *f)
	f.Last = &again
}

// goes lets a member carry out its newest order with so many touched and active nodes, and decides.
func goes(t *testing.T, f *Facts, cluster string, touched, active int32) Decision {
	t.Helper()
	n := f.Reports[cluster].Use[""].Desired
	report := jobReport(cellOf(t, f.Last, cluster).Sequence, n, touched, active)
	report.Halted = f.Reports[cluster].Halted
	f.Reports[cluster] = report
	return next(t, f)
}

func next(t *testing.T, f *Facts) Decision {
	t.Helper()
	f.News = map[string]time.Time{}
	for i := range f.Members {
		f.News[f.Members[i].Name] = f.Now
	}
	d, rejection := Plan(*f)
	if rejection != nil {
		t.Fatal(rejection)
	}
	f.Last = &d.Spec
	return d
}

func TestJobsDivideParallelism(t *testing.T) {
	f := job(3, 0, "", "east west")
	beginJob(t, &f, map[string]int32{"east": 4, "west": 2})
	if got := grants(f.Last); got != "east:4/2/0 west:2/1/0" {
		t.Errorf("at first %s", got)
	}
	goes(t, &f, "east", 2, 2)
	goes(t, &f, "west", 1, 1)
	d := goes(t, &f, "west", 2, 0)
	if d.Spec.End != nil {
		t.Error("the job ended before east is through")
	}
	if got := cellOf(t, f.Last, "east").Granted.Unavailable; got < 2 {
		t.Errorf("east lost its part: %s", grants(f.Last))
	}
	goes(t, &f, "west", 2, 0)
	if got := grants(f.Last); got != "east:4/3/0 west:2/0/0" {
		t.Errorf("what west does not need goes to east: %s", got)
	}
	f.Now = f.Now.Add(time.Minute)
	d = goes(t, &f, "east", 4, 0)
	if end := d.Spec.End; end == nil || end.Failed || !end.Time.Time.Equal(f.Now) {
		t.Fatalf("%+v", d.Spec.End)
	}
	for _, c := range d.Spec.Cells {
		if !c.Waiting || c.Sequence != d.Spec.Sequence {
			t.Errorf("%+v has no order that says that the job ended", c)
		}
	}
	f.Now = f.Now.Add(time.Hour)
	f.Reports["east"] = jobReport(d.Spec.Sequence, 9, 4, 0)
	if again := next(t, &f); again.Spec.End == nil || !again.Spec.End.Time.Equal(&d.Spec.End.Time) ||
		!cellOf(t, &again.Spec, "east").Waiting {
		t.Errorf("nodes that come after the end: %+v", again.Spec)
	}
}

// TestWhenAJobCompletes shows what keeps a job from its end.
func TestWhenAJobCompletes(t *testing.T) {
	halt := &work.JobHalt{Time: metav1.NewTime(jobStart), Reason: "CheckFailed", Message: "check web"}
	for name, tt := range map[string]struct {
		change func(*Facts)
		want   bool
	}{
		"all nodes are through": {func(*Facts) {}, true},
		"a pod runs":            {func(f *Facts) { f.Reports["west"] = jobReport(9, 2, 2, 1) }, false},
		"a node is left":        {func(f *Facts) { f.Reports["west"] = jobReport(9, 3, 2, 0) }, false},
		"checks do not hold": {func(f *Facts) {
			use := f.Reports["west"].Use[""]
			use.UpdatedAvailable = 1
			f.Reports["west"].Use[""] = use
		}, false},
		"no node fits in one member": {func(f *Facts) { f.Reports["west"] = jobReport(9, 0, 0, 0) }, true},
		"no node fits": {func(f *Facts) {
			f.Reports["west"], f.Reports["east"] = jobReport(9, 0, 0, 0), jobReport(9, 0, 0, 0)
		}, false},
		"a member has not reported":            {func(f *Facts) { delete(f.Reports, "west") }, false},
		"a member is not heard of":             {func(f *Facts) { f.Members[1].Ready = false }, false},
		"a member is not heard of, deselected": {func(f *Facts) { f.Members = members("east west!-") }, true},
		"a member halted": {func(f *Facts) {
			report := f.Reports["west"]
			report.Halted = halt
			f.Reports["west"] = report
		}, false},
		"paused by the user": {func(f *Facts) { f.Workload.Paused = true }, false},
		"an endless job":     {func(f *Facts) { f.Workload.Job.Endless = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := job(9, 0, "", "east west")
			beginJob(t, &f, map[string]int32{"east": 2, "west": 2})
			f.Reports["east"], f.Reports["west"] = jobReport(9, 2, 2, 0), jobReport(9, 2, 2, 0)
			tt.change(&f)
			if d := next(t, &f); (d.Spec.End != nil) != tt.want {
				t.Errorf("end %+v", d.Spec.End)
			}
		})
	}
}

func TestBatchesOfAJob(t *testing.T) {
	f := job(9, 3, "10m", "east west south!")
	spec := mustPlan(t, f)
	f.Last, f.Reports = &spec, map[string]capacity.Report{"east": jobReport(1, 4, 0, 0)}
	if d := next(t, &f); d.Spec.Wave != nil || grants(f.Last) != "east:0/4/0 south:0/0/0 west:0/0/0" ||
		!strings.Contains(d.Wave, "before member west has reported its nodes") {
		t.Fatalf("before west reports: %s, %q", grants(f.Last), d.Wave)
	}
	f.Reports["west"] = jobReport(1, 2, 0, 0)
	if d := next(t, &f); d.Spec.Wave == nil || grants(f.Last) != "east:2/4/0 south:0/0/0 west:1/1/0" ||
		!strings.HasPrefix(d.Wave, "batch 1 of 2, since 2026-03-01T15:00:00Z, waits until its pods have ended") {
		t.Fatalf("batch 1: %s, %q", grants(f.Last), d.Wave)
	}
	if c := cellOf(t, f.Last, "east"); c.Batch != 1 {
		t.Errorf("%+v", c)
	}
	goes(t, &f, "east", 2, 0)
	if d := goes(t, &f, "west", 1, 0); !strings.Contains(d.Wave, "soaks until 2026-03-01T15:10:00Z") {
		t.Errorf("%q", d.Wave)
	}
	f.Now = f.Now.Add(10 * time.Minute)
	if d := next(t, &f); !strings.HasPrefix(d.Wave, "batch 2 of 2") || cellOf(t, f.Last, "west").Batch != 2 {
		t.Errorf("%q, %+v", d.Wave, f.Last.Cells)
	}
	goes(t, &f, "east", 4, 0)
	if d := goes(t, &f, "west", 2, 0); d.Spec.End != nil || !strings.Contains(d.Wave, "soaks") {
		t.Errorf("the last batch soaks: %+v, %q", d.Spec.End, d.Wave)
	}
	f.Workload.Job.Promoted = 2
	if d := next(t, &f); d.Spec.End != nil || d.Wave != "" {
		t.Errorf("promoted, but south is not heard of: %+v, %q", d.Spec.End, d.Wave)
	}
	f.Members = members("east west south-")
	if d := next(t, &f); d.Spec.End == nil {
		t.Error("the job does not end")
	}
}

// TestAHaltInOneMemberHoldsAll: no member touches a node while a job is halted in one of them.
func TestAHaltInOneMemberHoldsAll(t *testing.T) {
	f := job(9, 2, "1m", "east west")
	beginJob(t, &f, map[string]int32{"east": 4, "west": 4})
	report := jobReport(cellOf(t, f.Last, "west").Sequence, 4, 1, 0)
	report.Halted = &work.JobHalt{Time: metav1.NewTime(jobStart), Reason: "PodsRestarted", Message: "pod web/a restarted"}
	f.Reports["west"] = report
	d := next(t, &f)
	const want = "the job halted in member west: PodsRestarted: pod web/a restarted; no further node is touched in any " +
		"member; go on with flotilla rollout resume bcj/web -n ns"
	if len(d.Notes) == 0 || d.Notes[0] != (Note{Reason: JobHalted, Message: want, Stalled: true}) {
		t.Errorf("%+v", d.Notes)
	}
	for _, c := range d.Spec.Cells {
		if !c.Waiting || c.Sequence != d.Spec.Sequence {
			t.Errorf("%+v goes on", c)
		}
	}
	f.Now = f.Now.Add(time.Hour)
	goes(t, &f, "east", 1, 0)
	if d = next(t, &f); d.Spec.Wave.Number != 1 || !d.Spec.Wave.Held {
		t.Errorf("the next batch began: %+v", d.Spec.Wave)
	}
	report.Halted = nil
	f.Reports["west"] = report
	if d = next(t, &f); cellOf(t, f.Last, "east").Waiting && cellOf(t, f.Last, "west").Waiting || len(d.Notes) > 0 {
		t.Errorf("resumed: %+v, %+v", d.Spec.Cells, d.Notes)
	}
}

func TestAFailureInOneMemberFailsTheJob(t *testing.T) {
	f := job(9, 0, "", "east west")
	beginJob(t, &f, map[string]int32{"east": 4, "west": 4})
	report := jobReport(cellOf(t, f.Last, "west").Sequence, 4, 1, 0)
	report.Halted = &work.JobHalt{Time: metav1.NewTime(jobStart), Reason: "PodFailed", Failed: true,
		Message: strings.Repeat("x", 5000)}
	f.Reports["west"] = report
	d := next(t, &f)
	if end := d.Spec.End; end == nil || !end.Failed || len(end.Message) > 1200 ||
		!strings.HasPrefix(end.Message, "the job failed in member west: PodFailed: xxx") {
		t.Fatalf("%+v", end)
	}
	if d.Notes[0].Reason != JobFailed || !d.Notes[0].Stalled {
		t.Errorf("%+v", d.Notes)
	}
}

func TestNodesOfAMemberThatJoinsLateComeLast(t *testing.T) {
	f := job(9, 0, "", "east west-")
	beginJob(t, &f, map[string]int32{"east": 4})
	goes(t, &f, "east", 1, 1)
	f.Members = members("east west")
	next(t, &f)
	if c := cellOf(t, f.Last, "west"); c.Reason.Code != CellLateMember {
		t.Fatalf("%+v", c)
	}
	f.Reports["west"] = jobReport(f.Last.Sequence, 3, 0, 0)
	next(t, &f)
	if got := cellOf(t, f.Last, "west").Granted.Updated; got != 0 {
		t.Errorf("west may touch %d nodes before those of east are touched", got)
	}
	goes(t, &f, "east", 4, 1)
	if got := cellOf(t, f.Last, "west").Granted.Updated; got != 3 {
		t.Errorf("west may touch %d nodes", got)
	}
}

// TestPolicyWinsOverBatches: the first template goes in waves, and a remark says that batches do not hold.
func TestPolicyWinsOverBatches(t *testing.T) {
	f := job(9, 1, "1h", "east west")
	f.Rollout = topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
		{Name: "east", Clusters: topology.WaveClusters{Names: []string{"east"}}}}}
	beginJob(t, &f, map[string]int32{"east": 2, "west": 2})
	if got := grants(f.Last); got != "east:2/2/0 west:0/0/0" || f.Last.Wave.Limit != 0 {
		t.Errorf("%s, %+v", got, f.Last.Wave)
	}
	if d := next(t, &f); len(d.Notes) != 1 || !strings.Contains(d.Notes[0].Message, "in place of size and soak") {
		t.Errorf("%+v", d.Notes)
	}
	goes(t, &f, "east", 2, 0)
	next(t, &f)
	if got := cellOf(t, f.Last, "west").Granted.Updated; got != 2 {
		t.Errorf("after the wave west may touch %d nodes", got)
	}
}

// simulatedMember carries out the orders that it reads by the plan of a member.
type simulatedMember struct {
	nodes    []completions.Node
	pods     []completions.Pod
	progress completions.Progress
	cell     topology.Cell
	ended    bool
	silent   bool
	// gone is how many nodes with a pod have gone, with it.
	gone int
}

// lose removes a node with its pod.
func (m *simulatedMember) lose(i int) {
	name := m.nodes[i].Name
	m.nodes = slices.Delete(m.nodes, i, i+1)
	kept := slices.DeleteFunc(slices.Clone(m.pods), func(p completions.Pod) bool { return p.Node == name })
	m.gone, m.pods = m.gone+len(m.pods)-len(kept), kept
}

func (m *simulatedMember) active() (n int) {
	for _, pod := range m.pods {
		if pod.State == completions.Running {
			n++
		}
	}
	return n
}

// carryOut makes one pass, and returns the report.
func (m *simulatedMember) carryOut(now time.Time, batches bool) capacity.Report {
	var end *topology.JobEnd
	if m.ended {
		end = &topology.JobEnd{}
	}
	amounts := kinds.BudgetOf([]topology.Cell{m.cell}, end)
	facts := completions.Facts{Now: now, Nodes: m.nodes, Pods: m.pods, Progress: m.progress, Policy: completions.Policy{
		Parallelism: int(amounts.Unavailable), Failure: completions.Continue, Endless: true,
		Order: &completions.Order{Touch: int(amounts.Updated), Nodes: int(amounts.Nodes), Batch: int(amounts.Batch),
			Waiting: amounts.Paused || m.silent, Ended: amounts.Ended},
	}}
	if batches {
		facts.Policy.Batches = &completions.Batches{Size: 1}
	}
	plan := completions.Decide(facts)
	if m.progress != plan.Progress {
		m.progress = plan.Progress
	} else {
		for _, c := range plan.Create {
			m.pods = append(m.pods, completions.Pod{Name: c.Node, Node: c.Node, Batch: c.Batch, State: completions.Running})
		}
	}
	use := work.SubsetUse{Desired: int32(plan.Counts.Desired), Total: int32(plan.Counts.Desired),
		Available: int32(plan.Counts.Desired - plan.Unended), Updated: int32(plan.Touched),
		UpdatedAvailable: int32(plan.Proven)}
	return capacity.Report{Sequence: m.cell.Sequence, Applied: true, Use: map[string]work.SubsetUse{"": use}}
}

// TestJobsInRandomWorlds: over all members no more pods are active than parallelism, no batch has more nodes than its
// size, and the job ends, though orders and reports are late, members are cut off for a while, and nodes go.
func TestJobsInRandomWorlds(t *testing.T) {
	for seed := range uint64(200) {
		if err := simulateJob(t, rand.New(rand.NewPCG(seed, 5))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// reportedAll reports whether the hub knows which nodes have a pod: else it may take the part of a node that is gone
// back from another member.
func reportedAll(f *Facts, world map[string]*simulatedMember) bool {
	for name, m := range world {
		if report, ok := f.Reports[name]; !ok || int(report.Use[""].Updated) != len(m.pods) {
			return false
		}
	}
	return true
}

func simulateJob(t *testing.T, r *rand.Rand) error {
	parallelism, size, loses := 1+r.Int32N(5), r.Int32N(5), r.IntN(2) == 0
	f := job(parallelism, size, "20s", "east south west")
	world, nodes := map[string]*simulatedMember{}, 0
	for _, m := range f.Members {
		member := &simulatedMember{}
		for i := range r.IntN(7) {
			member.nodes = append(member.nodes, completions.Node{Name: fmt.Sprint(m.Name, i), Fits: true})
		}
		nodes += len(member.nodes)
		world[m.Name] = member
	}
	if nodes == 0 {
		return nil
	}
	f.Reports, f.Written = map[string]capacity.Report{}, map[string]int64{}
	f.News = map[string]time.Time{}
	const steps = 6000
	for step := range steps {
		f.Now = f.Now.Add(time.Second)
		for i := range f.Members {
			m := world[f.Members[i].Name]
			// What a member that is cut off may have touched stays counted, also if its nodes are gone.
			if !m.silent && !loses && r.IntN(200) == 0 && step < steps/2 {
				if m.silent = true; m.cell.Sequence > 0 {
					f.Reports[f.Members[i].Name] = m.carryOut(f.Now, size > 0) // its last report gets out
				}
			} else if m.silent && (r.IntN(50) == 0 || step > steps/2) {
				if m.silent = false; f.Last != nil { // it reads its order before it acts again
					m.cell, m.ended = cellOf(t, f.Last, f.Members[i].Name), f.Last.End != nil
				}
			}
			f.Members[i].Silent, f.Members[i].Ready = m.silent, !m.silent
			if !m.silent {
				f.News[f.Members[i].Name] = f.Now
			}
		}
		switch r.IntN(3) {
		case 0:
			d, rejection := Plan(f)
			if rejection != nil {
				return fmt.Errorf("%+v", rejection)
			}
			f.Last = &d.Spec
			for _, c := range d.Spec.Cells {
				f.Written[c.Cluster] = c.Sequence
			}
		case 1:
			if name := f.Members[r.IntN(3)].Name; f.Last != nil && !world[name].silent {
				world[name].cell, world[name].ended = cellOf(t, f.Last, name), f.Last.End != nil
			}
		case 2:
			name := f.Members[r.IntN(3)].Name
			m := world[name]
			if m.cell.Sequence == 0 {
				continue
			}
			report := m.carryOut(f.Now, size > 0)
			if !m.silent {
				f.Reports[name] = report
			}
			for i := range m.pods {
				if r.IntN(3) == 0 {
					m.pods[i].State = completions.Succeeded
				}
			}
		}
		if m := world[f.Members[r.IntN(3)].Name]; loses && reportedAll(&f, world) && r.IntN(60) == 0 && len(m.nodes) > 1 {
			m.lose(r.IntN(len(m.nodes)))
		}
		active, touched, gone, all := 0, 0, 0, 0
		for _, m := range world {
			active, touched, gone, all = active+m.active(), touched+len(m.pods), gone+m.gone, all+len(m.nodes)
		}
		if active > int(parallelism) {
			return fmt.Errorf("step %d: %d pods are active, parallelism is %d", step, active, parallelism)
		}
		if f.Last != nil && f.Last.Wave != nil && f.Last.Wave.Number <= f.Last.Wave.Of &&
			touched+gone > int(f.Last.Wave.Number*size) {
			return fmt.Errorf("step %d: %d nodes are touched in batch %d of %d nodes, and %d that are gone", step, touched,
				f.Last.Wave.Number, size, gone)
		}
		if f.Last != nil && f.Last.End != nil {
			if touched != all || active > 0 {
				return fmt.Errorf("step %d: the job ended with %d of %d nodes touched, %d pods active", step, touched, all, active)
			}
			return nil
		}
	}
	return fmt.Errorf("the job does not end: %+v, %+v", f.Last, f.Reports)
}
