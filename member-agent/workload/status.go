package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field manager of all that workload controllers write.
const FieldOwner = client.FieldOwner("flotilla-workloads")

// statusInterval is how often a status is written at most while only its counters move: 500 pods that become ready make
// 12 writes then, not 500, and a person does not see the difference. Everything else is written at once.
const statusInterval = 250 * time.Millisecond

// Status is the status that a pass reports.
type Status struct {
	// Have and Want are pointers to the status that the object has, and that it is to have.
	Have, Want any
	// Worked: the pass wrote pods without an error. It counted them as they were before, and what the next pass sees,
	// mostly some tens of milliseconds later, says it all in one write.
	Worked bool
	// CountersOnly: nothing but counters and messages differ.
	CountersOnly bool
}

// Report writes the status if it changed, and if it need not wait.
func (c *Controller[T, M]) Report(ctx context.Context, p *Pass[T, M], s Status) error {
	if equality.Semantic.DeepEqual(s.Have, s.Want) {
		return nil
	}
	now := c.Clock.Now()
	if wait := p.rate.hold(now, s.Worked); wait > 0 {
		p.Sooner(wait)
		return nil
	}
	if wait := p.rate.wait(now); wait > 0 && s.CountersOnly {
		p.Sooner(wait)
		return nil
	}
	// The whole status in one step: zeros are written out, and no other writer's change can be lost.
	patch, err := json.Marshal([]Operation{SameObject(p.Object), {"add", "/status", s.Want}})
	if err != nil {
		return fmt.Errorf("encode its status: %w", err)
	}
	target := c.kind.New()
	target.SetNamespace(p.Key.Namespace)
	target.SetName(p.Key.Name)
	if err := c.Client.Status().Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch), FieldOwner); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("write its status: %w", err)
	}
	c.fresh.Self.Changed(p.Object.GetUID(), p.Key, target.GetResourceVersion())
	p.rate.wrote(c.Clock.Now())
	return nil
}

// Operation is one step of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// SameObject is the step that makes a JSON patch fail if the object was replaced by another of its name.
func SameObject(object client.Object) Operation {
	return Operation{"test", "/metadata/uid", object.GetUID()}
}

// TakeFinalizer takes the finalizer of an OpenKruise manager off an object that is being deleted: our controllers
// clean up without one, so nothing is waited for. It reports whether the object had it. An object that changed
// meanwhile is an error.
func TakeFinalizer(ctx context.Context, c client.Client, object client.Object, finalizer string) (bool, error) {
	if object.GetDeletionTimestamp() == nil || !slices.Contains(object.GetFinalizers(), finalizer) {
		return false, nil
	}
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return name == finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": left,
	}})
	if err != nil {
		return true, fmt.Errorf("encode its finalizers: %w", err)
	}
	// The object is the cache's, and the answer is written to what is patched.
	target, _ := object.DeepCopyObject().(client.Object)
	err = c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("take its finalizer away: %w", err)
	}
	return true, nil
}

// statusRate is how fast an object is written: when its status was, and how wide the slow start of its last pass
// became.
type statusRate struct {
	written time.Time
	// held is since when a status waits for our own writes of pods to be seen; zero when none waits.
	held time.Time
	// widest is how many writes of one kind the last pass made without an error, at reached.
	widest  int
	reached time.Time
}

// hold returns how long the status of a pass has to wait that may have written pods. While every pass writes pods, a
// status waits no longer than statusInterval.
func (p *statusRate) hold(now time.Time, worked bool) time.Duration {
	switch {
	case !worked:
		p.held = time.Time{}
		return 0
	case p.held.IsZero():
		p.held = now
	}
	return max(0, p.held.Add(statusInterval).Sub(now))
}

// wait returns how long the next write of counters has to wait.
func (p *statusRate) wait(now time.Time) time.Duration {
	return max(0, p.written.Add(statusInterval).Sub(now))
}

func (p *statusRate) wrote(now time.Time) { p.written, p.held = now, time.Time{} }

// trustFor is how long a wide slow start is not begun again from one: the passes of a rollout follow one another within
// seconds, and what makes requests fail is seldom younger.
const trustFor = 10 * time.Second

// Width is how many writes of one kind the pass may begin with in parallel.
func (p *Pass[T, M]) Width(now time.Time) int {
	if now.Sub(p.rate.reached) < trustFor {
		return max(1, p.rate.widest)
	}
	return 1
}

// Reached notes how many writes of one kind the pass made. A pass that wrote nothing says nothing.
func (p *Pass[T, M]) Reached(widest int, now time.Time) {
	switch {
	case len(p.failed) > 0:
		p.rate.widest = 0
	case widest > 0:
		p.rate.widest, p.rate.reached = widest, now
	}
}

// Record makes one event for each kind of thing that the pass did.
func (c *Controller[T, M]) Record(p *Pass[T, M], done Done, a Actions) {
	if n := done.Created; n > 0 {
		c.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "created %s", countPods(n))
	}
	if n := done.Deleted; n > 0 {
		c.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "deleted %s (%s)", countPods(n),
			reasons(a.Delete))
	}
	if n := done.Updated; n > 0 {
		c.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, "SuccessfulUpdatePodInPlace", "Update",
			"updated %s in place to %s", countPods(n), a.Update[0].To.Name) // all pods of one pass get the same revision
	}
	for condition, err := range p.Failed() {
		c.Events.Eventf(p.Object, nil, corev1.EventTypeWarning, condition, "Retry", "%s", Note(err))
	}
}

// countPods returns a number of pods in words.
func countPods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// reasons returns each reason of removals once, in their order.
func reasons(list []Removal) string {
	var out []string
	for _, removal := range list {
		if !slices.Contains(out, removal.Reason) {
			out = append(out, removal.Reason)
		}
	}
	return strings.Join(out, ", ")
}

// longestNote is the API's limit of an event's text.
const longestNote = 1000

// Note is Text for an event.
func Note(err error) string {
	out := Text(err)
	if len(out) <= longestNote {
		return out
	}
	return strings.ToValidUTF8(out[:longestNote], "") + " …"
}

// shownErrors is how many errors of one pass are shown: up to write.InFlight parallel requests are refused, mostly with
// the same words.
const shownErrors = 3

// Text says what went wrong in a pass: each error once, and the first few of them.
func Text(err error) string {
	var shown []string
	more := 0
	for line := range strings.SplitSeq(err.Error(), "\n") {
		switch {
		case slices.Contains(shown, line):
		case len(shown) == shownErrors:
			more++
		default:
			shown = append(shown, line)
		}
	}
	if more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, "\n")
}
