package resourcedistribution

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// askEvery is how often it is looked whether the objects of others that have the name are still there: no event tells.
const askEvery = time.Minute

// gather reads the namespaces and the copies.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	if s.Leaving != nil {
		return true, nil
	}
	var err error
	if s.resource, err = parse(s.distribution.Spec.Resource.Raw); err != nil {
		s.Stalled = &conditions.Cause{Reason: reasonInvalidResource, Message: err.Error()}
		return true, nil
	}
	if s.Memory.compared == nil || s.Memory.generation != s.distribution.Generation {
		*s.Memory = memory{generation: s.distribution.Generation, compared: map[string]string{},
			conflicts: map[string]bool{}}
	}
	s.facts = Facts{Distribution: s.distribution, Name: s.resource.object.GetName(), Hash: s.resource.hash,
		Compared: s.Memory.compared}
	if s.facts.Namespaces, err = r.namespaces(ctx); err != nil {
		return false, err
	}
	if s.facts.Copies, err = r.copiesOf(ctx, s); err != nil {
		return false, err
	}
	if err := r.askConflicts(ctx, s); err != nil {
		return false, err
	}
	s.facts.Conflicts = s.Memory.conflicts
	return true, nil
}

// namespaces reads the metadata of all namespaces from the cache.
func (r *Reconciler) namespaces(ctx context.Context) ([]Namespace, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	out := make([]Namespace, 0, len(list.Items))
	for i := range list.Items {
		o := &list.Items[i]
		out = append(out, Namespace{Name: o.Name, Labels: o.Labels, Deleting: o.DeletionTimestamp != nil})
	}
	return out, nil
}

// copiesOf reads the metadata of the copies from the cache.
func (r *Reconciler) copiesOf(ctx context.Context, s *scope) (out []Copy, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(s.resource.object.GetKind() + "List"))
	err = r.copies.List(ctx, list, client.UnsafeDisableDeepCopy,
		client.MatchingLabels{v1beta1.LabelDistribution: string(s.distribution.UID)})
	if err != nil {
		return nil, fmt.Errorf("list its copies: %w", err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		if !metav1.IsControlledBy(o, s.distribution) {
			continue // another writer has copied the label
		}
		out = append(out, Copy{Namespace: o.Namespace, Name: o.Name, UID: o.UID, Version: o.ResourceVersion,
			Hash: o.Annotations[v1beta1.AnnotationDistributedHash], Deleting: o.DeletionTimestamp != nil})
	}
	return out, nil
}

// askConflicts looks in which namespaces objects of others with the name of the resource are still there.
func (r *Reconciler) askConflicts(ctx context.Context, s *scope) error {
	m := s.Memory
	if len(m.conflicts) == 0 {
		return nil
	}
	now := r.Clock.Now()
	if wait := m.asked.Add(askEvery).Sub(now); wait > 0 {
		s.Sooner(wait)
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(s.resource.object.GetKind() + "List"))
	if err := r.Live.List(ctx, list, &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, s.facts.Name)}); err != nil {
		return fmt.Errorf("list the metadata of objects named %s: %w", s.facts.Name, err)
	}
	m.asked, m.conflicts = now, map[string]bool{}
	for i := range list.Items {
		if o := &list.Items[i]; !metav1.IsControlledBy(o, s.distribution) {
			m.conflicts[o.Namespace] = true
		}
	}
	if len(m.conflicts) > 0 {
		s.Sooner(askEvery)
	}
	return nil
}
