package uniteddeployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// parallelWrites bounds the requests in flight for one UnitedDeployment; with a few workers that is what one API
	// server takes without queueing.
	parallelWrites = 8
	// maxNames bounds how many names one pass tries for a child.
	maxNames = 10
	// maxBase and suffixLength are how the API server cuts generated names: a base of at most 58 and five characters.
	maxBase, suffixLength = 58, 5
)

// apply carries out the plan. Its errors are for the report; what the API server refuses as invalid is not tried again.
func (r *reconciler) apply(ctx context.Context, s *scope) (bool, error) {
	s.failed = r.carryOut(ctx, s, s.todo)
	if r.TurnAway(s.pass, s.failed) {
		s.todo, s.failed = leave(s.seen, s.Leaving), nil
	}
	if !refusedOnly(s.failed) {
		s.Fail(ReasonWriteFailed, s.failed)
	}
	return true, nil
}

// carryOut goes on after an error; the errors come back joined, each with its object.
func (r *reconciler) carryOut(ctx context.Context, s *scope, p *plan) error {
	steps := make([]func() error, 0, len(p.create)+len(p.change)+len(p.drain)+len(p.remove)+len(p.mark)+len(p.replace))
	for _, c := range p.create {
		steps = append(steps, func() error { return r.create(ctx, s, c) })
	}
	for _, c := range p.change {
		steps = append(steps, func() error { return r.change(ctx, s, c) })
	}
	for _, d := range p.drain {
		steps = append(steps, func() error { return r.drain(ctx, s, d) })
	}
	for _, c := range p.remove {
		steps = append(steps, func() error { return r.remove(ctx, c) })
	}
	for _, m := range p.mark {
		steps = append(steps, func() error { return r.mark(ctx, s, m) })
	}
	for _, pod := range p.replace {
		steps = append(steps, func() error { return r.replacePod(ctx, s.ud, pod) })
	}
	errs := make([]error, len(steps))
	var group errgroup.Group
	group.SetLimit(parallelWrites)
	for i, step := range steps {
		group.Go(func() error {
			errs[i] = step()
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, all of them
	return errors.Join(errs...)
}

// childName returns the name of a child. It follows from what the child is, so that a second try meets the first.
func childName(ud *kruise.UnitedDeployment, k kind, subset string, attempt int) string {
	base := ud.Name + "-" + subset + "-"
	if len(base) > maxBase {
		base = strings.TrimRight(base[:maxBase-1], "-.") + "-"
	}
	sum := fnv.New64a()
	// Write of a hash never fails.
	_, _ = fmt.Fprintf(sum, "%s/%s/%s/%d", ud.UID, k, subset, attempt)
	suffix := rand.SafeEncodeString(fmt.Sprintf("%0*d", suffixLength, sum.Sum64()))
	return base + suffix[len(suffix)-suffixLength:]
}

// create makes a child. A name that is taken by our own child of that subset is that child; by a child that is being
// deleted, or by something foreign, the next name is tried.
func (r *reconciler) create(ctx context.Context, s *scope, c creation) error {
	for attempt := range maxNames {
		object, _ := c.object.DeepCopyObject().(client.Object)
		object.SetName(childName(s.ud, c.kind, c.subset, attempt))
		err := r.Client.Create(ctx, object, workload.FieldOwner)
		if apierrors.IsAlreadyExists(err) {
			taken, readErr := r.readTaken(ctx, s.ud, c.kind, client.ObjectKeyFromObject(object))
			if readErr != nil {
				return readErr
			}
			if taken == nil {
				continue
			}
			s.Memory.made(created{c.kind, taken.GetName(), taken.GetUID()})
			return nil
		}
		if err != nil {
			return fmt.Errorf("create %s %s for subset %s: %w", c.kind, client.ObjectKeyFromObject(object), c.subset, err)
		}
		s.Memory.made(created{c.kind, object.GetName(), object.GetUID()})
		s.Memory.wrote(object.GetUID(), written{c.content, object.GetGeneration(), childOf(object).replicas})
		return nil
	}
	return fmt.Errorf("create %s for subset %s of UnitedDeployment %s: %d names are taken", c.kind, c.subset, s.Key,
		maxNames)
}

// readTaken returns the object of that name if it is a child that stays, else nil.
func (r *reconciler) readTaken(ctx context.Context, ud *kruise.UnitedDeployment, k kind,
	key client.ObjectKey) (client.Object, error) {
	taken := emptyOf(k)
	if err := r.Live.Get(ctx, key, taken); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %s %s: %w", k, key, err)
	}
	if !metav1.IsControlledBy(taken, ud) || taken.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return taken, nil
}

// A JSON patch replaces the whole spec of a child, so that fields which the template no longer has go. It needs no
// resourceVersion: the spec of a child has one writer, and what others put there is drift.

// change gives a child another content.
func (r *reconciler) change(ctx context.Context, s *scope, c change) error {
	steps := []workload.Operation{workload.SameObject(c.live.object),
		{Op: "replace", Path: "/spec", Value: specOf(c.object)}}
	steps = append(steps, additions("/metadata/labels", c.live.object.GetLabels(), c.object.GetLabels())...)
	steps = append(steps, additions("/metadata/annotations", c.live.object.GetAnnotations(), c.object.GetAnnotations())...)
	if dropsPrevious(c.live.object, c.object) {
		steps = append(steps, workload.Operation{Op: "remove",
			Path: "/metadata/annotations/" + pathEscaper().Replace(topology.AnnotationTemplateBefore)})
	}
	return r.patch(ctx, s, c.live, steps, c.content, childOf(c.object).replicas)
}

// drain asks a child for fewer pods, and leaves the rest of it as it is.
func (r *reconciler) drain(ctx context.Context, s *scope, d drainage) error {
	return r.patch(ctx, s, d.child, []workload.Operation{workload.SameObject(d.child.object),
		{Op: "replace", Path: "/spec/replicas", Value: d.keeps}}, meaning{}, d.keeps)
}

// mark gives a pod the label that says whether it is reserved. A pod that is gone needs none.
func (r *reconciler) mark(ctx context.Context, s *scope, m mark) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": m.pod.UID,
		"labels": map[string]string{LabelReservedPod: m.value}}})
	if err != nil {
		return fmt.Errorf("encode the mark of pod %s: %w", client.ObjectKeyFromObject(m.pod), err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.pod.Namespace, Name: m.pod.Name}}
	err = r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, data), workload.FieldOwner)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark pod %s as reserved or not: %w", client.ObjectKeyFromObject(m.pod), err)
	}
	s.Memory.mark(m.pod.UID, m.value)
	return nil
}

func (r *reconciler) patch(ctx context.Context, s *scope, c *child, steps []workload.Operation, content meaning,
	replicas int32) error {
	data, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("encode the patch of %s: %w", c.name(), err)
	}
	object := emptyOf(c.kind)
	object.SetNamespace(c.object.GetNamespace())
	object.SetName(c.object.GetName())
	if err := r.Client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, data), workload.FieldOwner); err != nil {
		return fmt.Errorf("change %s %s: %w", c.kind, client.ObjectKeyFromObject(object), err)
	}
	s.Memory.wrote(object.GetUID(), written{content, object.GetGeneration(), replicas})
	return nil
}

// pathEscaper escapes a key for the path of a JSON patch.
func pathEscaper() *strings.Replacer { return strings.NewReplacer("~", "~0", "/", "~1") }

// dropsPrevious reports whether a child has a previous template that it is to have no more: it would keep pods of it
// that are to be updated.
func dropsPrevious(live, want client.Object) bool {
	_, has := live.GetAnnotations()[topology.AnnotationTemplateBefore]
	_, wanted := want.GetAnnotations()[topology.AnnotationTemplateBefore]
	return has && !wanted
}

// additions returns the steps that bring want into the map at path.
func additions(path string, have, want map[string]string) []workload.Operation {
	if len(have) == 0 {
		return []workload.Operation{{Op: "add", Path: path, Value: want}}
	}
	var steps []workload.Operation
	escape := pathEscaper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got, ok := have[key]; !ok || got != want[key] {
			steps = append(steps, workload.Operation{Op: "add", Path: path + "/" + escape.Replace(key), Value: want[key]})
		}
	}
	return steps
}

// remove deletes a child that has no pods, unless it changed since it was seen so.
func (r *reconciler) remove(ctx context.Context, c *child) error {
	err := r.Client.Delete(ctx, c.object, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{
			UID: new(c.object.GetUID()), ResourceVersion: new(c.object.GetResourceVersion()),
		})
	if err = client.IgnoreNotFound(err); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s: %w", c.kind, client.ObjectKeyFromObject(c.object), err)
	}
	return nil // a child that changed comes back as an event
}

// written is a content that the API server took for a child, the generation that the child had with it, and the
// replicas.
type written struct {
	content    meaning
	generation int64
	replicas   int32
}

// created is a child that we made and that the cache may not know yet.
type created struct {
	kind kind
	name string
	uid  types.UID
}

// memory is our own writes for one UnitedDeployment, so that
//   - while the cache lags, a child is neither made nor written a second time,
//   - a content that the API server stores in another way (a default or a webhook that we do not know) is written once,
//     not on every pass,
//   - a mark on a pod that the cache does not show yet is not taken for a missing one.
//
// It is lost with the process. Then a child of the second sort is written once more, which changes nothing, and a child
// that the cache does not know is met again by its name. Children are written in parallel.
type memory struct {
	mu      sync.Mutex
	written map[types.UID]written // by the uid of a child
	created map[types.UID]created
	marked  map[types.UID]string // by the uid of a pod, the value of LabelReservedPod
}

// put sets a key of a map that may be nil.
func put[V any](m *map[types.UID]V, key types.UID, value V) {
	if *m == nil {
		*m = map[types.UID]V{}
	}
	(*m)[key] = value
}

// own returns the writes of children, and the marks on their pods.
func (m *memory) own() (map[types.UID]written, map[types.UID]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.written), maps.Clone(m.marked)
}

// mark records a mark on a pod.
func (m *memory) mark(pod types.UID, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.marked, pod, value)
}

// keepMarks drops the marks that the cache shows, and those of pods that are gone.
func (m *memory) keepMarks(pods map[types.UID][]*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	unseen := map[types.UID]bool{}
	for _, list := range pods {
		for _, pod := range list {
			if value, ok := m.marked[pod.UID]; ok && pod.Labels[LabelReservedPod] != value {
				unseen[pod.UID] = true
			}
		}
	}
	maps.DeleteFunc(m.marked, func(uid types.UID, _ string) bool { return !unseen[uid] })
}

// correct gives children that the cache shows as they were before our last write the replicas that we wrote.
func (m *memory) correct(children []child) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range children {
		c := &children[i]
		if last, ok := m.written[c.object.GetUID()]; ok && c.object.GetGeneration() < last.generation {
			c.replicas = last.replicas
		}
	}
}

// unseen returns the children that we made and that are not among those of the cache.
func (m *memory) unseen(cached []child) []created {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range cached {
		delete(m.created, cached[i].object.GetUID())
	}
	return slices.Collect(maps.Values(m.created))
}

// wrote records a write of a child.
func (m *memory) wrote(child types.UID, w written) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.written, child, w)
}

// made records a new child.
func (m *memory) made(c created) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.created, c.uid, c)
}

// lost drops a child that is gone.
func (m *memory) lost(child types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, child)
	delete(m.created, child)
}

// keep drops the writes of children that are not among these.
func (m *memory) keep(children []child) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.written, func(uid types.UID, _ written) bool {
		return !slices.ContainsFunc(children, func(c child) bool { return c.object.GetUID() == uid })
	})
}
