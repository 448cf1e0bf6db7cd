package judge

import (
	"cmp"
	"fmt"
	"slices"
)

// Ordered returns a log in order: entries of one cluster by their versions, and clusters among each other by the time
// of the observation. An entry counts as observed not before the earlier versions of its cluster.
func Ordered(log []Entry) []Entry {
	byCluster := map[string][]Entry{}
	var out []Entry
	for _, e := range log {
		if e.Version == 0 {
			out = append(out, e)
			continue
		}
		key := e.Cluster
		if e.Member != nil {
			key = "hub" // the hub wrote it
		}
		byCluster[key] = append(byCluster[key], e)
	}
	for _, entries := range byCluster {
		slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Version, b.Version) })
		for i := range entries {
			if i > 0 && entries[i].At.Before(entries[i-1].At) {
				entries[i].At = entries[i-1].At
			}
		}
		out = append(out, entries...)
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.At.Compare(b.At) })
	return out
}

// Untouched returns the pods that came, went or changed in a log from an entry on.
func Untouched(log []Entry, from int) (found []Violation) {
	for _, e := range log[min(from, len(log)):] {
		if e.Pod != nil && (e.Pod.Gone || !e.Pod.Active || !e.Pod.Ready) {
			found = append(found, Violation{At: e.At, Rule: RuleRestart,
				What: fmt.Sprintf("%s: pod %s changed when programs were restarted at rest", e.Cluster, e.Pod.Name)})
		}
	}
	return found
}
