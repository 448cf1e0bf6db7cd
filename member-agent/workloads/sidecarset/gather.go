package sidecarset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/allow"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// gather reads the pods and what else the SidecarSet depends on.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	selection, cause, err := r.check(ctx, s)
	if err != nil {
		return false, err
	}
	s.Stalled = cause
	if s.progressed, err = s.progress(r.Clock.Now()); err != nil || selection == nil {
		return err == nil, err
	}
	if s.pods, err = r.podsOf(ctx, s.set.Name, *selection); err != nil {
		return false, err
	}
	return true, r.missing(ctx, s, *selection)
}

// check returns which pods the SidecarSet selects, nil if nothing can be said about its pods, and what a person has to
// correct.
func (r *Reconciler) check(ctx context.Context, s *scope) (*inject.Selection, *conditions.Cause, error) {
	invalid := func(err error) *conditions.Cause {
		return &conditions.Cause{Reason: reasonInvalidSpec, Message: err.Error()}
	}
	if err := inject.Check(&s.set.Spec); err != nil {
		return nil, invalid(err), nil
	}
	selection, err := inject.NewSelection(&s.set.Spec)
	if err != nil {
		return nil, invalid(err), nil
	}
	if s.hashes, err = revision.HashesOf(&s.set.Spec); err != nil {
		return nil, invalid(err), nil
	}
	if _, err := revision.Previous(s.set); err != nil {
		return &selection, invalid(err), nil
	}
	conflict, err := r.conflict(ctx, s.set)
	if err != nil {
		return nil, nil, err
	}
	if conflict != "" {
		return &selection, &conditions.Cause{Reason: reasonNameConflict, Message: conflict}, nil
	}
	if base := inject.Base(s.set); base != "" &&
		s.set.Spec.UpdateStrategy.Type != v1beta1.NotUpdateSidecarSetStrategyType {
		return &selection, &conditions.Cause{Reason: reasonInvalidSpec, Message: "updateStrategy.type of a canary must be " +
			"NotUpdate, because its pods are those of SidecarSet " + base + " later: set it"}, nil
	}
	return &selection, r.checkAnnotations(ctx, s), nil
}

// checkAnnotations reports an annotation that the SidecarSet may not overwrite.
func (r *Reconciler) checkAnnotations(ctx context.Context, s *scope) *conditions.Cause {
	if !overwrites(&s.set.Spec) {
		return nil
	}
	if s.set.Status.ObservedGeneration != s.set.Generation {
		r.allowed.Read(ctx) // a person waits for the answer
	} else {
		r.allowed.Refresh(ctx, r.Clock.Now())
	}
	allowed, err := r.allowed.Known()
	s.allowed = allowed
	if err != nil {
		s.Sooner(allow.Interval)
		return &conditions.Cause{Reason: reasonNotAllowed, Message: err.Error()}
	}
	if key := allowed.Refused(s.set.Labels, s.set.Spec.PatchPodMetadata); key != "" {
		s.Sooner(allow.Interval)
		return &conditions.Cause{Reason: reasonNotAllowed, Message: fmt.Sprintf("patchPodMetadata overwrites annotation %s, "+
			"which key %s of ConfigMap %s/%s does not allow: add a rule for it, or use patchPolicy Retain", key,
			inject.AllowedKey, r.namespace, inject.AllowedConfigMap)}
	}
	return nil
}

// overwrites reports whether a SidecarSet changes annotations that pods have.
func overwrites(spec *v1beta1.SidecarSetSpec) bool {
	for _, patch := range spec.PatchPodMetadata {
		if patch.PatchPolicy != "" && patch.PatchPolicy != v1beta1.SidecarSetRetainPatchPolicy {
			return true
		}
	}
	return false
}

// sets returns all SidecarSets of the cache, which must not be changed.
func (r *Reconciler) sets(ctx context.Context) ([]*v1beta1.SidecarSet, error) {
	var list v1beta1.SidecarSetList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SidecarSets: %w", err)
	}
	out := make([]*v1beta1.SidecarSet, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// conflict returns which older SidecarSet keeps this one out of pods, "" if none does. SidecarSets that are in no new
// pods keep none out: those that are being deleted, paused, invalid, or divided by a hub.
func (r *Reconciler) conflict(ctx context.Context, set *v1beta1.SidecarSet) (string, error) {
	sets, err := r.sets(ctx)
	if err != nil || inject.Collision(set, sets) == "" {
		return "", err
	}
	var injecting []*v1beta1.SidecarSet
	for _, other := range sets {
		if other.DeletionTimestamp != nil || other.Spec.InjectionStrategy.Paused || inject.Check(&other.Spec) != nil {
			continue
		}
		federated, err := r.Gate.Federated(ctx, other)
		if err != nil {
			return "", fmt.Errorf("ask whether SidecarSet %s is federated: %w", other.Name, err)
		}
		if !federated {
			injecting = append(injecting, other)
		}
	}
	return inject.Conflict(set, injecting), nil
}

// podsOf returns the pods that say that they have the sidecars, and that are selected.
func (r *Reconciler) podsOf(ctx context.Context, set string, selection inject.Selection) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.MatchingFields{injectedIndex: set}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods with its sidecars: %w", err)
	}
	namespaces := map[string]map[string]string{}
	var out []*corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		labels, known := namespaces[pod.Namespace]
		if !known {
			if labels, err = r.namespaceLabels(ctx, pod.Namespace); err != nil {
				return nil, err
			}
			namespaces[pod.Namespace] = labels
		}
		if selection.Matches(pod.Labels, pod.Namespace, labels) {
			out = append(out, pod)
		}
	}
	return out, nil
}

func (r *Reconciler) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	return namespace.Labels, nil
}
