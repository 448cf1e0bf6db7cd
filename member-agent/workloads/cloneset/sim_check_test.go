package cloneset

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// checker holds the controller to its promises. It judges by what the controller could know: the cache as the pass
// began, and everything that the controller itself has done since, whether the cache shows it or not.
type checker struct {
	world *simulator.World
	// seen is the cache as the pass began.
	seen   map[types.UID]*corev1.Pod
	spec   *v1beta1.CloneSet
	limits budget.Limits
	// bound is how many pods may be active after a creation.
	bound int
	// taken are the versions with which the controller made pods unavailable.
	taken map[types.UID]int
	records
}

func newChecker(w *simulator.World) *checker {
	return &checker{world: w, taken: map[types.UID]int{},
		records: records{templates: map[types.UID]*corev1.PodTemplateSpec{},
			graces: map[types.UID]grace{}, removed: map[string]bool{}, givenUp: map[types.UID]bool{}}}
}

// pass notes what the controller sees as a pass begins.
func (c *checker) pass(key types.NamespacedName) {
	c.seen, c.spec = map[types.UID]*corev1.Pod{}, nil
	for _, obj := range c.world.Cached("CloneSet") {
		if cs, ok := obj.(*v1beta1.CloneSet); ok && cs.Name == key.Name {
			c.spec = cs
		}
	}
	if c.spec == nil {
		return
	}
	var err error
	if c.limits, err = budget.Resolve(strategy(c.spec), *c.spec.Spec.Replicas); err != nil {
		c.world.Fail(fmt.Errorf("the simulated user wrote a strategy that cannot be used: %w", err))
	}
	active := 0
	for _, obj := range c.world.Cached("Pod") {
		if pod, ok := obj.(*corev1.Pod); ok {
			c.seen[pod.UID] = pod
			if podstate.Active(pod) && c.owns(pod) && !c.leaves(pod) {
				active++
			}
		}
	}
	c.bound = max(active, int(c.limits.Replicas+c.limits.MaxSurge))
}

func version(pod *corev1.Pod) int {
	n, _ := strconv.Atoi(pod.ResourceVersion)
	return n
}

// known tells whether the controller may count on the pod.
func (c *checker) known(pod *corev1.Pod) bool {
	if !podstate.Active(pod) || !c.owns(pod) {
		return false
	}
	available, _ := podstate.Available(pod, c.spec.Spec.MinReadySeconds, c.world.Now())
	return available && serves(pod) && c.taken[pod.UID] <= version(pod)
}

// serves tells whether a pod is in a state of life in which others may count on it.
func serves(pod *corev1.Pod) bool {
	state := pod.Labels[v1beta1.LabelLifecycleState]
	return state == "" || state == string(v1beta1.LifecycleNormal)
}

// write judges a write.
func (c *checker) write(w simulator.Write) error {
	if w.Kind != "Pod" || c.spec == nil {
		return nil
	}
	before, _ := w.Before.(*corev1.Pod)
	after, _ := w.After.(*corev1.Pod)
	if err := c.promises(w, before, after); err != nil {
		return err
	}
	if before == nil && after != nil {
		return c.created(after)
	}
	if before == nil || !disrupts(before, after) {
		return nil
	}
	have := c.seen[before.UID]
	counted := have != nil && c.known(have)
	c.taken[before.UID] = version(before) + 1
	if after != nil {
		c.taken[before.UID] = version(after)
	}
	if !counted {
		return nil
	}
	left := 0
	for _, pod := range c.seen {
		if c.known(pod) {
			left++
		}
	}
	if least := int(c.limits.Replicas - c.limits.MaxUnavailable); left < least {
		return fmt.Errorf("%s made %s unavailable: %d of %d pods are left, and %d must stay (maxUnavailable %d)",
			w.Verb, c.world.Name(before.Name), left, c.limits.Replicas, least, c.limits.MaxUnavailable)
	}
	return nil
}

// disrupts tells whether a write takes a pod out of service.
func disrupts(before, after *corev1.Pod) bool {
	if !podstate.Active(before) {
		return false
	}
	if after == nil || after.DeletionTimestamp != nil {
		return true
	}
	for i := range after.Spec.Containers {
		if after.Spec.Containers[i].Image != before.Spec.Containers[i].Image {
			return true
		}
	}
	return podstate.Ready(before) && !podstate.Ready(after) || serves(before) && !serves(after)
}

// created judges a creation.
func (c *checker) created(pod *corev1.Pod) error {
	active := 0
	for _, obj := range c.world.List("Pod") {
		if p, ok := obj.(*corev1.Pod); ok && podstate.Active(p) && c.owns(p) && !c.leaves(p) {
			active++
		}
	}
	if active > c.bound {
		return fmt.Errorf("%s is one too many: %d pods are active, and replicas %d with maxSurge %d allow %d",
			c.world.Name(pod.Name), active, c.limits.Replicas, c.limits.MaxSurge, c.bound)
	}
	return nil
}

// tally counts the pods of a world.
type tally struct {
	total, updated, available int
}

func (c *checker) tally(cs *v1beta1.CloneSet) tally {
	var t tally
	for _, obj := range c.world.List("Pod") {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		if podstate.Ended(pod) && !metav1.IsControlledBy(pod, cs) {
			continue // a stranger that has ended is left alone
		}
		t.total++
		if ok, _ := podstate.Available(pod, cs.Spec.MinReadySeconds, c.world.Now()); ok && podstate.Active(pod) &&
			serves(pod) {
			t.available++
		}
		if same(pod, &cs.Spec.Template.PodTemplateSpec) {
			t.updated++
		}
	}
	return t
}

// atRest judges a world in which nothing happens any more.
func (c *checker) atRest() error {
	cs, _ := c.world.Get("CloneSet", simKey()).(*v1beta1.CloneSet)
	limits, err := budget.Resolve(strategy(cs), *cs.Spec.Replicas)
	if err != nil {
		return err
	}
	replicas, t := int(limits.Replicas), c.tally(cs)
	if t.total != replicas || t.available != replicas {
		return fmt.Errorf("at rest there are %d pods, %d available, for %d replicas", t.total, t.available, replicas)
	}
	want := replicas - int(limits.Partition)
	// Pods of the update revision are never sent away from it where it is the current one too.
	if t.updated < want || (t.updated > want && cs.Status.CurrentRevision != cs.Status.UpdateRevision) {
		return fmt.Errorf("at rest %d of %d pods are updated, and partition %d asks for %d", t.updated, replicas,
			limits.Partition, want)
	}
	s := cs.Status
	if s.ObservedGeneration != cs.Generation || int(s.Replicas) != t.total || int(s.ReadyReplicas) != t.total ||
		int(s.AvailableReplicas) != t.available || int(s.UpdatedReplicas) != t.updated ||
		int(s.UpdatedReadyReplicas) != t.updated {
		return fmt.Errorf("at rest the status is wrong: %+v of generation %d says %d/%d/%d/%d", t, cs.Generation, s.Replicas,
			s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas)
	}
	for _, condition := range s.Conditions {
		wrong := corev1.ConditionTrue
		if condition.Type == v1beta1.ConditionReady {
			wrong = corev1.ConditionFalse
		}
		if condition.Status == wrong && condition.Type != v1beta1.CloneSetConditionProgressing &&
			condition.Type != conditionClaimsOutdated {
			return fmt.Errorf("at rest condition %s is %s: %s", condition.Type, condition.Status, condition.Message)
		}
	}
	return c.claimsAtRest(cs)
}
