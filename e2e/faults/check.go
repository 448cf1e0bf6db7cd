package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// cause says who made a pod what it has become.
type cause string

// The causes. A pod that turned unavailable without us or the user did so by itself.
const (
	byUs     cause = "our controller"
	byUser   cause = "the user"
	byItself cause = "the pod itself"
)

// podState is what the limits need to know of a version of a pod.
type podState struct {
	uid, owner types.UID
	name       string
	// active: not being deleted, and not ended. available: it counts as serving.
	active, available bool
	// how it came to this, in a few words.
	how string
}

// spec is one version of a CloneSet's spec with its limits resolved.
type spec struct {
	generation                         int64
	replicas, maxUnavailable, maxSurge int32
}

func (s spec) String() string {
	return fmt.Sprintf("generation %d: replicas %d, maxUnavailable %d, maxSurge %d", s.generation, s.replicas,
		s.maxUnavailable, s.maxSurge)
}

// setState is a version of a CloneSet.
type setState struct {
	uid      types.UID
	name     string
	spec     spec
	observed int64
}

// occurrence is one version of a pod or of a CloneSet in the history of the cluster.
type occurrence struct {
	// version is the resourceVersion: the order in which things happened.
	version uint64
	// at is when the recorder saw it; asked is when our controller asked for it, where it made a pod unavailable.
	at    time.Time
	asked time.Time
	set   *setState
	pod   *podState
	gone  bool
	// cause is who made the pod unavailable, where this occurrence does.
	cause cause
}

// violation is a limit that our controller broke.
type violation struct {
	set  string
	at   time.Time
	what string
	// story is what happened to the CloneSet before, the last at the end.
	story []string
}

func (v violation) String() string {
	return fmt.Sprintf("%s of CloneSet %s\n    %s", v.what, v.set, strings.Join(v.story, "\n    "))
}

// longestPass is how long before its request a write may have been decided: a pass begins writes for 2 s, and looks at
// the world before.
const longestPass = 2500 * time.Millisecond

// storyLength is how many lines of a story are kept: about one batch with what led to it.
const storyLength = 40

// checker goes through a history in the order of its versions.
type checker struct {
	// informed tells whether the controller that is running at the time had got everything up to the version by then.
	informed   func(version uint64, by time.Time) bool
	sets       map[types.UID]*checkedSet
	violations []violation
	// disruptions and creations count what was checked.
	disruptions, creations int
}

type checkedSet struct {
	name     string
	specs    []spec // those in force, the oldest first
	observed int64
	pods     map[types.UID]podState
	// foreign are disruptions by others of pods that have not come back: the version that told of each.
	foreign map[types.UID]uint64
	// since is the version with which a pod became available.
	since map[types.UID]uint64
	story []string
}

func newChecker(informed func(uint64, time.Time) bool) *checker {
	return &checker{informed: informed, sets: map[types.UID]*checkedSet{}}
}

// take takes the next occurrence of the history.
func (c *checker) take(o occurrence) {
	if o.set != nil {
		c.takeSet(o)
		return
	}
	// A pod may be seen before the first version of its CloneSet only if that was deleted: there are no limits then.
	if set := c.sets[o.pod.owner]; set != nil {
		c.takePod(set, o)
	}
}

func (c *checker) takeSet(o occurrence) {
	set := c.sets[o.set.uid]
	if set == nil {
		set = &checkedSet{name: o.set.name, pods: map[types.UID]podState{}, foreign: map[types.UID]uint64{},
			since: map[types.UID]uint64{}}
		c.sets[o.set.uid] = set
	}
	if n := len(set.specs); n == 0 || set.specs[n-1].generation < o.set.spec.generation {
		set.specs = append(set.specs, o.set.spec)
		set.tell(o, "spec, "+o.set.spec.String())
	}
	if o.set.observed > set.observed {
		set.observed = o.set.observed
		set.tell(o, fmt.Sprintf("generation %d acknowledged", set.observed))
		set.specs = slices.DeleteFunc(set.specs, func(s spec) bool { return s.generation < set.observed })
	}
}

func (c *checker) takePod(set *checkedSet, o occurrence) {
	before, known := set.pods[o.pod.uid]
	after := *o.pod
	if o.gone {
		after.active, after.available = false, false
		delete(set.pods, after.uid)
	} else {
		set.pods[after.uid] = after
	}
	switch {
	case !known && after.active:
		c.creations++
		set.tell(o, "pod "+after.name+" created")
		c.checkTotal(set, o)
	case after.available && !before.available:
		delete(set.foreign, after.uid)
		set.since[after.uid] = o.version
		set.tell(o, "pod "+after.name+" available")
	case before.available && !after.available && o.cause == byUs:
		c.disruptions++
		set.tell(o, fmt.Sprintf("pod %s made unavailable by %s: %s", after.name, o.cause, after.how))
		c.checkUnavailable(set, o)
	case before.available && !after.available:
		set.foreign[after.uid] = o.version
		set.tell(o, fmt.Sprintf("pod %s made unavailable by %s: %s", after.name, o.cause, after.how))
	case known && before.active && !after.active:
		set.tell(o, fmt.Sprintf("pod %s, which was not available, ended: %s", after.name, after.how))
	}
}

// checkUnavailable wants that one of the specs in force allows as many unavailable pods as there are now. News that the
// controller could not have does not count against it: that others took pods away, or that the pod had become
// available, which is free to be taken as long as it is not.
func (c *checker) checkUnavailable(set *checkedSet, o occurrence) {
	decided := o.asked.Add(-longestPass)
	if !c.informed(set.since[o.pod.uid], decided) {
		return
	}
	available, excused := int32(0), int32(0)
	for _, pod := range set.pods {
		if pod.available {
			available++
		}
	}
	for _, version := range set.foreign {
		if !c.informed(version, decided) {
			excused++
		}
	}
	allowed := func(s spec) bool { return s.replicas-available-excused <= s.maxUnavailable }
	if len(set.specs) > 0 && !slices.ContainsFunc(set.specs, allowed) {
		c.report(set, o, fmt.Sprintf("made pod %s unavailable: %d are available then (%d disruptions by others not counted)",
			o.pod.name, available, excused))
	}
}

// checkTotal wants that one of the specs in force allows as many pods as there are now.
func (c *checker) checkTotal(set *checkedSet, o occurrence) {
	total := int32(0)
	for _, pod := range set.pods {
		if pod.active {
			total++
		}
	}
	allowed := func(s spec) bool { return total <= s.replicas+s.maxSurge }
	if len(set.specs) > 0 && !slices.ContainsFunc(set.specs, allowed) {
		c.report(set, o, fmt.Sprintf("created pod %s: %d pods then", o.pod.name, total))
	}
}

func (c *checker) report(set *checkedSet, o occurrence, what string) {
	story := slices.Clone(set.story)
	for _, s := range set.specs {
		story = append(story, "in force, "+s.String())
	}
	c.violations = append(c.violations, violation{set: set.name, at: o.at, what: what, story: story})
}

func (s *checkedSet) tell(o occurrence, text string) {
	s.story = append(s.story, fmt.Sprintf("%s version %d: %s", o.at.Format("15:04:05.000"), o.version, text))
	if n := len(s.story); n > storyLength {
		s.story = slices.Clone(s.story[n-storyLength:])
	}
}
