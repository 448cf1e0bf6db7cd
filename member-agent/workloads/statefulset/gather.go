package statefulset

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// gather reads what the plan needs: limits, pods, claims and revisions. What is wrong with the spec becomes s.Stalled.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	set, status := s.set, revisionStatus(s.set)
	s.facts = Facts{Set: set, Budget: s.Budget, Now: r.Clock.Now(), Claim: r.Claims.Named(set.Namespace)}
	selector, cause := s.facts.read()
	s.Stalled = cause
	pods, err := r.Pods.Observe(set.UID, selector)
	if err != nil {
		return false, err
	}
	s.facts.Pods = members(set, pods)
	if s.facts.Stored, err = r.History.List(ctx, owner(set)); err != nil {
		return false, err
	}
	if s.Leaving != nil {
		s.Stalled = nil // nothing of the spec is carried out any more
	}
	if s.Stalled != nil || s.Leaving != nil {
		return true, s.facts.Known(status)
	}
	if adopted, err := r.Adopt(ctx, s.pass, selector); workload.Refused(err) {
		s.Halt(string(v1beta1.StatefulSetConditionFailedCreatePod), err)
		return true, s.facts.Known(status)
	} else if err != nil || adopted {
		return false, err
	}
	if err := r.AdoptRevisions(ctx, s.pass, &s.facts.Revisions, owner(set), selector, s.facts.Pods.Active); err != nil {
		return false, err
	}
	s.facts.Spread = r.spread(ctx, s, selector)
	if rollingOf(set).PodUpdatePolicy != v1beta1.ReCreatePodUpdatePolicy {
		s.facts.Daemon = r.Pods.Daemon
		if s.facts.NoResize, err = r.noResize(ctx); err != nil {
			return false, err
		}
	}
	s.facts.Watching = r.watching
	if s.facts.NotServed, err = r.notServed(ctx, set); err != nil {
		return false, err
	}
	return r.Keep(ctx, s.pass, &s.facts.Revisions, workload.Template{Owner: owner(set),
		Pod: &set.Spec.Template.PodTemplateSpec, Active: s.facts.Pods.Active, Status: status})
}

// members returns the pods, those as NoLongerMatching whose names are not "<StatefulSet>-<ordinal>".
func members(set *v1beta1.StatefulSet, pods podset.Set) podset.Set {
	stranger := func(pod *corev1.Pod) bool {
		_, ok := podname.Ordinal(set.Name, pod.Name)
		return !ok
	}
	for _, list := range []*[]*corev1.Pod{&pods.Active, &pods.Ended, &pods.Terminating} {
		for _, pod := range *list {
			if stranger(pod) && pod.DeletionTimestamp == nil {
				pods.NoLongerMatching = append(pods.NoLongerMatching, pod)
			}
		}
		*list = slices.DeleteFunc(*list, stranger)
	}
	return pods
}

// revisionStatus returns what the status says of the revisions.
func revisionStatus(set *v1beta1.StatefulSet) workload.RevisionStatus {
	return workload.RevisionStatus{
		Update: set.Status.UpdateRevision, Current: set.Status.CurrentRevision, Collisions: set.Status.CollisionCount,
		Answered: workload.Answered(set.Status.ObservedGeneration, set.Generation, set.Status.Conditions),
	}
}

// owner names the StatefulSet to package history. Revisions have the labels of the template and the annotations of the
// StatefulSet, as published.
// Values that are handed over once are not among them.
func owner(set *v1beta1.StatefulSet) history.Owner {
	annotations := maps.Clone(set.Annotations)
	delete(annotations, topology.AnnotationHandedOver)
	return history.Owner{Object: set, Kind: v1beta1.StatefulSetKind, Labels: set.Spec.Template.Labels,
		Annotations: annotations}
}

// reasonInvalidReserveOrdinals is why a StatefulSet stands still whose reserveOrdinals cannot be read.
const reasonInvalidReserveOrdinals = "InvalidReserveOrdinals"

// read reads limits and ordinals, and returns the selector, or what is wrong with the spec that the schema could not
// know.
func (f *Facts) read() (labels.Selector, *conditions.Cause) {
	set, replicas := f.Set, ptr.Deref(f.Set.Spec.Replicas, 1)
	selector, cause := workload.Select("StatefulSet", set.Spec.Selector, &set.Spec.Template,
		appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel)
	note := func(reason, field string, err error) {
		if err != nil && cause == nil {
			cause = &conditions.Cause{Reason: reason, Message: field + err.Error()}
		}
	}
	var err error
	if f.Limits, err = budget.Resolve(strategy(set), replicas); err != nil {
		f.Limits = budget.Limits{Replicas: replicas}
		note("InvalidStrategy", "updateStrategy: ", err)
	}
	f.Limits = f.Budget.Limits(f.Limits)
	f.Ordinals, err = ordinals.NewSet(ptr.Deref(set.Spec.Ordinals, v1beta1.StatefulSetOrdinals{}).Start, replicas,
		set.Spec.ReserveOrdinals)
	note(reasonInvalidReserveOrdinals, "", err)
	if unordered := rollingOf(set).UnorderedUpdate; unordered != nil {
		_, err = order.Priority(unordered.PriorityStrategy)
		note("InvalidStrategy", "updateStrategy.rollingUpdate.unorderedUpdate.", err)
	}
	_, err = workload.ReadPrevious(set)
	note(workload.ReasonInvalidTemplate, "", err)
	if cause == nil {
		cause = volumes.Validate(set.Name, set.Spec.VolumeClaimTemplates)
	}
	return selector, cause
}
