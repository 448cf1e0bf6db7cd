// Package nodeimages reads and writes the NodeImages of this cluster. All controllers of the agent share one Store, so
// that none of them acts on a spec older than what another one has written.
package nodeimages

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// attempts is how often a change is made again after another writer changed the spec.
const attempts = 4

// Store reads NodeImages from a cache and shows what was written before the cache does.
type Store struct {
	client client.Client // reads from the cache
	live   client.Reader
	owner  client.FieldOwner

	mu    sync.Mutex
	nodes map[string]*node
}

// node is what is known of one NodeImage. Store.mu guards it.
type node struct {
	// busy: a caller of Change writes. queue are the edits that the next write makes, of all callers together.
	busy  bool
	queue []*edit
	// written is the answer to the newest write, nil once the cache has it.
	written *v1beta1.NodeImage
}

// edit is a change that a caller of Change waits for.
type edit struct {
	do   func(*v1beta1.NodeImage)
	done chan error
}

// New returns a store that reads with c from a cache, and with live from the API server, and writes as owner.
func New(c client.Client, live client.Reader, owner client.FieldOwner) *Store {
	return &Store{client: c, live: live, owner: owner, nodes: map[string]*node{}}
}

// All returns all NodeImages. They are the cache's and must not be changed. It fails if the cache cannot list.
func (s *Store) All(ctx context.Context) ([]*v1beta1.NodeImage, error) {
	var list v1beta1.NodeImageList
	if err := s.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeImages: %w", err)
	}
	out := make([]*v1beta1.NodeImage, len(list.Items))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list.Items {
		out[i] = s.newest(&list.Items[i])
	}
	return out, nil
}

// newest returns the NodeImage with the newest known spec and labels. s.mu is held.
func (s *Store) newest(cached *v1beta1.NodeImage) *v1beta1.NodeImage {
	known := s.nodes[cached.Name]
	if known == nil || known.written == nil {
		return cached
	}
	written := known.written
	if written.UID != cached.UID || written.Generation <= cached.Generation {
		known.written = nil
		return cached
	}
	out := *cached
	out.Spec, out.Generation = written.Spec, written.Generation
	return &out
}

// Change edits the spec and the labels of a NodeImage. Edits that come while another one is written are one write
// together. do may be called again, with a newer NodeImage. Nothing is written if it changes nothing. The error of a
// NodeImage that does not exist is NotFound.
func (s *Store) Change(ctx context.Context, name string, do func(*v1beta1.NodeImage)) error {
	own := &edit{do: do, done: make(chan error, 1)}
	s.mu.Lock()
	known := s.node(name)
	known.queue = append(known.queue, own)
	leads := !known.busy
	known.busy = true
	s.mu.Unlock()
	if leads {
		for edits := s.next(name); len(edits) > 0; edits = s.next(name) {
			s.write(ctx, name, edits)
		}
	}
	select {
	case err := <-own.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for a write of NodeImage %s: %w", name, ctx.Err())
	}
}

// next returns the edits that wait. Without any the NodeImage is not busy any more.
func (s *Store) next(name string) []*edit {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.node(name)
	edits := known.queue
	known.queue, known.busy = nil, len(edits) > 0
	return edits
}

// write makes edits in one write. If the API server refuses that, each is written alone, so that it refuses those
// that are wrong.
func (s *Store) write(ctx context.Context, name string, edits []*edit) {
	err := s.flush(ctx, name, edits)
	for _, e := range edits {
		if len(edits) > 1 && apierrors.IsInvalid(err) {
			e.done <- s.flush(ctx, name, []*edit{e})
			continue
		}
		e.done <- err
	}
}

// flush makes edits in one write.
func (s *Store) flush(ctx context.Context, name string, edits []*edit) error {
	have := &v1beta1.NodeImage{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, have); err != nil {
		return fmt.Errorf("read NodeImage %s: %w", name, err)
	}
	s.mu.Lock()
	have = s.newest(have)
	s.mu.Unlock()
	for range attempts {
		written, err := s.change(ctx, have, edits)
		if err == nil {
			if written != nil {
				s.mu.Lock()
				s.node(name).written = written
				s.mu.Unlock()
			}
			return nil
		}
		now := &v1beta1.NodeImage{}
		if again := s.live.Get(ctx, client.ObjectKey{Name: name}, now); again != nil {
			return fmt.Errorf("read NodeImage %s: %w", name, again)
		}
		if !apierrors.IsInvalid(err) || now.UID == have.UID && now.Generation == have.Generation {
			return err
		}
		have = now
	}
	return fmt.Errorf("change NodeImage %s: other writers changed it %d times meanwhile", name, attempts)
}

// change writes what the edits make of a NodeImage. A write of the status by the daemon does not disturb it.
func (s *Store) change(
	ctx context.Context, have *v1beta1.NodeImage, edits []*edit,
) (*v1beta1.NodeImage, error) {
	want := have.DeepCopy()
	for _, e := range edits {
		e.do(want)
	}
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	steps := []step{{"test", "/metadata/uid", have.UID}, {"test", "/metadata/generation", have.Generation}}
	if !reflect.DeepEqual(want.Spec, have.Spec) {
		steps = append(steps, step{"add", "/spec", want.Spec})
	}
	if !reflect.DeepEqual(want.Labels, have.Labels) {
		steps = append(steps, step{"add", "/metadata/labels", want.Labels})
	}
	if len(steps) == 2 {
		return nil, nil
	}
	patch, err := json.Marshal(steps)
	if err != nil {
		return nil, fmt.Errorf("encode the spec of NodeImage %s: %w", have.Name, err)
	}
	out := &v1beta1.NodeImage{}
	out.Name = have.Name
	if err := s.client.Patch(ctx, out, client.RawPatch(types.JSONPatchType, patch), s.owner); err != nil {
		return nil, fmt.Errorf("change NodeImage %s: %w", have.Name, err)
	}
	return out, nil
}

// Forget drops what is known of a NodeImage that is gone.
func (s *Store) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.nodes[name]; known != nil && !known.busy {
		delete(s.nodes, name)
	}
}

// node returns what is known of a NodeImage. s.mu is held.
func (s *Store) node(name string) *node {
	known := s.nodes[name]
	if known == nil {
		known = &node{}
		s.nodes[name] = known
	}
	return known
}
