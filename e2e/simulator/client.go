package simulator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// errNotSimulated is the answer to requests that no controller here makes. Whoever needs one adds it.
var errNotSimulated = errors.New("this request is not simulated")

// liveReader reads what the server holds.
type liveReader struct{ world *World }

// Get reads an object.
func (l *liveReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if err := l.world.LiveDown; err != nil {
		return err
	}
	return get(l.world.server.objects[KindOf(obj)], key, obj)
}

// List reads objects.
func (l *liveReader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := l.world.LiveDown; err != nil {
		return err
	}
	return l.world.informers.list(l.world.server.objects[KindOf(list)], list, opts)
}

// cachedClient reads from the cache and writes to the server, as a manager's client does.
type cachedClient struct{ process *Process }

var _ client.Client = &cachedClient{}

func (c *cachedClient) world() *World { return c.process.world }

// Get reads an object from the cache.
func (c *cachedClient) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return get(c.world().informers.objects[KindOf(obj)], key, obj)
}

// List reads objects from the cache.
func (c *cachedClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.world().informers.list(c.world().informers.objects[KindOf(list)], list, opts)
}

// request makes a write: do carries it out and returns the object as it is then.
func (c *cachedClient) request(verb string, obj client.Object, sub string, do func() (client.Object, error)) error {
	kind, key := KindOf(obj), client.ObjectKeyFromObject(obj)
	label := fmt.Sprintf("%s %s %s", verb, kind, key)
	if sub != "" {
		label += "/" + sub
	}
	w := c.world()
	return w.ask(&call{process: c.process, label: label, do: func(f fault) error {
		before := w.server.get(kind, key)
		err := f.refusal
		var out client.Object
		if err == nil {
			w.Writes++
			if out, err = do(); err == nil {
				err = f.lost
			}
		}
		if err == nil && out != nil {
			put(out, obj)
		}
		after := w.server.get(kind, key)
		w.told(Write{Verb: verb, Kind: kind, Key: key, Subresource: sub, Before: before, After: after, Err: err}, f)
		return err
	}})
}

// Create makes an object.
func (c *cachedClient) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return c.request("create", obj, "", func() (client.Object, error) { return c.world().server.create(obj) })
}

// Delete asks for the deletion of an object.
func (c *cachedClient) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	return c.request("delete", obj, "", func() (client.Object, error) {
		return nil, c.world().server.delete(KindOf(obj), client.ObjectKeyFromObject(obj), o)
	})
}

// Patch changes all of an object but its status.
func (c *cachedClient) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(obj, patch, "")
}

func (c *cachedClient) patch(obj client.Object, patch client.Patch, sub string) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	return c.request("patch", obj, sub, func() (client.Object, error) {
		kind, key := KindOf(obj), client.ObjectKeyFromObject(obj)
		return c.world().server.change(kind, key, sub, func(have client.Object) (client.Object, error) {
			return patched(have, patch.Type(), data)
		})
	})
}

// Update replaces all of an object but its status.
func (c *cachedClient) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return c.update(obj, "")
}

func (c *cachedClient) update(obj client.Object, sub string) error {
	return c.request("update", obj, sub, func() (client.Object, error) {
		kind, key := KindOf(obj), client.ObjectKeyFromObject(obj)
		return c.world().server.change(kind, key, sub, func(have client.Object) (client.Object, error) {
			after, _ := obj.DeepCopyObject().(client.Object)
			if after.GetResourceVersion() == "" {
				after.SetResourceVersion(have.GetResourceVersion())
			}
			after.SetGeneration(have.GetGeneration())
			return after, nil
		})
	})
}

// Apply is not simulated.
func (c *cachedClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errNotSimulated
}

// DeleteAllOf is not simulated.
func (c *cachedClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNotSimulated
}

// Status returns the writer of statuses.
func (c *cachedClient) Status() client.SubResourceWriter {
	return subresource{client: c, name: "status"}
}

// SubResource returns the client of a subresource.
func (c *cachedClient) SubResource(name string) client.SubResourceClient {
	return subresource{client: c, name: name}
}

// Scheme returns the scheme of the options.
func (c *cachedClient) Scheme() *runtime.Scheme { return c.world().Options.Scheme }

// RESTMapper returns none.
func (c *cachedClient) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor looks an object up in the scheme.
func (c *cachedClient) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.Scheme())
}

// IsObjectNamespaced tells whether objects of this kind have a namespace.
func (c *cachedClient) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	switch obj.(type) {
	case *corev1.Namespace, *corev1.Node, *corev1.PersistentVolume:
		return false, nil
	}
	return true, nil
}

// subresource writes statuses, and the resources of running pods.
type subresource struct {
	client *cachedClient
	name   string
}

// Get is not simulated.
func (s subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errNotSimulated
}

// Create is not simulated.
func (s subresource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errNotSimulated
}

// Apply is not simulated.
func (s subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNotSimulated
}

// Update replaces a status.
func (s subresource) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	if s.name != "status" {
		return errNotSimulated
	}
	return s.client.update(obj, s.name)
}

// Patch changes a status, or the resources of a pod.
func (s subresource) Patch(_ context.Context, obj client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption) error {
	if s.name != "status" && s.name != "resize" {
		return errNotSimulated
	}
	return s.client.patch(obj, patch, s.name)
}
