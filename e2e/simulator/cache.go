package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informers is what the controller sees of the server: every object as it was a while ago. Events of one object come in
// their order, those of two objects in any. A broken watch loses events until it lists anew.
type informers struct {
	world   *World
	random  *rand.Rand
	objects map[Kind]map[types.NamespacedName]client.Object
	pods    toolscache.Indexer
	claims  toolscache.Indexer
	indexes map[Kind]map[string]client.IndexerFunc

	// last is when the youngest event of an object comes.
	last map[Kind]map[types.NamespacedName]time.Time
	// watch counts the watches of a kind; events of an older one are lost.
	watch  map[Kind]int
	broken map[Kind]bool
	// seen holds copies of the objects that the controller may not change.
	seen map[Kind]map[types.NamespacedName]client.Object
}

func newInformers(w *World) *informers {
	return &informers{
		world: w, random: w.Random("lag"),
		objects: map[Kind]map[types.NamespacedName]client.Object{},
		pods:    toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{}),
		claims:  toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{}),
		indexes: map[Kind]map[string]client.IndexerFunc{},
		last:    map[Kind]map[types.NamespacedName]time.Time{},
		watch:   map[Kind]int{}, broken: map[Kind]bool{},
		seen: map[Kind]map[types.NamespacedName]client.Object{"Pod": {}, "PersistentVolumeClaim": {}},
	}
}

// changed lets an event come later, unless the watch is broken.
func (c *informers) changed(kind Kind, key types.NamespacedName, after client.Object) {
	if !c.broken[kind] {
		c.send(kind, key, after, c.world.Profile.lag(c.random))
	}
}

func (c *informers) send(kind Kind, key types.NamespacedName, after client.Object, lag time.Duration) {
	if c.last[kind] == nil {
		c.last[kind] = map[types.NamespacedName]time.Time{}
	}
	at := c.world.Now().Add(lag)
	if last := c.last[kind][key]; last.After(at) {
		at = last
	}
	c.last[kind][key] = at
	watch := c.watch[kind]
	c.world.After(at.Sub(c.world.Now()), func() {
		if c.watch[kind] == watch {
			c.deliver(kind, key, after)
		}
	})
}

func (c *informers) deliver(kind Kind, key types.NamespacedName, after client.Object) {
	before := c.objects[kind][key]
	c.put(kind, key, after)
	c.world.arrived(kind, before, after)
}

func (c *informers) put(kind Kind, key types.NamespacedName, obj client.Object) {
	if c.objects[kind] == nil {
		c.objects[kind] = map[types.NamespacedName]client.Object{}
	}
	if obj == nil {
		delete(c.objects[kind], key)
	} else {
		c.objects[kind][key] = obj
	}
	var indexer toolscache.Indexer
	var named client.Object
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	switch kind {
	case "Pod":
		indexer, named = c.pods, &corev1.Pod{ObjectMeta: meta}
	case "PersistentVolumeClaim":
		indexer, named = c.claims, &corev1.PersistentVolumeClaim{ObjectMeta: meta}
	default:
		return
	}
	// Only objects without a name make an indexer err.
	if obj == nil {
		delete(c.seen[kind], key)
		_ = indexer.Delete(named)
		return
	}
	if c.world.Options.Guard {
		c.seen[kind][key], _ = obj.DeepCopyObject().(client.Object)
	}
	_ = indexer.Add(obj)
}

// guard returns an error if somebody changed an object of the cache.
func (c *informers) guard() error {
	for kind, objects := range c.seen {
		for key, want := range objects {
			if !reflect.DeepEqual(c.objects[kind][key], want) {
				return fmt.Errorf("the controller changed %s %s in the cache", kind, c.world.name(key.Name))
			}
		}
	}
	return nil
}

// interrupt breaks the watch of a kind: events on their way are lost, and so are all until resume.
func (c *informers) interrupt(kind Kind) {
	c.watch[kind]++
	c.broken[kind] = true
}

// resume lists a kind anew: every object comes as it is now, at its own time.
func (c *informers) resume(kind Kind) {
	c.watch[kind]++
	c.broken[kind] = false
	delete(c.last, kind)
	truth := c.world.server.objects[kind]
	for _, obj := range sorted(truth) {
		key := client.ObjectKeyFromObject(obj)
		if have := c.objects[kind][key]; have == nil || have.GetResourceVersion() != obj.GetResourceVersion() {
			c.send(kind, key, obj, c.world.Profile.lag(c.random))
		}
	}
	for _, obj := range sorted(c.objects[kind]) {
		if key := client.ObjectKeyFromObject(obj); truth[key] == nil {
			c.send(kind, key, nil, c.world.Profile.lag(c.random))
		}
	}
}

// fill makes the cache what the server holds now, as a program that starts does before it begins.
func (c *informers) fill() {
	for kind := range c.world.server.objects {
		c.watch[kind]++
		c.broken[kind] = false
		delete(c.last, kind)
		for _, obj := range sorted(c.objects[kind]) {
			c.put(kind, client.ObjectKeyFromObject(obj), nil)
		}
		for _, obj := range c.world.server.list(kind) {
			c.put(kind, client.ObjectKeyFromObject(obj), obj)
		}
	}
}

// IndexField makes List answer a field selector, as the cache of a manager does.
func (c *informers) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	kind := KindOf(obj)
	if c.indexes[kind] == nil {
		c.indexes[kind] = map[string]client.IndexerFunc{}
	}
	c.indexes[kind][field] = extract
	return nil
}

func get(objects map[types.NamespacedName]client.Object, key types.NamespacedName, into client.Object) error {
	obj := objects[key]
	if obj == nil {
		return apierrors.NewNotFound(resource(KindOf(into)), key.Name)
	}
	put(obj, into)
	return nil
}

// list answers a List from objects.
func (c *informers) list(objects map[types.NamespacedName]client.Object, into client.ObjectList,
	opts []client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	kind := KindOf(into)
	var out []runtime.Object
	for _, obj := range sorted(objects) {
		if o.Namespace != "" && obj.GetNamespace() != o.Namespace {
			continue
		}
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		fits, err := c.fits(kind, obj, &o)
		if err != nil {
			return err
		}
		if fits {
			out = append(out, obj.DeepCopyObject())
		}
	}
	return meta.SetList(into, out)
}

func (c *informers) fits(kind Kind, obj client.Object, o *client.ListOptions) (bool, error) {
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, want := range o.FieldSelector.Requirements() {
		extract := c.indexes[kind][want.Field]
		if extract == nil {
			return false, fmt.Errorf("the cache has no index %s of %s", want.Field, kind)
		}
		if !slices.Contains(extract(obj), want.Value) {
			return false, nil
		}
	}
	return true, nil
}

// shuffled is an indexer whose answers come in an order that the seed decides: callers must not count on any.
type shuffled struct {
	toolscache.Indexer
	seed uint64
}

// ByIndex returns the objects of an index's value.
func (s shuffled) ByIndex(index, value string) ([]any, error) {
	objs, err := s.Indexer.ByIndex(index, value)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(objs, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	random := rand.New(rand.NewPCG(s.seed, uint64(len(objs))))
	random.Shuffle(len(objs), func(i, j int) { objs[i], objs[j] = objs[j], objs[i] })
	return objs, nil
}

func nameOf(obj any) string {
	if o, ok := obj.(client.Object); ok {
		return o.GetName()
	}
	return ""
}
