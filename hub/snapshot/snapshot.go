package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Snapshot is a set of objects that is read like the cache of a hub: it implements client.Reader and
// client.FieldIndexer. Reading is safe for concurrent use once nothing is put any more.
type Snapshot struct {
	scheme *runtime.Scheme
	kinds  map[schema.GroupVersionKind]*kind
}

// kind holds the objects of one kind.
type kind struct {
	byKey   map[client.ObjectKey]client.Object
	indexes map[string]*index
	sorted  []client.Object // nil after a change
}

// index finds objects by what a function takes from them.
type index struct {
	extract client.IndexerFunc
	byValue map[string][]client.Object // nil after a change
}

// New returns an empty snapshot of the kinds that the scheme knows.
func New(scheme *runtime.Scheme) *Snapshot {
	return &Snapshot{scheme: scheme, kinds: map[schema.GroupVersionKind]*kind{}}
}

// Put adds objects. One of the same kind and name is replaced. It fails for a kind that the scheme does not know. The
// snapshot keeps the objects; the caller no longer changes them.
func (s *Snapshot) Put(objects ...client.Object) error {
	for _, object := range objects {
		gvk, err := apiutil.GVKForObject(object, s.scheme)
		if err != nil {
			return fmt.Errorf("put %T %s into a snapshot: %w", object, object.GetName(), err)
		}
		k := s.kind(gvk)
		k.byKey[client.ObjectKeyFromObject(object)] = object
		k.sorted = nil
		for _, x := range k.indexes {
			x.byValue = nil
		}
	}
	return nil
}

func (s *Snapshot) kind(gvk schema.GroupVersionKind) *kind {
	k := s.kinds[gvk]
	if k == nil {
		k = &kind{byKey: map[client.ObjectKey]client.Object{}, indexes: map[string]*index{}}
		s.kinds[gvk] = k
	}
	return k
}

// Objects returns all objects, sorted by kind, namespace and name. They are not to be changed.
func (s *Snapshot) Objects() []client.Object {
	gvks := slices.SortedFunc(
		maps.Keys(s.kinds),
		func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) },
	)
	var all []client.Object
	for _, gvk := range gvks {
		all = append(all, s.kinds[gvk].all()...)
	}
	return all
}

// all returns the objects of the kind in the order of their names.
func (k *kind) all() []client.Object {
	if k.sorted == nil {
		k.sorted = slices.SortedFunc(maps.Values(k.byKey), func(a, b client.Object) int {
			return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
		})
	}
	return k.sorted
}

// IndexField implements client.FieldIndexer.
func (s *Snapshot) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	gvk, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return fmt.Errorf("index %T by %s: %w", object, field, err)
	}
	s.kind(gvk).indexes[field] = &index{extract: extract}
	return nil
}

// find returns the objects with the value.
func (x *index) find(k *kind, value string) []client.Object {
	if x.byValue == nil {
		x.byValue = map[string][]client.Object{}
		for _, object := range k.all() {
			for _, v := range x.extract(object) {
				x.byValue[v] = append(x.byValue[v], object)
			}
		}
	}
	return x.byValue[value]
}

// Get implements client.Reader.
func (s *Snapshot) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return fmt.Errorf("get %T %s: %w", object, key, err)
	}
	var found client.Object
	if k := s.kinds[gvk]; k != nil {
		found = k.byKey[key]
	}
	if found == nil {
		return apierrors.NewNotFound(
			schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)},
			key.String(),
		)
	}
	to, from := reflect.ValueOf(object).Elem(), reflect.ValueOf(found.DeepCopyObject()).Elem()
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("get %s %s: the snapshot holds a %s, not a %s", gvk.Kind, key, from.Type(), to.Type())
	}
	to.Set(from)
	return nil
}

// List implements client.Reader. A field selector has to name an index, and one value.
func (s *Snapshot) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, s.scheme)
	if err != nil {
		return fmt.Errorf("list %T: %w", list, err)
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	var options client.ListOptions
	options.ApplyOptions(opts)
	var items []runtime.Object
	if k := s.kinds[gvk]; k != nil {
		candidates, err := k.candidates(&options)
		if err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for _, object := range candidates {
			if matches(object, &options) {
				items = append(items, copied(object, &options))
			}
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return nil
}

// candidates returns the objects that meet the field selector.
func (k *kind) candidates(options *client.ListOptions) ([]client.Object, error) {
	if options.FieldSelector == nil || options.FieldSelector.Empty() {
		return k.all(), nil
	}
	requirements := options.FieldSelector.Requirements()
	x := k.indexes[requirements[0].Field]
	if len(requirements) != 1 || x == nil {
		return nil, fmt.Errorf("the snapshot has no index for %s", options.FieldSelector)
	}
	return x.find(k, requirements[0].Value), nil
}

func matches(object client.Object, options *client.ListOptions) bool {
	return (options.Namespace == "" || object.GetNamespace() == options.Namespace) &&
		(options.LabelSelector == nil || options.LabelSelector.Matches(labelsOf(object)))
}

func copied(object client.Object, options *client.ListOptions) runtime.Object {
	if options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy {
		return object
	}
	return object.DeepCopyObject()
}

func labelsOf(object client.Object) labels.Set { return object.GetLabels() }

// Clone returns a snapshot with the same objects and no indexes. What is put into one of the two is not in the other.
func (s *Snapshot) Clone() *Snapshot {
	out := New(s.scheme)
	for gvk, k := range s.kinds {
		out.kind(gvk).byKey = maps.Clone(k.byKey)
	}
	return out
}
