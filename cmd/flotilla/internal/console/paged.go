package console

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page is how many objects one answer of an API server has at most.
const page = 500

// Paged returns a client that reads long lists in pages. A list with a limit of its own is read as it is.
func Paged(c client.Client) client.Client { return &paged{c} }

type paged struct{ client.Client }

// List reads all pages into the list. It errs as the client does. If the pages expire while they are read, the list is
// read at once.
func (p *paged) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	if asked.Limit > 0 || asked.Continue != "" {
		return p.Client.List(ctx, list, opts...)
	}
	empty, ok := list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return fmt.Errorf("%T is no list", list)
	}
	var items []runtime.Object
	for next := ""; ; {
		one, _ := empty.DeepCopyObject().(client.ObjectList) // it is one, as above
		err := p.Client.List(ctx, one, append(slices.Clone(opts), client.Limit(page), client.Continue(next))...)
		if next != "" && apierrors.IsResourceExpired(err) {
			return p.Client.List(ctx, list, opts...)
		}
		if err != nil {
			return err
		}
		part, err := meta.ExtractList(one)
		if err != nil {
			return fmt.Errorf("read a page of a list: %w", err)
		}
		items = append(items, part...)
		if next = one.GetContinue(); next == "" {
			return fill(list, one, items)
		}
	}
}

// fill puts the items of all pages into the list, with the version of the last one.
func fill(list, last client.ObjectList, items []runtime.Object) error {
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("join the pages of a list: %w", err)
	}
	list.SetResourceVersion(last.GetResourceVersion())
	list.SetContinue("")
	list.SetRemainingItemCount(nil)
	return nil
}
