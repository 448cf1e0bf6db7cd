package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// inFlight is how many requests a pass makes at a time.
const inFlight = 16

// outcome is what a pass wrote, and the namespaces in which that failed, by what was done.
type outcome struct {
	mu                        sync.Mutex
	created, updated, deleted int
	failed                    map[verb]map[string]error
}

// verb is what is done to a copy.
type verb string

const (
	creates verb = "create"
	updates verb = "update"
	deletes verb = "delete"
)

// note keeps what came of one copy.
func (o *outcome) note(v verb, namespace string, changed bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil:
		if o.failed == nil {
			o.failed = map[verb]map[string]error{}
		}
		if o.failed[v] == nil {
			o.failed[v] = map[string]error{}
		}
		o.failed[v][namespace] = err
	case !changed:
	case v == creates:
		o.created++
	case v == updates:
		o.updated++
	case v == deletes:
		o.deleted++
	}
}

// apply carries out the plan. What fails in one namespace does not keep others from their copies.
func (r *Reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, have := range s.plan.Delete {
		group.Go(func() error { return r.remove(ctx, s, have) })
	}
	for _, namespace := range s.plan.Create {
		group.Go(func() error { return r.create(ctx, s, namespace) })
	}
	for _, have := range s.plan.Compare {
		group.Go(func() error { return r.compare(ctx, s, have.Namespace) })
	}
	_ = group.Wait() // errors are kept by namespace
	for v, failed := range s.done.failed {
		for namespace, err := range failed {
			s.Fail(string(conditionOf(v)), fmt.Errorf("%s the copy in namespace %s: %w", v, namespace, err))
		}
	}
	if len(s.Memory.conflicts) > 0 && s.Memory.asked.IsZero() {
		s.Memory.asked = r.Clock.Now()
		s.Sooner(askEvery)
	}
	return true, nil
}

func (r *Reconciler) create(ctx context.Context, s *scope, namespace string) error {
	object := s.resource.copyFor(s.distribution, namespace)
	err := r.Client.Create(ctx, object, workload.FieldOwner)
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.taken(ctx, s, namespace)
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the namespace goes, which its event tells
	case err == nil:
		s.compared(namespace, object)
	}
	s.done.note(creates, namespace, true, err)
	return err
}

// compared remembers that a copy is as the resource.
func (s *scope) compared(namespace string, object client.Object) {
	s.done.mu.Lock()
	defer s.done.mu.Unlock()
	s.Memory.compared[namespace] = object.GetResourceVersion()
}

// taken finds out whose object has the name of the copy: a copy that was made without our label is taken over.
func (r *Reconciler) taken(ctx context.Context, s *scope, namespace string) error {
	object := metadataOf(s.resource.object.GetKind())
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.facts.Name}, object)
	switch {
	case apierrors.IsNotFound(err): // it has gone since
		err = errors.New("an object of that name was in the way, and has gone")
	case err == nil && metav1.IsControlledBy(object, s.distribution):
		return r.compare(ctx, s, namespace)
	case err == nil:
		s.done.mu.Lock()
		defer s.done.mu.Unlock()
		s.Memory.conflicts[namespace] = true
		s.plan.Conflicts = append(s.plan.Conflicts, namespace)
		return nil
	}
	s.done.note(creates, namespace, false, err)
	return err
}

// compare reads a copy, and writes it if it is not as the resource.
func (r *Reconciler) compare(ctx context.Context, s *scope, namespace string) error {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(s.resource.object.GroupVersionKind())
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.facts.Name}, have)
	switch {
	case apierrors.IsNotFound(err):
		return nil // its event brings another pass
	case err == nil && !metav1.IsControlledBy(have, s.distribution):
		err = errors.New("another object has its name now")
	}
	if err != nil {
		s.done.note(updates, namespace, false, err)
		return err
	}
	want := s.resource.brought(s.distribution, have)
	if want == nil {
		s.compared(namespace, have)
		return nil
	}
	if err = r.Client.Update(ctx, want, workload.FieldOwner); err == nil {
		s.compared(namespace, want)
	}
	s.done.note(updates, namespace, true, err)
	return err
}

func (r *Reconciler) remove(ctx context.Context, s *scope, have Copy) error {
	object := metadataOf(s.resource.object.GetKind())
	object.SetNamespace(have.Namespace)
	object.SetName(have.Name)
	err := client.IgnoreNotFound(r.Client.Delete(ctx, object, client.Preconditions{UID: &have.UID}))
	s.done.note(deletes, have.Namespace, true, err)
	return err
}
