package write

import (
	"context"
	"errors"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
)

// objects writes objects of one kind and records the writes, so that their owner can wait for its cache.
type objects struct {
	client client.Client
	fresh  *freshness.Store
}

func (o objects) create(ctx context.Context, owner types.UID, object client.Object) error {
	err := o.client.Create(ctx, object)
	switch {
	case err == nil:
		o.fresh.Created(owner, client.ObjectKeyFromObject(object), object.GetResourceVersion())
	case ambiguous(err):
		// The answer was lost: the object may exist.
		o.fresh.MaybeCreated(owner, client.ObjectKeyFromObject(object))
	}
	return err
}

// patch patches an object or a subresource of it; "" is the object. An object that is gone is no error.
func (o objects) patch(ctx context.Context, owner types.UID, object client.Object, subresource string,
	patch client.Patch) error {
	target := address(object)
	var err error
	switch subresource {
	case "":
		err = o.client.Patch(ctx, target, patch)
	case "status":
		err = o.client.Status().Patch(ctx, target, patch)
	default:
		err = o.client.SubResource(subresource).Patch(ctx, target, patch)
	}
	switch {
	case err == nil:
		o.fresh.Changed(owner, client.ObjectKeyFromObject(object), target.GetResourceVersion())
	case apierrors.IsNotFound(err):
		return nil
	case ambiguous(err):
		o.fresh.MaybeChanged(owner, client.ObjectKeyFromObject(object), object.GetResourceVersion())
	}
	return err
}

// remove deletes an object. An object that is gone is no error.
func (o objects) remove(ctx context.Context, owner types.UID, object client.Object, only client.Preconditions) error {
	err := client.IgnoreNotFound(o.client.Delete(ctx, address(object), only))
	switch {
	case err == nil:
		o.fresh.Deleted(owner, client.ObjectKeyFromObject(object))
	case ambiguous(err):
		o.fresh.MaybeDeleted(owner, client.ObjectKeyFromObject(object))
	}
	return err
}

// ambiguous reports whether a failed request may have been carried out.
func ambiguous(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) ||
		apierrors.IsUnexpectedServerError(err)
}

// address returns an object that has nothing but what a request needs to name it: answers are decoded into it, never
// into the cache's own.
func address(object client.Object) client.Object {
	target, _ := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	target.SetNamespace(object.GetNamespace())
	target.SetName(object.GetName())
	return target
}
