package aggregate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// Facts are what a user's status depends on beside the object itself.
type Facts struct {
	Key wire.Key
	// Kind is that of the workload, Kinds the table by which reports are read.
	Kind    kinds.Kind
	Kinds   kinds.Table
	HubID   string
	Outcome placement.Outcome
	// Undelivered is why the decision could not be delivered, nil if it could.
	Undelivered *kinds.Rejection
	// Placement is nil where nothing is placed.
	Placement *topology.WorkloadPlacement
	// Withdrawn: the user withdrew the workload, and no order of it is left.
	Withdrawn bool
	// Generation is that of the user's object.
	Generation int64
	// Deleting: the workload has a deletion timestamp.
	Deleting bool
	// Works of the placement, by member. Of a deleted workload without a placement, those that are left.
	Works map[string]*work.Work
	// Needed are the Works of what goes with the workload, by member.
	Needed map[string][]*work.Work
	// Observed is what the sum depends on of the user's object.
	Observed kinds.Observed
	// NotReady are the members whose reports may be old.
	NotReady map[string]bool
}

// Sum is what the members' reports say together.
type Sum struct {
	Whole   kinds.Counts
	Subsets map[string]kinds.Counts
	// Enough is how many updated pods are enough to be at rest. Updated and UpdatedAvailable count towards it: of each
	// subset no more than are to be updated there.
	Enough, Updated, UpdatedAvailable int32
	// updatable is how many pods have the newest revision or may get it, of a kind that members have whole.
	updatable int32
	// GoingBack is how many updated pods members are still to bring back to the old revision, Kept how many more than
	// their shares they have, without an old revision to go back to.
	GoingBack, Kept int32
	// Answered: every cluster has carried out its newest order.
	Answered bool
	// Exact: every subset has in every cluster the pods that the placement gives it there.
	Exact bool
	// Stalled and Failed name what stands in the way, on the hub or in members, nil where nothing does.
	Stalled, Failed *conditions.Cause
	// Failures are what members report under the published conditions of the kind, by type.
	Failures map[string]*conditions.Cause
	// Statuses are those of the member objects that count, as JSON.
	Statuses [][]byte
	// Deadline tells in which members nothing has moved for longer than the user's deadline, nil where in none.
	Deadline *conditions.Cause
	// Waiting tells in which members pods wait for a lifecycle hook, nil where in none.
	Waiting *conditions.Cause
	// Held tells in which members something holds the workload ([kinds.Kind.Held]), nil where in none.
	Held *conditions.Cause
	// PodReasons are the reasons why pods are not Ready in the members that count, the most frequent one first.
	PodReasons []kinds.PodReason
	// Stale are the members whose numbers are of before, sorted.
	Stale []string
	// Applied: every member object stands as its Work says.
	Applied bool
}

// Summarise sums the reports. It is pure.
func Summarise(f *Facts) Sum {
	s := Sum{Subsets: map[string]kinds.Counts{}, Answered: true, Exact: true, Applied: true}
	if f.Placement != nil {
		s.sumCells(f)
	} else if f.Kind.Mode == kinds.PerMember && !f.Deleting {
		s.Answered = false // the number of desired pods is not known yet
	}
	if s.Enough = s.Whole.ExpectedUpdated; f.Observed.OnDelete {
		s.Enough = min(s.Whole.Updated, s.Whole.Desired)
	}
	if f.Outcome.Stalled {
		s.Stalled = &conditions.Cause{Reason: f.Outcome.Reason, Message: f.Outcome.Message}
	} else if f.Undelivered != nil {
		s.Stalled = &conditions.Cause{Reason: f.Undelivered.Reason, Message: f.Undelivered.Message}
	}
	if s.Failed == nil && f.Outcome.Federated == metav1.ConditionFalse && !f.Deleting {
		s.Failed = &conditions.Cause{Reason: f.Outcome.Reason, Message: f.Outcome.Message}
	}
	return s
}

// Done tells whether nothing is in progress: all is as the placement asks, or nothing moves before a person acts.
func (s *Sum) Done() bool {
	w := s.Whole
	return s.Stalled != nil ||
		s.Answered && s.Exact && w.Available == w.Desired && w.Ready == w.Desired && s.AsFarAsAsked()
}

// AsFarAsAsked tells whether enough pods are updated, and none is still to go back.
func (s *Sum) AsFarAsAsked() bool { return s.Updated >= s.Enough && s.GoingBack == 0 }

func (s *Sum) sumCells(f *Facts) {
	spec := &f.Placement.Spec
	if f.Kind.Mode == kinds.PerMember {
		s.Subsets[""] = kinds.Counts{} // also without limits
		s.Exact = spec.Placed >= spec.Replicas
	}
	for _, limit := range spec.Limits {
		s.Subsets[limit.Subset] = kinds.Counts{ExpectedUpdated: limit.Updated}
	}
	wanted := map[string]map[string]ordered{} // cluster → subset
	sequence := map[string]int64{}
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if wanted[c.Cluster] == nil {
			wanted[c.Cluster] = map[string]ordered{}
		}
		if c.Reason.Code == decision.CellDeselected || f.NotReady[c.Cluster] && f.stoodInFor(c.Cluster) {
			delete(wanted, c.Cluster)
			continue
		}
		order := wanted[c.Cluster][c.Subset]
		wanted[c.Cluster][c.Subset] = ordered{replicas: order.replicas + c.Replicas, update: order.update + c.Granted.Updated}
		// Another break or add alone asks nothing: what is at rest stays at rest.
		sequence[c.Cluster] = max(sequence[c.Cluster], decision.TaskSequenceOf(c))
		if f.Kind.Mode == kinds.PerMember {
			continue // its members say how many pods they ask for
		}
		counts := s.Subsets[c.Subset]
		counts.Desired += c.Replicas - c.Replaced
		s.Subsets[c.Subset] = counts
	}
	var stalled, failed, deadline, waiting, held causes
	failures := map[string]*causes{}
	for _, failure := range f.Kind.Failures {
		failures[failure.Type] = &causes{}
	}
	for _, cluster := range slices.Sorted(maps.Keys(wanted)) {
		s.sumCluster(f, cluster, wanted[cluster], sequence[cluster])
		s.Statuses = append(s.Statuses, statusIn(f.Works[cluster])...)
		t := f.causesIn(cluster, sequence[cluster])
		needs := notApplied(f.Kinds, f.Needed[cluster])
		stalled.add(cluster, causeOr(t.stalled, needs.stalled))
		failed.add(cluster, causeOr(t.failed, needs.failed))
		for published, all := range failures {
			all.add(cluster, t.failures[published])
		}
		deadline.add(cluster, t.deadline)
		waiting.add(cluster, t.waiting)
		held.add(cluster, t.held)
	}
	s.Stalled, s.Failed, s.Deadline, s.Waiting = stalled.cause(), failed.cause(), deadline.cause(), waiting.cause()
	s.Held = held.cause()
	s.PodReasons = f.podReasons(wanted)
	s.Failures = map[string]*conditions.Cause{}
	for published, all := range failures {
		s.Failures[published] = all.cause()
	}
	if whole, ok := s.Subsets[""]; ok && f.Kind.Mode == kinds.PerMember {
		whole.ExpectedUpdated = min(whole.ExpectedUpdated, s.updatable)
		s.Subsets[""] = whole
	}
	for _, counts := range s.Subsets {
		s.Whole.Add(counts)
		s.Updated += min(counts.Updated, counts.ExpectedUpdated)
		s.UpdatedAvailable += min(counts.UpdatedAvailable, counts.ExpectedUpdated)
	}
}

// podReasons returns why pods are not Ready in the members that are to have some. Those of an unreachable member may
// be over.
func (f *Facts) podReasons(wanted map[string]map[string]ordered) []kinds.PodReason {
	works := map[string]*work.Work{}
	for cluster := range wanted {
		if w := f.Works[cluster]; w != nil && !f.NotReady[cluster] {
			works[cluster] = w
		}
	}
	return f.Kinds.PodReasons(f.Kind, f.HubID, works)
}

// statusIn returns the status of the member object, none without one.
func statusIn(w *work.Work) [][]byte {
	if w == nil || len(w.Status.ManifestStatuses) == 0 || w.Status.ManifestStatuses[0].Status == nil {
		return nil
	}
	return [][]byte{w.Status.ManifestStatuses[0].Status.Raw}
}

// stoodInFor reports whether all replicas of a member run elsewhere, also after it was fenced. While such a member is
// unreachable nothing of it counts.
func (f *Facts) stoodInFor(cluster string) bool {
	leaving := false
	for i := range f.Placement.Spec.Cells {
		if c := &f.Placement.Spec.Cells[i]; c.Cluster == cluster {
			if c.Replicas > c.Replaced {
				return false
			}
			leaving = leaving || c.Replaced > 0 || isFenced(c)
		}
	}
	return leaving
}

func isFenced(c *topology.Cell) bool {
	return c.Reason.Code == decision.CellFenced || c.Reason.Code == decision.CellTicksMoved
}

// mostOf returns how much of a subset counts at most in a member: what it is to keep, where others stand in for a part
// of what it has and it is not heard of. What others stand in for counts no more, though the rest may have nowhere
// else to go, and goes on to count as it was last reported.
func (f *Facts) mostOf(cluster, subset string) int32 {
	var stays, leaving int32
	fenced := false
	for i := range f.Placement.Spec.Cells {
		if c := &f.Placement.Spec.Cells[i]; c.Cluster == cluster && c.Subset == subset {
			stays, leaving = stays+c.Replicas-c.Replaced, leaving+c.Replaced
			fenced = fenced || isFenced(c)
		}
	}
	if leaving == 0 && !fenced || !f.NotReady[cluster] {
		return math.MaxInt32
	}
	return max(stays, 0)
}

// atMost returns what a report says of pods, with no number below 0 and none above most.
func atMost(most int32, use work.SubsetUse) kinds.Counts {
	within := func(n int32) int32 { return min(max(n, 0), most) }
	return kinds.Counts{
		Replicas: within(use.Total), Ready: within(use.Ready), Available: within(use.Available),
		Updated: within(use.Updated), UpdatedReady: within(use.UpdatedReady), UpdatedAvailable: within(use.UpdatedAvailable),
	}
}

// ordered is what a placement asks of a subset in a cluster: its replicas, and how many of them may be updated.
type ordered struct{ replicas, update int32 }

// sumCluster adds what one member reports.
func (s *Sum) sumCluster(f *Facts, cluster string, wanted map[string]ordered, sequence int64) {
	w := f.Works[cluster]
	asked := slices.ContainsFunc(slices.Collect(maps.Values(wanted)), func(o ordered) bool { return o.replicas > 0 })
	if f.NotReady[cluster] && asked {
		s.Stale = append(s.Stale, cluster)
	}
	if w == nil {
		s.Answered, s.Exact, s.Applied = false, false, false
		return
	}
	s.Applied = s.Applied && meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionApplied)
	report, _ := f.Kinds.ReportOf(w)
	if report == nil || report.HubID != f.HubID {
		s.Answered, s.Exact = false, false
		return
	}
	if report.Sequence < sequence {
		s.Answered = false
	}
	current := report.Sequence >= f.Placement.Spec.RevisionSequence && !decision.RolledBack(&f.Placement.Spec)
	counted := current && !wire.Overwritten(w)
	total := map[string]int32{}
	for _, use := range report.InUse {
		total[use.Subset] = max(use.Total, 0)
		most := f.mostOf(cluster, use.Subset)
		if most == 0 {
			continue
		}
		counts, known := s.Subsets[use.Subset]
		if !known {
			s.Exact = s.Exact && use.Total <= 0
			continue // a subset that the user removed, on its way out
		}
		have := atMost(most, use)
		if !counted {
			have.Updated, have.UpdatedReady, have.UpdatedAvailable = 0, 0, 0
		}
		counts.Add(have)
		if f.Kind.Mode == kinds.PerMember {
			desired := use.Desired - use.Withheld
			counts.Desired += desired
			wanted[use.Subset] = ordered{replicas: desired, update: wanted[use.Subset].update}
			s.updatable += use.Desired - use.NotUpdatable
		}
		if current {
			order, reported := wanted[use.Subset], decision.LendingReport(report.Sequence, use)
			back, kept := reported.Beyond(order.replicas, order.update)
			s.GoingBack, s.Kept = s.GoingBack+back, s.Kept+kept
		}
		s.Subsets[use.Subset] = counts
	}
	for subset, order := range wanted {
		s.Exact = s.Exact && total[subset] == order.replicas
	}
}

// causesIn returns what keeps the member from its newest order, by its report.
func (f *Facts) causesIn(cluster string, sequence int64) memberCauses {
	w := f.Works[cluster]
	if w == nil {
		return memberCauses{}
	}
	t := causesOf(f.Kinds, f.Kind, w)
	report, _ := f.Kinds.ReportOf(w)
	applied := meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionApplied)
	if applied && (report == nil || report.HubID != f.HubID || f.Kind.AnswersWhenStalled && report.Sequence < sequence) {
		return memberCauses{}
	}
	return t
}

// staleMessage names the members whose numbers are of before.
func (s *Sum) staleMessage() string {
	noun := "member"
	if len(s.Stale) > 1 {
		noun = "members"
	}
	return fmt.Sprintf("%s %s not ready: their numbers are the last that they reported", noun, strings.Join(s.Stale, ", "))
}
