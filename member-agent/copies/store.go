package copies

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// fieldManager names the agent in what it writes in the member.
const fieldManager = client.FieldOwner("flotilla-agent")

// Options say where the copies stand and whose they are.
type Options struct {
	// Writer writes to the member; Reader reads from it without a cache.
	Writer client.Writer
	Reader client.Reader
	// Namespace of the member that has the Secrets; it is made if it is missing.
	Namespace string
	// ClusterName is the name under which this cluster is a member; copies made under another name are not seen.
	ClusterName string
	Log         logr.Logger
}

// Store has the copies of one member. It knows them after Load. Its methods are safe for concurrent use; those that
// write are called for one Work at a time.
type Store struct {
	writer    client.Writer
	reader    client.Reader
	namespace string
	cluster   string
	log       logr.Logger

	mu       sync.RWMutex
	loaded   bool
	works    map[types.NamespacedName]copied
	standing Standing
}

// New returns a store that has asked nothing of the member yet.
func New(o Options) *Store {
	return &Store{
		writer: o.Writer, reader: o.Reader, namespace: o.Namespace, cluster: o.ClusterName, log: o.Log,
		works: map[types.NamespacedName]copied{},
	}
}

// Load reads all copies of the member once. It fails if the member does not answer, and is to be called again then. A
// Secret that cannot be read is left out: its Work is executed anew when the hub is heard.
func (s *Store) Load(ctx context.Context) error {
	list := &corev1.SecretList{}
	if err := s.reader.List(ctx, list, client.InNamespace(s.namespace),
		client.MatchingLabels{labelCopyOf: s.cluster}); err != nil {
		return fmt.Errorf("list the copies of Works in namespace %s: %w", s.namespace, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list.Items {
		s.take(&list.Items[i])
	}
	s.loaded = true
	return nil
}

// take adds what a Secret says, unless this process has written something newer already.
func (s *Store) take(secret *corev1.Secret) {
	if data, ok := secret.Data[keyStanding]; ok {
		var standing Standing
		if err := json.Unmarshal(data, &standing); err != nil {
			s.log.Info(
				"Cannot read the standing; nothing is executed before the hub is heard",
				"secret",
				secret.Name,
				"err",
				err.Error(),
			)
		} else if s.standing == (Standing{}) {
			s.standing = standing
		}
		return
	}
	w, err := unpack(secret.Data[keyWork])
	if err != nil {
		s.log.Info(
			"Cannot read a copy; its Work is not executed before the hub is heard",
			"secret",
			secret.Name,
			"err",
			err.Error(),
		)
		return
	}
	name := client.ObjectKeyFromObject(w)
	if secret.Name != s.secretName(name.Name) {
		return // somebody's copy of our Secret
	}
	if _, ok := s.works[name]; !ok {
		_, partial := secret.Data[keyPartial]
		c := copied{order: orderOf(w), packed: secret.Data[keyWork], partial: partial}
		if data, ok := secret.Data[keyAccepted]; ok {
			if err := json.Unmarshal(data, &c.accepted); err != nil {
				s.log.Info(
					"Cannot read what the member made of an order; it is written again",
					"secret",
					secret.Name,
					"err",
					err.Error(),
				)
				c.accepted = Accepted{}
			}
		}
		s.works[name] = c
	}
}

// Loaded tells whether the copies were read.
func (s *Store) Loaded() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.loaded
}

// Work returns the Work that was copied, without its status; nil if there is no copy. The caller may change it.
func (s *Store) Work(name types.NamespacedName) *work.Work {
	s.mu.RLock()
	c, ok := s.works[name]
	s.mu.RUnlock()
	if !ok {
		return nil
	}
	w, err := unpack(c.packed)
	if err != nil {
		s.log.Error(err, "Cannot read what was read before", "work", name)
		return nil
	}
	return w
}

// Order returns the Work that was copied if it can be carried out from the copy alone: nil for a partial copy of an
// object that is to stand.
func (s *Store) Order(name types.NamespacedName) *work.Work {
	s.mu.RLock()
	c, ok := s.works[name]
	s.mu.RUnlock()
	if !ok || c.partial && !c.order.deleting {
		return nil
	}
	return s.Work(name)
}

// Names returns the names of the Works that there are copies of.
func (s *Store) Names() []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]types.NamespacedName, 0, len(s.works))
	for name := range s.works {
		names = append(names, name)
	}
	return names
}

// Holds tells whether the copy of the Work is of this very order.
func (s *Store) Holds(w *work.Work) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, ok := s.works[client.ObjectKeyFromObject(w)]
	return ok && c.order == orderOf(w)
}

// Accepted returns what the member made of the order that the copy has; the zero value where that is not known.
func (s *Store) Accepted(name types.NamespacedName) Accepted {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.works[name].accepted
}

// Keep makes the copy say what the Work says, with one write if it says anything else.
func (s *Store) Keep(ctx context.Context, w *work.Work) error {
	return s.KeepAccepted(ctx, w, Accepted{})
}

// KeepAccepted is Keep with what the member made of the order. The zero value leaves what the copy has of the same
// order.
func (s *Store) KeepAccepted(ctx context.Context, w *work.Work, accepted Accepted) error {
	name := client.ObjectKeyFromObject(w)
	if s.Holds(w) && (accepted == (Accepted{}) || accepted.same(s.Accepted(name))) {
		return nil
	}
	c, err := pack(w)
	if err != nil {
		return fmt.Errorf("copy Work %s: %w", name, err)
	}
	c.accepted = accepted
	secret, err := s.secret(name, c)
	if err != nil {
		return err
	}
	if c.partial {
		s.log.Info(
			"A Work is too large to be copied into the member; it is carried out, and not repaired by an agent that is "+
				"restarted while the hub is away",
			"work",
			name,
		)
	}
	s.mu.RLock()
	_, exists := s.works[name]
	s.mu.RUnlock()
	if err := s.write(ctx, secret, exists); err != nil {
		return fmt.Errorf("keep a copy of Work %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works[name] = c
	return nil
}

// Drop deletes the copy of a Work that is finished; there may be none.
func (s *Store) Drop(ctx context.Context, name types.NamespacedName) error {
	s.mu.RLock()
	_, exists := s.works[name]
	s.mu.RUnlock()
	if !exists {
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.secretName(name.Name)}}
	if err := s.writer.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the copy of Work %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.works, name)
	return nil
}

// Standing returns what the hub said last of who we are, the zero value if nobody knows.
func (s *Store) Standing() Standing {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.standing
}

// KeepStanding records what the hub says of who we are, with one write if it said anything else before.
func (s *Store) KeepStanding(ctx context.Context, standing Standing) error {
	before := s.Standing()
	if before == standing {
		return nil
	}
	secret, err := s.standingSecret(standing)
	if err != nil {
		return err
	}
	if err := s.write(ctx, secret, before != (Standing{})); err != nil {
		return fmt.Errorf("keep what the hub says of this cluster: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing = standing
	return nil
}

// write makes or replaces a Secret, and its namespace before if that is missing. exists is a guess that saves a
// request.
func (s *Store) write(ctx context.Context, secret *corev1.Secret, exists bool) error {
	if exists {
		err := s.writer.Update(ctx, secret.DeepCopy(), fieldManager)
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	err := s.writer.Create(ctx, secret.DeepCopy(), fieldManager)
	switch {
	case apierrors.IsAlreadyExists(err):
		return s.writer.Update(ctx, secret.DeepCopy(), fieldManager)
	case apierrors.IsNotFound(err): // the namespace
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		if err := s.writer.Create(ctx, namespace, fieldManager); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", s.namespace, err)
		}
		return s.writer.Create(ctx, secret.DeepCopy(), fieldManager)
	}
	return err
}
