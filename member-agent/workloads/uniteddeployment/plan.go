package uniteddeployment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// Reasons of the condition Stalled.
const (
	// ReasonUnsupportedTemplate: the template is of a kind that this version does not run.
	ReasonUnsupportedTemplate = "UnsupportedTemplate"
	// ReasonUnsupportedSchedule: the schedule strategy does not go with the kind of the children.
	ReasonUnsupportedSchedule = "UnsupportedScheduleStrategy"
	// ReasonInvalidSelector: the selector is empty or not valid.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonInvalidSubsets: the numbers of the subsets mean nothing.
	ReasonInvalidSubsets = "InvalidSubsets"
	// ReasonInvalidLimits: the annotation that grants limits cannot be read.
	ReasonInvalidLimits = "InvalidLimits"
	// ReasonInvalidTemplate: the template, or the annotation with the previous template of a hub's update, cannot be
	// decoded.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonInvalidPatch: the patch of a subset cannot be merged.
	ReasonInvalidPatch = "InvalidPatch"
	// ReasonNotPlaced: all subsets are at their maximum and replicas are left.
	ReasonNotPlaced = "NotPlaced"
	// ReasonDuplicateChild: a subset has two children with pods.
	ReasonDuplicateChild = "DuplicateChild"
	// ReasonChildRefused: the API server refused a child as invalid.
	ReasonChildRefused = "ChildRefused"
)

// problem is something that only a person can change.
type problem struct{ reason, message string }

// observed is what gather saw. Nothing in it is changed by the plan.
type observed struct {
	ud         *kruise.UnitedDeployment
	cluster    string
	revision   string // the label of the newest revision
	limits     map[string]topology.SubsetLimit
	previous   *previous // nil for none
	children   []child
	revisions  []*appsv1.ControllerRevision
	collisions *int32 // for the status
	budget     workload.Budget
	known      map[types.UID]written // our own last writes
	now        time.Time

	// pods are the pods of each child by its uid, and marked our own marks on them; only for the strategy Adaptive.
	pods   map[types.UID][]*corev1.Pod
	marked map[types.UID]string
	// waiting are all pods of the children whose controllers do not say what they wait for, by the child's uid.
	waiting map[types.UID][]*corev1.Pod
}

// plan is what is to be done, and why.
type plan struct {
	refused  *problem          // nothing is done, except that a template that cannot be decoded scales to zero
	leaving  *conditions.Cause // nothing is done: the object or its namespace is being deleted
	problems []problem         // done, but not all that was asked for
	subsets  []subsetPlan
	others   []*child // of no subset, of another kind, or doubled; they are in the totals

	create []creation
	change []change
	drain  []drainage
	remove []*child
	mark   []mark
	// replace are pods that their StatefulSets do not replace.
	replace []*corev1.Pod

	waits  bool          // a child that is to go keeps pods until others stand in for them
	turned bool          // a subset opened or closed: the status must say so before anything else is done
	wake   time.Duration // when the next pass is due, if no event comes first; 0: none is
}

// subsetPlan is the part of one subset.
type subsetPlan struct {
	name      string
	desired   int32
	partition int32
	why       division.Reason
	paused    bool
	live      *child // nil: there is none yet
	settling  bool   // live is not, or not yet seen to be, what the plan says

	// Of the strategy Adaptive:
	plain       int32  // what desired would be if all pods could be scheduled
	reserved    int32  // pods that wait while others run in their place
	waiting     int32  // reserved pods that are not ready
	covered     int32  // reserved pods in whose place others serve already
	placed      int32  // pods that have nodes, or may get one before they count as stuck
	lack        *int32 // how many pods may be unavailable in an update where the child's own limit is too high
	later       int32  // pods that come back to it once others have gone
	held        bool   // the update may take down none of its ready pods now
	gate        gate
	schedulable *kruise.SubsetCondition
}

// counted is how many of its pods count for replicas: all but the reserved ones.
func (s *subsetPlan) counted() int32 { return max(0, s.desired-s.reserved) }

// expected is how many pods are to be of the newest revision.
func (s *subsetPlan) expected() int32 { return max(0, s.counted()-s.partition) }

type creation struct {
	kind    kind
	subset  string
	object  client.Object
	content meaning
}

type change struct {
	live    *child
	object  client.Object
	content meaning
}

// refuse tells why nothing of this object can be carried out, nil if it can.
func refuse(ud *kruise.UnitedDeployment) *problem {
	t := ud.Spec.Template
	switch {
	case t == kruise.SubsetTemplate{}:
		return &problem{ReasonUnsupportedTemplate, "spec.template is empty: give cloneSetTemplate, deploymentTemplate, " +
			"advancedStatefulSetTemplate or statefulSetTemplate"}
	case t.Err(field.NewPath("spec", "template")) != nil:
		return &problem{ReasonInvalidTemplate, t.Err(field.NewPath("spec", "template")).Error()}
	case templateKind(ud).hasOrdinals() && scheduleOf(ud) != nil && scheduleOf(ud).reserve:
		return &problem{ReasonUnsupportedSchedule, "reserveUnschedulablePods needs children that can be updated past pods " +
			"without a node, a StatefulSet cannot: set it to false, or use cloneSetTemplate or deploymentTemplate"}
	case len(ud.Spec.Topology.Subsets) == 0:
		return &problem{ReasonInvalidSubsets, "spec.topology.subsets is empty, so the replicas have no place: give at " +
			"least one subset"}
	case ud.Spec.Selector == nil || len(ud.Spec.Selector.MatchLabels) == 0 && len(ud.Spec.Selector.MatchExpressions) == 0:
		return &problem{ReasonInvalidSelector, "spec.selector is empty, it would select every pod: give matchLabels that " +
			"the pod template has"}
	}
	if _, err := metav1.LabelSelectorAsSelector(ud.Spec.Selector); err != nil {
		return &problem{ReasonInvalidSelector, fmt.Sprintf("spec.selector cannot be read: %v", err)}
	}
	return nil
}

// refusedPlan leaves all children as they are. Without replicas no template is needed, and they scale to zero.
func refusedPlan(o *observed, why *problem) *plan {
	p := &plan{refused: why, others: all(o)}
	if why.reason != ReasonInvalidTemplate || orOne(o.ud.Spec.Replicas) > 0 {
		return p
	}
	for _, c := range p.others {
		if !c.terminating() && c.object.GetGeneration() >= o.known[c.object.GetUID()].generation {
			p.drainTo(c, 0)
		}
	}
	return p
}

// templateKind is the kind of the children.
func templateKind(ud *kruise.UnitedDeployment) kind {
	switch {
	case ud.Spec.Template.DeploymentTemplate != nil:
		return deploymentKind
	case ud.Spec.Template.StatefulSetTemplate != nil:
		return statefulSetKind
	case ud.Spec.Template.AdvancedStatefulSetTemplate != nil:
		return advancedKind
	}
	return cloneSetKind
}

// makePlan decides everything from what was observed. It fails only on what cannot be encoded.
func makePlan(o *observed) (*plan, error) {
	p := &plan{}
	want := templateKind(o.ud)
	kept := assign(o, want, p)
	if err := p.divide(o, kept); err != nil {
		return &plan{refused: &problem{ReasonInvalidSubsets, fmt.Sprintf("spec.topology.subsets: %v", err)},
			others: all(o)}, nil
	}
	subsets := o.ud.Spec.Topology.Subsets
	left := orOne(o.ud.Spec.Replicas)
	for i := range subsets {
		err := p.planSubset(o, want, i)
		if bad := (*patchError)(nil); errors.As(err, &bad) {
			return &plan{refused: &problem{ReasonInvalidPatch, bad.Error()}, others: all(o)}, nil
		}
		if err != nil {
			return nil, err
		}
		left -= p.subsets[i].counted()
	}
	if left > 0 && allBounded(subsets) {
		p.problems = append(p.problems, problem{ReasonNotPlaced,
			fmt.Sprintf("%d replicas have no place, because all subsets are at their maxReplicas: raise one, or remove it",
				left)})
	}
	if s := scheduleOf(o.ud); s != nil {
		p.explain(s)
	}
	p.planOthers(o, want)
	p.planWaits(o)
	return p, nil
}

// allBounded reports whether every subset has a most.
func allBounded(subsets []kruise.Subset) bool {
	return !slices.ContainsFunc(subsets, func(s kruise.Subset) bool { return s.MaxReplicas == nil && s.Replicas == nil })
}

// order returns what the subset at index is to have.
func (s *subsetPlan) order(o *observed, index int) order {
	asked := order{
		subset: &o.ud.Spec.Topology.Subsets[index], replicas: s.desired, partition: s.partition, revision: o.revision,
		cluster: o.cluster, live: s.live,
		reserved: s.reserved, waiting: s.waiting, covered: s.covered, updating: s.updating(o.revision),
	}
	if limit, ok := o.limits[s.name]; ok {
		asked.limit = &limit
	}
	if s.partition > 0 {
		asked.previous = o.previous
	}
	return asked
}

// planSubset decides the child of one subset, whose number is decided.
func (p *plan) planSubset(o *observed, want kind, index int) error {
	subset, s := &o.ud.Spec.Topology.Subsets[index], &p.subsets[index]
	live := s.live
	asked := s.order(o, index)
	p.pause(o, s, &asked)
	s.freeze(&asked)
	if p.teach(o, s, &asked) || p.orderStatefulSet(o, s, &asked) {
		s.settling = true
		return nil
	}
	object, err := render(o.ud, asked)
	if err != nil {
		return fmt.Errorf("render subset %s: %w", subset.Name, err)
	}
	s.paused = paused(object)
	if s.lack != nil && takesDown(object) {
		limit(object, *s.lack)
	}
	content, err := meaningOf(want, object)
	if err != nil {
		return err
	}
	switch {
	case live == nil:
		s.settling = true
		p.create = append(p.create, creation{want, subset.Name, object, content})
	default:
		write, err := differs(live, object, content, o.known)
		if err != nil {
			return err
		}
		if write {
			p.change = append(p.change, change{live, object, content})
		}
		s.settling = write || !seen(live, o.known)
	}
	return nil
}

// seen reports whether the cache has our last write of the child, and the child's controller has seen it too.
func seen(live *child, known map[types.UID]written) bool {
	return live.observed && live.object.GetGeneration() >= known[live.object.GetUID()].generation
}

// differs reports whether the child has to be written.
func differs(live *child, object client.Object, content meaning, known map[types.UID]written) (bool, error) {
	last, ok := known[live.object.GetUID()]
	same := ok && last.content == content
	if same && live.object.GetGeneration() < last.generation {
		return false, nil // the cache lags behind our own write
	}
	if !contains(live.object.GetLabels(), object.GetLabels()) ||
		!contains(live.object.GetAnnotations(), object.GetAnnotations()) {
		return true, nil
	}
	if dropsPrevious(live.object, object) {
		return true, nil
	}
	if same && live.object.GetGeneration() == last.generation {
		return false, nil // what the API server made of this content
	}
	have, err := meaningOf(live.kind, live.object)
	return have != content, err
}

// assign finds the child of each subset; the rest goes to p.others.
func assign(o *observed, want kind, p *plan) map[string]*child {
	candidates := map[string][]*child{}
	for _, s := range o.ud.Spec.Topology.Subsets {
		candidates[s.Name] = nil
	}
	for i := range o.children {
		c := &o.children[i]
		if _, ok := candidates[c.subset]; ok && c.kind == want && !c.terminating() {
			candidates[c.subset] = append(candidates[c.subset], c)
		} else {
			p.others = append(p.others, c)
		}
	}
	kept := map[string]*child{}
	for subset, found := range candidates {
		if len(found) > 0 {
			slices.SortFunc(found, byAge)
			kept[subset] = found[0]
			p.others = append(p.others, found[1:]...)
		}
	}
	slices.SortFunc(p.others, byAge)
	return kept
}

// standing is the child that has the pods of a subset now: its own, or where another kind of child is about to be
// replaced that one; nil if there is none.
func standing(kept *child, others []*child, subset string) *child {
	if kept != nil {
		return kept
	}
	i := slices.IndexFunc(others, func(c *child) bool { return c.subset == subset && !c.terminating() })
	if i < 0 {
		return nil
	}
	return others[i]
}

func byAge(a, b *child) int {
	at, bt := a.object.GetCreationTimestamp(), b.object.GetCreationTimestamp()
	return cmp.Or(at.Compare(bt.Time), strings.Compare(a.object.GetName(), b.object.GetName()))
}

// drainage is a child that is to go, and how many pods it keeps until then.
type drainage struct {
	child *child
	keeps int32
}

// planOthers decides the children that no subset keeps: of a removed subset, of another kind, or doubled. That of a
// removed subset keeps as many pods as the subsets lack.
func (p *plan) planOthers(o *observed, want kind) {
	lacking := p.lacking(orOne(o.ud.Spec.Replicas))
	for _, c := range p.others {
		i := slices.IndexFunc(p.subsets, func(s subsetPlan) bool { return s.name == c.subset })
		switch {
		case c.terminating(), c.object.GetGeneration() < o.known[c.object.GetUID()].generation:
			// It goes already, or the cache has not seen yet that we drained it.
		case c.empty():
			p.remove = append(p.remove, c)
		case i >= 0 && c.kind == want:
			p.problems = append(p.problems, problem{ReasonDuplicateChild,
				fmt.Sprintf("subset %s has two children, and %s runs pods beside %s: scale it to 0 or delete it",
					c.subset, c.name(), p.subsets[i].live.name())})
		case i >= 0 && !p.subsets[i].available():
			// The child of the new kind comes first.
		case i >= 0:
			p.drainTo(c, 0)
		default:
			keeps := min(c.replicas, lacking)
			if c.pods.available == 0 {
				keeps = 0 // nobody is served by what it has
			}
			lacking -= keeps
			p.drainTo(c, keeps)
		}
	}
}

func (p *plan) drainTo(c *child, keeps int32) {
	p.waits = p.waits || keeps > 0
	if c.replicas > keeps {
		p.drain = append(p.drain, drainage{c, keeps})
	}
}

// lacking is how many of n pods the subsets do not have available yet.
func (p *plan) lacking(n int32) int32 {
	for i := range p.subsets {
		if s := &p.subsets[i]; s.live != nil {
			n -= min(s.live.pods.available, s.live.replicas, s.desired)
		}
	}
	return max(0, n)
}

// available reports whether the subset's child is as planned and all its pods are available.
func (s *subsetPlan) available() bool {
	return s.live != nil && !s.settling && s.live.pods.available >= s.counted()
}

// all returns every child.
func all(o *observed) []*child {
	out := make([]*child, 0, len(o.children))
	for i := range o.children {
		out = append(out, &o.children[i])
	}
	return out
}
