package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/topology/lending"
)

// place is where one limit holds: a subset of a workload, "" for a CloneSet.
type place struct{ workload, subset string }

// String returns "<workload>" or "<workload>/<subset>".
func (p place) String() string {
	if p.subset == "" {
		return p.workload
	}
	return p.workload + "/" + p.subset
}

// entry is one thing that was seen: exactly one of the pointers is set, or only note.
type entry struct {
	at      time.Time
	cluster string
	// version is the resourceVersion: the order in which things happened in the cluster. 0 for what no API server told.
	version uint64

	pod    *podState
	set    *setState
	placed *placedState
	asked  *askedState
	silent *silentState
	cut    *cutState
	// stood is a stall that has just ended; note tells of what.
	stood *stall
	// lost tells that versions were not seen.
	lost *lostState
	// blind is until when the agent of the cluster may lack news of its pods.
	blind time.Time
	// note is told in stories.
	note string
}

// podState is a version of a pod.
type podState struct {
	uid, owner types.UID
	name       string
	// active: not being deleted, and not ended. ready: it counts as ready, since the time readySince.
	active, ready bool
	readySince    time.Time
	// ended: its containers have ended for good, as those of a pod that is evicted or whose node is given up. deleted is
	// when the API server stored that the pod goes, zero for a pod that stays and where that was not seen.
	ended   bool
	deleted time.Time
	// shut: an update in place is the reason why it is not ready. gone: it is no more.
	shut, gone bool
	image      string
}

// setState is a version of a member's CloneSet, which is one cell of a place.
type setState struct {
	uid   types.UID
	name  string
	of    place
	spec  cellSpec
	ready time.Duration // minReadySeconds
	// observed is the generation that the controller answered.
	observed int64
	gone     bool
}

// cellSpec is what one generation of a member's CloneSet permits.
type cellSpec struct {
	generation                         int64
	replicas, maxUnavailable, maxSurge int32
}

// String returns the numbers of the spec.
func (s cellSpec) String() string {
	return fmt.Sprintf("generation %d: replicas %d, maxUnavailable %d, maxSurge %d", s.generation, s.replicas,
		s.maxUnavailable, s.maxSurge)
}

// placedState is a version of a placement.
type placedState struct {
	workload                   string
	generation, sequence       int64
	replicas, placed, unplaced int32
	subsets                    map[string]subsetState
}

// subsetState is a subset in a placement: its replicas over all cells, the global amounts, and what the cells hold
// together.
type subsetState struct {
	replicas    int32
	whole       bool // every replica has a cell
	limit, held lending.Amounts
}

// askedState is a generation of the user's object; amounts are the limits that it means for so many replicas of a
// subset. Numbers are the replicas of the subsets that have a number.
type askedState struct {
	workload   string
	generation int64
	replicas   int32
	numbers    map[string]int32
	amounts    func(subset string, replicas int32) lending.Amounts
}

// silentState tells that the hub takes the member in entry.cluster for silent, or does no more.
type silentState struct{ silent bool }

// cutState tells that the member in entry.cluster is cut off from the hub, or is no more.
type cutState struct{ cut bool }

// lostState tells that versions of one object between a time and its entry's were not seen: an API server that was
// restarted has no history. It is a member's CloneSet, or the object or placement of a workload.
type lostState struct {
	cell     types.UID
	workload string
	from     time.Time
}

// violation is a promise that was broken.
type violation struct {
	at    time.Time
	rule  string
	what  string
	story []string
}

// String returns one line.
func (v violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.at.Format(clockFormat), v.rule, v.what)
}

// clockFormat is how times are told.
const clockFormat = "15:04:05.000"

// The rules that can be broken.
const (
	ruleSum      = "I1 (cells add up to replicas)"
	ruleCell     = "I2a (limits of a cell)"
	ruleLent     = "I2b (amounts that are lent)"
	ruleGlobal   = "I2c (limits over all members)"
	ruleRestart  = "I3 (restarts change no pod)"
	ruleSteady   = "I5 (a steady state writes nothing)"
	ruleLease    = "leases"
	ruleRest     = "comes to rest"
	ruleCrash    = "no crash"
	storyLength  = 60
	storyMinimum = 20
)
