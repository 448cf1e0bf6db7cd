package wire

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

const (
	// MaxPods is the most pods of a subset that a member can report: far above what a cluster holds, and so low that the sum
	// over all cells of a workload is no overflow.
	MaxPods = 1_000_000
	// MaxSequence is the largest number that a hub follows a report to. It leaves room for every order that can ever come
	// after it.
	MaxSequence = int64(1) << 53
	// acceptedSequence is the largest number that a report can have: a hub that was led to MaxSequence gives orders above it, as
	// many as will ever be. No annotation raises it, because agents can patch those.
	acceptedSequence = MaxSequence + 1<<40
)

// ReportOf returns what a member reported on a Work, as far as it can be true, and what of it cannot, a part of a sentence.
// nonsense is empty where all can be true: then the report is the Work's own, and not to be changed. It is nil where
// nothing was reported. An agent of Karmada writes no report: what it reflects of the object's status makes one.
//
// Pods of an object that another writer in the member overwrites count neither as updated and ready nor as updated and available,
// so that no wave goes on for them; they count as updated, because that is what the member uses of its share.
//
// Numbers of pods are taken into 0 to [MaxPods], and none counts more pods than there are. A sequence that is far above
// every order counts as none: a hub that went on from it would run out of numbers.
func ReportOf(w *work.Work) (report *work.Report, nonsense string) {
	report = w.Status.Report
	if report == nil {
		report = reflectedReport(w)
	}
	if report == nil {
		return nil, ""
	}
	if report.Sequence < 0 || report.Sequence > acceptedSequence {
		nonsense = fmt.Sprintf("order %d, which nobody gave", report.Sequence)
	}
	for i := range report.InUse {
		if nonsense == "" {
			nonsense = implausible(&report.InUse[i])
		}
	}
	for _, u := range report.Unschedulable {
		if nonsense == "" && (u.Pods < 0 || u.Pods > MaxPods) {
			nonsense = fmt.Sprintf("%d pods that find no node", u.Pods)
		}
	}
	overwritten := Overwritten(w)
	if nonsense == "" && !overwritten && !slices.ContainsFunc(report.InUse, unclean) {
		return report, ""
	}
	clean := *report
	clean.InUse = slices.Clone(report.InUse)
	if clean.Sequence < 0 || clean.Sequence > acceptedSequence {
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
		clean.Unschedulable[i].Pods = within(clean.Unschedulable[i].Pods, MaxPods)
	}
	return &clean, nonsense
}

// Overwritten reports whether another writer in the member changes the object again and again, or keeps the agent from
// correcting it: then its pods may be of something else than what was ordered.
func Overwritten(w *work.Work) bool {
	applied := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied)
	return applied != nil && applied.Status == metav1.ConditionFalse && applied.Reason == work.ReasonOverwritten
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
		if n.value >= 0 && n.value <= MaxPods {
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
	u.Desired, u.Total = within(u.Desired, MaxPods), within(u.Total, MaxPods)
	for _, n := range []*int32{&u.Ready, &u.Available, &u.Updated, &u.UpdatedReady, &u.UpdatedAvailable} {
		*n = within(*n, u.Total)
	}
	return u
}

func unclean(u work.SubsetUse) bool { return cleanUse(u) != u }

func within(n, most int32) int32 { return min(max(n, 0), most) }
