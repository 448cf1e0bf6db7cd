// Package namespaces tells workload controllers which namespaces are being deleted. An API server creates nothing
// there, and a controller that tries makes errors until the namespace is gone.
//
// A namespace is known to be terminating from the cache of namespaces, or from the refusal of a create: the cache may
// be behind. A refusal is remembered by the owner of what was to be created: a namespace that is terminating never
// recovers, and its objects are gone before another one of that name exists.
package namespaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// LookAgain is when to look again at an object whose namespace is terminating: the cache of namespaces may be behind
// that of the objects, and show the previous namespace of that name.
const LookAgain = 5 * time.Second

// Terminating knows which namespaces are being deleted. A nil one knows of none. It is safe for concurrent use.
type Terminating struct {
	reader client.Reader

	mu      sync.Mutex
	refused map[types.UID]struct{}
}

// New returns a Terminating that reads the metadata of namespaces from a cache.
func New(cache client.Reader) *Terminating {
	return &Terminating{reader: cache, refused: map[types.UID]struct{}{}}
}

// Cause says that nothing can be created for an owner since its namespace is being deleted; nil if it is not, and for
// an owner without a namespace.
func (t *Terminating) Cause(ctx context.Context, namespace string, owner types.UID) (*conditions.Cause, error) {
	if t == nil || namespace == "" {
		return nil, nil
	}
	t.mu.Lock()
	_, known := t.refused[owner]
	t.mu.Unlock()
	if known {
		return cause(namespace), nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := t.reader.Get(ctx, types.NamespacedName{Name: namespace}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // the cache has not seen it yet
	case err != nil:
		return nil, fmt.Errorf("read namespace %s: %w", namespace, err)
	case object.DeletionTimestamp == nil:
		return nil, nil
	}
	return cause(namespace), nil
}

// Refused returns the cause if an API server refused a create for the owner because its namespace is being deleted, and
// remembers that; nil for other errors.
func (t *Terminating) Refused(namespace string, owner types.UID, err error) *conditions.Cause {
	if t == nil || !Is(err) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused[owner] = struct{}{}
	return cause(namespace)
}

// Forget drops what is remembered of an owner that is gone.
func (t *Terminating) Forget(owner types.UID) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.refused, owner)
}

func cause(namespace string) *conditions.Cause {
	return &conditions.Cause{Reason: conditions.ReasonNamespaceTerminating, Message: fmt.Sprintf(
		"namespace %s is being deleted: nothing is created there", namespace)}
}

// Is reports whether an error, or one of several that were joined, says that a namespace is being deleted.
func Is(err error) bool {
	if err == nil {
		return false
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var several interface{ Unwrap() []error } // HasStatusCause looks no further than the first API error of several
	return errors.As(err, &several) && slices.ContainsFunc(several.Unwrap(), Is)
}
