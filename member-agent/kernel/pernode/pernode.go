package pernode

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Unlimited is a limit that nothing reaches.
const Unlimited = math.MaxInt32

// Node is a node of the cluster.
type Node struct {
	Name string
	// ShouldRun reports whether the node should run a pod, and MayStay whether one that runs already may stay.
	ShouldRun, MayStay bool
	// Selected reports whether the node may be updated. Without a selector all nodes are.
	Selected bool
	// Lost reports whether nobody waits for the node.
	Lost bool
}

// Pod is a pod of the workload.
type Pod struct {
	Name, Node string
	Created    time.Time
	// Updated reports whether the pod has the new revision.
	Updated bool
	// Ready and Available report whether the pod is ready, and for long enough to be available.
	Ready, Available bool
	// InPlace reports whether the new revision can be made of the running pod.
	InPlace bool
	// Terminating reports whether the pod has been deleted already, and Leaving whether a hook holds it before that.
	Terminating, Leaving bool
	// Ended reports whether the pod has failed or completed, and RetryIn how long its replacement still waits.
	Ended   bool
	RetryIn time.Duration
}

// Limits bound what one decision may do.
type Limits struct {
	// Updated is how many nodes may have the new revision.
	Updated int
	// Unavailable and Surge are how many nodes may be unavailable, and may have a new pod beside an old one. If both are 0
	// only nodes that are unavailable already are updated.
	Unavailable, Surge int
	// Burst is how many pods may be created, and how many deleted, by one decision.
	Burst int
	// Paused stops updates, and Manual leaves them to users who delete pods.
	Paused, Manual bool
	// OnlyUpdated creates no pods of the previous revision.
	OnlyUpdated bool
}

// Facts are what a decision depends on.
type Facts struct {
	Nodes  []Node
	Pods   []Pod
	Limits Limits
	// HasPrevious reports whether pods of the previous revision can be created.
	HasPrevious bool
}

// Cause says why a pod is deleted, or why a node is not updated.
type Cause string

// The causes.
const (
	NodeGone     Cause = "NodeGone"
	DoesNotFit   Cause = "DoesNotFit"
	Ended        Cause = "Ended"
	Duplicate    Cause = "Duplicate"
	Outdated     Cause = "Outdated"
	Leaving      Cause = "Leaving"
	NodeLost     Cause = "NodeLost"
	NotSelected  Cause = "NotSelected"
	Partition    Cause = "Partition"
	Paused       Cause = "Paused"
	OnDelete     Cause = "OnDelete"
	NoBudget     Cause = "NoBudget"
	NotCreatable Cause = "NotCreatable"
	Burst        Cause = "Burst"
)

// Creation is a pod to create.
type Creation struct {
	Node string
	// Updated reports whether the pod gets the new revision rather than the previous one.
	Updated bool
}

// Deletion is a pod to delete.
type Deletion struct {
	Pod   string
	Cause Cause
}

// Counts are numbers of nodes before the decision is carried out.
type Counts struct {
	// Desired nodes should run the pod. Of these Current have one, Ready and Available have one that is ready or
	// available, Updated have one of the new revision, and UpdatedAvailable have one of it that is available.
	Desired, Current, Ready, Available, Updated, UpdatedAvailable int
	// Updatable nodes are desired, and either have the new revision or may get it, if limits.Updated allows it.
	Updatable int
	// Surging nodes are desired, not lost, and have a new pod beside an available old one.
	Surging int
	// LostUnavailable nodes are desired, lost and without an available pod, though they may get one. LostOutdated nodes
	// are lost and Updatable, and lack the new revision.
	LostUnavailable, LostOutdated int
	// Misscheduled nodes run the pod and should not.
	Misscheduled int
}

// Plan is a decision.
type Plan struct {
	Create []Creation
	Delete []Deletion
	// InPlace are pods to update in place.
	InPlace []string
	Counts  Counts
	// Held counts the nodes that do not get a pod or the new revision now, by the cause.
	Held map[Cause]int
	// RetryIn is how long until a pod that has ended is replaced, 0 if none waits.
	RetryIn time.Duration
}

// Desired returns how many nodes should run the pod, on which limits may depend.
func Desired(nodes []Node, pods []Pod) int {
	on := make(map[string]bool, len(pods))
	for i := range pods {
		on[pods[i].Node] = true
	}
	n := 0
	for i := range nodes {
		if nodes[i].ShouldRun || nodes[i].MayStay && on[nodes[i].Name] {
			n++
		}
	}
	return n
}

// place is a node with its pods.
type place struct {
	Node
	// old and new are the pods that run, the oldest of each revision.
	old, new *Pod
	// occupied reports whether a pod is left that is going away.
	occupied bool
}

// desired reports whether the node should have a pod.
func (p *place) desired() bool {
	return p.ShouldRun || p.MayStay && (p.old != nil || p.new != nil || p.occupied)
}

// available reports whether the node has an available pod.
func (p *place) available() bool {
	return p.old != nil && p.old.Available || p.new != nil && p.new.Available
}

// surging reports whether the node has a new pod beside an available old one. Lost nodes do not count.
func (p *place) surging() bool {
	return !p.Lost && p.new != nil && p.old != nil && p.old.Available
}

// decision is the draft of a plan.
type decision struct {
	Plan
	limits      Limits
	hasPrevious bool
	places      []*place // in descending order of names
	// unavailable and surge are how many nodes are unavailable, and have a new pod beside an available old one, after what
	// was decided so far. mayUpdate is how many more nodes may get the new revision.
	unavailable, surge, mayUpdate int
}

// Decide returns what to do. It depends on nothing but the facts, in whatever order they are.
func Decide(f Facts) Plan {
	d := &decision{Plan: Plan{Held: map[Cause]int{}}, limits: f.Limits, hasPrevious: f.HasPrevious}
	d.gather(f)
	d.count()
	d.create()
	d.finishSurge()
	d.update()
	d.truncate()
	return d.Plan
}

// gather puts pods to their nodes, and deletes those that do not belong there.
func (d *decision) gather(f Facts) {
	byNode := make(map[string]*place, len(f.Nodes))
	for _, n := range f.Nodes {
		p := &place{Node: n}
		byNode[n.Name] = p
		d.places = append(d.places, p)
	}
	slices.SortFunc(d.places, func(a, b *place) int { return strings.Compare(b.Name, a.Name) })
	pods := slices.Clone(f.Pods)
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(strings.Compare(b.Node, a.Node), unavailableLast(a, b), a.Created.Compare(b.Created),
			strings.Compare(a.Name, b.Name))
	})
	for i := range pods {
		pod := &pods[i]
		at := byNode[pod.Node]
		if cause := d.misplaced(at, pod); cause != "" {
			d.Delete = append(d.Delete, Deletion{pod.Name, cause})
		}
	}
}

// misplaced puts a pod to its node, and returns why it is deleted, "" if it is not.
func (d *decision) misplaced(at *place, pod *Pod) Cause {
	switch {
	case pod.Terminating:
		if at != nil {
			at.occupied = true
		}
		return ""
	case at == nil:
		return NodeGone
	case !at.MayStay && !at.ShouldRun:
		if !pod.Ended {
			d.Counts.Misscheduled++
		}
		return DoesNotFit
	case pod.Leaving:
		at.occupied = true
		return Leaving
	case pod.Ended:
		at.occupied = true
		return d.retry(pod)
	}
	running := &at.old
	if pod.Updated {
		running = &at.new
	}
	if *running != nil {
		return Duplicate
	}
	*running = pod
	return ""
}

// retry returns why a pod that has ended is deleted, "" if that waits.
func (d *decision) retry(pod *Pod) Cause {
	if pod.RetryIn <= 0 {
		return Ended
	}
	if d.RetryIn == 0 || pod.RetryIn < d.RetryIn {
		d.RetryIn = pod.RetryIn
	}
	return ""
}

// unavailableLast orders available pods before others.
func unavailableLast(a, b Pod) int {
	switch {
	case a.Available == b.Available:
		return 0
	case a.Available:
		return -1
	}
	return 1
}

// count counts the nodes.
func (d *decision) count() {
	d.mayUpdate = d.limits.Updated
	for _, p := range d.places {
		if p.new != nil {
			d.mayUpdate--
		}
		if !p.desired() {
			continue
		}
		d.tally(p)
		if !p.Lost && !p.available() {
			d.unavailable++
		}
	}
	d.surge = d.Counts.Surging
}

// tally counts a desired node.
func (d *decision) tally(p *place) {
	updatable := p.new != nil || p.Selected && d.replaceable(p)
	for _, c := range []struct {
		count *int
		holds bool
	}{
		{&d.Counts.Desired, true},
		{&d.Counts.Current, p.old != nil || p.new != nil},
		{&d.Counts.Ready, p.old != nil && p.old.Ready || p.new != nil && p.new.Ready},
		{&d.Counts.Available, p.available()},
		{&d.Counts.Updated, p.new != nil},
		{&d.Counts.UpdatedAvailable, p.new != nil && p.new.Available},
		{&d.Counts.Updatable, updatable},
		{&d.Counts.Surging, p.surging()},
		{&d.Counts.LostUnavailable, p.Lost && !p.available()},
		{&d.Counts.LostOutdated, p.Lost && updatable && p.new == nil},
	} {
		if c.holds {
			*c.count++
		}
	}
}

// create creates pods on nodes without one. A node whose pod is going away keeps its part of the new revision.
func (d *decision) create() {
	for _, p := range d.places {
		if !p.ShouldRun || p.old != nil || p.new != nil {
			continue
		}
		creation := Creation{p.Name, d.limits.Manual}
		if !d.limits.Manual && !d.limits.Paused && p.Selected && d.mayUpdate > 0 {
			d.mayUpdate--
			creation.Updated = true
		}
		switch {
		case p.occupied:
		case !creation.Updated && d.limits.OnlyUpdated:
			d.withhold(p)
		default:
			creation.Updated = creation.Updated || !d.hasPrevious
			d.Create = append(d.Create, creation)
		}
	}
}

// withhold leaves a node without a pod: that it has none is by choice.
func (d *decision) withhold(p *place) {
	d.Held[NotCreatable]++
	if p.Lost {
		d.Counts.LostUnavailable--
	} else {
		d.unavailable--
	}
}

// finishSurge deletes the old one of two pods on a node.
func (d *decision) finishSurge() {
	for _, p := range d.places {
		if p.old == nil || p.new == nil {
			continue
		}
		switch {
		case !p.old.Available || p.new.Available:
		case d.limits.Surge <= 0 && !d.limits.Paused && !p.Lost && d.unavailable < d.limits.Unavailable:
			d.unavailable++ // surge was turned off, and the new pod may wait for what the old one holds
		default:
			continue
		}
		d.Delete = append(d.Delete, Deletion{p.old.Name, Outdated})
	}
}

// update updates nodes that have an old pod alone.
func (d *decision) update() {
	for _, p := range d.places {
		if p.old == nil || p.new != nil {
			continue
		}
		if cause := d.held(p); cause != "" {
			d.Held[cause]++
			continue
		}
		d.mayUpdate--
		switch {
		case d.limits.Surge > 0:
			d.Create = append(d.Create, Creation{p.Name, true})
			if p.old.Available {
				d.surge++
			}
			continue
		case p.old.InPlace:
			d.InPlace = append(d.InPlace, p.old.Name)
		default:
			d.Delete = append(d.Delete, Deletion{p.old.Name, Outdated})
		}
		if p.old.Available {
			d.unavailable++
		}
	}
}

// replaceable reports whether the old pod of a node can get the new revision. Where none would be created, one that may
// stay is never replaced: the node would lose it.
func (d *decision) replaceable(p *place) bool {
	return p.ShouldRun || p.old != nil && p.old.InPlace && d.limits.Surge <= 0
}

// held returns why a node with an old pod is not updated now, "" if it is.
func (d *decision) held(p *place) Cause {
	switch {
	case d.limits.Manual:
		return OnDelete
	case d.limits.Paused:
		return Paused
	case p.Lost:
		return NodeLost
	case !p.Selected:
		return NotSelected
	case !d.replaceable(p):
		return DoesNotFit
	case d.mayUpdate <= 0:
		return Partition
	case d.limits.Surge > 0 && (p.occupied || p.old.Available && d.surge >= d.limits.Surge):
		return NoBudget
	case d.limits.Surge <= 0 && p.old.Available && d.unavailable >= d.limits.Unavailable:
		return NoBudget
	}
	return ""
}

// truncate holds what exceeds the burst. Pods that a hook holds already are no new deletions.
func (d *decision) truncate() {
	burst := max(0, d.limits.Burst)
	if over := len(d.Create) - burst; over > 0 {
		d.Create = d.Create[:burst]
		d.Held[Burst] += over
	}
	kept, deleted := d.Delete[:0], 0
	for _, del := range d.Delete {
		if del.Cause != Leaving {
			if deleted == burst {
				d.Held[Burst]++
				continue
			}
			deleted++
		}
		kept = append(kept, del)
	}
	d.Delete = kept
}
