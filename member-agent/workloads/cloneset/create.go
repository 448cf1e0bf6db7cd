package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// create creates the pods of the plan, each after its claims.
func (r *Reconciler) create(ctx context.Context, s *scope, steps func(n, start int) write.Steps) {
	revisions := toCreate(s.plan.Create, s.facts.Spread)
	if len(revisions) == 0 {
		return
	}
	now := r.Clock.Now()
	opened, err := workload.Opened(now)
	if err != nil {
		s.Fail(string(v1beta1.CloneSetConditionFailedScale), err)
		return
	}
	provisions := map[*corev1.PodTemplateSpec]volumes.Provision{}
	for _, revision := range revisions {
		if _, ok := provisions[revision.Template]; !ok {
			provisions[revision.Template] = claimSet(s.cs).For(revision.Template, revision.Claims, s.facts.Claims)
		}
	}
	if err := s.Memory.recentlyRelabelled(now); err != nil {
		s.Fail(string(v1beta1.CloneSetConditionFailedScale), err)
		return
	}
	ids := r.ids(s, len(revisions))
	refused := make([]bool, len(ids))
	s.done.created, err = write.SlowStart(ctx, steps(len(revisions), 1), func(i int) error {
		provision := provisions[revisions[i].Template]
		for _, claim := range provision.Missing(ids[i], s.facts.Claim) {
			if err := r.Writer.CreateClaim(ctx, s.cs.UID, claim); err != nil {
				return nameless(err, "-"+s.cs.Name+"-"+ids[i], "-"+s.cs.Name+"-*")
			}
		}
		named := func(id string) *corev1.Pod { return newPod(s.cs, revisions[i], id, s.facts.Form, provision, now) }
		err := r.createPod(ctx, s, named(ids[i]), opened)
		for try := 1; try < namesPerPod && len(provision.Templates) == 0 && apierrors.IsAlreadyExists(err); try++ {
			// Among thousands of pods two random names meet now and then.
			err = r.createPod(ctx, s, named(newInstanceID()), opened)
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
	s.Fail(string(v1beta1.CloneSetConditionFailedScale), err)
	if apierrors.IsInvalid(err) {
		what := "the template"
		if s.facts.Spread != nil && s.facts.Spread.Object != nil {
			what = "the template, or WorkloadSpread " + s.facts.Spread.Object.Name + " on top of it,"
		}
		s.Stalled = &conditions.Cause{Reason: reasonInvalidTemplate,
			Message: "the API server refuses what " + what + " asks for; correct it: " + workload.Text(err)}
		s.Wake = retryInvalid
	}
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

// createsPerPass bounds what one pass begins, whatever the user asks for: a typo of 2 000 000 000 replicas must not
// take the memory of the agent. A pass stops after 2 s anyway, and no API server makes more than 2 500 pods a second;
// the events of the created pods bring the next pass.
const createsPerPass = 5000

// reasonInvalidTemplate is why a CloneSet stands still whose pods or revisions the API server refuses.
const reasonInvalidTemplate = "InvalidTemplate"

// retryInvalid is when a template that was refused is tried again though nobody changed it: a webhook may have.
const retryInvalid = 5 * time.Minute

// namesPerPod is how many random names are tried for a pod in one pass. With 10 000 pods one name in a thousand is
// taken.
const namesPerPod = 4

// createPod creates a pod. Its error does not hold the pod's random name, so that the same failure reads the same
// again.
func (r *Reconciler) createPod(ctx context.Context, s *scope, pod *corev1.Pod, opened []byte) error {
	name := pod.Name
	err := r.Writer.CreatePod(ctx, s.cs.UID, pod, opened)
	if apierrors.IsAlreadyExists(err) {
		if mine, readErr := r.isMine(ctx, s, pod); readErr != nil || mine {
			return readErr
		}
	}
	if err == nil {
		err = r.refuseStranger(ctx, s, pod)
	}
	if err == nil {
		return nil
	}
	return nameless(err, name, s.cs.Name+"-*")
}

// isMine reports whether the pod that has the name of the one to create is the CloneSet's, and the cache does not have
// it yet: then the pod was created, and only the answer was lost.
func (r *Reconciler) isMine(ctx context.Context, s *scope, pod *corev1.Pod) (bool, error) {
	key, have := client.ObjectKeyFromObject(pod), &corev1.Pod{}
	if r.Pods.Get(key).Present {
		return false, nil
	}
	if err := r.Live.Get(ctx, key, have); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read pod %s, whose name is taken: %w", key, err)
	}
	if !metav1.IsControlledBy(have, s.cs) {
		return false, nil
	}
	r.Writer.Fresh.Created(s.cs.UID, key, have.ResourceVersion)
	return true, nil
}

// refuseStranger deletes a pod that was created and that the selector does not match, because somebody changed its
// labels on the way: it would count for nothing, and each pass would create more.
func (r *Reconciler) refuseStranger(ctx context.Context, s *scope, pod *corev1.Pod) error {
	selector, err := metav1.LabelSelectorAsSelector(s.cs.Spec.Selector)
	if err != nil || selector.Matches(labels.Set(pod.Labels)) {
		return err
	}
	err = fmt.Errorf("a pod was created with labels that selector %q does not match, and is deleted again: a webhook "+
		"changed them; mend it", selector)
	s.Memory.relabel(err, r.Clock.Now())
	return errors.Join(err, r.Writer.DeletePod(ctx, s.cs.UID, pod))
}

// keepID keeps an id whose pod was refused.
func (m *memory) keepID(id string) { m.reusableIDs = append(m.reusableIDs, id) }

// takeIDs returns up to n ids that keepID has kept, and keeps them no longer.
func (m *memory) takeIDs(n int) []string {
	n = min(n, len(m.reusableIDs))
	out := slices.Clone(m.reusableIDs[:n])
	m.reusableIDs = slices.Delete(m.reusableIDs, 0, n)
	return out
}

// relabel notes that a pod was created that the selector does not match. Creations run in parallel.
func (m *memory) relabel(err error, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relabelled, m.relabelledAt = err, now
}

// recentlyRelabelled returns why no pods are created now, or nil. It is tried again as often as other failures at last:
// the events of the pod that came and went bring passes at once.
func (m *memory) recentlyRelabelled(now time.Time) error {
	if now.Sub(m.relabelledAt) < workload.LastBackoff {
		return m.relabelled
	}
	return nil
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
