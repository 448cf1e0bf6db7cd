package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// Revision is one pod template of a workload, by its published name and short hash.
type Revision struct {
	inplace.Revision
	Template *corev1.PodTemplateSpec
	// Claims is the hash of the claim templates that the revision was made with; "" for none.
	Claims string
}

// RevisionOf reads a stored revision.
func RevisionOf(stored *appsv1.ControllerRevision) (Revision, error) {
	template, err := history.Decode[corev1.PodTemplateSpec](stored.Data.Raw)
	if err != nil {
		return Revision{}, fmt.Errorf("read revision %s: %w", stored.Name, err)
	}
	return Revision{
		Revision: inplace.Revision{Name: stored.Name, Hash: history.ShortHash(stored)},
		Template: &template, Claims: stored.Annotations[volumes.AnnotationHash],
	}, nil
}

// Revisions are the revisions of a workload with one pod template.
type Revisions struct {
	// Stored are all of them, the oldest first: they say what the template of a pod was.
	Stored []*appsv1.ControllerRevision
	// Update is the newest revision, Current the one that all pods had last. They may be the same.
	Update, Current Revision
	// Collisions is for the status: how many names were taken.
	Collisions *int32
}

// RevisionStatus is what the status of a workload says of its revisions.
type RevisionStatus struct {
	Update, Current string
	Collisions      *int32
	// Answered: the status is that of this generation of the spec, whose template could be used.
	Answered bool
}

// Answered is for RevisionStatus: observed is the generation that a status names, and have its conditions. A pass that
// could not use the spec answered its generation without looking at the template.
func Answered[C conditions.Own[C]](observed, generation int64, have []C) bool {
	return observed == generation && !slices.ContainsFunc(have, func(c C) bool {
		common, _ := c.Common()
		return common.Type == v1beta1.ConditionStalled && common.Status != metav1.ConditionFalse
	})
}

// Known reads the revisions that the status names. It is for a pass that does not look at the template.
func (r *Revisions) Known(status RevisionStatus) error {
	r.Collisions = status.Collisions
	var err error
	if update := history.Named(r.Stored, status.Update); update != nil {
		if r.Update, err = RevisionOf(update); err != nil {
			return err
		}
	}
	r.Current = r.Update
	return r.readCurrent(status)
}

// readCurrent sets the current revision, if the status names one that still exists.
func (r *Revisions) readCurrent(status RevisionStatus) (err error) {
	if status.Current == r.Update.Name {
		return nil
	}
	if current := history.Named(r.Stored, status.Current); current != nil {
		r.Current, err = RevisionOf(current)
	}
	return err
}

// unchanged returns the update revision if the status answers this generation and its update revision still is the
// newest. This saves most passes the comparison of templates. Nil means compare.
func (r *Revisions) unchanged(status RevisionStatus) *appsv1.ControllerRevision {
	if !status.Answered || len(r.Stored) == 0 {
		return nil
	}
	if newest := r.Stored[len(r.Stored)-1]; newest.Name == status.Update {
		return newest
	}
	return nil
}

// Revise finds or writes the revision of the template, and finds the current one. previous is the revision that pods
// are to keep until they are updated, where the status names none; it may be nil.
func (c *Controller[T, M]) Revise(
	ctx context.Context, r *Revisions, owner history.Owner, template *corev1.PodTemplateSpec,
	status RevisionStatus, previous *appsv1.ControllerRevision,
) (err error) {
	r.Collisions = status.Collisions
	update := r.unchanged(status)
	if update == nil {
		update, r.Collisions, err = history.Revise(ctx, c.History, owner, r.Stored, *template, status.Collisions)
	} else {
		update, err = c.History.Mark(ctx, owner, update)
	}
	if err != nil {
		return err
	}
	// The template of the spec means the same as the stored one, which need not be decoded.
	r.Update = Revision{
		Revision: inplace.Revision{Name: update.Name, Hash: history.ShortHash(update)},
		Template: template, Claims: owner.Annotations[volumes.AnnotationHash],
	}
	if history.Named(r.Stored, update.Name) == nil {
		r.Stored = append(r.Stored, update)
	}
	r.Current = r.Update
	if previous != nil && previous.Name != update.Name {
		r.Current, err = RevisionOf(previous)
		return err
	}
	return r.readCurrent(status)
}

// ReadPrevious returns the previous template of a hub's update, nil if the hub gave none. The error says what is wrong
// with it.
func ReadPrevious(object metav1.Object) (*corev1.PodTemplateSpec, error) {
	text, ok := object.GetAnnotations()[topology.AnnotationTemplateBefore]
	if !ok {
		return nil, nil
	}
	var template *corev1.PodTemplateSpec
	err := json.Unmarshal([]byte(text), &template)
	if err == nil && (template == nil || len(template.Spec.Containers) == 0) {
		err = fmt.Errorf("it has no containers")
	}
	if err != nil {
		return nil, fmt.Errorf(
			"annotation %s is %s: %w; the hub writes it as a pod template, remove it if no hub owns this object",
			topology.AnnotationTemplateBefore, Quote(text), err)
	}
	return template, nil
}

// Quote quotes the beginning of a text.
func Quote(text string) string {
	const longest = 100
	if len(text) > longest {
		return fmt.Sprintf("%q …", text[:longest])
	}
	return fmt.Sprintf("%q", text)
}

// Previous returns the revision of the previous template of a hub's update, where the object came to this member in the
// middle of that update and never had another template than the newest; else nil. Pods that are not to be updated are
// made of it. It is written with the first pods; later the status, or the active pods that have it, tell that it was
// used.
func (c *Controller[T, M]) Previous(
	ctx context.Context, r *Revisions, owner history.Owner, active []*corev1.Pod, status RevisionStatus,
) (*appsv1.ControllerRevision, error) {
	if status.Current != "" && status.Current != status.Update {
		return nil, nil // it has one of its own
	}
	template, _ := ReadPrevious(owner.Object) // the kind reports what is wrong with it
	if template == nil {
		return nil, nil
	}
	found, err := history.Find(r.Stored, *template)
	if err != nil {
		return nil, err
	}
	switch {
	case found != nil && (len(active) == 0 || status.Current == ""):
		return found, nil
	case found != nil && slices.ContainsFunc(active, func(pod *corev1.Pod) bool {
		return podset.HasRevision(pod, history.ShortHash(found))
	}):
		return found, nil
	case found != nil || len(active) > 0:
		return nil, nil
	}
	owner.Labels = template.Labels
	made, _, err := history.Revise(ctx, c.History, owner, r.Stored, *template, status.Collisions)
	if err != nil {
		return nil, err
	}
	r.Stored = append(r.Stored, made)
	return made, nil
}

// defaultHistoryLimit is the published default of revisionHistoryLimit.
const defaultHistoryLimit = 10

// Trim deletes stored revisions that nothing uses, beyond the limit; nil is the published default.
func (c *Controller[T, M]) Trim(
	ctx context.Context, stored []*appsv1.ControllerRevision, limit *int32, inUse func(*appsv1.ControllerRevision) bool,
) error {
	keep := defaultHistoryLimit
	if limit != nil {
		keep = int(*limit)
	}
	if len(stored) <= keep {
		return nil
	}
	if err := c.History.Delete(ctx, history.Excess(stored, inUse, keep)); err != nil {
		return fmt.Errorf("trim the history: %w", err)
	}
	return nil
}

// Unused deletes stored revisions that no pod uses, beyond the limit.
func (c *Controller[T, M]) Unused(
	ctx context.Context, p *Pass[T, M], r *Revisions, pods podset.Set, limit *int32,
) (bool, error) {
	if p.Leaving != nil {
		return true, nil
	}
	used := sync.OnceValue(func() map[string]bool { // it costs as much as there are pods
		out := map[string]bool{r.Update.Hash: true, r.Current.Hash: true}
		for _, list := range [][]*corev1.Pod{pods.Active, pods.Terminating} {
			for _, pod := range list {
				out[history.ShortName(pod.Labels[podset.LabelRevision])] = true
			}
		}
		return out
	})
	inUse := func(revision *appsv1.ControllerRevision) bool { return used()[history.ShortHash(revision)] }
	return true, c.Trim(ctx, r.Stored, limit, inUse)
}

// AdoptRevisions takes over the revisions that an earlier owner of pods left behind: without them the pods would count
// as pods of unknown templates.
func (c *Controller[T, M]) AdoptRevisions(
	ctx context.Context, p *Pass[T, M], r *Revisions, owner history.Owner, selector labels.Selector, pods []*corev1.Pod,
) error {
	unknown := func(pod *corev1.Pod) bool { return history.Named(r.Stored, pod.Labels[podset.LabelRevision]) == nil }
	if !slices.ContainsFunc(pods, unknown) {
		return nil
	}
	if stays, err := c.stays(ctx, p); err != nil || !stays {
		return err
	}
	adopted, err := c.History.Adopt(ctx, owner, selector)
	r.Stored = append(r.Stored, adopted...)
	history.Sort(r.Stored)
	return err
}

// Plans reports whether the pass makes a plan. An object that stands still makes none, unless its template cannot be
// decoded and is not needed, because all pods are to be deleted.
func (p *Pass[T, M]) Plans(template *v1beta1.PodTemplate, replicas int32, r *Revisions) bool {
	if p.Halted || p.Leaving != nil {
		return false
	}
	return p.Stalled == nil || p.Stalled.Reason == ReasonInvalidTemplate && template.Undecoded != nil && replicas == 0 &&
		r.Update.Template != nil
}

// ReasonInvalidTemplate is why an object stands still whose pods or revisions the API server refuses.
const ReasonInvalidTemplate = "InvalidTemplate"

// RetryInvalid is when a template that was refused is tried again without a change: a webhook may have changed.
const RetryInvalid = 5 * time.Minute

// Template is what the revisions of a pass are made from.
type Template struct {
	Owner  history.Owner
	Pod    *corev1.PodTemplateSpec
	Active []*corev1.Pod
	Status RevisionStatus
}

// Keep finds or makes the update revision, and finds the current one. A decision of the API server against it makes
// this a pass that only reports.
func (c *Controller[T, M]) Keep(ctx context.Context, p *Pass[T, M], r *Revisions, t Template) (bool, error) {
	previous, err := c.Previous(ctx, r, t.Owner, t.Active, t.Status)
	if err == nil {
		err = c.Revise(ctx, r, t.Owner, t.Pod, t.Status, previous)
	}
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsInvalid(err):
		// A revision carries the labels of the template.
		p.Stalled = &conditions.Cause{Reason: ReasonInvalidTemplate,
			Message: "the API server refuses what the template asks for; correct it: " + err.Error()}
		p.Wake = RetryInvalid
	case c.TurnAway(p, err):
	case Refused(err):
		p.Halt(c.kind.UpdateFailure, err)
	default:
		return false, err
	}
	return true, r.Known(t.Status)
}
