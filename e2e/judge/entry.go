package judge

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/topology/lending"
)

// Place is where one limit holds: a subset of a workload, "" for a workload without subsets.
type Place struct{ Workload, Subset string }

// String returns "<workload>" or "<workload>/<subset>".
func (p Place) String() string {
	if p.Subset == "" {
		return p.Workload
	}
	return p.Workload + "/" + p.Subset
}

// Entry is one thing that was observed: exactly one of the pointers is set, or only Note.
type Entry struct {
	At      time.Time
	Cluster string
	// Version is the resourceVersion: the order in which things happened in the cluster. 0 for what no API server wrote.
	Version uint64
	// Asked is when our controller asked for this version of a pod, zero where that is not known.
	Asked time.Time

	Pod       *Pod
	Cell      *Cell
	Placement *Placement
	Desired   *Desired
	Member    *Member
	Link      *Link
	Budget    *Budget
	Sidecars  *Sidecars
	Stop      *Stop
	// Stall has just ended; Note says of what.
	Stall *Stall
	// Gap: versions of an object were not observed.
	Gap *Gap
	// StaleUntil is until when the caches of the agent of the cluster may be stale.
	StaleUntil time.Time
	// Note is a line of traces.
	Note string
}

// Pod is a version of a pod.
type Pod struct {
	UID, Owner types.UID
	Name       string
	// Active: not being deleted, and not ended. Ready: it counts as ready, since the time ReadySince.
	Active, Ready bool
	ReadySince    time.Time
	// Ended: its phase is Succeeded or Failed, as after an eviction by the kubelet. Deleted is when the API server stored
	// the deletion, zero for a pod that is not being deleted and where that is unknown.
	Ended   bool
	Deleted time.Time
	// Updating: an update in place is the reason why it is not ready. Restarting: a request to restart its containers
	// is. Gone: it does not exist any more.
	Updating, Restarting, Gone bool
	Image                      string
	// Sidecar is the image of its sidecar, "" without one.
	Sidecar string
}

// Cell is a version of a workload in one member, which has a part of a place's replicas.
type Cell struct {
	UID      types.UID
	Name     string
	Of       Place // the zero Place for a workload that is in no other cluster
	Spec     CellSpec
	MinReady time.Duration // minReadySeconds
	// Observed is the generation that the controller observed last.
	Observed int64
	Gone     bool
	// Unique: the names of its pods are those of no other pods of the workload in any cluster.
	Unique bool
}

// CellSpec is what one generation of a cell permits.
type CellSpec struct {
	Generation                         int64
	Replicas, MaxUnavailable, MaxSurge int32
	// Has reports whether a pod of this name is one of the replicas, nil where any pod can be.
	Has func(pod string) bool
}

// String returns the numbers of the spec.
func (s CellSpec) String() string {
	return fmt.Sprintf("generation %d: replicas %d, maxUnavailable %d, maxSurge %d", s.Generation, s.Replicas,
		s.MaxUnavailable, s.MaxSurge)
}

// Placement is a version of a WorkloadPlacement.
type Placement struct {
	Workload                   string
	Generation, Sequence       int64
	Replicas, Placed, Unplaced int32
	Subsets                    map[string]Subset
}

// Subset is a subset in a placement: its replicas over all cells, the global amounts, and what all cells together have
// reserved.
type Subset struct {
	Replicas        int32
	Whole           bool // every replica has a cell
	Limit, Reserved lending.Amounts
}

// Desired is a generation of the user's object. Amounts are the limits that it means for so many replicas of a subset,
// Numbers the replicas of the subsets for which it has a number.
type Desired struct {
	Workload   string
	Generation int64
	Replicas   int32
	Numbers    map[string]int32
	Amounts    func(subset string, replicas int32) lending.Amounts
}

// Stop is a container that the daemon of a node stopped for a request to restart it.
type Stop struct {
	Pod     types.UID
	Name    string // of the pod
	Request string
	// Container is its name, ID the one that was stopped, and Wanted the one that ran when the request was created.
	Container, ID, Wanted string
}

// Member is what the hub takes the member in Entry.Cluster for.
type Member struct {
	// Unreachable: its grants have expired and are given to others.
	Unreachable bool
	// Fenced: a person has confirmed that none of its pods is left, so the grants of cells with ordinals go to others at
	// once.
	Fenced bool
}

// Link is whether the member in Entry.Cluster is cut off from the hub.
type Link struct{ Cut bool }

// Gap means that versions of one object between a time and its entry's were not observed: an API server that was
// restarted has no history. The object is a cell, or the user's object or placement of a workload.
type Gap struct {
	Cell     types.UID
	Workload string
	From     time.Time
}

// Violation is a promise that was broken. Trace is what happened before.
type Violation struct {
	At    time.Time
	Rule  string
	What  string
	Trace []string
}

// String returns one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format(ClockFormat), v.Rule, v.What)
}

// ClockFormat is the format of times in traces.
const ClockFormat = "15:04:05.000"

// The rules that can be broken.
const (
	ruleSum      = "I1 (cells add up to replicas)"
	ruleCell     = "I2a (limits of a cell)"
	ruleGranted  = "I2b (amounts that are granted)"
	ruleGlobal   = "I2c (limits over all members)"
	ruleNames    = "I8 (no two pods with one name)"
	RuleRestart  = "I3 (restarts change no pod)"
	RuleSteady   = "I5 (a steady state writes nothing)"
	ruleLease    = "leases"
	ruleBudget   = "I2d (pods that budgets let go)"
	ruleSidecars = "I2e (updates of sidecars over all members)"
	ruleRestart  = "I2f (containers restart once)"
	RuleRest     = "comes to rest"
	RuleCrash    = "no crash"
)

const (
	// traceLength is how many lines of a trace are kept.
	traceLength = 60
	// ShortTrace is how many lines of a trace are worth printing.
	ShortTrace = 20
)
