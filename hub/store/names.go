package store

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// SetNames sets the names of the Works to write for a workload. have holds all Works of the workload. An existing
// Work keeps its name, because it is never deleted to be renamed. A new Work takes the second form of its name if a
// Work of another kind has the first form.
func SetNames(ctx context.Context, reader client.Reader, k wire.Key, want []*work.Work, have []work.Work) error {
	names := make(map[[2]string]string, len(have))
	for i := range have {
		w := &have[i]
		if at := carriedBy(w); names[at] == "" || w.DeletionTimestamp == nil {
			names[at] = w.Name
		}
	}
	forms := k.WorkNames()
	for _, w := range want {
		if name := names[carriedBy(w)]; name != "" {
			w.Name = name
			continue
		}
		if len(forms) < 2 || wire.IsCheck(w) {
			continue
		}
		other := &work.Work{}
		switch err := reader.Get(ctx, client.ObjectKeyFromObject(w), other, client.UnsafeDisableDeepCopy); {
		case err == nil:
			if owner, ok := wire.OwnerOf(other); ok && owner.GroupKind() != k.GroupKind() {
				w.Name = forms[1]
			}
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("get Work %s/%s: %w", w.Namespace, w.Name, err)
		}
	}
	return nil
}

// carriedBy returns the member of a Work, and which object of the workload the Work carries: the Job of a check, or the
// workload itself.
func carriedBy(w *work.Work) [2]string {
	return [2]string{w.Namespace, w.Annotations[topology.AnnotationJob]}
}
