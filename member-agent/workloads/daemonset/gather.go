package daemonset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gather reads what the plan needs: limits, pods, revisions and nodes. What is wrong with the spec becomes s.Stalled.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	known, err := r.revisions(ctx, s)
	if err != nil || !known {
		return false, err
	}
	wait, cause := s.facts.fit(r.Nodes())
	if s.Stalled == nil && s.Leaving == nil {
		s.Stalled = cause
	}
	s.Sooner(wait)
	return true, nil
}

// revisions reads pods and revisions. It returns false if the pass ends here.
func (r *Reconciler) revisions(ctx context.Context, s *scope) (bool, error) {
	set := s.set
	now := r.Clock.Now()
	s.facts = Facts{Set: set, Budget: s.Budget, Now: now,
		RetryIn: func(node string) time.Duration { return s.Memory.backoff.left(node, now) }}
	selector, cause := s.facts.read()
	s.Stalled = cause
	var err error
	if s.facts.Pods, err = r.Pods.Observe(set.UID, selector); err != nil {
		return false, err
	}
	if s.facts.Stored, err = r.History.List(ctx, owner(set)); err != nil {
		return false, err
	}
	status := revisionStatus(set, s.facts.Stored)
	if s.Leaving != nil {
		s.Stalled = nil // nothing of the spec is carried out any more
	}
	if s.Stalled != nil || s.Leaving != nil {
		return true, s.facts.Known(status)
	}
	if adopted, err := r.Adopt(ctx, s.pass, selector); workload.Refused(err) {
		s.Halt(string(v1beta1.DaemonSetConditionFailedCreatePod), err)
		return true, s.facts.Known(status)
	} else if err != nil || adopted {
		return false, err
	}
	if err := r.AdoptRevisions(ctx, s.pass, &s.facts.Revisions, owner(set), selector, s.facts.Pods.Active); err != nil {
		return false, err
	}
	if rollingOf(set).Type == v1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType {
		s.facts.Daemon = r.Pods.Daemon
		if s.facts.NoResize, err = r.noResize(ctx); err != nil {
			return false, err
		}
	}
	if _, err := r.Keep(ctx, s.pass, &s.facts.Revisions, workload.Template{Owner: owner(set),
		Pod: &set.Spec.Template.PodTemplateSpec, Active: s.facts.Pods.Active, Status: status}); err != nil {
		return false, err
	}
	return true, s.facts.inferCurrent(status)
}

// inferCurrent finds the current revision where the status names none: pods of another manager have it.
func (f *Facts) inferCurrent(status workload.RevisionStatus) (err error) {
	if status.Current != "" || f.Current.Name != f.Update.Name {
		return nil
	}
	for _, stored := range slices.Backward(f.Stored) {
		if stored.Name == f.Update.Name {
			continue
		}
		hash := history.ShortHash(stored)
		for _, pod := range f.Pods.Active {
			if podset.HasRevision(pod, hash) {
				f.Current, err = workload.RevisionOf(stored)
				return err
			}
		}
	}
	return nil
}

// revisionStatus returns what the status says of the revisions. It names them by their hashes.
func revisionStatus(set *v1beta1.DaemonSet, stored []*appsv1.ControllerRevision) workload.RevisionStatus {
	name := func(hash string) string {
		if revision := history.Named(stored, hash); revision != nil {
			return revision.Name
		}
		return ""
	}
	return workload.RevisionStatus{
		Update: name(set.Status.UpdateRevision), Current: name(set.Status.CurrentRevision),
		Collisions: set.Status.CollisionCount,
		Answered:   workload.Answered(set.Status.ObservedGeneration, set.Generation, set.Status.Conditions),
	}
}

// owner names the DaemonSet to package history. Revisions have the labels of the template, the annotations of the
// DaemonSet, and the hash as the label that pods have, as published.
func owner(set *v1beta1.DaemonSet) history.Owner {
	return history.Owner{Object: set, Kind: v1beta1.DaemonSetKind, Labels: set.Spec.Template.Labels,
		Annotations: maps.Clone(set.Annotations), HashLabel: podset.LabelRevision}
}

// read reads the strategy, and returns the selector, or what is wrong with the spec that the schema could not know.
func (f *Facts) read() (labels.Selector, *conditions.Cause) {
	set := f.Set
	selector, cause := workload.Select("DaemonSet", set.Spec.Selector, &set.Spec.Template)
	note := func(reason, field string, err error) {
		if err != nil && cause == nil {
			cause = &conditions.Cause{Reason: reason, Message: field + err.Error()}
		}
	}
	_, err := f.limits(0)
	note("InvalidStrategy", "", err)
	f.Canary, err = canaryOf(set)
	note("InvalidStrategy", "updateStrategy.rollingUpdate.selector ", err)
	_, err = workload.ReadPrevious(set)
	note(workload.ReasonInvalidTemplate, "", err)
	return selector, cause
}

// canaryOf returns the selector of nodes that are updated.
func canaryOf(set *v1beta1.DaemonSet) (labels.Selector, error) {
	given := rollingOf(set).Selector
	if given == nil {
		return labels.Everything(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(given)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("cannot be used: %w", err)
	}
	return selector, nil
}

// fit finds out how the nodes fit the template, and when the next one is lost; 0 is never. The cause says what is wrong
// with the template's affinity. Without a template that can be used nothing is known of the nodes.
func (f *Facts) fit(nodes []*corev1.Node) (wait time.Duration, cause *conditions.Cause) {
	if f.Update.Template == nil {
		return 0, nil
	}
	fit, known := pernode.FitOf(&f.Update.Template.Spec), make([]pernode.Node, 0, len(nodes))
	for _, node := range nodes {
		fitness, err := fit.Of(node)
		if err != nil {
			return 0, &conditions.Cause{Reason: workload.ReasonInvalidTemplate, Message: fmt.Sprintf(
				"template.spec.affinity.nodeAffinity cannot be used, so that nothing says which nodes fit; correct it: %v", err)}
		}
		lost, in := pernode.Lost(node, f.Now)
		wait = podstate.Sooner(wait, in)
		known = append(known, pernode.Node{Name: node.Name, ShouldRun: fitness == pernode.Fits,
			MayStay: fitness <= pernode.Tainted, Lost: lost,
			Selected: f.Canary == nil || f.Canary.Matches(labels.Set(node.Labels))})
		f.Fitness[fitness]++
	}
	f.Nodes = known
	return wait, nil
}
