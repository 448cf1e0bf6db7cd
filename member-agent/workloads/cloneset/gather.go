package cloneset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gather reads what the plan needs: limits, pods, claims and revisions. What is wrong with the spec becomes s.Stalled.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	s.facts = Facts{CloneSet: s.cs, Budget: s.Budget, Now: r.Clock.Now()}
	replicas := ptr.Deref(s.cs.Spec.Replicas, 1)
	limits, err := budget.Resolve(strategy(s.cs), replicas)
	if err != nil {
		limits = budget.Limits{Replicas: replicas}
		s.Stalled = &conditions.Cause{Reason: "InvalidStrategy", Message: "updateStrategy: " + err.Error()}
	}
	s.facts.Limits = limits
	selector, cause := validate(s.cs)
	if cause != nil {
		s.Stalled = cause
	}
	if s.facts.Pods, err = r.Pods.Observe(s.cs.UID, selector); err != nil {
		return false, err
	}
	if s.facts.Claims, err = r.Claims.Observe(s.cs.UID, s.facts.Pods); err != nil {
		return false, err
	}
	s.facts.Claim, s.facts.Topology = r.Claims.Named(s.cs.Namespace), r.topology(ctx)
	s.facts.Form = s.facts.Pods.LabelForm(r.shortHash)
	if s.facts.Stored, err = r.History.List(ctx, owner(s.cs)); err != nil {
		return false, err
	}
	if s.Leaving != nil {
		s.Stalled = nil // nothing of the spec is carried out any more
	}
	if s.Stalled != nil || s.Leaving != nil {
		return true, s.facts.Known(revisionStatus(s.cs))
	}
	if adopted, err := r.Adopt(ctx, s.pass, selector); workload.Refused(err) {
		s.Halt(string(v1beta1.CloneSetConditionFailedScale), err)
		return true, s.facts.Known(revisionStatus(s.cs))
	} else if err != nil || adopted {
		return false, err
	}
	s.facts.Spread = r.spread(ctx, s, selector)
	s.facts.Daemon = r.Pods.Daemon
	if s.facts.NoResize, err = r.cannotResize(ctx, s.cs); err != nil {
		return false, err
	}
	return r.Keep(ctx, s.pass, &s.facts.Revisions, workload.Template{Owner: owner(s.cs),
		Pod: &s.cs.Spec.Template.PodTemplateSpec, Active: s.facts.Pods.Active, Status: revisionStatus(s.cs)})
}

// revisionStatus returns what the status says of the revisions.
func revisionStatus(cs *v1beta1.CloneSet) workload.RevisionStatus {
	return workload.RevisionStatus{
		Update: cs.Status.UpdateRevision, Current: cs.Status.CurrentRevision, Collisions: cs.Status.CollisionCount,
		Answered: workload.Answered(cs.Status.ObservedGeneration, cs.Generation, cs.Status.Conditions),
	}
}

// owner names the CloneSet to package history.
func owner(cs *v1beta1.CloneSet) history.Owner {
	annotations := map[string]string{volumes.AnnotationHash: volumes.Hash(cs.Spec.VolumeClaimTemplates)}
	if patch, ok := cs.Annotations[v1beta1.AnnotationSubsetPatch]; ok {
		annotations[v1beta1.AnnotationSubsetPatch] = patch
	}
	return history.Owner{Object: cs, Kind: v1beta1.CloneSetKind, Labels: cs.Spec.Template.Labels, Annotations: annotations}
}

// claimSet names the CloneSet to package volumes.
func claimSet(cs *v1beta1.CloneSet) volumes.Set {
	set := volumes.Set{Object: cs, Kind: v1beta1.CloneSetKind, Templates: cs.Spec.VolumeClaimTemplates}
	if cs.Spec.Selector != nil {
		set.Labels = cs.Spec.Selector.MatchLabels
	}
	return set
}

// cannotResize reports whether pods of the CloneSet must be recreated to get other resources, because the API server
// cannot change them in running pods. The API server is asked only where that matters.
func (r *Reconciler) cannotResize(ctx context.Context, cs *v1beta1.CloneSet) (bool, error) {
	rolling := cs.Spec.UpdateStrategy.RollingUpdate
	if r.noResize == nil || rolling == nil || rolling.PodUpdatePolicy == "" ||
		rolling.PodUpdatePolicy == v1beta1.ReCreatePodUpdatePolicy {
		return false, nil
	}
	return r.noResize(ctx)
}

// validate returns the selector, or what is wrong with the spec that the schema could not know.
func validate(cs *v1beta1.CloneSet) (labels.Selector, *conditions.Cause) {
	selector, cause := workload.Select("CloneSet", cs.Spec.Selector, &cs.Spec.Template, v1beta1.LabelPodTemplateHash,
		v1beta1.LabelInstanceID)
	if cause != nil {
		return selector, cause
	}
	if _, cause := readZones(cs); cause != nil {
		return nil, cause
	}
	if _, err := workload.ReadPrevious(cs); err != nil {
		return nil, &conditions.Cause{Reason: workload.ReasonInvalidTemplate, Message: err.Error()}
	}
	if _, err := spread.OfHub(cs, v1beta1.CloneSetKind); err != nil {
		return nil, &conditions.Cause{Reason: reasonInvalidSpread, Message: err.Error()}
	}
	if cause := volumes.Validate(cs.Name, cs.Spec.VolumeClaimTemplates); cause != nil {
		return nil, cause
	}
	if rolling := cs.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		if _, err := order.Priority(rolling.PriorityStrategy); err != nil {
			return nil, &conditions.Cause{Reason: "InvalidStrategy", Message: "updateStrategy.rollingUpdate." + err.Error()}
		}
	}
	return selector, nil
}

// strategy translates the spec for package budget.
func strategy(cs *v1beta1.CloneSet) budget.Strategy {
	out := budget.Strategy{ScaleMaxUnavailable: cs.Spec.ScaleStrategy.MaxUnavailable}
	rolling := cs.Spec.UpdateStrategy.RollingUpdate
	if cs.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType || rolling == nil {
		return out
	}
	out.Partition, out.MaxUnavailable, out.MaxSurge, out.Paused = rolling.Partition, rolling.MaxUnavailable,
		rolling.MaxSurge, rolling.Paused
	return out
}

// topology returns what order.Density asks: the value of a node's label. A node that the cache does not have has none.
func (r *Reconciler) topology(ctx context.Context) func(node, key string) string {
	node := r.nodes(ctx)
	return func(name, key string) string {
		if found := node(name); found != nil {
			return found.Labels[key]
		}
		return ""
	}
}

// nodes returns a function that returns a node of the cache, or nil. Each is read once; they must not be changed.
func (r *Reconciler) nodes(ctx context.Context) func(name string) *corev1.Node {
	known := map[string]*corev1.Node{}
	return func(name string) *corev1.Node {
		found, ok := known[name]
		if !ok && name != "" {
			object := &corev1.Node{}
			if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, object, client.UnsafeDisableDeepCopy); err == nil {
				found = object
			}
			known[name] = found
		}
		return found
	}
}
