package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Kinds are the kinds whose replicas the hub divides.
type Kinds map[schema.GroupKind]workload.Reporting

func (k Kinds) of(live *unstructured.Unstructured) (workload.Reporting, bool) {
	if live == nil {
		return workload.Reporting{}, false
	}
	kind, ok := k[live.GroupVersionKind().GroupKind()]
	return kind, ok
}

// Build returns what the hub is to know: previous is the status that the Work has, live the member object (nil if none
// with a hub's mark stands). The report's epoch, counter and time are left for the sender. The result shares nothing
// with previous that it changes.
func (k Kinds) Build(
	previous work.WorkStatus, outcome apply.Outcome, live *unstructured.Unstructured, now metav1.Time,
) (work.WorkStatus, error) {
	status := work.WorkStatus{Conditions: slices.Clone(previous.Conditions)}
	if !outcome.Held {
		condition := metav1.Condition{
			Type: work.ConditionApplied, Status: metav1.ConditionFalse, ObservedGeneration: outcome.Generation,
			Reason: outcome.Reason, Message: outcome.Message, LastTransitionTime: now,
		}
		if outcome.Applied {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, condition)
	}

	report := &work.Report{HubID: outcome.HubID}
	if previous.Report != nil && previous.Report.HubID == outcome.HubID {
		report.Sequence = previous.Report.Sequence
	}
	status.Report = report
	if outcome.Found != nil {
		var err error
		report.InUse, err = k.inUse(outcome.Found)
		return status, err
	}
	if apply.Owner(live) != outcome.HubID || outcome.HubID == "" {
		return status, nil // nothing of ours stands
	}
	if k.Observed(live) {
		report.Sequence = apply.CarriedOut(live)
	}
	manifest, err := k.manifestStatus(outcome, live)
	if err != nil {
		return status, err
	}
	status.ManifestStatuses = []work.ManifestStatus{manifest}
	if report.InUse, err = k.inUse(live); err != nil {
		return status, err
	}
	if kind, ok := k.of(live); ok && kind.Halted != nil {
		report.Halted, err = kind.Halted(live)
	}
	return status, err
}

// Observed reports whether the controller of the object acts on the order that the object has. A kind whose controller
// says nothing of the sort counts as seen once it is applied.
func (k Kinds) Observed(live *unstructured.Unstructured) bool {
	if kind, ok := k.of(live); ok {
		return kind.Observed(live)
	}
	generation, found, err := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	if err != nil {
		return false
	}
	if !found {
		return !k.saysObserved(live)
	}
	return generation >= live.GetGeneration()
}

// complete reports whether there are as many pods as ordered, ready or not.
func complete(report *work.Report) bool {
	return report == nil || !slices.ContainsFunc(report.InUse, func(u work.SubsetUse) bool {
		return u.Total != u.Desired-u.Withheld
	})
}

// saysObserved reports whether the controller of this kind writes observedGeneration, also before it did so first.
func (k Kinds) saysObserved(live *unstructured.Unstructured) bool {
	_, ours := k.of(live)
	native := []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}
	return ours || live.GroupVersionKind().Group == "apps" && slices.Contains(native, live.GetKind())
}

func (k Kinds) manifestStatus(outcome apply.Outcome, live *unstructured.Unstructured) (work.ManifestStatus, error) {
	m := work.ManifestStatus{
		Identifier: work.ResourceIdentifier{
			Group: outcome.Ref.Group, Version: outcome.Ref.Version, Kind: outcome.Ref.Kind,
			Namespace: outcome.Ref.Namespace, Name: outcome.Ref.Name,
		},
		Health: k.Health(live),
	}
	if status, ok := live.Object["status"]; ok {
		raw, err := json.Marshal(status)
		if err != nil {
			return m, fmt.Errorf("write the status of %s: %w", outcome.Ref, err)
		}
		m.Status = &runtime.RawExtension{Raw: raw}
	}
	return m, nil
}

// Health reads the condition Ready, or Available where a kind has no Ready. A kind without a status (ConfigMap) is
// healthy once it stands.
func (k Kinds) Health(live *unstructured.Unstructured) work.ResourceHealth {
	if _, ok := live.Object["status"]; !ok && !k.saysObserved(live) {
		return work.ResourceHealthy
	}
	conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
	if err != nil {
		return work.ResourceUnknown
	}
	for _, kind := range []string{"Ready", "Available"} {
		for _, c := range conditions {
			condition, ok := c.(map[string]any)
			if !ok || condition["type"] != kind {
				continue
			}
			switch condition["status"] {
			case string(metav1.ConditionTrue):
				return work.ResourceHealthy
			case string(metav1.ConditionFalse):
				return work.ResourceUnhealthy
			default:
				return work.ResourceUnknown
			}
		}
	}
	return work.ResourceUnknown
}

// inUse reads the counters of the kinds whose numbers the hub divides; other kinds use nothing.
func (k Kinds) inUse(live *unstructured.Unstructured) ([]work.SubsetUse, error) {
	kind, ok := k.of(live)
	if !ok {
		return nil, nil
	}
	use, err := kind.Use(live)
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	return use, nil
}

// Same reports whether two statuses say the same. When it was seen, and as which report, does not count.
func Same(a, b work.WorkStatus) bool {
	if len(a.ManifestStatuses) != len(b.ManifestStatuses) || !sameReport(a.Report, b.Report) {
		return false
	}
	for i := range a.ManifestStatuses {
		m, n := a.ManifestStatuses[i], b.ManifestStatuses[i]
		if m.Identifier != n.Identifier || m.Health != n.Health || !sameJSON(m.Status, n.Status) {
			return false
		}
	}
	return equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}

func sameReport(a, b *work.Report) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.HubID == b.HubID && a.Sequence == b.Sequence && slices.Equal(a.InUse, b.InUse) &&
		slices.Equal(a.Unschedulable, b.Unschedulable) && slices.Equal(a.HandedOver, b.HandedOver) &&
		slices.Equal(a.States, b.States) && slices.Equal(a.NotReady, b.NotReady) &&
		equality.Semantic.DeepEqual(a.Halted, b.Halted) &&
		equality.Semantic.DeepEqual(a.HandOver, b.HandOver)
}

// sameJSON compares bytes first: they are equal unless an API server ordered the keys in its own way.
func sameJSON(a, b *runtime.RawExtension) bool {
	if a == nil || b == nil {
		return a == b
	}
	if bytes.Equal(a.Raw, b.Raw) {
		return true
	}
	var x, y any
	return json.Unmarshal(a.Raw, &x) == nil && json.Unmarshal(b.Raw, &y) == nil && equality.Semantic.DeepEqual(x, y)
}
