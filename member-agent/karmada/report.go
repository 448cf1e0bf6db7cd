package karmada

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/report"
)

// report writes the status of a Work where it says something else. o is nil where the Work cannot be read, live where
// nothing of it stands.
func (r *Reconciler) report(
	ctx context.Context,
	w *work.Work,
	o *order,
	live *unstructured.Unstructured,
	came outcome,
) error {
	status := work.WorkStatus{Conditions: slices.Clone(w.Status.Conditions)}
	if !came.held {
		c := metav1.Condition{
			Type: work.ConditionApplied, Status: metav1.ConditionFalse, Reason: work.ReasonApplyFailed, Message: came.message,
			ObservedGeneration: w.Generation, LastTransitionTime: metav1.NewTime(r.clock.Now()),
		}
		if came.applied {
			c.Status, c.Reason = metav1.ConditionTrue, work.ReasonApplied
		}
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if o != nil && live != nil && isOf(live, w) {
		manifest, err := r.reflect(o, live)
		if err != nil {
			return err
		}
		status.ManifestStatuses = []work.ManifestStatus{manifest}
	}
	if same(w.Status, status) {
		return nil
	}
	patch, err := report.Patch(w.UID, status)
	if err != nil {
		return fmt.Errorf("encode the status of Work %s/%s: %w", w.Namespace, w.Name, err)
	}
	empty := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	if err := r.hub.Status().Patch(ctx, empty, patch, client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Work %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}

// reflect is what Karmada is told of an object: its status, with the generation that it is to be read by and the one
// that the manifest came with, and its health.
func (r *Reconciler) reflect(o *order, live *unstructured.Unstructured) (work.ManifestStatus, error) {
	m := work.ManifestStatus{
		Identifier: work.ResourceIdentifier{
			Group:     o.ref.Group,
			Version:   o.ref.Version,
			Kind:      o.ref.Kind,
			Namespace: o.ref.Namespace,
			Name:      o.ref.Name,
		},
		Health: r.kinds.Health(live),
	}
	status, ok := live.Object["status"].(map[string]any)
	if !ok {
		return m, nil
	}
	told := maps.Clone(status)
	if live.GetGeneration() > 0 {
		told["generation"] = live.GetGeneration()
	}
	if generation, ok := templateGeneration(live); ok {
		told["resourceTemplateGeneration"] = generation
	}
	raw, err := json.Marshal(told) // keys are sorted
	if err != nil {
		return m, fmt.Errorf("encode the status of %s: %w", o.ref, err)
	}
	m.Status = &runtime.RawExtension{Raw: raw}
	return m, nil
}

// same tells whether two statuses say the same.
func same(a, b work.WorkStatus) bool {
	return equality.Semantic.DeepEqual(a.Conditions, b.Conditions) &&
		slices.EqualFunc(a.ManifestStatuses, b.ManifestStatuses, func(x, y work.ManifestStatus) bool {
			return x.Identifier == y.Identifier && x.Health == y.Health && sameJSON(x.Status, y.Status)
		})
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
