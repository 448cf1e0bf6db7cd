package decision

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/cron"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/advancedcronjob"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// order is what a Work brings.
type order struct {
	sequence int64
	spec     apps.AdvancedCronJobSpec
	ticks    *topology.Ticks
}

// cronMember is a member of a cronWorld: its machines, its agent, and its AdvancedCronJob.
type cronMember struct {
	name string
	skew time.Duration
	// off: its machines are off. cut: it does not reach the hub. Since when either is so.
	off, cut bool
	since    time.Time
	// open: the hub has answered the session. ordered is the sequence of the Work at that time. unsure: the agent cannot
	// know whether the member was fenced.
	open    bool
	ordered int64
	unsure  bool

	object   *apps.AdvancedCronJob // nil before the first order
	sequence int64                 // of the order that object has
	ticks    *topology.Ticks
	jobs     []advancedcronjob.Job
	memory   time.Time
}

// cronWorld simulates members that lose the hub, are switched off, fenced, and come back, while the hub moves the jobs.
type cronWorld struct {
	*rand.Rand
	*testing.T
	f       Facts
	job     *apps.AdvancedCronJob
	fence   bool // failover.mode
	members []*cronMember
	works   map[string]order
	fenced  map[string]bool
	// began are the members that started each tick, by its Unix time, missed those that reported it.
	// Ticks up to startAfter may be both.
	began, missed map[int64]string
	startAfter    time.Time
	schedule      cron.Schedule
	moves         int
}

func newCronWorld(t *testing.T, seed uint64) *cronWorld {
	w := &cronWorld{Rand: rand.New(rand.NewPCG(seed, 9)), T: t, job: cronJob(), works: map[string]order{},
		fenced: map[string]bool{}, began: map[int64]string{}, missed: map[int64]string{}}
	w.fence = w.IntN(3) > 0
	if w.IntN(2) == 0 {
		w.job.Spec.StartingDeadlineSeconds = new(int64(w.IntN(200)))
	}
	w.f = inOne(t, w.job)
	w.f.Failover.Mode = topology.FailoverNever
	if w.fence {
		w.f.Failover.Mode = topology.FailoverFence
	}
	w.f.Reports = map[string]capacity.Report{}
	for i := range 2 + w.IntN(3) {
		name := fmt.Sprintf("m%d", i)
		w.f.Members = append(w.f.Members, Member{Name: name, Selected: true, Ready: true})
		w.members = append(w.members, &cronMember{name: name, open: true, since: w.f.Now,
			skew: time.Duration(w.IntN(4000)-2000) * time.Millisecond})
	}
	var err error
	if w.schedule, err = cron.Parse(w.job.Spec.Schedule, ""); err != nil {
		t.Fatal(err)
	}
	return w
}

// step lets one thing happen.
func (w *cronWorld) step() {
	w.f.Now = w.f.Now.Add(time.Duration(w.IntN(15000)) * time.Millisecond)
	at := w.IntN(len(w.members))
	m, seen := w.members[at], &w.f.Members[at]
	switch w.IntN(16) {
	case 0:
		if m.cut || w.IntN(2) == 0 {
			w.cutOrJoin(m)
		}
	case 1:
		if m.off || w.IntN(2) == 0 {
			w.switchOffOrOn(m)
		}
	case 2:
		if w.IntN(3) == 0 {
			w.restart(m)
		}
	case 3:
		if away := m.off || m.cut; away && w.f.Now.Sub(m.since) > topology.LeaseDuration {
			seen.Ready, seen.State = false, failover.Silent
		}
	case 4: // a person confirms that nothing runs there, and is right
		if m.off && w.f.Now.Sub(m.since) > 5*time.Second && !seen.Ready {
			w.fenced[m.name] = true
		}
	case 5:
		seen.Selected = !seen.Selected || w.IntN(3) > 0
	case 6:
		if seen.Taint = ""; w.IntN(3) == 0 {
			seen.Taint = division.NoExecute
		}
	case 7:
		if w.IntN(3) == 0 {
			w.job.Spec.Paused = new(w.IntN(2) == 0)
		}
	case 8, 9:
		w.decide()
	case 10:
		w.deliver()
	case 11:
		w.read(m)
	case 12, 13:
		w.report(m)
	default:
		w.pass(m)
	}
	if w.IntN(3) == 0 { // most of the time all is well
		w.decide()
		w.deliver()
		for _, m := range w.members {
			w.read(m)
			w.report(m)
		}
	}
	for _, m := range w.members {
		w.pass(m)
	}
}

func (w *cronWorld) cutOrJoin(m *cronMember) {
	if m.cut = !m.cut; m.cut {
		m.since, m.open = w.f.Now, false
		return
	}
	w.heard(m)
}

// heard lets the hub hear of a member: it is Ready before its session is answered.
func (w *cronWorld) heard(m *cronMember) {
	if m.off || m.cut {
		return
	}
	for i := range w.f.Members {
		if seen := &w.f.Members[i]; seen.Name == m.name {
			seen.Ready, seen.Lost, seen.State = true, false, failover.Fine
			delete(w.fenced, m.name)
		}
	}
}

func (w *cronWorld) switchOffOrOn(m *cronMember) {
	if m.off = !m.off; m.off {
		m.since, m.open = w.f.Now, false
		return
	}
	w.restart(m)
	w.heard(m)
}

func (w *cronWorld) restart(m *cronMember) { m.open, m.unsure, m.memory = false, true, time.Time{} }

// answer lets the hub answer the session of a member that reaches it, after it has written its decision.
func (w *cronWorld) answer(m *cronMember) {
	if m.off || m.cut || m.open {
		return
	}
	w.heard(m)
	for i := 0; w.f.Last != nil && i < len(w.f.Last.Cells); i++ {
		if c := &w.f.Last.Cells[i]; c.Cluster == m.name && c.Sequence != w.works[m.name].sequence {
			return
		}
	}
	m.open, m.unsure, m.ordered = true, false, w.works[m.name].sequence
}

// read lets a member carry out its newest order.
func (w *cronWorld) read(m *cronMember) {
	w.answer(m)
	o, ordered := w.works[m.name]
	switch {
	case !m.open:
	case !ordered && m.object != nil && m.sequence > 0: // its Work was deleted
		m.object, m.sequence, m.ticks, m.jobs, m.memory = nil, 0, nil, nil, time.Time{}
	case !ordered || o.sequence < m.sequence:
	default:
		if m.object == nil {
			m.object = &apps.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Name: "clean",
				CreationTimestamp: metav1.NewTime(w.clockOf(m).Truncate(time.Second))}}
		}
		if !sameSpec(&m.object.Spec, &o.spec) || m.object.Generation == 0 {
			m.object.Generation++
		}
		m.object.Spec, m.ticks, m.sequence = *o.spec.DeepCopy(), o.ticks, o.sequence
	}
}

func sameSpec(a, b *apps.AdvancedCronJobSpec) bool {
	return (a.Paused != nil && *a.Paused) == (b.Paused != nil && *b.Paused)
}

func (w *cronWorld) clockOf(m *cronMember) time.Time { return w.f.Now.Add(m.skew) }

// pass is one pass of the member's controller, which may be killed between the job and the status.
func (w *cronWorld) pass(m *cronMember) {
	if m.off || m.object == nil {
		return
	}
	facts := advancedcronjob.Facts{Cron: m.object, Jobs: m.jobs, Now: w.clockOf(m), Started: m.memory, Ticks: m.ticks}
	if m.ticks != nil && m.ticks.Alone && (m.sequence < m.ordered || !m.open && m.unsure) {
		facts.Held = &conditions.Cause{}
	}
	plan := advancedcronjob.Compute(facts)
	if plan.Stalled != nil {
		w.Fatal(plan.Stalled.Message)
	}
	if !plan.Start.IsZero() {
		w.start(m, plan.Start)
	}
	if w.IntN(20) == 0 && plan.Missed.Count == 0 {
		w.restart(m)
		return
	}
	w.miss(m, plan)
	later := func(have *metav1.Time, t time.Time) *metav1.Time {
		if t.IsZero() || have != nil && !t.After(have.Time) {
			return have
		}
		return &metav1.Time{Time: t}
	}
	status := &m.object.Status
	status.LastScheduleTime = later(later(status.LastScheduleTime, plan.Started), plan.Start)
	status.LastMissedTime = later(status.LastMissedTime, plan.Missed.Newest)
	status.ObservedSchedule, status.ObservedGeneration = &plan.Observed, m.object.Generation
}

func (w *cronWorld) start(m *cronMember, tick time.Time) {
	if other, twice := w.began[tick.Unix()]; twice {
		w.Fatalf("%s starts the tick of %v, which %s has started", m.name, tick, other)
	}
	if other, missed := w.missed[tick.Unix()]; missed {
		w.Fatalf("%s starts the tick of %v, which %s has reported as missed", m.name, tick, other)
	}
	w.began[tick.Unix()], m.memory = m.name, tick
	m.jobs = append(m.jobs, advancedcronjob.Job{Object: &batchv1.Job{}, Tick: tick, Finished: true})
	m.jobs = m.jobs[max(0, len(m.jobs)-2):]
}

// miss records the ticks that a pass reports as missed.
func (w *cronWorld) miss(m *cronMember, plan advancedcronjob.Plan) {
	if plan.Missed.Count == 0 {
		return
	}
	from := plan.Observed.Since.Time
	for _, at := range []time.Time{plan.Started, timeOf(m.object.Status.LastMissedTime)} {
		if at.After(from) {
			from = at
		}
	}
	n := 0
	for tick := w.schedule.Next(from); !tick.After(plan.Missed.Newest); tick = w.schedule.Next(tick) {
		if _, ran := w.began[tick.Unix()]; ran && tick.After(w.startAfter) {
			w.Fatalf("%s reports the tick of %v as missed, which %s has started", m.name, tick, w.began[tick.Unix()])
		}
		w.missed[tick.Unix()] = m.name
		n++
	}
	if n != plan.Missed.Count {
		w.Fatalf("%s reports %d missed ticks, and there are %d", m.name, plan.Missed.Count, n)
	}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// report lets a member report to the hub.
func (w *cronWorld) report(m *cronMember) {
	w.answer(m)
	if !m.open || m.object == nil {
		return
	}
	r := w.f.Reports[m.name]
	r.Applied, r.Use = true, map[string]work.SubsetUse{"": work.AdvancedCronJobUse(&m.object.Spec)}
	if m.object.Status.ObservedGeneration == m.object.Generation {
		r.Sequence = m.sequence
	}
	data, err := json.Marshal(&m.object.Status)
	if err != nil {
		w.Fatal(err)
	}
	w.f.Reports[m.name], w.f.MaxReported = r, max(w.f.MaxReported, r.Sequence)
	w.f.Ticks[m.name] = w.f.Kind.Ticks(w.job, data)
}

// decide makes the next decision, as the hub's JudgeMembers sees the members.
func (w *cronWorld) decide() {
	if !slices.ContainsFunc(w.f.Members, func(m Member) bool { return m.Selected }) {
		w.f.Members[0].Selected = true
	}
	for i := range w.f.Members {
		m := &w.f.Members[i]
		m.Lost = w.fence && !m.Ready && (w.fenced[m.Name] || w.toldEmpty(m.Name) && w.IntN(4) == 0)
		if m.Lost {
			m.State = failover.Lost
		}
	}
	var rejection *kinds.Rejection
	alone := w.f.Workload.Alone
	if w.f.Workload, rejection = w.f.Kind.Read(w.job); rejection != nil {
		w.Fatal(rejection)
	}
	w.f.Workload.Alone = alone
	next := mustPlan(w.T, w.f)
	holders := 0
	for _, c := range next.Cells {
		if c.Replicas > 0 {
			holders++
		}
		if c.Ticks != nil && c.Ticks.StartAfter != nil && c.Ticks.StartAfter.After(w.startAfter) {
			w.startAfter = c.Ticks.StartAfter.Time
		}
	}
	if holders > 1 || holders != int(next.Placed) {
		w.Fatalf("%d members start jobs: %s", holders, showOne(&next))
	}
	if w.f.Last != nil && showOne(w.f.Last) != showOne(&next) {
		w.moves++
	}
	w.f.Last = &next
}

func (w *cronWorld) toldEmpty(name string) bool {
	r, ok := w.f.Reports[name]
	if w.f.Last == nil {
		return false
	}
	for _, c := range w.f.Last.Cells {
		if c.Cluster == name {
			ok = ok && c.Replicas == 0 && r.Sequence >= c.Sequence
		}
	}
	return ok && r.Use[""].Total == 0
}

// deliver writes the Works: those of members that start no jobs first. It may fail in between.
func (w *cronWorld) deliver() {
	if w.f.Last == nil {
		return
	}
	cells := slices.Clone(w.f.Last.Cells)
	slices.SortStableFunc(cells, func(a, b topology.Cell) int { return int(a.Replicas - b.Replicas) })
	have := map[string]bool{}
	for i := range cells {
		have[cells[i].Cluster] = true
	}
	for name := range maps.Clone(w.works) {
		if !have[name] {
			delete(w.works, name)
			delete(w.f.Reports, name)
		}
	}
	for i := range cells {
		c := cells[i]
		manifest, err := w.f.Kind.Render(w.job, &kinds.Order{Cells: []topology.Cell{c}})
		if err != nil {
			w.Fatal(err)
		}
		o := order{sequence: c.Sequence, spec: *manifest.Spec.(*apps.AdvancedCronJobSpec)}
		if text := manifest.Annotations[topology.AnnotationTicks]; text != "" {
			if err := json.Unmarshal([]byte(text), &o.ticks); err != nil {
				w.Fatal(err)
			}
		}
		w.works[c.Cluster] = o
		if w.IntN(10) == 0 {
			return
		}
	}
}

// rest brings all members back, and checks that no tick was lost and that the next one is started.
func (w *cronWorld) rest() {
	w.job.Spec.Paused = nil
	for i, m := range w.members {
		m.off, m.cut = false, false
		w.f.Members[i].Selected, w.f.Members[i].Taint = true, ""
		w.heard(m)
	}
	for range 20 {
		w.decide()
		w.deliver()
		for _, m := range w.members {
			w.read(m)
			w.pass(m)
			w.report(m)
		}
	}
	w.f.Now = w.schedule.Next(w.f.Now).Add(5 * time.Second)
	for range 5 {
		for _, m := range w.members {
			w.pass(m)
		}
	}
	newest := w.f.Now.Add(-5 * time.Second)
	if d := w.job.Spec.StartingDeadlineSeconds; w.began[newest.Unix()] == "" && (d == nil || *d > 10) {
		w.Fatalf("the tick of %v was not started: %s", newest, showOne(w.f.Last))
	}
	for tick := w.schedule.Next(cronStart()); !tick.After(newest); tick = w.schedule.Next(tick) {
		if w.began[tick.Unix()] == "" && w.missed[tick.Unix()] == "" {
			w.Fatalf("the tick of %v was lost: %s", tick, showOne(w.f.Last))
		}
	}
}

// TestPlaceOneProperties checks, over random worlds, that no tick is started twice, and that each is started or
// reported missed.
func TestPlaceOneProperties(t *testing.T) {
	moves, began := 0, 0
	for seed := range uint64(*worlds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newCronWorld(t, seed)
			for range 400 {
				w.step()
			}
			w.rest()
			moves, began = moves+w.moves, began+len(w.began)
		})
	}
	if moves < 2**worlds || began < 10**worlds {
		t.Errorf("%d changes, and %d ticks started: the worlds say little", moves, began)
	}
}
