package cloneset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/namespaces"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// gather reads what the plan needs: limits, pods, claims and revisions. What is wrong with the spec becomes s.stalled.
func (r *Reconciler) gather(ctx context.Context, s *scope) (bool, error) {
	s.facts = Facts{CloneSet: s.cs, Now: r.clock.Now()}
	replicas := ptr.Deref(s.cs.Spec.Replicas, 1)
	limits, err := budget.Resolve(strategy(s.cs), replicas)
	if err != nil {
		limits = budget.Limits{Replicas: replicas}
		s.stalled = &conditions.Cause{Reason: "InvalidStrategy", Message: "updateStrategy: " + err.Error()}
	}
	s.facts.Limits = limits
	if r.allowance != nil {
		s.facts.Lent, s.facts.Over = r.allowance(ctx, s.cs)
	}
	selector, cause := validate(s.cs)
	if cause != nil {
		s.stalled = cause
	}
	if s.facts.Pods, err = r.source.Observe(s.cs.UID, selector); err != nil {
		return false, err
	}
	if s.facts.Claims, err = r.claims.Observe(s.cs.UID, s.facts.Pods); err != nil {
		return false, err
	}
	s.facts.Claim, s.facts.Form, s.facts.Topology = r.claims.Named(s.cs.Namespace), s.facts.Pods.LabelForm(r.shortHash), r.topology(ctx)
	if s.facts.Revisions, err = r.history.List(ctx, owner(s.cs)); err != nil {
		return false, err
	}
	if s.leaving != nil {
		s.stalled = nil // nothing of the spec is carried out any more
	}
	if s.stalled != nil || s.leaving != nil {
		return true, r.knownRevisions(s)
	}
	if adopted, err := r.adopt(ctx, s, selector); refusedFor(err) {
		return r.halt(s, v1beta1.CloneSetConditionFailedScale, err)
	} else if err != nil || adopted {
		return false, err
	}
	s.facts.Spread = r.spread(ctx, s, selector)
	if s.facts.NoResize, err = r.cannotResize(ctx, s.cs); err != nil {
		return false, err
	}
	switch err := r.revise(ctx, s); {
	case apierrors.IsInvalid(err):
		// A revision carries the labels of the template.
		s.stalled = &conditions.Cause{Reason: reasonInvalidTemplate, Message: "the API server refuses what the template asks for; correct it: " + err.Error()}
		s.wake = retryInvalid
		return true, r.knownRevisions(s)
	case namespaces.Is(err):
		s.turnAway(r.namespaces.Refused(s.cs.Namespace, s.cs.UID, err))
		return true, r.knownRevisions(s)
	case refusedFor(err):
		return r.halt(s, v1beta1.CloneSetConditionFailedUpdate, err)
	case err != nil:
		return false, err
	}
	return true, nil
}

// halt makes this a pass that does nothing but tell of an error.
func (r *Reconciler) halt(s *scope, condition v1beta1.CloneSetConditionType, err error) (bool, error) {
	s.halted = true
	s.keep(condition, err)
	return true, r.knownRevisions(s)
}

// validate returns the selector, or what is wrong with the spec that the schema could not know.
func validate(cs *v1beta1.CloneSet) (labels.Selector, *conditions.Cause) {
	selector, err := metav1.LabelSelectorAsSelector(cs.Spec.Selector)
	switch {
	case err != nil:
		return nil, &conditions.Cause{Reason: "InvalidSelector", Message: fmt.Sprintf(
			"selector cannot be used: %v; it cannot change either: delete the CloneSet, and apply it again with one that can be used", err)}
	case selector.Empty():
		return nil, &conditions.Cause{Reason: "InvalidSelector", Message: "selector is empty: name a label of the template in it"}
	case ownLabel(selector) != "":
		return nil, &conditions.Cause{Reason: "InvalidSelector", Message: fmt.Sprintf(
			"selector %q asks for label %s, which the controller itself writes on pods: take it out, and make the CloneSet again", selector, ownLabel(selector))}
	case cs.Spec.Template.Undecoded != nil:
		return selector, &conditions.Cause{Reason: reasonInvalidTemplate, Message: cs.Spec.Template.Err(field.NewPath("spec", "template")).Error()}
	case !selector.Matches(labels.Set(cs.Spec.Template.Labels)):
		return nil, &conditions.Cause{Reason: "SelectorMismatch", Message: fmt.Sprintf(
			"selector %q does not match the labels of the template, %q: add them to template.metadata.labels", selector, labels.Set(cs.Spec.Template.Labels))}
	}
	if _, ok := cs.Spec.Template.Labels[v1beta1.LabelSpecifiedDelete]; ok {
		return nil, &conditions.Cause{Reason: reasonInvalidTemplate, Message: fmt.Sprintf(
			"template.metadata.labels has %s, which asks to delete every pod as soon as it is made: remove it", v1beta1.LabelSpecifiedDelete)}
	}
	if _, cause := readZones(cs); cause != nil {
		return nil, cause
	}
	if _, cause := readBefore(cs); cause != nil {
		return nil, cause
	}
	if _, err := spread.OfHub(cs); err != nil {
		return nil, &conditions.Cause{Reason: reasonInvalidSpread, Message: err.Error()}
	}
	if cause := volumes.Validate(cs.Name, cs.Spec.VolumeClaimTemplates); cause != nil {
		return nil, cause
	}
	if rolling := cs.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		if _, err := order.Priority(rolling.PriorityStrategy); err != nil {
			return nil, &conditions.Cause{Reason: "InvalidStrategy", Message: "updateStrategy.rollingUpdate." + err.Error()}
		}
	}
	return selector, nil
}

// ownLabel returns a label that the selector asks for and that pods get from their controller, or "". Such pods would not
// match, or not for long, and each pass would make others.
func ownLabel(selector labels.Selector) string {
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		switch key := requirement.Key(); key {
		case podset.LabelRevision, v1beta1.LabelPodTemplateHash, v1beta1.LabelInstanceID, v1beta1.LabelLifecycleState:
			return key
		}
	}
	return ""
}

// strategy translates the spec for package budget.
func strategy(cs *v1beta1.CloneSet) budget.Strategy {
	out := budget.Strategy{ScaleMaxUnavailable: cs.Spec.ScaleStrategy.MaxUnavailable}
	rolling := cs.Spec.UpdateStrategy.RollingUpdate
	if cs.Spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType || rolling == nil {
		return out
	}
	out.Partition, out.MaxUnavailable, out.MaxSurge, out.Paused = rolling.Partition, rolling.MaxUnavailable, rolling.MaxSurge, rolling.Paused
	return out
}

// topology returns what order.Crowd asks: the value of a node's label. A node that the cache does not have has none.
func (r *Reconciler) topology(ctx context.Context) func(node, key string) string {
	node := r.nodes(ctx)
	return func(name, key string) string {
		if found := node(name); found != nil {
			return found.Labels[key]
		}
		return ""
	}
}

// nodes returns a function that returns a node of the cache, or nil. Each is read once; they must not be changed.
func (r *Reconciler) nodes(ctx context.Context) func(name string) *corev1.Node {
	known := map[string]*corev1.Node{}
	return func(name string) *corev1.Node {
		found, ok := known[name]
		if !ok && name != "" {
			object := &corev1.Node{}
			if err := r.client.Get(ctx, client.ObjectKey{Name: name}, object, client.UnsafeDisableDeepCopy); err == nil {
				found = object
			}
			known[name] = found
		}
		return found
	}
}

// revise finds or makes the update revision, and finds the current one.
func (r *Reconciler) revise(ctx context.Context, s *scope) error {
	before, err := r.before(ctx, s)
	if err != nil {
		return err
	}
	update := s.unchanged()
	s.collisions = s.cs.Status.CollisionCount
	if update == nil {
		update, s.collisions, err = history.Revise(ctx, r.history, owner(s.cs), s.facts.Revisions, s.cs.Spec.Template.PodTemplateSpec, s.cs.Status.CollisionCount)
		if err != nil {
			return err
		}
	}
	// The template of the spec means the same as that of its revision, and need not be decoded.
	s.facts.Update = Revision{Revision: inplace.Revision{Name: update.Name, Hash: history.ShortHash(update)}, Template: &s.cs.Spec.Template.PodTemplateSpec,
		Claims: volumes.Hash(s.cs.Spec.VolumeClaimTemplates)}
	if history.Named(s.facts.Revisions, update.Name) == nil {
		s.facts.Revisions = append(s.facts.Revisions, update)
	}
	s.facts.Current = s.facts.Update
	if before != nil && before.Name != update.Name {
		if s.facts.Current, err = revisionOf(before); err != nil {
			return fmt.Errorf("read revision %s: %w", before.Name, err)
		}
		return nil
	}
	return s.readCurrent()
}

// unchanged returns the update revision where status tells it: it answers this generation of the spec already, and what
// it names is still the newest revision. This spares every other pass the comparison of templates. Nil means compare.
func (s *scope) unchanged() *appsv1.ControllerRevision {
	if s.cs.Status.ObservedGeneration != s.cs.Generation || len(s.facts.Revisions) == 0 {
		return nil
	}
	// A pass that could not use the spec answered its generation without looking at the template.
	for _, c := range s.cs.Status.Conditions {
		if c.Type == v1beta1.ConditionStalled && c.Status != corev1.ConditionFalse {
			return nil
		}
	}
	newest := s.facts.Revisions[len(s.facts.Revisions)-1]
	if newest.Name != s.cs.Status.UpdateRevision {
		return nil
	}
	return newest
}

// readCurrent sets the current revision, if status names one that still exists.
func (s *scope) readCurrent() error {
	if s.cs.Status.CurrentRevision == s.facts.Update.Name {
		return nil
	}
	current := history.Named(s.facts.Revisions, s.cs.Status.CurrentRevision)
	if current == nil {
		return nil
	}
	var err error
	if s.facts.Current, err = revisionOf(current); err != nil {
		return fmt.Errorf("read revision %s: %w", current.Name, err)
	}
	return nil
}

// knownRevisions reads the revisions that status names, where the spec cannot be used.
func (r *Reconciler) knownRevisions(s *scope) error {
	s.collisions = s.cs.Status.CollisionCount
	if update := history.Named(s.facts.Revisions, s.cs.Status.UpdateRevision); update != nil {
		var err error
		if s.facts.Update, err = revisionOf(update); err != nil {
			return fmt.Errorf("read revision %s: %w", update.Name, err)
		}
	}
	s.facts.Current = s.facts.Update
	return s.readCurrent()
}
