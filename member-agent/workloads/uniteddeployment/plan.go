package uniteddeployment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// Reasons of the condition Stalled.
const (
	// ReasonUnsupportedTemplate: the template is of a kind that this version does not run.
	ReasonUnsupportedTemplate = "UnsupportedTemplate"
	// ReasonUnsupportedSchedule: the schedule strategy is one that this version does not carry out.
	ReasonUnsupportedSchedule = "UnsupportedScheduleStrategy"
	// ReasonInvalidSelector: the selector is empty or not valid.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonInvalidSubsets: the numbers of the subsets mean nothing.
	ReasonInvalidSubsets = "InvalidSubsets"
	// ReasonInvalidLimits: the annotation that lends limits cannot be read.
	ReasonInvalidLimits = "InvalidLimits"
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
	children   []child
	revisions  []*appsv1.ControllerRevision
	collisions *int32                // for the status
	known      map[types.UID]written // our own last writes
}

// plan is what is to be done, and why.
type plan struct {
	refused  *problem  // nothing is done
	problems []problem // done, but not all that was asked for
	subsets  []subsetPlan
	others   []*child // of no subset, of another kind, or doubled; they are in the totals

	create []creation
	change []change
	drain  []*child
	remove []*child
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
}

// expected is how many pods are to be of the newest revision.
func (s *subsetPlan) expected() int32 { return s.desired - s.partition }

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
	case t.StatefulSetTemplate != nil, t.AdvancedStatefulSetTemplate != nil:
		return &problem{ReasonUnsupportedTemplate, "this version runs subsets of CloneSets and Deployments only: use spec.template.cloneSetTemplate or deploymentTemplate"}
	case t.CloneSetTemplate == nil && t.DeploymentTemplate == nil:
		return &problem{ReasonUnsupportedTemplate, "spec.template is empty: give cloneSetTemplate or deploymentTemplate"}
	case ud.Spec.Topology.ScheduleStrategy.Type == kruise.AdaptiveUnitedDeploymentScheduleStrategyType:
		return &problem{ReasonUnsupportedSchedule, "this version does not carry out scheduleStrategy Adaptive: use Fixed, or remove spec.topology.scheduleStrategy"}
	case len(ud.Spec.Topology.Subsets) == 0:
		return &problem{ReasonInvalidSubsets, "spec.topology.subsets is empty, so the replicas have no place: give at least one subset"}
	case ud.Spec.Selector == nil || len(ud.Spec.Selector.MatchLabels) == 0 && len(ud.Spec.Selector.MatchExpressions) == 0:
		return &problem{ReasonInvalidSelector, "spec.selector is empty, it would select every pod: give matchLabels that the pod template has"}
	}
	if _, err := metav1.LabelSelectorAsSelector(ud.Spec.Selector); err != nil {
		return &problem{ReasonInvalidSelector, fmt.Sprintf("spec.selector cannot be read: %v", err)}
	}
	return nil
}

// templateKind is the kind of the children.
func templateKind(ud *kruise.UnitedDeployment) kind {
	if ud.Spec.Template.DeploymentTemplate != nil {
		return deploymentKind
	}
	return cloneSetKind
}

// makePlan decides everything from what was observed. It fails only on what cannot be encoded.
func makePlan(o *observed) (*plan, error) {
	p := &plan{}
	want := templateKind(o.ud)
	kept := assign(o, want, p)
	subsets := o.ud.Spec.Topology.Subsets
	current := make([]int32, len(subsets))
	input := make([]division.Subset, len(subsets))
	for i, s := range subsets {
		input[i] = division.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas}
		current[i] = replicasNow(kept[s.Name], p.others, s.Name)
	}
	total := orOne(o.ud.Spec.Replicas)
	shares, err := division.Subsets(total, input, current)
	if err != nil {
		return &plan{refused: &problem{ReasonInvalidSubsets, fmt.Sprintf("spec.topology.subsets: %v", err)}, others: all(o)}, nil
	}
	for i := range subsets {
		total -= shares[i].Replicas
		err := p.planSubset(o, want, &subsets[i], shares[i], kept[subsets[i].Name])
		if bad := (*patchError)(nil); errors.As(err, &bad) {
			return &plan{refused: &problem{ReasonInvalidPatch, bad.Error()}, others: all(o)}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if total > 0 {
		p.problems = append(p.problems, problem{ReasonNotPlaced, fmt.Sprintf("%d replicas have no place, because all subsets are at their maxReplicas: raise one, or remove it", total)})
	}
	p.planOthers(o, want)
	return p, nil
}

// planSubset decides one subset.
func (p *plan) planSubset(o *observed, want kind, subset *kruise.Subset, share division.SubsetShare, live *child) error {
	s := subsetPlan{name: subset.Name, desired: share.Replicas, why: share.Reason, live: live}
	if manual := o.ud.Spec.UpdateStrategy.ManualUpdate; manual != nil && want == cloneSetKind {
		s.partition = min(max(0, manual.Partitions[subset.Name]), s.desired)
	}
	asked := order{subset: subset, replicas: s.desired, partition: s.partition, revision: o.revision, cluster: o.cluster, live: live}
	if limit, ok := o.limits[subset.Name]; ok {
		asked.limit = &limit
	}
	object, err := render(o.ud, asked)
	if err != nil {
		return fmt.Errorf("render subset %s: %w", subset.Name, err)
	}
	s.paused = paused(object)
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
	p.subsets = append(p.subsets, s)
	return nil
}

// seen tells whether the cache has our last write of the child, and the child's controller has seen it too.
func seen(live *child, known map[types.UID]written) bool {
	return live.observed && live.object.GetGeneration() >= known[live.object.GetUID()].generation
}

// differs tells whether the child has to be written.
func differs(live *child, object client.Object, content meaning, known map[types.UID]written) (bool, error) {
	last, ok := known[live.object.GetUID()]
	same := ok && last.content == content
	if same && live.object.GetGeneration() < last.generation {
		return false, nil // the cache lags behind our own write
	}
	if !contains(live.object.GetLabels(), object.GetLabels()) || !contains(live.object.GetAnnotations(), object.GetAnnotations()) {
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

// replicasNow is what the subset has; where another kind of child is about to be replaced, what that one has.
func replicasNow(kept *child, others []*child, subset string) int32 {
	if kept != nil {
		return kept.replicas
	}
	i := slices.IndexFunc(others, func(c *child) bool { return c.subset == subset && !c.terminating() })
	if i < 0 {
		return 0
	}
	return others[i].replicas
}

func byAge(a, b *child) int {
	at, bt := a.object.GetCreationTimestamp(), b.object.GetCreationTimestamp()
	return cmp.Or(at.Compare(bt.Time), strings.Compare(a.object.GetName(), b.object.GetName()))
}

// planOthers decides the children that no subset keeps: of a removed subset, of another kind, or doubled.
func (p *plan) planOthers(o *observed, want kind) {
	for _, c := range p.others {
		i := slices.IndexFunc(p.subsets, func(s subsetPlan) bool { return s.name == c.subset })
		switch {
		case c.terminating(), c.object.GetGeneration() < o.known[c.object.GetUID()].generation:
			// It goes already, or the cache has not seen yet that we drained it.
		case c.empty():
			p.remove = append(p.remove, c)
		case i >= 0 && c.kind == want:
			p.problems = append(p.problems, problem{ReasonDuplicateChild, fmt.Sprintf("subset %s has two children, and %s runs pods beside %s: scale it to 0 or delete it",
				c.subset, c.name(), p.subsets[i].live.name())})
		case i >= 0 && !p.subsets[i].available():
			// The child of the new kind comes first.
		case c.replicas > 0:
			p.drain = append(p.drain, c)
		}
	}
}

// available tells whether the subset's child is as planned and all its pods are available.
func (s *subsetPlan) available() bool {
	return s.live != nil && !s.settling && s.live.pods.available >= s.desired
}

// all returns every child.
func all(o *observed) []*child {
	out := make([]*child, 0, len(o.children))
	for i := range o.children {
		out = append(out, &o.children[i])
	}
	return out
}
