package statefulset

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

const (
	// reasonStepFailed says that the pods of a step were not updated and available within its timeout.
	reasonStepFailed = "StepFailed"
	// reasonFieldNotServed says that the definition of StatefulSets in this cluster lacks a field of the manifest.
	reasonFieldNotServed = "FieldNotServed"
)

// step bounds the update by the step in progress of spec.flotilla.steps: the larger of its partition and that of the
// spec counts. The plan says how far the steps are, and what the step waits for.
func (p *planner) step() {
	if p.NotServed {
		p.partition, p.stopped = p.Limits.Replicas, true
		p.plan.Stalled = &conditions.Cause{Reason: reasonFieldNotServed, Message: "the applied manifest has spec.flotilla, " +
			"which the definition of StatefulSets in this cluster does not have: no pod is updated; upgrade the chart " +
			"flotilla-crds and apply the manifest again"}
		return
	}
	steps := waves.StepsOf(p.Set.Spec.Flotilla)
	if len(steps) == 0 || p.onDelete() {
		return
	}
	status := &p.Set.Status
	last, sequence := waves.ReadProgress(status.UpdateProgress)
	known := status.UpdateRevision
	if last != nil {
		known = status.UpdateProgress.Revision
	}
	updated, available := p.updated()
	d := waves.Decide(waves.Facts{
		Rollout: &topology.Rollout{Steps: steps}, Workload: p.Set.Name, Revision: p.Update.Name, Sequence: sequence,
		Begins: known != "" && known != p.Update.Name, Leaves: known, Last: last,
		Places:  []waves.Place{{Replicas: p.Limits.Replicas, Reserved: updated, Updated: available, News: p.Now}},
		Allowed: map[string]int32{"": p.Limits.Replicas - p.Limits.Partition}, Paused: p.rolling().Paused,
		Word: p.Set.Annotations[topology.AnnotationWave], Now: p.Now, Heard: p.Watching,
	})
	p.plan.Progress = waves.WriteProgress(d.Progress, p.Update.Name, status.UpdateProgress)
	p.plan.StepWaits = d.Waits
	p.plan.Sooner(d.Again)
	if limit, ok := d.Limits[""]; ok {
		p.partition = max(p.partition, p.Limits.Replicas-limit)
	}
	if p.stopped = d.Stop; d.Stop {
		p.plan.Stalled = &conditions.Cause{Reason: reasonStepFailed, Message: fmt.Sprintf("%s; no pod is updated: take the "+
			"change back with flotilla rollout undo, have the step tried again with flotilla rollout retry, or go on after it "+
			"with flotilla rollout promote", d.Waits)}
	}
}

// updated returns how many pods in range have the update revision, and how many of them are available.
func (p *planner) updated() (updated, available int32) {
	for _, s := range p.slots {
		if s.active() && s.updated {
			updated++
			if s.available {
				available++
			}
		}
	}
	return updated, available
}

// notServed reports whether the definition of StatefulSets lacks spec.flotilla and the user asks for it. The API server
// drops such a field; what is left of it is the manifest in the annotation of kubectl apply.
func (r *Reconciler) notServed(ctx context.Context, set *v1beta1.StatefulSet) (bool, error) {
	if set.Spec.Flotilla != nil || !asksForFlotilla(set) {
		return false, nil
	}
	return r.lacksFlotilla(ctx)
}

// asksForFlotilla reports whether the manifest that was applied has spec.flotilla.
func asksForFlotilla(set *v1beta1.StatefulSet) bool {
	var applied struct {
		Spec struct {
			Flotilla *v1beta1.FlotillaSpec `json:"flotilla"`
		} `json:"spec"`
	}
	text := set.Annotations[corev1.LastAppliedConfigAnnotation]
	return text != "" && json.Unmarshal([]byte(text), &applied) == nil && applied.Spec.Flotilla != nil
}
