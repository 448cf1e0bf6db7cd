package kinds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// mostReasons is how many reasons of pods are kept of a workload.
	mostReasons = 16
	// mostClusters is how many members a text about a reason names.
	mostClusters = 3
)

// PodReason is why some pods of a workload are not Ready, or not gone, in all members.
type PodReason struct {
	Reason string `json:"reason"`
	// Message is that of one of the pods.
	Message string `json:"message"`
	// Container is the container that the reason is about, empty for none.
	Container string `json:"container,omitempty"`
	// Count is how many pods there are in all members, Clusters how many in each.
	Count    int64            `json:"count"`
	Clusters map[string]int32 `json:"clusters"`
	// Cluster and Pod name one of the pods. Pod is empty where the pods do not exist.
	Cluster string `json:"cluster"`
	Pod     string `json:"pod,omitempty"`
}

// String returns a sentence: the reason, what is wrong, how many pods that are in which members, and one of them.
func (r PodReason) String() string {
	text := r.Reason + ": "
	if r.Container != "" {
		text += "container " + r.Container + " "
	}
	text += fmt.Sprintf("%s (%d %s: %s", r.Message, r.Count, plural(r.Count, "pod"), r.where())
	if r.Pod != "" {
		text += fmt.Sprintf("; see pod %s in %s", r.Pod, r.Cluster)
	}
	return text + ")"
}

// where names the members with the most pods.
func (r PodReason) where() string {
	clusters := slices.SortedFunc(maps.Keys(r.Clusters), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Clusters[b], r.Clusters[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, cluster := range clusters[:min(len(clusters), mostClusters)] {
		parts = append(parts, fmt.Sprintf("%s %d", cluster, r.Clusters[cluster]))
	}
	if more := len(clusters) - mostClusters; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more %s", more, plural(int64(more), "member")))
	}
	return strings.Join(parts, ", ")
}

func plural(n int64, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// PodReasons returns why pods are not Ready by what members reported to the hub on the Works of a workload, the most
// frequent reason first. It is pure, and the order of the members does not matter.
func (t Table) PodReasons(kind Kind, hubID string, works map[string]*work.Work) []PodReason {
	type id struct{ reason, container, message string }
	sums := map[id]*PodReason{}
	for _, cluster := range slices.Sorted(maps.Keys(works)) {
		report, _ := t.ReportOf(works[cluster])
		if report == nil || report.HubID != hubID {
			continue
		}
		reported := report.NotReady
		if refused := refusedIn(kind, works[cluster], report); refused != nil {
			reported = append(slices.Clone(reported), *refused)
		}
		for _, r := range reported {
			key := id{r.Reason, r.Container, r.Message}
			if r.Reason == work.ReasonUnschedulable || r.Reason == work.ReasonFailedCreate {
				key.message = "" // it differs from member to member
			}
			sum := sums[key]
			if sum == nil {
				sum = &PodReason{Reason: r.Reason, Message: r.Message, Container: r.Container, Clusters: map[string]int32{},
					Cluster: cluster, Pod: r.Pod}
				sums[key] = sum
			}
			sum.Count += int64(r.Count)
			sum.Clusters[cluster] += r.Count
		}
	}
	out := make([]PodReason, 0, len(sums))
	for _, sum := range sums {
		out = append(out, *sum)
	}
	slices.SortFunc(out, func(a, b PodReason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Container, b.Container), strings.Compare(a.Message, b.Message))
	})
	return out[:min(len(out), mostReasons)]
}

// refusedIn returns that pods are refused in a member when they are created, nil if none are: by the condition of the
// member object that the kind has for that.
func refusedIn(kind Kind, w *work.Work, report *work.Report) *work.PodReason {
	missing := missingIn(kind, report)
	if missing == 0 || wire.IsCheck(w) || len(w.Status.ManifestStatuses) == 0 ||
		w.Status.ManifestStatuses[0].Status == nil ||
		!meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionApplied) {
		return nil
	}
	var object struct {
		Conditions []struct {
			Type    string
			Status  corev1.ConditionStatus
			Reason  string
			Message string
		}
	}
	if json.Unmarshal(w.Status.ManifestStatuses[0].Status.Raw, &object) != nil {
		return nil
	}
	for _, c := range object.Conditions {
		creates := slices.ContainsFunc(kind.Failures, func(f Failure) bool {
			return f.Creates && f.Type == c.Type && (f.Reason == "" || f.Reason == c.Reason)
		})
		if creates && c.Status == corev1.ConditionTrue {
			return &work.PodReason{Reason: work.ReasonFailedCreate, Message: shortened(c.Message), Count: missing}
		}
	}
	return nil
}

// missingIn returns how many pods a member is to have by its report and has not.
func missingIn(kind Kind, report *work.Report) int32 {
	var missing int32
	for i := range report.InUse {
		use := report.InUse[i]
		if kind.Shown != nil {
			use = kind.Shown(use)
		}
		missing += max(use.Desired-use.Withheld-use.Total, 0)
	}
	return missing
}

// shortened returns the beginning of a message that is too long for a reason of pods.
func shortened(message string) string {
	if len(message) <= work.LongestPodMessage {
		return message
	}
	return strings.ToValidUTF8(message[:work.LongestPodMessage], "") + "…"
}
