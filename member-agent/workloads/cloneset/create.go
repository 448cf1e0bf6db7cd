package cloneset

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// create creates the pods of the plan, each after its claims.
func (r *Reconciler) create(ctx context.Context, s *scope, pace workload.Pace) int {
	revisions := toCreate(s.plan.Create, s.facts.Spread)
	if len(revisions) == 0 {
		return 0
	}
	now := r.Clock.Now()
	opened := r.Opening(s.pass, now)
	if opened == nil {
		return 0
	}
	provisions := map[*corev1.PodTemplateSpec]volumes.Provision{}
	for _, revision := range revisions {
		if _, ok := provisions[revision.Template]; !ok {
			provisions[revision.Template] = claimSet(s.cs).For(revision.Template, revision.Claims, s.facts.Claims)
		}
	}
	ids := r.ids(s, len(revisions))
	refused := make([]bool, len(ids))
	created, err := write.SlowStart(ctx, pace(len(revisions), 1), func(i int) error {
		provision := provisions[revisions[i].Template]
		for _, claim := range provision.Missing(ids[i], s.facts.Claim) {
			if err := r.Writer.CreateClaim(ctx, s.cs.UID, claim); err != nil {
				return nameless(err, "-"+s.cs.Name+"-"+ids[i], "-"+s.cs.Name+"-*")
			}
		}
		create := func(id string) error {
			err := r.CreatePod(ctx, s.pass, newPod(s.cs, revisions[i], id, s.facts.Form, provision, now), opened)
			if err == nil {
				return nil
			}
			return nameless(err, podName(s.cs, id), podName(s.cs, "*")) // the same failure reads the same again
		}
		err := create(ids[i])
		for try := 1; try < namesPerPod && len(provision.Templates) == 0 && apierrors.IsAlreadyExists(err); try++ {
			// Among thousands of pods two random names meet now and then.
			err = create(newInstanceID())
		}
		// After any other error a pod of this name may exist.
		refused[i] = len(provision.Templates) > 0 && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err))
		return err
	})
	for i, id := range ids {
		if refused[i] {
			s.Memory.keepID(id)
		}
	}
	what := "the template"
	if s.facts.Spread != nil && s.facts.Spread.Object != nil {
		what = "the template, or WorkloadSpread " + s.facts.Spread.Object.Name + " on top of it,"
	}
	r.CreateFailed(s.pass, err, what)
	return created
}

// ids returns the instance ids of n new pods. First come ids whose claims were made for a pod that was then refused: a
// pod that is refused forever must not cost new claims each time it is tried.
func (r *Reconciler) ids(s *scope, n int) []string {
	var out []string
	if !s.cs.Spec.ScaleStrategy.EnablePVCReuse { // with it the plan offers these ids
		out = slices.DeleteFunc(s.Memory.takeIDs(n), s.losesClaims)
	}
	return append(out, s.plan.Claims.IDs(n-len(out), newInstanceID, func(id string) bool {
		return r.Claims.Taken(s.cs.Namespace, id) || r.Pods.Get(types.NamespacedName{Namespace: s.cs.Namespace,
			Name: podName(s.cs, id)}).Present
	})...)
}

// losesClaims reports whether this pass deletes a claim of the id.
func (s *scope) losesClaims(id string) bool {
	return slices.ContainsFunc(s.plan.Claims.Delete, func(r volumes.Removal) bool {
		return r.Claim.Labels[v1beta1.LabelInstanceID] == id
	})
}

// namesPerPod is how many random names are tried for a pod in one pass. With 10 000 pods one name in a thousand is
// taken.
const namesPerPod = 4

// keepID keeps an id whose pod was refused.
func (m *memory) keepID(id string) { m.reusableIDs = append(m.reusableIDs, id) }

// takeIDs returns up to n ids that keepID has kept, and keeps them no longer.
func (m *memory) takeIDs(n int) []string {
	n = min(n, len(m.reusableIDs))
	out := slices.Clone(m.reusableIDs[:n])
	m.reusableIDs = slices.Delete(m.reusableIDs, 0, n)
	return out
}

// nameless returns the error with a text in which the random part of names is left out. A claim of somebody else is
// told by its name: that is not random.
func nameless(err error, name, instead string) error {
	var conflict *volumes.Conflict
	if errors.As(err, &conflict) {
		return err
	}
	return namelessError{err: err, text: strings.ReplaceAll(err.Error(), name, instead)}
}

// namelessError is an error with another text.
type namelessError struct {
	err  error
	text string
}

func (e namelessError) Error() string { return e.text }
func (e namelessError) Unwrap() error { return e.err }
