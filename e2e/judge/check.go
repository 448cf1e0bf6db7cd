package judge

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// settling is how long before a write it may have been decided: a pass looks at the world, begins writes for 2 s, and
	// the client repeats one that was answered 429. What the world told later does not count against the pass. This and
	// the other times here are of a machine that runs: what it was measured to stand still comes on top.
	settling = 5 * time.Second
	// longestPass is how long before its request a write may have been decided: a pass begins writes for 2 s, and reads
	// the world before.
	longestPass = 2500 * time.Millisecond
	// ordering is how long it may take until events of one cluster are seen after later ones of another.
	ordering = time.Second
	// leaseEnd is how long after it was cut off a member may still disrupt: a lease of 40 s, 5 s until a CloneSet asks
	// again, and a pass.
	leaseEnd = 40*time.Second + settling + settling
)

// Report is what a checker found, and how much it looked at.
type Report struct {
	Violations                            []Violation
	Entries, Disruptions, Creations       int
	Foreign, Placements, UserChanges      int
	LargestDown, LargestAdded, Suspicions int32
	// Evictions are the pods that budgets let go, SidecarUpdates the pods whose sidecars got another image.
	Evictions, SidecarUpdates int
	// Restarts are the containers that were stopped for requests to restart them.
	Restarts int
}

// Checker goes through a log in the order of time. It is pure.
type Checker struct {
	Report
	// informed is [NewChecker]'s.
	informed  func(version uint64, by time.Time) bool
	deletions Deletions
	cells     map[types.UID]*checkedCell
	pods      map[types.UID]*checkedPod
	workloads map[string]*checkedWorkload // by workload
	budgets   map[types.UID]heldBudget
	injected  injected
	stops     map[stopKey]string
	stale     map[string]time.Time
	cut       map[string]time.Time
	members   map[string]Member
	// due are pods that become available by the passing of time.
	due        []duePod
	suspicions []suspicion
	// named are the existing pods whose names are to be unique, by name; twins those with the same name.
	named map[string]map[types.UID]string
	twins []twin
	trace []string
	// stalls are all stalls of the log.
	stalls Stalls
	// gaps are the times in which versions of cells and workloads were not seen.
	gaps map[gapKey]Stalls
}

type gapKey struct {
	cell     types.UID
	workload string
}

// checkedCell is a cell with what the checker knows of it.
type checkedCell struct {
	cluster string
	Cell
	specs []CellSpec // those in force, the oldest first
	// down are unavailable pods that are not our doing, up by pods above replicas that we did not add.
	down, up int32
	// losses are the pods that others made unavailable, or that they kept from becoming available.
	losses []loss
}

type checkedPod struct {
	Pod
	cluster   string
	available bool
	// since is when it became available, version the one with which it became ready.
	since   time.Time
	version uint64
}

// loss is a pod that is not available, and not by our doing.
type loss struct {
	pod     types.UID
	at      time.Time // when it was lost
	version uint64    // the one that says so
	due     time.Time // since when it would be available; zero for one that was
}

type duePod struct {
	at  time.Time
	uid types.UID
	// readySince tells whether the pod is still the one that was waited for.
	readySince time.Time
}

// Check returns what was wrong in a log, which is sorted (see [Ordered]).
func Check(log []Entry, deletions Deletions) Report {
	c := NewChecker(nil)
	c.stalls = StallsOf(log)
	c.gaps = gapsOf(log)
	c.Take(log, deletions)
	if n := len(log); n > 0 {
		c.passTo(log[n-1].At.Add(time.Hour))
		c.ripenSidecars(log[n-1].At.Add(time.Hour))
	}
	return c.Report
}

// NewChecker returns a checker for logs that come in parts. Where informed is not nil, it reports whether the
// controller that runs at a time has received everything up to a version by then; otherwise a controller counts as
// informed of what was observed so long ago that every pass knows it.
func NewChecker(informed func(version uint64, by time.Time) bool) *Checker {
	return &Checker{
		informed: informed, cells: map[types.UID]*checkedCell{}, pods: map[types.UID]*checkedPod{},
		workloads: map[string]*checkedWorkload{}, budgets: map[types.UID]heldBudget{},
		injected: injected{pods: map[types.UID]sidecarPod{}}, stops: map[stopKey]string{},
		named: map[string]map[types.UID]string{}, stale: map[string]time.Time{}, cut: map[string]time.Time{},
		members: map[string]Member{},
	}
}

// Take checks the next part of a log, which is sorted (see [Ordered]); deletions are all until then.
func (c *Checker) Take(log []Entry, deletions Deletions) {
	c.deletions = deletions
	for i := range log {
		c.passTo(log[i].At)
		c.take(&log[i])
		c.Entries++
	}
}

// StallsOf returns the stalls of a log.
func StallsOf(log []Entry) Stalls {
	var all []Stall
	for i := range log {
		if log[i].Stall != nil {
			all = append(all, *log[i].Stall)
		}
	}
	return Merge(all)
}

// gapsOf returns when versions of what were not observed.
func gapsOf(log []Entry) map[gapKey]Stalls {
	all := map[gapKey][]Stall{}
	for i := range log {
		if l := log[i].Gap; l != nil {
			key := gapKey{l.Cell, l.Workload}
			all[key] = append(all[key], Stall{From: l.From, To: log[i].At})
		}
	}
	out := map[gapKey]Stalls{}
	for key, times := range all {
		out[key] = Merge(times)
	}
	return out
}

// unseen reports whether versions of a cell or workload around a time were not observed.
func (c *Checker) unseen(key gapKey, at time.Time) bool {
	return slices.ContainsFunc(c.gaps[key], func(s Stall) bool {
		return !at.Before(c.stalls.before(s.From, ordering)) && !at.After(c.stalls.after(s.To, ordering))
	})
}

// passTo lets pods become available, and suspicions ripen, until the time.
func (c *Checker) passTo(now time.Time) {
	for len(c.due) > 0 && !c.due[0].at.After(now) {
		next := c.due[0]
		c.due = c.due[1:]
		c.ripen(next.at)
		pod := c.pods[next.uid]
		if pod == nil || !pod.Ready || !pod.Active || !pod.ReadySince.Equal(next.readySince) || pod.available {
			continue
		}
		pod.available, pod.since = true, next.at
		c.cameBack(pod)
		c.record(next.at, pod.cluster, "pod "+pod.Name+" available")
		c.settle(c.cells[pod.Owner])
		c.review(next.at)
	}
	c.ripen(now)
}

func (c *Checker) take(e *Entry) {
	switch {
	case e.Pod != nil:
		c.takePod(e)
		c.takeSidecar(e)
	case e.Cell != nil:
		c.takeCell(e)
	case e.Placement != nil:
		c.takePlacement(e)
	case e.Sidecars != nil:
		c.takeSidecars(e)
	case e.Budget != nil:
		c.takeBudget(e)
	case e.Stop != nil:
		c.takeStop(e)
	case e.Desired != nil:
		l := c.workload(e.Desired.Workload)
		if n := len(l.desired); n > 0 && l.desired[n-1].Generation >= e.Desired.Generation {
			break // its status changed
		}
		c.UserChanges++
		l.desired = append(l.desired, *e.Desired)
		c.record(e.At, e.Cluster, fmt.Sprintf("the user asks: %s generation %d, replicas %d", e.Desired.Workload,
			e.Desired.Generation, e.Desired.Replicas))
	case e.Member != nil:
		if *e.Member != c.members[e.Cluster] {
			c.record(e.At, e.Cluster, fmt.Sprintf("the hub takes it for unreachable: %t, fenced: %t",
				e.Member.Unreachable, e.Member.Fenced))
		}
		c.members[e.Cluster] = *e.Member
	case e.Link != nil:
		c.takeLink(e)
	case e.Stall != nil:
		c.record(e.At, e.Cluster, fmt.Sprintf("%s for %s", e.Note, e.Stall.To.Sub(e.Stall.From).Round(time.Millisecond)))
		return
	case !e.StaleUntil.IsZero():
		c.stale[e.Cluster] = c.stalls.after(e.At, e.StaleUntil.Sub(e.At))
		c.record(e.At, e.Cluster, e.Note)
	default:
		c.record(e.At, e.Cluster, e.Note)
	}
	c.excuseUnreachable()
	c.review(e.At)
}

func (c *Checker) takeLink(e *Entry) {
	if e.Link.Cut {
		c.cut[e.Cluster] = e.At
		c.record(e.At, e.Cluster, "cut off from the hub")
		return
	}
	delete(c.cut, e.Cluster)
	c.record(e.At, e.Cluster, "not cut off any more")
}

// version keeps a version of a pod; before is the previous one.
func (c *Checker) version(e *Entry, set *checkedCell, before *checkedPod) *checkedPod {
	now := &checkedPod{Pod: *e.Pod, cluster: e.Cluster}
	if now.Gone {
		now.Active, now.Ready = false, false
		delete(c.pods, now.UID)
	} else {
		c.pods[now.UID] = now
	}
	if before != nil {
		now.since, now.version = before.since, before.version
	}
	if now.Ready && (before == nil || !before.Ready) {
		now.version = e.Version
	}
	wait := time.Duration(0)
	if set != nil {
		wait = set.MinReady
	}
	if now.Active && now.Ready {
		at := now.ReadySince.Add(wait)
		if now.available = !at.After(e.At); !now.available {
			c.wait(duePod{at, now.UID, now.ReadySince})
		}
	}
	return now
}

func (c *Checker) takePod(e *Entry) {
	p := *e.Pod
	set := c.cells[p.Owner]
	before := c.pods[p.UID]
	now := c.version(e, set, before)
	c.kept(set, before, now, e)
	c.name(set, now, e)
	switch {
	case before == nil && now.Active:
		c.Creations++
		c.record(e.At, e.Cluster, fmt.Sprintf("pod %s created (%s)", p.Name, p.Image))
		c.settle(set)
		c.created(set, e)
	case now.available && !before.available:
		now.since = e.At
		c.cameBack(now)
		c.record(e.At, e.Cluster, "pod "+p.Name+" available")
		c.settle(set)
	case before != nil && before.available && !now.available:
		c.lost(set, before, now, e)
	case before != nil && before.Active && !now.Active:
		c.record(e.At, e.Cluster, "pod "+p.Name+", which was not available, ended")
		c.settle(set)
	case before != nil && before.Image != now.Image:
		c.record(e.At, e.Cluster, fmt.Sprintf("pod %s, which was not available, gets %s", p.Name, p.Image))
	}
}

// kept takes that a ready pod is not ready any more, before it was available.
func (c *Checker) kept(set *checkedCell, before, now *checkedPod, e *Entry) {
	if set == nil || before == nil || before.available || !before.Ready || !before.Active || now.Ready && now.Active {
		return
	}
	if ours, _ := c.cause(before, now, e); !ours {
		set.losses = append(set.losses, loss{now.UID, e.At, e.Version, before.ReadySince.Add(set.MinReady)})
	}
}

// cause reports whether the cell's controller made a pod unavailable, and how. What a SidecarSet updates is within
// limits of its own.
func (c *Checker) cause(before, now *checkedPod, e *Entry) (ours bool, how string) {
	switch {
	case now.Ended && now.Deleted.IsZero():
		return false, "it ended by itself"
	case !now.Active:
		if c.deletions.ByUs(PodKey{e.Cluster, now.Name}, now.Deleted, e.At) {
			return true, "deleted by us"
		}
		return false, "deleted by others"
	case now.Updating && before.Sidecar != now.Sidecar && before.Image == now.Image:
		return false, "its sidecar is updated"
	case now.Updating:
		return true, "updated in place"
	case now.Restarting:
		return true, "its containers restart"
	}
	return false, "it failed by itself"
}

// lost takes that a pod is not available any more.
func (c *Checker) lost(set *checkedCell, before, now *checkedPod, e *Entry) {
	ours, how := c.cause(before, now, e)
	c.record(e.At, e.Cluster, fmt.Sprintf("pod %s unavailable: %s", now.Name, how))
	if set == nil {
		return // its CloneSet is gone
	}
	if !ours {
		c.Foreign++
		set.down++
		set.losses = append(set.losses, loss{pod: now.UID, at: e.At, version: e.Version})
		c.settle(set)
		return
	}
	c.Disruptions++
	c.settle(set)
	c.disrupted(set, before, e)
}

// cameBack forgets that others made a pod unavailable.
func (c *Checker) cameBack(pod *checkedPod) {
	if set := c.cells[pod.Owner]; set != nil {
		set.losses = slices.DeleteFunc(set.losses, func(l loss) bool { return l.pod == pod.UID })
	}
}

// decided returns the latest time at which a write may have been decided.
func (c *Checker) decided(e *Entry) time.Time {
	if !e.Asked.IsZero() {
		return c.stalls.before(e.Asked, longestPass)
	}
	return c.stalls.before(e.At, settling)
}

// knew reports whether the controller that decided something at a time knew a version, which was observed at another.
func (c *Checker) knew(version uint64, observed, decided time.Time) bool {
	if c.informed != nil {
		return c.informed(version, decided)
	}
	return !observed.After(decided)
}

func (c *Checker) wait(d duePod) {
	at, _ := slices.BinarySearchFunc(c.due, d, func(a, b duePod) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1
	})
	c.due = slices.Insert(c.due, at, d)
}

func (c *Checker) violate(at time.Time, rule, what string) {
	const most = 50 // the rest of a broken run reads the same
	if len(c.Violations) < most {
		c.Violations = append(c.Violations, Violation{at, rule, what,
			slices.Clone(c.trace[max(0, len(c.trace)-traceLength):])})
	}
}

func (c *Checker) record(at time.Time, cluster, what string) {
	c.trace = append(c.trace, fmt.Sprintf("%s %-5s %s", at.Format(ClockFormat), cluster, what))
}
