package daemonset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/pernode"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Facts are what a plan is made of.
type Facts struct {
	Set *v1beta1.DaemonSet
	workload.Revisions
	Pods podset.Set
	// Nodes are those of the cluster; nil if nothing says which of them fit.
	Nodes []pernode.Node
	// Fitness counts the nodes by how they fit.
	Fitness [pernode.Unmatched + 1]int
	// Canary selects the nodes that may be updated; nil selects all.
	Canary labels.Selector
	// Budget is what a hub grants. Once it has expired nothing is disrupted until the hub is back.
	Budget workload.Budget
	// RetryIn returns how long a node still waits for the replacement of a pod that failed.
	RetryIn func(node string) time.Duration
	// NoResize: the API server cannot change the cpu and memory of running pods.
	NoResize bool
	// Daemon reports whether a node daemon is ready on the node; nil is not known.
	Daemon func(node string) bool
	Now    time.Time
}

// Creation is a pod to create.
type Creation struct {
	Node     string
	Revision workload.Revision
}

// Plan is what one pass does, and the facts of its status.
type Plan struct {
	workload.Actions
	Create []Creation
	// Failed are the nodes whose failed pod is deleted.
	Failed []string
	Counts pernode.Counts
	// Expected is how many nodes are to have the update revision, in this state of the rollout.
	Expected int
	// Held counts the nodes that do not get a pod or the update revision now, by the cause.
	Held map[pernode.Cause]int
}

// complete reports whether the nodes have what they are to have now.
func (p *Plan) complete() bool {
	c := p.Counts
	return c.Current == p.wanted() && c.Available >= p.wanted() && c.Updated >= p.Expected
}

// wanted is how many nodes are to have a pod now: partitionedScaling leaves some without.
func (p *Plan) wanted() int { return p.Counts.Desired - p.Held[pernode.NotCreatable] }

// planner holds a plan while it is made.
type planner struct {
	Facts
	plan  Plan
	moves workload.Moves
	// on are the pods on nodes; named has them by name.
	on    []pernode.Pod
	named map[string]*corev1.Pod
}

// Compute returns the plan for the facts. It changes nothing of them.
func Compute(f Facts) (Plan, error) {
	p := &planner{Facts: f, moves: workload.Moves{Revisions: f.Revisions, NoResize: f.NoResize, Daemon: f.Daemon}}
	if err := p.observe(); err != nil {
		return Plan{}, err
	}
	decided, err := p.decide()
	if err != nil {
		return Plan{}, err
	}
	p.plan.Release = f.Pods.NoLongerMatching
	p.create(decided.Create)
	taken := make(map[string]bool, len(decided.Delete)+len(decided.InPlace))
	for _, deletion := range decided.Delete {
		taken[deletion.Pod] = true
		p.remove(deletion)
	}
	for _, name := range decided.InPlace {
		taken[name] = true
		if err := p.change(p.named[name]); err != nil {
			return Plan{}, err
		}
	}
	for _, on := range p.on {
		if !on.Available && !on.Ended && !on.Terminating && !on.Leaving && !taken[on.Name] {
			p.plan.Stay(p.named[on.Name], hooksOf(f.Set), f.Now)
		}
	}
	return p.plan, nil
}

// create plans new pods.
func (p *planner) create(list []pernode.Creation) {
	for _, c := range list[:min(len(list), workload.CreatesPerPass)] {
		creation := Creation{Node: c.Node, Revision: p.Current}
		if c.Updated {
			creation.Revision = p.Update
		}
		p.plan.Create = append(p.plan.Create, creation)
	}
}

// remove plans the removal of a pod.
func (p *planner) remove(deletion pernode.Deletion) {
	pod := p.named[deletion.Pod]
	if p.plan.Leave(pod, hooksOf(p.Set), string(deletion.Cause)) && deletion.Cause == pernode.Ended {
		p.plan.Failed = append(p.plan.Failed, podset.NodeOf(pod))
	}
}

// observe returns the facts of the status without a plan.
func observe(f Facts) Plan {
	p := &planner{Facts: f}
	// Nothing is compared, so nothing fails; a strategy that cannot be read permits nothing.
	_ = p.observe()
	_, _ = p.decide()
	p.plan.Actions = workload.Actions{Wake: p.plan.Wake}
	return p.plan
}

func (f *Facts) onDelete() bool {
	return f.Set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
}

func (f *Facts) paused() bool { return f.Budget.Paused(ptr.Deref(rollingOf(f.Set).Paused, false)) }

// observe translates the pods for package pernode. An adopted pod that names no node is left alone until it has one.
func (p *planner) observe() error {
	p.named = make(map[string]*corev1.Pod, len(p.Pods.Active))
	for i, list := range [][]*corev1.Pod{p.Pods.Active, p.Pods.Ended, p.Pods.Terminating} {
		for _, pod := range list {
			node := podset.NodeOf(pod)
			if node == "" {
				continue
			}
			on := pernode.Pod{Name: pod.Name, Node: node, Created: pod.CreationTimestamp.Time,
				Updated: podset.HasRevision(pod, p.Update.Hash), Ended: i == 1, Terminating: i == 2,
				Leaving: lifecycle.State(pod) == v1beta1.LifecyclePreparingDelete}
			switch i {
			case 0:
				if err := p.serving(pod, &on); err != nil {
					return err
				}
			case 1:
				on.RetryIn = p.RetryIn(node)
			}
			p.on, p.named[pod.Name] = append(p.on, on), pod
		}
	}
	return nil
}

// serving adds what is known of an active pod: whether it serves, and whether it can be updated in place.
func (p *planner) serving(pod *corev1.Pod, on *pernode.Pod) (err error) {
	available, wait := podstate.Available(pod, p.Set.Spec.MinReadySeconds, p.Now)
	p.plan.Sooner(wait)
	progress := p.plan.Observe(pod, p.Now)
	on.Ready = podstate.Ready(pod)
	on.Available = available && lifecycle.Available(pod) && progress == inplace.Settled
	if on.Updated || p.moves.Stored == nil ||
		rollingOf(p.Set).Type != v1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType || !inplace.HasGate(pod) {
		return nil
	}
	move, err := p.moves.Of(pod, p.Update)
	on.InPlace = move.Refusal == ""
	return err
}

// decide asks what to do with pods and nodes.
func (p *planner) decide() (pernode.Plan, error) {
	limits, err := p.limits(int32(pernode.Desired(p.Nodes, p.on)))
	decided := pernode.Decide(pernode.Facts{Nodes: p.Nodes, Pods: p.on, Limits: limits,
		HasPrevious: p.Current.Name != p.Update.Name})
	p.plan.Sooner(decided.RetryIn)
	p.plan.Counts, p.plan.Held = decided.Counts, decided.Held
	p.plan.Expected = min(limits.Updated, decided.Counts.Updatable)
	if limits.Manual {
		p.plan.Expected = decided.Counts.Updated
	}
	return decided, err
}

// change plans the update of a pod in place. One whose containers are in the middle of an earlier change waits for it.
func (p *planner) change(pod *corev1.Pod) error {
	if progress, _ := inplace.Observe(pod, p.Now); progress.Busy() {
		return nil
	}
	move, err := p.moves.Of(pod, p.Update)
	if err != nil {
		return err
	}
	// The label of the revision is its hash.
	to := inplace.Revision{Name: p.Update.Hash, Hash: p.Update.Hash}
	p.plan.Move(pod, hooksOf(p.Set), move.Change, to)
	return nil
}
