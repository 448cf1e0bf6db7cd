package cloneset

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Spread is what says where the pods of a CloneSet run: the WorkloadSpread that rules it, or the zones that a hub gave.
type Spread struct {
	// Object is the WorkloadSpread; nil for zones of a hub, which are the subsets of Rule then.
	Object *v1beta1.WorkloadSpread
	// OfHub: Object is the member's part of a WorkloadSpread of a hub, and every subset has its number of pods.
	OfHub bool
	// Rule is what it means for the replicas of the CloneSet.
	Rule spread.Rule
	// Node returns a node, or nil if it is not known.
	Node func(name string) *corev1.Node
	// Selector is how the CloneSet finds its pods.
	Selector labels.Selector
}

// spread returns what says where the pods run: the WorkloadSpread of a hub; without one that of the member which rules
// the CloneSet; without one, or if it cannot be used, which the controller of WorkloadSpreads tells, the zones that a
// hub gave; nil if there are none either.
func (r *Reconciler) spread(ctx context.Context, s *scope, selector labels.Selector) *Spread {
	// validate has found that it can be used.
	if ws, err := spread.OfHub(s.cs, v1beta1.CloneSetKind); err == nil && ws != nil {
		if rule, err := spread.Resolve(ws, s.facts.Limits.Replicas); err == nil {
			return &Spread{Object: ws, OfHub: true, Rule: rule, Node: r.nodes(ctx), Selector: selector}
		}
	}
	if ws := r.ruling(ctx, s.Key); ws != nil {
		if rule, err := spread.Resolve(ws, s.facts.Limits.Replicas); err == nil {
			return &Spread{Object: ws, Rule: rule, Node: r.nodes(ctx), Selector: selector}
		}
	}
	zones, _ := readZones(s.cs) // validate has found that they can be read
	if len(zones) == 0 {
		return nil
	}
	return &Spread{Rule: zoneRule(zones, s.facts.Limits.Replicas), Node: r.nodes(ctx), Selector: selector}
}

// assignment is what the annotation of a pod says, see spread.Assigned.
type assignment struct {
	subset   string
	assigned bool
}

// placed returns the subset of each active pod that the spread is for, "" for none. Pods that are older than the spread
// have that of their node.
func (p *planner) placed() map[*corev1.Pod]string {
	if p.assigned != nil {
		return p.assigned
	}
	p.assigned = make(map[*corev1.Pod]string, len(p.Pods.Active))
	if p.Spread.zonal() {
		for _, pod := range p.Pods.Active {
			p.assigned[pod] = p.Spread.zoneOf(pod)
		}
		return p.assigned
	}
	known := map[string]assignment{} // few values, each on many pods
	count := map[string]int32{}
	var strays []*corev1.Pod
	for _, pod := range p.Pods.Active {
		if !p.Spread.Rule.Selects(pod) {
			continue
		}
		text := pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]
		of, ok := known[text]
		if !ok {
			of.subset, of.assigned = spread.Assigned(pod, p.Spread.Object)
			known[text] = of
		}
		if p.assigned[pod] = of.subset; !of.assigned {
			strays = append(strays, pod)
			continue
		}
		count[of.subset]++
	}
	order.Sort(strays) // by name: the order of the cache must not matter
	for _, pod := range strays {
		if subset, ok := p.Spread.Rule.Match(pod, p.Spread.Node(pod.Spec.NodeName), p.Spread.Object, count); ok {
			p.assigned[pod] = subset
			count[subset]++
		}
	}
	return p.assigned
}

// removedSubset reports whether the pod was made for a subset that the WorkloadSpread no longer has.
func (s *Spread) removedSubset(pod *corev1.Pod) bool {
	if s.zonal() {
		return false
	}
	subset, assigned := spread.Assigned(pod, s.Object)
	return assigned && subset == ""
}

// gone returns the active pods that count no more once the plan is carried out.
func (p *planner) gone() map[*corev1.Pod]bool {
	out := make(map[*corev1.Pod]bool, len(p.plan.Delete)+len(p.leaving))
	for _, removal := range p.plan.Delete {
		out[removal.Pod] = true
	}
	for _, pod := range p.leaving {
		out[pod] = true
	}
	for _, step := range p.plan.Prepare {
		if step.Replaced {
			out[step.Pod] = true
		}
	}
	return out
}

// pick returns the subset of a new pod beside count active ones.
func (s *Spread) pick(count map[string]int32) string {
	if s.zonal() {
		return s.pickZone(count)
	}
	subset, _ := s.Rule.Pick(count)
	return subset
}

// place gives each pod that the plan creates its subset: the first with room beside the active pods of all revisions.
// The pods above replicas take the places of those that go for them, so that a rollout does not spill into later
// subsets.
func (p *planner) place() {
	if p.Spread == nil || len(p.plan.Create) == 0 {
		return
	}
	assigned, gone := p.placed(), p.gone()
	count, total := map[string]int32{}, int32(0)
	for _, pod := range p.Pods.Active {
		if !gone[pod] {
			total++
			count[assigned[pod]]++
		}
	}
	wanted := total
	for _, c := range p.plan.Create {
		wanted += min(c.Count, workload.CreatesPerPass)
	}
	var next []*corev1.Pod
	if wanted > p.Limits.Replicas {
		next = p.next()
	}
	left, above := workload.CreatesPerPass, p.Limits.Replicas
	for i := range p.plan.Create {
		c := &p.plan.Create[i]
		n := min(int(c.Count), left)
		left -= n
		chosen := p.Spread.Rule.Selects(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.Revision.Template.Labels}})
		for range n {
			for total++; above < total && len(next) > 0; above++ {
				count[assigned[next[0]]]--
				next = next[1:]
			}
			if chosen {
				subset := p.Spread.pick(count)
				count[subset]++
				c.Subsets = append(c.Subsets, subset)
			}
		}
	}
}

// next returns the pods that go when those that are created above replicas are available, the first in front: those
// that somebody named, those that a hook still holds, and those that the update has next. Pods that are made to help an
// update in place stay until its end; then those go that were updated last, and are not available yet.
func (p *planner) next() []*corev1.Pod {
	out := slices.Concat(p.specifiedDelete.all(), p.held)
	if !p.mayUpdate {
		return out
	}
	pods, done, kept := p.old.all(), p.new.all(), int(p.Limits.Partition)
	if p.sameRevision() {
		kept = min(kept, len(pods))
	}
	if len(pods) <= kept {
		pods, done, kept = done, pods, int(p.Limits.Replicas)-kept
	}
	if len(pods) <= kept {
		return out
	}
	strategy := order.Strategy{}
	if rolling := p.CloneSet.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		strategy = order.Strategy{Priority: rolling.PriorityStrategy, Scatter: rolling.ScatterStrategy}
	}
	// The spec was found to be valid; without an order of the user's the rest come as they are.
	if sorted, err := order.ForUpdate(pods, done, strategy); err == nil {
		pods = sorted
	}
	pods = pods[:len(pods)-max(0, kept)]
	if p.inPlace {
		slices.Reverse(pods)
	}
	return append(out, pods...)
}

// costs returns the deletion costs of the pods of a bucket by the spread as it is now: the annotations say what it was
// when the pods were made, and caps fall together with replicas. Nil means that the annotations hold.
func (p *planner) costs(b *bucket) func(*corev1.Pod) int64 {
	if p.Spread == nil {
		return nil
	}
	if p.Spread.zonal() {
		return p.zoneCosts(b)
	}
	assigned, gone := p.placed(), p.gone()
	placements := spread.Placements{Pods: map[string][]*corev1.Pod{}, Others: map[string]int32{}}
	in := map[*corev1.Pod]bool{}
	for _, pod := range b.all() {
		if subset, ok := assigned[pod]; ok {
			in[pod] = true
			placements.Pods[subset] = append(placements.Pods[subset], pod)
		}
	}
	for pod, subset := range assigned {
		if !in[pod] && !gone[pod] {
			placements.Others[subset]++
		}
	}
	costs := p.Spread.Rule.Costs(placements)
	return func(pod *corev1.Pod) int64 {
		if !in[pod] {
			return order.DeletionCost(pod)
		}
		return int64(costs[pod.UID])
	}
}

// toCreate returns the revision of each pod that this pass creates, in the order of the plan, with the template that a
// pod of its subset has.
func toCreate(plan []Creation, s *Spread) []workload.Revision {
	type kind struct{ hash, subset string }
	var revisions []workload.Revision
	templates := map[kind]*corev1.PodTemplateSpec{}
	for _, c := range plan {
		for i := range min(int(c.Count), workload.CreatesPerPass-len(revisions)) {
			revision := c.Revision
			if i < len(c.Subsets) {
				of := kind{revision.Hash, c.Subsets[i]}
				if templates[of] == nil {
					templates[of] = s.stamp(revision.Template, of.subset)
				}
				revision.Template = templates[of]
			}
			revisions = append(revisions, revision)
		}
	}
	return revisions
}

// stamp returns the template as pods of the subset have it. Where the patch of the subset cannot be merged into it, or
// would take the pods from the CloneSet, they start in no subset; the controller of WorkloadSpreads tells of it.
func (s *Spread) stamp(template *corev1.PodTemplateSpec, subset string) *corev1.PodTemplateSpec {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	if s.zonal() {
		stampZone(pod, subset)
		return &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	}
	if err := spread.Stamp(pod, s.Object, subset, s.Selector); err != nil {
		return template
	}
	return &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
}
