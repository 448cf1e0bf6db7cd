package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
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
	nonsense = nonsenseIn(report)
	overwritten := wire.Overwritten(w)
	if nonsense == "" && !overwritten && !slices.ContainsFunc(report.InUse, unclean) {
		return report, ""
	}
	return cleaned(report, overwritten), nonsense
}

// cleaned returns a report with what of it can be true.
func cleaned(report *work.Report, overwritten bool) *work.Report {
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
	if clean.Halted != nil && !isReason(clean.Halted.Reason) {
		halted := *clean.Halted
		halted.Reason, clean.Halted = "JobHalted", &halted
	}
	clean.Unschedulable = slices.Clone(report.Unschedulable)
	for i := range clean.Unschedulable {
		clean.Unschedulable[i].Pods = within(clean.Unschedulable[i].Pods, wire.MaxPods)
	}
	clean.NotReady = slices.DeleteFunc(slices.Clone(report.NotReady), func(r work.PodReason) bool {
		return !isReason(r.Reason)
	})
	for i := range clean.NotReady {
		clean.NotReady[i].Count = within(clean.NotReady[i].Count, wire.MaxPods)
	}
	clean.States = slices.Clone(report.States)
	for i := range clean.States {
		clean.States[i].Pods = within(clean.States[i].Pods, wire.MaxPods)
	}
	return &clean
}

// isReason reports whether a text is a reason of a condition.
func isReason(text string) bool {
	return text != "" && len(text) <= 64 && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0
}

// nonsenseIn names the first thing in a report that cannot be true, "" for none.
func nonsenseIn(report *work.Report) string {
	if report.Sequence < 0 || report.Sequence > wire.AcceptedSequence {
		return fmt.Sprintf("order %d, which nobody gave", report.Sequence)
	}
	for i := range report.InUse {
		if nonsense := implausible(&report.InUse[i]); nonsense != "" {
			return nonsense
		}
	}
	for _, u := range report.Unschedulable {
		if u.Pods < 0 || u.Pods > wire.MaxPods {
			return fmt.Sprintf("%d pods that find no node", u.Pods)
		}
	}
	for _, s := range report.States {
		if s.Pods < 0 || s.Pods > wire.MaxPods {
			return fmt.Sprintf("%d pods in a state of a probe", s.Pods)
		}
	}
	if nonsense := nonsenseReason(report.NotReady); nonsense != "" {
		return nonsense
	}
	if report.Halted != nil && !isReason(report.Halted.Reason) {
		return "a halt without a reason in CamelCase"
	}
	return ""
}

// nonsenseReason names the first reason of pods that cannot be true, "" for none.
func nonsenseReason(reasons []work.PodReason) string {
	for _, r := range reasons {
		if r.Count < 0 || r.Count > wire.MaxPods {
			return fmt.Sprintf("%d pods that are not Ready for one reason", r.Count)
		}
		if !isReason(r.Reason) {
			return "pods that are not Ready without a reason in CamelCase"
		}
	}
	return ""
}

// implausible names the first number that no cluster can have, empty if there is none.
func implausible(u *work.SubsetUse) string {
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"desired", u.Desired}, {"total", u.Total}, {"ready", u.Ready}, {"available", u.Available},
		{"updated", u.Updated}, {"updatedReady", u.UpdatedReady}, {"updatedAvailable", u.UpdatedAvailable},
		{"surging", u.Surging}, {"withheld", u.Withheld}, {"notUpdatable", u.NotUpdatable},
		{"lostUnavailable", u.LostUnavailable}, {"lostOutdated", u.LostOutdated}, {"toRestart", u.ToRestart},
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
	for _, n := range []*int32{&u.Ready, &u.Available, &u.Updated, &u.UpdatedReady, &u.UpdatedAvailable,
		&u.ToRestart} {
		*n = within(*n, u.Total)
	}
	for _, n := range []*int32{&u.Surging, &u.Withheld, &u.NotUpdatable, &u.LostUnavailable, &u.LostOutdated} {
		*n = within(*n, u.Desired)
	}
	return u
}

func unclean(u work.SubsetUse) bool { return cleanUse(u) != u }

func within(n, most int32) int32 { return min(max(n, 0), most) }

// Pods are how many pods a workload has in a member. Schedule: it has none, and starts its jobs there alone.
type Pods struct {
	Key      wire.Key
	Count    int32
	Schedule bool
}

// PodsOf returns which workloads have pods in a member that other members can run, or their schedule, by the member's
// reports on its Works, sorted, and how many pods these are. Those of objects that each member has whole stay until the
// member leaves, as the pods of a DaemonSet stay on a node that is drained.
func (t Table) PodsOf(works []work.Work) (of []Pods, sum int32) {
	for i := range works {
		key, ours := wire.KeyOf(&works[i])
		report, _ := t.ReportOf(&works[i])
		if !ours || report == nil {
			continue
		}
		var count int32
		for _, use := range report.InUse {
			count += use.Total
		}
		switch kind := t[key.GroupKind()]; {
		case count == 0:
		case kind.Mode != PerMember:
			sum += count
			of = append(of, Pods{Key: key, Count: count})
		case kind.Ticks != nil && alone(&works[i]):
			of = append(of, Pods{Key: key, Schedule: true})
		}
	}
	slices.SortFunc(of, func(a, b Pods) int { return strings.Compare(a.Key.Sentence(), b.Key.Sentence()) })
	return of, sum
}

// alone reports whether no other member starts the jobs of the object in a Work.
func alone(w *work.Work) bool {
	var order orderIn
	var ticks topology.Ticks
	return len(w.Spec.Workload.Manifests) == 1 && json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &order) == nil &&
		json.Unmarshal([]byte(order.Metadata.Annotations[topology.AnnotationTicks]), &ticks) == nil && ticks.Alone
}

// Reflected is the status of a member object that an agent of Karmada reflected, and the order that it may answer.
type Reflected struct {
	// Status is the status as JSON.
	Status []byte
	// Sequence is that of the order in the member object. Current: that is the newest order.
	Sequence int64
	Current  bool
	// Replicas and Annotations are those of the newest order.
	Replicas    *int32
	Annotations map[string]string
	// Seen: the object's controller has observed its generation.
	Seen bool
	// ObservedSequence and ObservedSpread are what controllers of Flotilla have read of annotations.
	ObservedSequence int64
	ObservedSpread   string
}

// Usage is what a member object uses, and whether it has carried out the order that it carries.
type Usage struct {
	InUse    []work.SubsetUse
	Answered bool
}

// reflectedStatus is what the hub reads in any reflected status.
type reflectedStatus struct {
	// ResourceTemplateGeneration is the sequence of the order in the object, from its annotation.
	ResourceTemplateGeneration json.Number `json:"resourceTemplateGeneration"`
	// Generation is that of the member object, ObservedGeneration the one that its controller has observed.
	Generation         int64  `json:"generation"`
	ObservedGeneration int64  `json:"observedGeneration"`
	ObservedSequence   int64  `json:"observedSequence"`
	ObservedSpread     string `json:"observedSpread"`
}

// orderIn is what is read of a manifest.
type orderIn struct {
	APIVersion string
	Kind       string
	Metadata   struct{ Annotations map[string]string }
	Spec       struct{ Replicas *int32 }
}

// reflectedReport makes a report of a status that an agent of Karmada reflects, because such an agent writes none; nil
// where the status names no order. It has no time and no number of its own: an agent of Karmada replaces the whole
// status, so the status in the Work is the newest.
//
// An order counts as answered once the member object carries its sequence and its controller has observed that. Before
// that the report answers none, because the status does not say which earlier order was observed.
func (t Table) reflectedReport(w *work.Work) *work.Report {
	if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Status == nil ||
		len(w.Spec.Workload.Manifests) != 1 {
		return nil
	}
	raw := w.Status.ManifestStatuses[0].Status.Raw
	var status reflectedStatus
	var order orderIn
	if json.Unmarshal(raw, &status) != nil || status.ResourceTemplateGeneration == "" ||
		json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &order) != nil {
		return nil
	}
	sequence, err := strconv.ParseInt(string(status.ResourceTemplateGeneration), 10, 64)
	if err != nil || w.Status.ManifestStatuses[0].Identifier.Kind != order.Kind {
		return nil
	}
	usage := Usage{Answered: status.Generation > 0 && status.ObservedGeneration >= status.Generation}
	if kind := t[schema.FromAPIVersionAndKind(order.APIVersion, order.Kind).GroupKind()]; kind.Reflect != nil {
		usage, err = kind.Reflect(&Reflected{
			Status: raw, Sequence: sequence, Current: sequence == wire.SequenceOf(w), Seen: usage.Answered,
			Replicas: order.Spec.Replicas, Annotations: order.Metadata.Annotations,
			ObservedSequence: status.ObservedSequence, ObservedSpread: status.ObservedSpread,
		})
		if err != nil {
			return nil
		}
	}
	report := &work.Report{HubID: w.Annotations[topology.AnnotationHubID], InUse: usage.InUse}
	if usage.Answered {
		report.Sequence = sequence
	}
	return report
}

// Observed is what a sum depends on of the user's object.
type Observed struct {
	// Generation and the revisions are those that its status names.
	Generation                      int64
	UpdateRevision, CurrentRevision string
	// Desired is how many replicas the user asks for; mode PerMember does not use it.
	Desired int32
	// NoDeadline: no progress deadline applies.
	NoDeadline bool
	// OnDelete: a pod is updated when somebody deletes it, so no number of updated pods is waited for.
	OnDelete bool
	// Paused: the user paused updates.
	Paused bool
	// KeptBy is what keeps pods on the old revision, for messages; "" is the partition.
	KeptBy string
}

// Counts are the counters of a subset, or of a whole workload.
type Counts struct {
	Desired                                 int32
	Replicas, Ready, Available              int32
	Updated, UpdatedReady, UpdatedAvailable int32
	ExpectedUpdated                         int32
}

// Add adds the counters of another subset.
func (c *Counts) Add(o Counts) {
	c.Desired += o.Desired
	c.Replicas += o.Replicas
	c.Ready += o.Ready
	c.Available += o.Available
	c.Updated += o.Updated
	c.UpdatedReady += o.UpdatedReady
	c.UpdatedAvailable += o.UpdatedAvailable
	c.ExpectedUpdated += o.ExpectedUpdated
}

// Sum is what members report of one workload together.
type Sum struct {
	ObservedGeneration              int64
	UpdateRevision, CurrentRevision string
	Whole                           Counts
	Subsets                         map[string]Counts
	// PlacedSubsets are those that the placement has, where it answers the object's generation.
	PlacedSubsets []string
	// Conditions are those that all kinds have.
	Conditions []conditions.Condition
	// Failures are what members report under the published conditions of [Kind.Failures], by type.
	Failures map[string]*conditions.Cause
	// Statuses are those of the member objects, as JSON, and Members the names of their members.
	Statuses [][]byte
	Members  []string
	// Provisioned: every member object is as its Work says. UpToDate: enough pods are updated everywhere.
	Provisioned, UpToDate bool
	// Cause is what the workload waits for, nil for nothing. Held is what [Kind.Held] names in members.
	Cause, Held *conditions.Cause
	// Job is what the placement and the members say of a job; nil without a placement.
	Job *JobSum
}

// member returns the name of the member whose object has a status.
func (s *Sum) member(status int) string { return s.Members[status] }

// JobSum is how far a job is over all members.
type JobSum struct {
	// End says how the job ended, Wave how far its batches are, and Halted why it halted; nil where that is not so.
	End    *topology.JobEnd
	Wave   *topology.WaveProgress
	Halted *work.JobHalt
	// Waits says what the batch under way waits for, "" without one.
	Waits string
	// Elsewhere reports whether Ready says that members do not answer.
	Elsewhere bool
	// Proven reports whether the pods of all nodes have ended, and all checks hold.
	Proven bool
}

// Failure is a published condition that is True while a member's controller retries something.
type Failure struct {
	Type string
	// OwnReason: the condition's reason is passed on. Otherwise its type is the reason.
	OwnReason bool
	// Creates reports whether the condition is about pods that are refused when they are created.
	Creates bool
	// Reason is the reason with which Creates holds, "" for any.
	Reason string
	// Past reports whether the condition is about what happened, so that nothing is retried.
	Past bool
}

// selectorText returns the selector as the scale subresource needs it, empty for an invalid one.
func selectorText(selector *metav1.LabelSelector) string {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return ""
	}
	return s.String()
}

// retried returns published conditions of these types for what members retry.
func retried(s *Sum, types ...string) []conditions.Condition {
	var list []conditions.Condition
	for _, of := range types {
		c := conditions.Remove(of)
		if cause := s.Failures[of]; cause != nil {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, cause.Reason, cause.Message
		}
		list = append(list, c)
	}
	return list
}
