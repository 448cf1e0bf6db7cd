package orphans

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

// find returns the Works and the objects that none of them names. Works from before and after the lists count: an
// object that goes with its Work in between is no orphan, nor is one that comes.
func (r *Reconciler) find(ctx context.Context, hubID string) ([]work.Work, []objects.Ref, error) {
	before, err := r.Hub.Works(ctx)
	if err != nil {
		return nil, nil, err
	}
	var marked []objects.Ref
	for _, kind := range r.Kinds {
		refs, err := r.list(ctx, kind, hubID)
		if err != nil {
			return nil, nil, err
		}
		marked = append(marked, refs...)
	}
	after, err := r.Hub.Works(ctx)
	if err != nil {
		return nil, nil, err
	}
	ordered := ordersOf(slices.Concat(before, after), r.Copies.Work)
	return after, slices.DeleteFunc(marked, func(ref objects.Ref) bool { return ordered.has(keyOf(ref)) }), nil
}

// list returns the objects of a kind that need an order. Of a kind that is not served, or may not be listed, there are
// none.
func (r *Reconciler) list(ctx context.Context, kind schema.GroupKind, hubID string) ([]objects.Ref, error) {
	mapping, err := r.mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the version of kind %s in the member: %w", kind, err)
	}
	const pageSize = 500 // objects in one answer
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
	label := client.MatchingLabels{topology.LabelHub: hubID}
	var refs []objects.Ref
	for {
		err := r.member.List(ctx, page, label, client.Limit(pageSize), client.Continue(page.Continue))
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			r.deny(ctx, kind, err)
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the objects of kind %s with label %s in the member: %w", kind, topology.LabelHub, err)
		}
		delete(r.denied, kind)
		for i := range page.Items {
			if object := &page.Items[i]; needsOrder(object, hubID) {
				name := client.ObjectKeyFromObject(object)
				refs = append(refs, objects.Ref{GroupVersionKind: mapping.GroupVersionKind, NamespacedName: name})
			}
		}
		if page.Continue == "" {
			return refs, nil
		}
	}
}

// deny says once that a kind cannot be looked at.
func (r *Reconciler) deny(ctx context.Context, kind schema.GroupKind, err error) {
	if !r.denied[kind] {
		ctrl.LoggerFrom(ctx).Info("Cannot list a kind, so its orphans are not reported; "+
			"give the agent the right to list it, or leave it out of --allow-kinds", "kind", kind.String(), "err", err.Error())
	}
	r.denied[kind] = true
}
