package wire

import (
	"slices"
	"strings"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// Pods are how many pods a workload has in a member.
type Pods struct {
	Key   Key
	Count int32
}

// PodsOf returns which workloads have pods in a member, by the member's reports on its Works, sorted, and how many pods these are.
func PodsOf(works []work.Work) (of []Pods, sum int32) {
	for i := range works {
		key, ours := KeyOf(&works[i])
		report, _ := ReportOf(&works[i])
		if !ours || report == nil {
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
