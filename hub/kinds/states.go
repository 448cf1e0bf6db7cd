package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// State is how many pods of a workload are in a state that a probe found: a label as key=value, or a condition as
// type=status.
type State struct {
	State string `json:"state"`
	// Pods are those of all members, Clusters those of each.
	Pods     int64            `json:"pods"`
	Clusters map[string]int32 `json:"clusters"`
}

// String returns the state with its pods, in all and by member.
func (s State) String() string {
	parts := make([]string, 0, len(s.Clusters))
	for _, cluster := range slices.Sorted(maps.Keys(s.Clusters)) {
		parts = append(parts, fmt.Sprintf("%s %d", cluster, s.Clusters[cluster]))
	}
	return fmt.Sprintf("%s %d (%s)", s.State, s.Pods, strings.Join(parts, ", "))
}

// SumStates returns the states that members reported, by name, sorted.
func SumStates(reports map[string]*work.Report) []State {
	sums := map[string]*State{}
	for cluster, report := range reports {
		for _, reported := range report.States {
			sum := sums[reported.State]
			if sum == nil {
				sum = &State{State: reported.State, Clusters: map[string]int32{}}
				sums[reported.State] = sum
			}
			sum.Pods += int64(reported.Pods)
			sum.Clusters[cluster] += reported.Pods
		}
	}
	var out []State
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, *sums[name])
	}
	return out
}
