package workload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

// longestPass is after what time a pass begins no more writes: it reports, looks at the world again, and goes on.
// Two seconds without news is what a person puts up with; shorter passes wait more often for the cache.
const longestPass = 2 * time.Second

// Deletions and openings of gates need no slow start from one: hardly anything refuses them, and a refused one costs
// nothing but its request.
const (
	startDeletes = 32
	startOpens   = 32
)

// Work is what a pass writes for its plan, but for new pods.
type Work struct {
	Actions
	Claims  volumes.Plan
	InPlace inplace.Options
	// Fungible: new pods replace those to delete in the same pass, so that one fewer is created for each that stays.
	Fungible bool
	// Later is how many more pods are to be created, which limits leave for later passes.
	Later int
}

// Done counts what a pass has done.
type Done struct{ Created, Deleted, Updated int }

// Any reports whether the pass has changed pods.
func (d Done) Any() bool { return d.Created+d.Deleted+d.Updated > 0 }

// Pace returns how n writes run that begin with start in parallel. No write is begun when the pass has taken too long.
type Pace func(n, start int) write.Steps

// Act carries the plan out: first what happens to claims whose pods are deleted, then the changes of pods in parallel,
// then create, unless a removal has failed, so that there are never more pods than planned. Errors are kept for the
// report.
func (c *Controller[T, M]) Act(ctx context.Context, p *Pass[T, M], w Work, create func(Pace) int) (done Done) {
	w, stay := c.permitted(ctx, p, w)
	begun, owner := c.Clock.Now(), p.Object.GetUID()
	late := func() bool { return c.Clock.Since(begun) >= longestPass }
	width := p.Width(begun)
	pace := func(n, start int) write.Steps {
		return write.Steps{N: n, Start: max(start, width), Limit: write.InFlight, Stop: late}
	}

	// A claim that is to be deleted with its pod must have it as its owner before the pod is gone.
	transferred := c.transfer(ctx, p, w.Claims, pace)
	var wg sync.WaitGroup
	var deleteErr, updateErr, openErr, prepareErr, releaseErr error
	var replaced atomic.Int32 // pods that still count, though others are to take their places
	if transferred {
		wg.Go(func() {
			done.Deleted, deleteErr = write.SlowStart(ctx, pace(len(w.Delete), startDeletes), func(i int) error {
				return c.Writer.DeletePod(ctx, owner, w.Delete[i].Pod)
			})
		})
	}
	wg.Go(func() {
		done.Updated, updateErr = write.SlowStart(ctx, pace(len(w.Update), 1), func(i int) error {
			u := w.Update[i]
			return IgnoreStale(c.UpdateInPlace(ctx, p, u.Pod, u.Step, u.Change, u.To, w.InPlace))
		})
	})
	wg.Go(func() {
		openErr = errors.Join(c.OpenGates(ctx, p, w.Open, pace(len(w.Open), startOpens)),
			c.CarryOn(ctx, p, w.Carry, pace(len(w.Carry), startOpens)))
	})
	for _, preparation := range w.Prepare {
		if preparation.Replaced {
			replaced.Add(1)
		}
	}
	wg.Go(func() {
		_, prepareErr = write.SlowStart(ctx, pace(len(w.Prepare), startOpens), func(i int) error {
			err := c.Prepare(ctx, p, w.Prepare[i].Pod, w.Prepare[i].Step)
			if err == nil && w.Prepare[i].Replaced {
				replaced.Add(-1)
			}
			return IgnoreStale(err)
		})
	})
	wg.Go(func() {
		_, releaseErr = write.SlowStart(ctx, pace(len(w.Release), startDeletes), func(i int) error {
			return c.Writer.ReleasePod(ctx, owner, w.Release[i])
		})
	})
	wg.Wait()
	p.Fail(c.kind.UpdateFailure, errors.Join(updateErr, openErr, prepareErr))
	p.Fail(c.kind.ScaleFailure, errors.Join(deleteErr, releaseErr))
	if transferred && done.Deleted == len(w.Delete) && replaced.Load() == 0 {
		done.Created = create(func(n, start int) write.Steps {
			if w.Fungible {
				n = replacements(n, w.Later, stay)
			}
			return pace(n, start)
		})
	}
	p.Reached(max(done.Created, done.Deleted, done.Updated), c.Clock.Now())
	return done
}

// replacements returns how many of n pods are created where stay of those that they replace stay: those that limits
// leave for later wait first.
func replacements(n, later, stay int) int { return min(n, max(0, n+later-stay)) }

// askBudget is when pods that a budget refused are asked about again, though no event of the workload comes.
const askBudget = 2 * time.Second

// permitted returns the part of the work that the budgets of the pods allow, and how many pods stay that new ones were
// to replace. What they refuse is shown by the conditions of the kind, and tried again.
func (c *Controller[T, M]) permitted(ctx context.Context, p *Pass[T, M], w Work) (allowed Work, stay int) {
	if c.Disruptions == nil {
		return w, 0
	}
	asked := operationsOf(w)
	kept := c.ask(ctx, p, policy.PubDeleteOperation, asked[policy.PubDeleteOperation], c.kind.ScaleFailure)
	held := c.ask(ctx, p, policy.PubUpdateOperation, asked[policy.PubUpdateOperation], c.kind.UpdateFailure)
	resized := c.ask(ctx, p, policy.PubResizeOperation, asked[policy.PubResizeOperation], c.kind.UpdateFailure)
	stays := func(pod *corev1.Pod) bool { return kept[pod.Name] || held[pod.Name] || resized[pod.Name] }
	w.Delete = slices.DeleteFunc(slices.Clone(w.Delete), func(r Removal) bool {
		if kept[r.Pod.Name] {
			stay++
		}
		return kept[r.Pod.Name]
	})
	w.Update = slices.DeleteFunc(slices.Clone(w.Update), func(u Update) bool {
		return held[u.Pod.Name] || resized[u.Pod.Name]
	})
	w.Prepare = slices.DeleteFunc(slices.Clone(w.Prepare), func(preparation Preparation) bool {
		if !stays(preparation.Pod) {
			return false
		}
		if preparation.Replaced {
			stay++
		}
		return true
	})
	return w, stay
}

// operationsOf returns the pods that the work can make unavailable, by the operation that a budget is asked about: the
// same one as for a request of a user.
func operationsOf(w Work) map[policy.PubOperation][]*corev1.Pod {
	out := map[policy.PubOperation][]*corev1.Pod{}
	add := func(operation policy.PubOperation, pod *corev1.Pod) { out[operation] = append(out[operation], pod) }
	marks := func(step *lifecycle.Step) bool { return step.NotReady != nil && *step.NotReady }
	for i := range w.Delete {
		add(policy.PubDeleteOperation, w.Delete[i].Pod)
	}
	for i := range w.Update {
		u := &w.Update[i]
		effect := u.Change.EffectOn(u.Pod)
		switch {
		case effect == inplace.EffectRestarts, marks(&u.Step):
			add(policy.PubUpdateOperation, u.Pod)
		case effect == inplace.EffectResizes:
			add(policy.PubResizeOperation, u.Pod)
		}
	}
	for i := range w.Prepare {
		switch step := &w.Prepare[i].Step; {
		case !marks(step):
		case step.State == v1beta1.LifecyclePreparingDelete:
			add(policy.PubDeleteOperation, w.Prepare[i].Pod)
		default:
			add(policy.PubUpdateOperation, w.Prepare[i].Pod)
		}
	}
	return out
}

// ask asks about the pods, and returns the names of those that must stay.
func (c *Controller[T, M]) ask(
	ctx context.Context, p *Pass[T, M], operation policy.PubOperation, pods []*corev1.Pod, condition string,
) map[string]bool {
	if len(pods) == 0 {
		return nil
	}
	stay := map[string]bool{}
	refused, err := c.Disruptions.Ask(ctx, p.Key.Namespace, operation, pods, false)
	if err != nil {
		for _, pod := range pods {
			stay[pod.Name] = true
		}
		p.Fail(condition, err)
		return stay
	}
	var first error
	for _, pod := range pods {
		if refusal := refused[pod.Name]; refusal != nil {
			stay[pod.Name] = true
			if first == nil {
				first = refusal
			}
		}
	}
	if first != nil {
		p.wait(condition, first)
		p.Sooner(askBudget)
	}
	return stay
}

// transfer gives claims their new owners, deletes those that nothing needs, and creates those again that pods wait for.
// It reports whether all claims have their owners.
func (c *Controller[T, M]) transfer(ctx context.Context, p *Pass[T, M], plan volumes.Plan, pace Pace) bool {
	owner := p.Object.GetUID()
	owned, ownErr := write.SlowStart(ctx, pace(len(plan.Own), startDeletes), func(i int) error {
		return c.Writer.OwnClaim(ctx, owner, plan.Own[i].Claim, plan.Own[i].Owners)
	})
	_, removeErr := write.SlowStart(ctx, pace(len(plan.Delete), startDeletes), func(i int) error {
		return c.Writer.DeleteClaim(ctx, owner, plan.Delete[i].Claim)
	})
	_, makeErr := write.SlowStart(ctx, pace(len(plan.Make), 1), func(i int) error {
		return c.Writer.CreateClaim(ctx, owner, plan.Make[i])
	})
	p.Fail(c.kind.ScaleFailure, errors.Join(ownErr, removeErr, makeErr))
	return owned == len(plan.Own)
}

// Opened returns the status patch that opens the readiness gates of a new pod.
func Opened(now time.Time) ([]byte, error) {
	return inplace.OpenGate(now, v1beta1.InPlaceUpdateReady, lifecycle.KruisePodReady)
}

// OpenGates opens the gates of pods that are new or whose update has arrived.
func (c *Controller[T, M]) OpenGates(ctx context.Context, p *Pass[T, M], pods []*corev1.Pod, steps write.Steps) error {
	if len(pods) == 0 {
		return nil
	}
	now := c.Clock.Now()
	patch, err := inplace.OpenGate(now)
	if err != nil {
		return err
	}
	both, err := Opened(now)
	if err != nil {
		return err
	}
	isKruiseGate := func(g corev1.PodReadinessGate) bool { return g.ConditionType == lifecycle.KruisePodReady }
	_, err = write.SlowStart(ctx, steps, func(i int) error {
		pod := pods[i]
		if podstate.Condition(pod, lifecycle.KruisePodReady) == nil &&
			slices.ContainsFunc(pod.Spec.ReadinessGates, isKruiseGate) {
			return c.Writer.PatchPodStatus(ctx, p.Object.GetUID(), pod, both)
		}
		return c.Writer.PatchPodStatus(ctx, p.Object.GetUID(), pod, patch)
	})
	return err
}

// CarryOn makes the next writes of updates in place that have begun.
func (c *Controller[T, M]) CarryOn(ctx context.Context, p *Pass[T, M], pods []*corev1.Pod, steps write.Steps) error {
	_, err := write.SlowStart(ctx, steps, func(i int) error {
		writes, _, err := inplace.Next(pods[i], c.Clock.Now())
		if err != nil {
			return err
		}
		return c.Writer.ChangePod(ctx, p.Object.GetUID(), pods[i], writes)
	})
	return err
}

// Prepare writes a pod's lifecycle state. The mark comes first: who reads PreparingDelete finds the pod not ready
// already. IgnoreStale knows the error of a pod that has changed since the plan saw it.
func (c *Controller[T, M]) Prepare(ctx context.Context, p *Pass[T, M], pod *corev1.Pod, step lifecycle.Step) error {
	metadata, status, err := lifecycle.Patch(pod, step, c.Clock.Now())
	if err != nil {
		return err
	}
	err = c.Writer.ChangePod(ctx, p.Object.GetUID(), pod, inplace.Writes{Status: status, Pod: metadata})
	if apierrors.IsConflict(err) {
		return errStale
	}
	return err
}

// UpdateInPlace makes the first writes of an update in place, behind those of the lifecycle step. Later passes carry it
// on and open the gate.
func (c *Controller[T, M]) UpdateInPlace(
	ctx context.Context, p *Pass[T, M], pod *corev1.Pod, step lifecycle.Step,
	change inplace.Change, to inplace.Revision, options inplace.Options,
) error {
	if step.State != "" || step.NotReady != nil {
		if err := c.Prepare(ctx, p, pod, step); err != nil {
			return err
		}
	}
	writes, err := inplace.Begin(pod, change, to, options, c.Clock.Now())
	if err != nil {
		return err
	}
	return c.Writer.ChangePod(ctx, p.Object.GetUID(), pod, writes)
}

// errStale says that a pod is not what the plan saw any more. Its event brings the next pass.
var errStale = errors.New("the pod has changed")

// IgnoreStale returns nil for the error of a pod that has changed since the plan saw it: that is no failure.
func IgnoreStale(err error) error {
	if errors.Is(err, errStale) {
		return nil
	}
	return err
}
