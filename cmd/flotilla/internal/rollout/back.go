package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// target returns the revision to go back to: the one with the number, or for 0 the one that waves under way leave,
// whatever changed meanwhile, since most pods run it; where no waves are under way it is the one that ran before the
// current.
func (w *workload) target(ctx context.Context, c client.Client, number int64) (*Revision, error) {
	if number != 0 {
		return pick(w.key, w.revisions, number)
	}
	switch p, _, err := store.FindPlacement(ctx, c, w.key); {
	case p != nil:
		to, err := w.before(&p.Spec)
		if err == nil && to.Number == 0 { // the template of the placement, which no revision has
			to.Cause = p.Annotations[topology.AnnotationChangeCause]
		}
		return to, err
	case err != nil && !meta.IsNoMatchError(err): // a cluster without a hub has no placements
		return nil, fmt.Errorf("cannot tell what runs, so name a revision with --to-revision: %w", err)
	}
	return w.before(nil)
}

// before returns the template that a workload ran before that of now; p is nil where no hub has placed it. It is pure.
func (w *workload) before(p *topology.WorkloadPlacementSpec) (*Revision, error) {
	if p != nil {
		if left := leftBy(w.object, p.Wave, w.revisions); left != nil {
			return left, nil
		}
		if placed, err := w.placed(p); placed != nil || err != nil {
			return placed, err
		}
	}
	if len(w.revisions) < 2 || p == nil && !keptByHub(w.kept) {
		return pick(w.key, w.revisions, 0)
	}
	if p != nil {
		if r := w.leftFor(p.Revision); r != nil {
			return r, nil
		}
	}
	return nil, fmt.Errorf(
		"the history of %s does not have the template that it ran before that of now: see flotilla rollout history %s/%s "+
			"-n %s, and name one with --to-revision",
		w.key.Sentence(),
		strings.ToLower(w.key.Kind),
		w.key.Name,
		w.key.Namespace,
	)
}

// placed returns the template that members have, where the hub has not placed that of now yet; nil where it has.
func (w *workload) placed(p *topology.WorkloadPlacementSpec) (*Revision, error) {
	if p.Template == nil || decision.Looks(p) {
		return nil, nil
	}
	name := history.Name(w.key.Name, p.Revision)
	template, err := storedTemplate(
		w.object,
		&appsv1.ControllerRevision{
			Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":` + string(p.Template.Raw) + `}}`)},
		},
	)
	if err != nil {
		return nil, fmt.Errorf("read the template that %s is placed with: %w", w.key.Sentence(), err)
	}
	same, err := sameTemplate(template, podtemplate.Of(w.object))
	if err != nil || same {
		return nil, err
	}
	return &Revision{Name: name, Images: images(template), template: template}, nil
}

// leftFor returns the revision that a hub kept when the workload left it for the one with a hash; nil where that is not
// kept, or not known. A revision with the pod template of now is one with other patches of its subsets: what was left
// for that is what counts.
func (w *workload) leftFor(hash string) *Revision {
	for _, r := range slices.Backward(w.kept) {
		if next, told := r.Annotations[topology.AnnotationLeftFor]; told && next != hash {
			return nil
		}
		if i := slices.IndexFunc(w.revisions, func(o Revision) bool { return o.Name == r.Name && !o.Current }); i >= 0 {
			return &w.revisions[i]
		}
		hash = history.ShortHash(r)
	}
	return nil
}

// keptByHub tells whether a hub keeps the history; else a controller of the cluster does, in which each newer one is of
// later.
func keptByHub(kept []*appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(
		kept,
		func(r *appsv1.ControllerRevision) bool { _, ok := r.Annotations[topology.AnnotationLeftFor]; return ok },
	)
}

// leftBy returns the revision that waves under way leave; nil where none are, and where it is not kept any more.
func leftBy(object client.Object, p *topology.WaveProgress, revisions []Revision) *Revision {
	if p == nil || p.Number > p.Of || p.From == "" {
		return nil
	}
	name := history.Name(object.GetName(), p.From)
	if i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Name == name && !r.Current }); i >= 0 {
		return &revisions[i]
	}
	return nil
}
