package placement

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// decisions holds the last decision about each workload as the hub wrote it, so that an edit of a placement by
// somebody else is taken back, and is no last decision that the next one starts from. After a restart it is empty: an
// edit made before then is divided from, within the limits, and still not delivered as it is. It is safe for
// concurrent use.
type decisions struct {
	mu    sync.Mutex
	byKey map[wire.Key]decidedSpec
}

// decidedSpec is a decision that a placement with this uid had.
type decidedSpec struct {
	uid  types.UID
	spec *topology.WorkloadPlacementSpec
}

func newDecisions() *decisions { return &decisions{byKey: map[wire.Key]decidedSpec{}} }

// forget drops the decision of a workload that has none any more.
func (d *decisions) forget(key wire.Key) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byKey, key)
}

// keep takes what a placement says as the hub's own decision. It is not changed any more.
func (d *decisions) keep(key wire.Key, p *topology.WorkloadPlacement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byKey[key] = decidedSpec{p.UID, &p.Spec}
}

// of returns a placement with the hub's own decision in it, and whether that had to be put back, because somebody else
// edited it. Where the hub does not know its own decision, what stands is taken for it.
func (d *decisions) of(key wire.Key, p *topology.WorkloadPlacement) (own *topology.WorkloadPlacement, restored bool) {
	if d == nil {
		return p, false
	}
	if !wire.Foreign(p) {
		d.keep(key, p)
		return p, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	last, ok := d.byKey[key]
	if !ok || last.uid != p.UID {
		return p, false
	}
	own = p.DeepCopy()
	own.Spec = *last.spec
	return own, true
}

// stamp writes a placement with the hub's decision whose digest is missing or another one: a hub of an earlier version
// wrote it, or the digest was removed; or whose change cause is another one. The whole object is written, so that no
// earlier names of fields remain.
func (r *Reconciler) stamp(ctx context.Context, s *State, cause string) error {
	if s.Placement.Annotations[topology.AnnotationDecision] == wire.DigestOf(&s.Placement.Spec) &&
		s.Placement.Annotations[topology.AnnotationChangeCause] == cause {
		return nil
	}
	stamped := s.Placement.DeepCopy()
	withDigest(stamped)
	withCause(stamped, cause)
	if err := r.client.Update(ctx, stamped, store.ManagerPlacement); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the digest of the placement of %s: %w", s.key.Sentence(), err)
	}
	r.written.Wrote(s.key, stamped.ResourceVersion)
	return nil
}

// renewOwners lets the deletion of the workload wait as its owner reference says, in a placement that an older hub
// made.
func renewOwners(p *topology.WorkloadPlacement, owner metav1.OwnerReference) {
	for i := range p.OwnerReferences {
		if p.OwnerReferences[i].UID == owner.UID {
			p.OwnerReferences[i].BlockOwnerDeletion = owner.BlockOwnerDeletion
		}
	}
}

// withDigest writes the digest of what a placement says onto it.
func withDigest(p *topology.WorkloadPlacement) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[topology.AnnotationDecision] = wire.DigestOf(&p.Spec)
}

// place writes the first placement of a workload.
func (r *Reconciler) place(ctx context.Context, s *State, spec *topology.WorkloadPlacementSpec, cause string) error {
	placement := &topology.WorkloadPlacement{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.name.Namespace, Name: s.name.Name,
			OwnerReferences: []metav1.OwnerReference{blockingOwnerOf(spec, r.rules[s.key.GroupKind()])},
			Finalizers:      []string{topology.PlacementFinalizer},
		},
		Spec: *spec,
	}
	withDigest(placement)
	withCause(placement, cause)
	ctx, end := r.traced(ctx, s.key, spec)
	err := r.create(ctx, s.key, placement)
	if end(err); err != nil {
		return fmt.Errorf("create placement of %s: %w", s.key.Sentence(), err)
	}
	r.written.Wrote(s.key, placement.ResourceVersion)
	return nil
}

// create writes a new placement. That of a cluster-scoped object is in the hub's namespace, which may not exist yet.
func (r *Reconciler) create(ctx context.Context, key wire.Key, placement *topology.WorkloadPlacement) error {
	err := r.client.Create(ctx, placement, store.ManagerPlacement)
	if !key.ClusterScoped() || !apierrors.IsNotFound(err) {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: placement.Namespace}}
	if err := r.client.Create(ctx, namespace, store.ManagerPlacement); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
	}
	return r.client.Create(ctx, placement, store.ManagerPlacement)
}
