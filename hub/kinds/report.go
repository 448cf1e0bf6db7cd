package kinds

import (
	"fmt"
	"slices"
	"strings"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// ReportOf returns what a member reported on a Work, as far as it can be true, and what of it cannot, a part of a
// sentence. nonsense is empty where all can be true: then the report is the Work's own, and not to be changed. It is
// nil where nothing was reported. An agent of Karmada writes no report: what it reflects of the object's status makes
// one.
//
// Pods of an object that another writer in the member overwrites count neither as updated and ready nor as updated and
// available, so that no wave goes on for them; they count as updated, because that is what the member uses of its
// share.
//
// Numbers of pods are taken into 0 to [wire.MaxPods], and none counts more pods than there are. A sequence that is far
// above every order counts as none: a hub that went on from it would run out of numbers.
func (t Table) ReportOf(w *work.Work) (report *work.Report, nonsense string) {
	report = w.Status.Report
	if report == nil {
		report = t.reflectedReport(w)
	}
	if report == nil {
		return nil, ""
	}
	if report.Sequence < 0 || report.Sequence > wire.AcceptedSequence {
		nonsense = fmt.Sprintf("order %d, which nobody gave", report.Sequence)
	}
	for i := range report.InUse {
		if nonsense == "" {
			nonsense = implausible(&report.InUse[i])
		}
	}
	for _, u := range report.Unschedulable {
		if nonsense == "" && (u.Pods < 0 || u.Pods > wire.MaxPods) {
			nonsense = fmt.Sprintf("%d pods that find no node", u.Pods)
		}
	}
	overwritten := wire.Overwritten(w)
	if nonsense == "" && !overwritten && !slices.ContainsFunc(report.InUse, unclean) {
		return report, ""
	}
	clean := *report
	clean.InUse = slices.Clone(report.InUse)
	if clean.Sequence < 0 || clean.Sequence > wire.AcceptedSequence {
		clean.Sequence = 0
	}
	for i := range clean.InUse {
		clean.InUse[i] = cleanUse(clean.InUse[i])
		if overwritten {
			clean.InUse[i].UpdatedReady, clean.InUse[i].UpdatedAvailable = 0, 0
		}
	}
	clean.Unschedulable = slices.Clone(report.Unschedulable)
	for i := range clean.Unschedulable {
		clean.Unschedulable[i].Pods = within(clean.Unschedulable[i].Pods, wire.MaxPods)
	}
	return &clean, nonsense
}

// implausible names the first number that no cluster can have, empty if there is none.
func implausible(u *work.SubsetUse) string {
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"desired", u.Desired}, {"total", u.Total}, {"ready", u.Ready}, {"available", u.Available},
		{"updated", u.Updated}, {"updatedReady", u.UpdatedReady}, {"updatedAvailable", u.UpdatedAvailable},
	} {
		if n.value >= 0 && n.value <= wire.MaxPods {
			continue
		}
		if u.Subset != "" {
			return fmt.Sprintf("%d pods (%s) of subset %s", n.value, n.name, u.Subset)
		}
		return fmt.Sprintf("%d pods (%s)", n.value, n.name)
	}
	return ""
}

// cleanUse returns the counters as far as they can be true.
func cleanUse(u work.SubsetUse) work.SubsetUse {
	u.Desired, u.Total = within(u.Desired, wire.MaxPods), within(u.Total, wire.MaxPods)
	for _, n := range []*int32{&u.Ready, &u.Available, &u.Updated, &u.UpdatedReady, &u.UpdatedAvailable} {
		*n = within(*n, u.Total)
	}
	return u
}

func unclean(u work.SubsetUse) bool { return cleanUse(u) != u }

func within(n, most int32) int32 { return min(max(n, 0), most) }

// Pods are how many pods a workload has in a member.
type Pods struct {
	Key   wire.Key
	Count int32
}

// PodsOf returns which workloads have pods in a member that other members can run, by the member's reports on its
// Works, sorted, and how many pods these are. Those of objects that each member has whole stay until the member leaves,
// as the pods of a DaemonSet stay on a node that is drained.
func (t Table) PodsOf(works []work.Work) (of []Pods, sum int32) {
	for i := range works {
		key, ours := wire.KeyOf(&works[i])
		report, _ := t.ReportOf(&works[i])
		if !ours || report == nil || t[key.GroupKind()].Mode == PerMember {
			continue
		}
		var count int32
		for _, use := range report.InUse {
			count += use.Total
		}
		if sum += count; count > 0 {
			of = append(of, Pods{key, count})
		}
	}
	slices.SortFunc(of, func(a, b Pods) int { return strings.Compare(a.Key.Sentence(), b.Key.Sentence()) })
	return of, sum
}
