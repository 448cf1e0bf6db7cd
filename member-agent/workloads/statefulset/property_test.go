package statefulset

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

var seeds = flag.Int("seeds", 150, "how many random worlds to run")

// TestProperties runs random StatefulSets in random worlds: users change the spec, pods fail, are deleted, do not get
// ready, terminate slowly. Whatever happens the limits hold; when the world calms down, the StatefulSet comes to rest.
func TestProperties(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { (&chaos{world: newWorld(t, 0)}).play(uint64(seed)) })
	}
}

// chaos is a world in which everything happens.
type chaos struct {
	*world
	images int
	// broken are images with which no pod gets ready.
	broken map[string]bool
	log    []string
}

func (c *chaos) play(seed uint64) {
	c.random = rand.New(rand.NewPCG(seed, 7))
	c.broken = map[string]bool{}
	c.spec()
	for range 60 {
		if c.random.IntN(6) == 0 {
			c.user()
		}
		c.check()
		c.nature()
		c.now = c.now.Add(time.Duration(c.random.IntN(20)) * time.Second)
	}
	c.calm()
}

// spec sets what cannot change, and the first of the rest.
func (c *chaos) spec() {
	if c.random.IntN(2) == 0 {
		parallel(c.set)
	}
	if c.random.IntN(2) == 0 {
		withClaims(c.set)
	}
	c.user()
}

// user changes the spec.
func (c *chaos) user() {
	r := c.random
	spec := &c.set.Spec
	spec.Replicas = new(int32(r.IntN(8)))
	rolling := &v1beta1.RollingUpdateStatefulSetStrategy{Paused: r.IntN(10) == 0}
	if r.IntN(2) == 0 {
		rolling.PodUpdatePolicy = v1beta1.InPlaceIfPossiblePodUpdatePolicy
	}
	if r.IntN(3) == 0 {
		rolling.Partition = new(int32(r.IntN(8)))
	}
	if r.IntN(3) == 0 {
		rolling.MinReadySeconds = new(int32(r.IntN(30)))
	}
	spec.ScaleStrategy = nil
	if spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		if r.IntN(2) == 0 {
			rolling.MaxUnavailable = new(intstr.FromInt32(1 + int32(r.IntN(4))))
		}
		if r.IntN(3) == 0 {
			rolling.UnorderedUpdate = &v1beta1.UnorderedUpdateStrategy{}
		}
		if r.IntN(3) == 0 {
			spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: new(intstr.FromInt32(1 + int32(r.IntN(3))))}
		}
	}
	spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{RollingUpdate: rolling}
	if r.IntN(8) == 0 {
		onDelete(c.set)
	}
	spec.ReserveOrdinals = nil
	for range r.IntN(3) {
		spec.ReserveOrdinals = append(spec.ReserveOrdinals, intstr.FromInt32(int32(r.IntN(8))))
	}
	spec.Ordinals = &v1beta1.StatefulSetOrdinals{Start: int32(r.IntN(2))}
	policy := &v1beta1.PersistentVolumeClaimRetentionPolicy{}
	if r.IntN(2) == 0 {
		policy.WhenScaled = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	spec.PersistentVolumeClaimRetentionPolicy = policy
	spec.Lifecycle = nil
	if r.IntN(4) == 0 {
		hook := &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"held": "true"}}
		spec.Lifecycle = &v1beta1.Lifecycle{PreDelete: hook, InPlaceUpdate: hook}
		if spec.Template.Labels["held"] == "" {
			c.template().Labels["held"] = "true"
		}
	}
	switch r.IntN(4) {
	case 0, 1:
		c.images++
		image := fmt.Sprintf("app:%d", c.images)
		c.broken[image] = r.IntN(3) == 0
		c.template().Spec.Containers[0].Image = image
	case 2:
		c.template().Spec.TerminationGracePeriodSeconds = new(int64(r.IntN(3)))
	}
	c.budget = workloadBudget(r.IntN(2) == 0, false)
	c.budget.Expired = c.budget.Granted && r.IntN(4) == 0
	c.note("user: %d replicas", *spec.Replicas)
}

// template returns the template in a copy of its own: plans and pods keep the one that they saw.
func (c *chaos) template() *corev1.PodTemplateSpec {
	c.set.Spec.Template = *c.set.Spec.Template.DeepCopy()
	return &c.set.Spec.Template.PodTemplateSpec
}

// nature is what kubelets, garbage collectors and other programs do.
func (c *chaos) nature() {
	r := c.random
	for _, pod := range slices.Clone(c.pods) {
		switch {
		case pod.DeletionTimestamp != nil:
			if r.IntN(3) == 0 {
				c.remove(pod)
			}
			continue
		case podstate.Ended(pod):
			continue
		}
		switch r.IntN(12) {
		case 0:
			c.note("%s fails", pod.Name)
			pod.Status.Phase = corev1.PodFailed
			continue
		case 1:
			c.note("%s is deleted by a user", pod.Name)
			pod.DeletionTimestamp = &metav1.Time{Time: c.now}
			continue
		case 2:
			pod.Labels[v1beta1.LabelSpecifiedDelete] = "true"
		case 3:
			delete(pod.Labels, "held")
		case 4:
			c.ready(pod, false)
			continue
		}
		if r.IntN(2) == 0 {
			c.start(pod)
		}
	}
	for _, claim := range c.claims {
		if r.IntN(30) == 0 && !c.mounted(claim.Name) {
			claim.DeletionTimestamp = &metav1.Time{Time: c.now}
		}
	}
	c.collect()
}

// start is what the kubelet does with a pod.
func (c *chaos) start(pod *corev1.Pod) {
	c.run(pod)
	gate := podstate.Condition(pod, v1beta1.InPlaceUpdateReady)
	mark := podstate.Condition(pod, lifecycle.KruisePodReady)
	ready := !c.broken[pod.Spec.Containers[0].Image]
	for _, condition := range []*corev1.PodCondition{gate, mark} {
		ready = ready && condition != nil && condition.Status == corev1.ConditionTrue
	}
	if podstate.Ready(pod) != ready {
		c.ready(pod, ready)
	}
}

func (c *chaos) remove(pod *corev1.Pod) {
	c.pods = slices.DeleteFunc(c.pods, func(p *corev1.Pod) bool { return p == pod })
}

func (c *chaos) mounted(claim string) bool {
	return slices.ContainsFunc(c.pods, func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		})
	})
}

// collect deletes claims whose owners are gone, and those that are being deleted and that no pod has.
func (c *chaos) collect() {
	c.claims = slices.DeleteFunc(c.claims, func(claim *corev1.PersistentVolumeClaim) bool {
		owned := slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
			return ref.UID == c.set.UID || slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool { return p.UID == ref.UID })
		})
		if len(claim.OwnerReferences) > 0 && !owned && claim.DeletionTimestamp == nil {
			claim.DeletionTimestamp = &metav1.Time{Time: c.now}
		}
		return claim.DeletionTimestamp != nil && !c.mounted(claim.Name)
	})
}

func (c *chaos) note(format string, args ...any) { c.log = append(c.log, fmt.Sprintf(format, args...)) }

func (c *chaos) failf(format string, args ...any) {
	c.Helper()
	for _, line := range c.log[max(0, len(c.log)-30):] {
		c.Log(line)
	}
	for _, pod := range c.pods {
		c.Logf("%s %s ready=%t labels %v state %s", pod.Name, pod.Status.Phase, podstate.Ready(pod), pod.Labels,
			pod.Annotations[v1beta1.AnnotationInPlaceUpdateState])
	}
	c.Fatalf(format, args...)
}

// state is what the limits are about, before a pass.
type state struct {
	f Facts
	// serving and down are the ordinals in range by whether their pod is available and in no update.
	serving map[int32]bool
	down    int
	// first is the lowest ordinal in range that is not available.
	first int32
}

func (c *chaos) observe() state {
	s := state{f: c.facts(), serving: map[int32]bool{}, first: -1}
	available := map[int32]bool{}
	for _, pod := range s.f.Pods.Active {
		ordinal, _ := podname.Ordinal("db", pod.Name)
		is, _ := podstate.Available(pod, ptr.Deref(s.f.rolling().MinReadySeconds, 0), c.now)
		progress, _ := inplace.Observe(pod, c.now)
		available[ordinal] = is && lifecycle.Available(pod)
		s.serving[ordinal] = available[ordinal] && progress == inplace.Settled
	}
	for _, ordinal := range s.f.Ordinals.All() {
		if !s.serving[ordinal] {
			s.down++
		}
		if !available[ordinal] && s.first < 0 {
			s.first = ordinal
		}
	}
	return s
}

// check makes a pass and checks what it does.
func (c *chaos) check() {
	c.Helper()
	before := c.observe()
	updated := map[string]bool{}
	for _, pod := range before.f.Pods.Active {
		updated[pod.Name] = podset.HasRevision(pod, before.f.Update.Hash)
	}
	exist := map[string]bool{}
	for _, pod := range c.pods {
		exist[pod.Name] = true
	}
	old := int(before.f.Limits.Partition)
	plan := c.pass()
	c.note("%v pass: %s (%d down of %d, %v)", c.now.Unix(), describe(plan), before.down, before.f.Ordinals.Len(),
		plan.Blocked)

	inOrder := before.f.inOrder()
	taken, moved := 0, 0
	touch := func(pod *corev1.Pod, reason string) {
		ordinal, _ := podname.Ordinal("db", pod.Name)
		position, in := before.f.Ordinals.Position(ordinal)
		if in && before.serving[ordinal] {
			taken++
		}
		if reason != "Update" {
			return
		}
		moved++
		switch {
		case !in:
			c.failf("%s is updated and out of range", pod.Name)
		case updated[pod.Name]:
			c.failf("%s is updated a second time", pod.Name)
		case before.f.onDelete(), before.f.rolling().Paused, before.f.Budget.Expired:
			c.failf("%s is updated though updates are stopped", pod.Name)
		case before.f.rolling().UnorderedUpdate == nil && position < old:
			c.failf("%s is updated, and the partition keeps %d pods", pod.Name, old)
		}
	}
	deleted := map[string]bool{}
	for _, removal := range plan.Delete {
		if deleted[removal.Pod.Name] {
			c.failf("%s is deleted twice", removal.Pod.Name)
		}
		deleted[removal.Pod.Name] = true
		touch(removal.Pod, removal.Reason)
	}
	for _, u := range plan.Update {
		touch(u.Pod, "Update")
	}
	for _, step := range plan.Prepare {
		switch step.Step.State {
		case v1beta1.LifecyclePreparingUpdate:
			touch(step.Pod, "Update")
		case v1beta1.LifecyclePreparingDelete:
			touch(step.Pod, "")
		}
	}
	if taken > 0 && (before.f.Budget.Expired || before.down+taken > int(before.f.Limits.MaxUnavailable)) {
		c.failf("%d pods that served were taken, %d were down, maxUnavailable is %d", taken, before.down,
			before.f.Limits.MaxUnavailable)
	}
	kept := c.olds(before.f)
	if before.f.rolling().UnorderedUpdate != nil && moved > 0 && kept < min(old, kept+moved) {
		c.failf("%d pods stay old, and the partition keeps %d", kept, old)
	}
	for _, creation := range plan.Create {
		name := podname.New("db", creation.Ordinal)
		position, in := before.f.Ordinals.Position(creation.Ordinal)
		switch {
		case exist[name]:
			c.failf("%s is created, and exists", name)
		case !in:
			c.failf("%s is created, and is not asked for", name)
		case inOrder && creation.Ordinal != before.first:
			c.failf("%s is created before ordinal %d is available", name, before.first)
		case before.f.onDelete() || before.f.rolling().UnorderedUpdate != nil:
		case position < old && creation.Revision.Name != before.f.Current.Name,
			position >= old && creation.Revision.Name != before.f.Update.Name:
			c.failf("%s at position %d gets revision %s", name, position, creation.Revision.Name)
		}
		exist[name] = true
	}
	if limit := int(before.f.Limits.ScaleMaxUnavailable); len(plan.Create) > 0 && !inOrder {
		down := before.down - (before.f.Ordinals.Len() - c.inRange(before.f, exist)) // absent ones are not down yet
		if down > limit && down > before.down {
			c.failf("%d pods are down, scaleStrategy allows %d", down, limit)
		}
	}
	if inOrder {
		ends := 0
		for _, removal := range plan.Delete {
			if removal.Reason != "SpecifiedDelete" {
				ends++
			}
		}
		if ends+moved+len(plan.Create) > 1+min(moved, ends) {
			c.failf("OrderedReady does more than one thing: %s", describe(plan))
		}
		for _, removal := range plan.Delete {
			if removal.Reason == "ScaleIn" && before.first >= 0 {
				c.failf("%s is scaled in while ordinal %d is not available", removal.Pod.Name, before.first)
			}
		}
	}
}

// olds is how many active pods in range do not have the update revision.
func (c *chaos) olds(f Facts) (n int) {
	for _, pod := range c.pods {
		if podstate.Active(pod) && f.inRange(pod) && !podset.HasRevision(pod, f.Update.Hash) {
			n++
		}
	}
	return n
}

func (c *chaos) inRange(f Facts, names map[string]bool) (n int) {
	for _, ordinal := range f.Ordinals.All() {
		if names[podname.New("db", ordinal)] {
			n++
		}
	}
	return n
}

// calm lets everything work, and waits until the StatefulSet is what its spec asks for.
func (c *chaos) calm() {
	c.Helper()
	c.budget = workloadBudget(false, false)
	c.template().Spec.Containers[0].Image = "app:good"
	for range 400 {
		for _, pod := range slices.Clone(c.pods) {
			// Who serves the hook holds pods that serve, and lets go of those that are to change or to be deleted.
			switch lifecycle.State(pod) {
			case v1beta1.LifecyclePreparingUpdate, v1beta1.LifecyclePreparingDelete:
				delete(pod.Labels, "held")
			default:
				pod.Labels["held"] = "true"
			}
			delete(pod.Labels, v1beta1.LabelSpecifiedDelete)
			switch {
			case pod.DeletionTimestamp != nil:
				c.remove(pod)
			case !podstate.Ended(pod):
				// Broken pods below the partition stay broken: nothing is to replace them.
				if c.broken[pod.Spec.Containers[0].Image] {
					c.broken = map[string]bool{}
				}
				c.start(pod)
			}
		}
		c.collect()
		c.check()
		c.now = c.now.Add(5 * time.Second)
		if c.settled() == "" {
			for range 3 {
				if plan := c.plan(); describe(plan) != "" {
					c.failf("at rest, and then %s", describe(plan))
				}
			}
			return
		}
	}
	c.failf("no rest: %s; next: %s", c.settled(), describe(c.plan()))
}

// settled says what is not as the spec asks, or "".
func (c *chaos) settled() string {
	f := c.facts()
	if plan := c.plan(); describe(plan) != "" {
		return describe(plan)
	}
	if len(c.pods) != f.Ordinals.Len() || c.inRange(f, c.names()) != f.Ordinals.Len() {
		return fmt.Sprintf("pods %v", c.names())
	}
	old := 0
	for _, pod := range c.pods {
		if !podstate.Ready(pod) {
			return pod.Name + " is not ready"
		}
		if !podset.HasRevision(pod, f.Update.Hash) {
			old++
		}
	}
	if stopped := f.onDelete() || f.rolling().Paused; !stopped && old > int(f.Limits.Partition) {
		return fmt.Sprintf("%d pods are old, the partition keeps %d", old, f.Limits.Partition)
	}
	if s := c.set.Status; int(s.Replicas) != len(c.pods) || s.UpdatedReplicas != s.Replicas-int32(old) {
		return fmt.Sprintf("status %+v", s)
	}
	return ""
}

func (c *chaos) names() map[string]bool {
	out := map[string]bool{}
	for _, pod := range c.pods {
		out[pod.Name] = true
	}
	return out
}
