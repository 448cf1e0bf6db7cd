package statefulset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/delta"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// Facts are what a plan is made of.
type Facts struct {
	Set    *v1beta1.StatefulSet
	Limits budget.Limits
	workload.Revisions
	// Pods are those whose names have an ordinal. Others of ours are NoLongerMatching.
	Pods podset.Set
	// Ordinals are those that the StatefulSet is to have.
	Ordinals ordinals.Set
	// Spread says in which subsets new pods start; nil without one.
	Spread *Spread
	// Claim returns the claim with a name, or nil.
	Claim func(name string) *corev1.PersistentVolumeClaim
	// Budget is what a hub grants. Once it has expired nothing is disrupted until the hub is back.
	Budget workload.Budget
	// NoResize: the API server cannot change the cpu and memory of running pods.
	NoResize bool
	// Daemon reports whether a node daemon is ready on the node; nil is not known.
	Daemon func(node string) bool
	// NotServed: the applied manifest has spec.flotilla, and the definition of the kind does not.
	NotServed bool
	// Watching is since when this agent watches updates; the time before it does not count for a soak.
	Watching time.Time
	Now      time.Time
}

// Creation is a pod to create.
type Creation struct {
	Ordinal int32
	// Revision has the template with what the pod's subset adds to it.
	Revision workload.Revision
}

// Plan is what one pass does, and the facts of its status.
type Plan struct {
	workload.Actions
	Create []Creation
	Claims volumes.Plan
	// Grow are claims that get more storage before their pod is updated.
	Grow []volumes.Growth
	// Blocked says which claims keep pods from being created.
	Blocked error
	// Held says that pods are not created because the hub may have moved their ordinals to another member.
	Held bool

	Counters podstate.Counters
	// Current is how many pods have the current revision.
	Current int32
	// ExpectedUpdated is how many pods are to have the update revision, whatever step the update is at.
	ExpectedUpdated int32
	// Progress is how far the steps of the update are, nil without steps; StepWaits is what the step in progress waits
	// for, "" if nothing.
	Progress  *v1beta1.UpdateProgress
	StepWaits string
	// Stalled says why only a person can go on; nil otherwise.
	Stalled *conditions.Cause
}

// slot is an ordinal with its pod.
type slot struct {
	ordinal int32
	// position is how many ordinals of the StatefulSet are lower.
	position int
	// pod is nil if there is none.
	pod         *corev1.Pod
	terminating bool
	ended       bool
	updated     bool
	// available pods are ready for minReadySeconds, and no hook holds them. serving ones are, besides, in no update in
	// place, and none of their claims is growing.
	available, serving bool
	progress           inplace.Progress
	growing            bool
	// grow are the claims that the pod's update has still to resize.
	grow []volumes.Growth
	// taken pods are deleted or updated in this pass, or a hook keeps them from that.
	taken bool
}

// active reports whether the slot has a pod that has neither ended nor is being deleted.
func (s *slot) active() bool { return s.pod != nil && !s.terminating && !s.ended }

// planner holds a plan while it is made.
type planner struct {
	Facts
	plan  Plan
	moves workload.Moves
	// slots are the ordinals of the StatefulSet in ascending order; of those without a pod no more than one pass creates.
	slots []*slot
	// excess are the pods above or between these ordinals, the highest first.
	excess []*slot
	// unavailable is how many ordinals have no serving pod, absent how many of them have no pod.
	unavailable, absent int32
	// spare is how many serving pods may be disrupted in this pass.
	spare int32
	// old is how many active pods do not have the update revision.
	old int32
	// partition is how many pods keep the current revision, for the spec and for the step in progress. stopped: no pod is
	// updated.
	partition int32
	stopped   bool
	// stamped are the templates of new pods by revision and subset.
	stamped map[stampKey]*corev1.PodTemplateSpec
}

// Compute returns the plan for the facts. It changes nothing of them.
func Compute(f Facts) (Plan, error) {
	p := &planner{Facts: f, moves: workload.Moves{Revisions: f.Revisions, NoResize: f.NoResize, Daemon: f.Daemon},
		stamped: map[stampKey]*corev1.PodTemplateSpec{}}
	p.plan.Release = f.Pods.NoLongerMatching
	p.sort()
	p.partition = f.Limits.Partition
	p.step()
	if !f.Budget.Expired {
		p.spare = max(0, p.maxUnavailable()-p.unavailable)
	}
	p.deleteSpecified()
	p.scale()
	if err := p.update(); err != nil {
		return Plan{}, err
	}
	for _, s := range slices.Concat(p.slots, p.excess) {
		if s.active() && !s.serving && !s.taken {
			p.plan.Stay(s.pod, p.hooks(), p.Now)
		}
	}
	p.planClaims()
	p.plan.ExpectedUpdated = p.expectedUpdated()
	return p.plan, nil
}

// maxUnavailable returns how many ordinals may be without a serving pod. A member that waits for its turn updates
// nothing, and still replaces the pods that a person names, one by one.
func (p *planner) maxUnavailable() int32 {
	if amounts := p.Budget.Amounts; amounts != nil && amounts.Paused {
		return max(p.Limits.MaxUnavailable, 1)
	}
	return p.Limits.MaxUnavailable
}

// observe counts the pods, without a plan.
func observe(f Facts) Plan {
	p := &planner{Facts: f}
	p.sort()
	p.plan.Actions = workload.Actions{Wake: p.plan.Wake}
	p.plan.Progress = f.Set.Status.UpdateProgress
	p.plan.ExpectedUpdated = p.expectedUpdated()
	return p.plan
}

// inRange reports whether the StatefulSet is to have the pod's ordinal.
func (f *Facts) inRange(pod *corev1.Pod) bool {
	ordinal, ok := podname.Ordinal(f.Set.Name, pod.Name)
	if ok {
		_, ok = f.Ordinals.Position(ordinal)
	}
	return ok
}

// sort puts every pod in its slot, and counts it.
func (p *planner) sort() {
	byOrdinal := map[int32]*slot{}
	in := int32(0)
	for i, list := range [][]*corev1.Pod{p.Pods.Active, p.Pods.Ended, p.Pods.Terminating} {
		for _, pod := range list {
			s := &slot{pod: pod, ended: i == 1, terminating: i == 2}
			s.ordinal, _ = podname.Ordinal(p.Set.Name, pod.Name)
			if i == 0 {
				p.observe(s)
			}
			position, ok := p.Ordinals.Position(s.ordinal)
			if !ok {
				p.excess = append(p.excess, s)
				continue
			}
			in++
			s.position, byOrdinal[s.ordinal] = position, s
			p.slots = append(p.slots, s)
			if !s.serving {
				p.unavailable++
			}
			if s.active() && !s.updated {
				p.old++
			}
		}
	}
	p.absent = int32(p.Ordinals.Len()) - in
	p.unavailable += p.absent
	missing := min(int(p.absent), workload.CreatesPerPass)
	for position, ordinal := range p.Ordinals.All() {
		if missing == 0 {
			break
		}
		if byOrdinal[ordinal] == nil {
			p.slots = append(p.slots, &slot{ordinal: ordinal, position: position})
			missing--
		}
	}
	slices.SortFunc(p.slots, func(a, b *slot) int { return cmp.Compare(a.ordinal, b.ordinal) })
	slices.SortFunc(p.excess, func(a, b *slot) int { return cmp.Compare(b.ordinal, a.ordinal) })
}

// observe counts an active pod.
func (p *planner) observe(s *slot) {
	available, wait := podstate.Available(s.pod, ptr.Deref(p.rolling().MinReadySeconds, 0), p.Now)
	p.plan.Sooner(wait)
	s.progress = p.plan.Observe(s.pod, p.Now)
	s.available = available && lifecycle.Available(s.pod)
	if p.resizes() {
		set, id := claimSet(p.Set), strconv.Itoa(int(s.ordinal))
		s.growing, s.grow = set.Growing(id, p.Claim), set.Grow(id, p.Claim)
	}
	s.serving = s.available && s.progress == inplace.Settled && !s.growing
	s.updated = podset.HasRevision(s.pod, p.Update.Hash)
	p.plan.Counters.Add(s.updated, podstate.Ready(s.pod), s.available)
	if podset.HasRevision(s.pod, p.Current.Hash) {
		p.plan.Current++
	}
}

// leave plans the removal of a slot's pod.
func (p *planner) leave(s *slot, reason string) {
	s.taken = true
	p.plan.Leave(s.pod, p.hooks(), reason)
}

// spend reports whether the pod may be disrupted: one that serves needs budget.
func (p *planner) spend(s *slot) bool {
	if !s.serving {
		return true
	}
	if p.spare == 0 {
		return false
	}
	p.spare--
	return true
}

// deleteSpecified deletes pods that a label names, the highest ordinal first, whatever the partition.
func (p *planner) deleteSpecified() {
	for _, s := range slices.Backward(p.slots) {
		if s.active() && podset.SpecifiedDelete(s.pod) && !p.Budget.Expired {
			if s.taken = true; p.spend(s) {
				p.leave(s, delta.SpecifiedDelete)
				if !s.updated {
					p.old--
				}
			}
		}
	}
}

// scale creates missing pods, replaces ended ones, and deletes those that are out of range.
func (p *planner) scale() {
	if !p.inOrder() {
		p.scaleInParallel()
		return
	}
	for _, s := range p.slots {
		switch {
		case s.pod == nil:
			p.create(s)
		case s.ended:
			p.plan.End(s.pod, p.Now)
		case s.available && !s.terminating:
			continue
		}
		return // the others wait for this one
	}
	for _, s := range p.excess {
		p.scaleIn(s)
		return // the next one when this one is gone
	}
}

func (p *planner) scaleInParallel() {
	// What is down already counts against the limit, in whatever order.
	room := max(0, p.Limits.ScaleMaxUnavailable-(p.unavailable-p.absent))
	for _, s := range p.slots {
		switch {
		case s.ended:
			p.plan.End(s.pod, p.Now)
		case s.pod == nil && room > 0 && p.create(s):
			room--
		}
	}
	for _, s := range p.excess {
		p.scaleIn(s)
	}
}

// scaleIn deletes a pod that is out of range. While the hub is silent one that serves stays as long as others do not.
func (p *planner) scaleIn(s *slot) {
	switch {
	case s.ended:
		p.plan.Delete = append(p.plan.Delete, workload.Removal{Pod: s.pod, Reason: delta.ScaleIn})
	case s.active() && !(p.Budget.Expired && s.serving && p.unavailable > 0):
		p.leave(s, delta.ScaleIn)
	}
}

// unconfirmed reports whether the hub may have moved the ordinals to another member. It does so only if no pod of the
// StatefulSet runs in this one, so a pod that has been Ready all the time disproves it.
func (f *Facts) unconfirmed() bool {
	since := f.Budget.UnconfirmedSince
	return !since.IsZero() && !podstate.RanThroughout(f.Pods.Active, since, f.Now)
}

// create plans a pod, unless another member may run its ordinal, or a claim of the ordinal is about to go.
func (p *planner) create(s *slot) bool {
	if p.unconfirmed() {
		p.plan.Held = true
		return false
	}
	id := strconv.Itoa(int(s.ordinal))
	name := podname.New(p.Set.Name, s.ordinal)
	if claim := claimSet(p.Set).Goes(id, name, p.Claim); claim != nil {
		p.plan.Blocked = errors.Join(p.plan.Blocked, fmt.Errorf(
			"claim %s is to be deleted; pod %s is created when it is gone", claim.Name, name))
		return false
	}
	revision := p.Update
	kept := int(p.partition)
	switch unordered := p.rolling().UnorderedUpdate != nil; {
	case p.onDelete(), unordered && int(p.old) >= kept, !unordered && s.position >= kept:
	default:
		revision = p.Current
		if revision.Name != p.Update.Name {
			p.old++
		}
	}
	p.plan.Create = append(p.plan.Create, Creation{Ordinal: s.ordinal, Revision: p.stamp(revision, s.position)})
	return true
}

// update brings pods to the update revision: those first that do not serve, and need no budget, so that a broken pod
// never keeps itself from being repaired.
func (p *planner) update() error {
	if p.stopped || p.onDelete() || p.Budget.Paused(p.rolling().Paused) || p.Budget.Expired {
		return nil
	}
	targets, err := p.targets()
	if err != nil {
		return err
	}
	slices.SortStableFunc(targets, func(a, b *slot) int { return cmp.Compare(rank(a), rank(b)) })
	for _, s := range targets {
		if p.inOrder() && p.changing() {
			return nil
		}
		if s.progress.Busy() || s.growing {
			continue
		}
		if !p.spend(s) {
			return nil
		}
		if err := p.move(s); err != nil {
			return err
		}
	}
	return nil
}

// rank is 0 for a pod that does not serve, else 1.
func rank(s *slot) int {
	if s.serving {
		return 1
	}
	return 0
}

// changing reports whether a pod is being created, deleted or updated.
func (p *planner) changing() bool {
	changes := func(s *slot) bool { return s.terminating || s.progress.Busy() || s.growing || s.taken }
	return len(p.plan.Create)+len(p.plan.Delete) > 0 || slices.ContainsFunc(p.slots, changes) ||
		slices.ContainsFunc(p.excess, changes)
}

// targets returns the active pods that are to be updated, in the order of the update. Updated pods whose claims are
// still to be resized come last.
func (p *planner) targets() ([]*slot, error) {
	var out, grow []*slot
	unordered := p.rolling().UnorderedUpdate
	for _, s := range slices.Backward(p.slots) {
		switch {
		case !s.active() || s.taken || unordered == nil && s.position < int(p.partition):
		case !s.updated:
			out = append(out, s)
		case len(s.grow) > 0:
			grow = append(grow, s)
		}
	}
	if unordered != nil {
		rules, err := order.Priority(unordered.PriorityStrategy)
		if err != nil {
			return nil, fmt.Errorf("updateStrategy.rollingUpdate.unorderedUpdate: %w", err)
		}
		ranks := make(map[*slot][]int64, len(out))
		for _, s := range out {
			for _, rule := range rules {
				ranks[s] = append(ranks[s], rule(s.pod))
			}
		}
		slices.SortStableFunc(out, func(a, b *slot) int { return slices.Compare(ranks[a], ranks[b]) })
		out = out[:min(len(out), max(0, int(p.old-p.partition)))]
	}
	return append(out, grow...), nil
}

// move plans how a pod comes to the update revision: after its claims, in place, or by its removal.
func (p *planner) move(s *slot) error {
	if len(s.grow) > 0 {
		s.taken = true
		p.plan.Grow = append(p.plan.Grow, s.grow...)
		return nil
	}
	policy := p.rolling().PodUpdatePolicy
	how := workload.Move{Refusal: "podUpdatePolicy"}
	if policy != v1beta1.ReCreatePodUpdatePolicy {
		var err error
		if how, err = p.moves.Of(s.pod, p.Update); err != nil {
			return err
		}
		if how.Refusal == "" && !inplace.HasGate(s.pod) {
			how.Refusal = "spec.readinessGates" // only pods that were adopted lack it
		}
	}
	switch {
	case how.Refusal == "":
		s.taken = true
		p.plan.Move(s.pod, p.hooks(), how.Change, p.Update.Revision)
	case policy == v1beta1.InPlaceOnlyPodUpdatePolicy:
		if s.serving {
			p.spare++ // it stays as it is
		}
		p.plan.Stalled = workload.InPlaceImpossible(how.Refusal)
		p.plan.Sooner(p.moves.Again())
	default:
		p.leave(s, delta.Move)
	}
	return nil
}

// planClaims plans what becomes of existing claims.
func (p *planner) planClaims() {
	leaving := make([]*corev1.Pod, 0, len(p.plan.Delete))
	for _, removal := range p.plan.Delete {
		leaving = append(leaving, removal.Pod)
	}
	p.plan.Claims = volumes.Compute(volumes.Facts{Set: claimSet(p.Set), Pods: p.Pods, InRange: p.inRange,
		Leaving: leaving, Named: p.Claim, Now: p.Now})
}

// expectedUpdated is how many updated pods are enough to be at rest.
func (p *planner) expectedUpdated() int32 {
	if p.onDelete() {
		return min(p.plan.Counters.Updated, p.Limits.Replicas)
	}
	kept := p.Limits.Partition
	if p.Update.Name == p.Current.Name {
		kept = min(kept, p.old)
	}
	return p.Limits.Replicas - kept
}
