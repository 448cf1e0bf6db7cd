package volumes

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// Facts are what a plan is made of.
type Facts struct {
	Set   Set
	Reuse bool
	// Claims are the set's claims and those of its pods, as a Source returns them. A set ByOrdinal finds its claims by
	// name.
	Claims []*corev1.PersistentVolumeClaim
	Pods   podset.Set
	// InRange reports whether a pod of a set ByOrdinal has an ordinal that the set is to have.
	InRange func(pod *corev1.Pod) bool
	// Leaving are pods that the controller removes in this pass. They may be ended ones, too.
	Leaving []*corev1.Pod
	// Named tells which claim has a name in the set's namespace, whoever it belongs to, or nil. A nil Named knows none.
	Named func(name string) *corev1.PersistentVolumeClaim
	Now   time.Time
}

// Why claims are deleted or given other owners, for logs and tests.
const (
	WhyNoPod       = "NoPod"       // the instance has no pod any more
	WhyGoesWithPod = "GoesWithPod" // the pod ended or leaves, and takes its claims along
	WhyKept        = "Kept"        // the claim is to outlive its pod
	WhyRetention   = "Retention"   // the retention policy says with what the claim is deleted
)

// Removal is a claim to delete, and why.
type Removal struct {
	Claim *corev1.PersistentVolumeClaim
	Why   string
}

// Transfer is a claim to give other owners, and why.
type Transfer struct {
	Claim *corev1.PersistentVolumeClaim
	// Owners are all owners that it is to have.
	Owners []metav1.OwnerReference
	Why    string
}

// Plan is what one pass does to claims. Transfers come before pods are deleted, Delete at any time.
type Plan struct {
	Own    []Transfer
	Delete []Removal
	// Make are claims that pods wait for and that somebody deleted.
	Make []*corev1.PersistentVolumeClaim
	// Free are the instance ids whose claims new pods take over, the one with the oldest claim first.
	Free []string
	// Hold is how many new pods should wait for a pod that terminates and will leave its id and its claims to them.
	Hold int32
	// Conflicts are names that ids would need and somebody else's claims have; such ids are not in Free.
	Conflicts []*Conflict
	// Wake is when to look again though nothing happens; 0 means never.
	Wake time.Duration
}

// settleAfter is how old a claim without a pod must be to be deleted. A claim is made a moment before its pod; an agent
// that has just started may see the one and not the other yet. Its watches catch up within seconds.
const settleAfter = time.Minute

// leavesWithin is how long after its deletion timestamp a pod is waited for that leaves its claims: its kubelet has
// stopped it by then and needs a moment to say so. After that its node is taken for lost, and another id is used
// (#1099).
const leavesWithin = 30 * time.Second

// state is what the pods say of an instance; of several pods with one id the highest counts.
type state int

const (
	absent  state = iota // no pod has the id
	gone                 // its pod is terminating
	leaving              // its pod is removed, and the claims with it
	waiting              // its pod ended, and the claims wait for the next
	live
)

// instance is an id with its pod and its claims.
type instance struct {
	id     string
	state  state
	pod    *corev1.Pod
	claims []*corev1.PersistentVolumeClaim
}

// Compute returns the plan for the facts. It changes nothing of them.
func Compute(f Facts) Plan {
	plan := Plan{Make: f.lost()}
	if f.Set.Identity == ByOrdinal {
		f.retain(&plan)
		return plan
	}
	if len(f.Claims) == 0 {
		return plan
	}
	mounted := sync.OnceValue(f.mounted) // only instances without a pod ask
	for _, in := range f.instances() {
		switch {
		case in.state == absent && f.Reuse:
			f.offer(&plan, in, mounted)
		case in.state == absent:
			f.remove(&plan, in, mounted)
		case in.state == live && !f.Reuse:
			// They go with the pod when it goes, whoever owns them.
		case in.state == live, in.state == waiting:
			for _, claim := range in.claims {
				f.toSet(&plan, claim)
			}
		case in.state == gone && f.Reuse:
			// Claims that went with the pod go on going, others stay for the next one.
			f.hold(&plan, in)
		default:
			for _, claim := range in.claims {
				f.toPod(&plan, claim, in.pod)
			}
		}
	}
	return plan
}

// instances returns the instances that have claims of ours, the one with the oldest claim first.
func (f Facts) instances() []*instance {
	byID := map[string]*instance{}
	of := func(id string) *instance {
		if byID[id] == nil {
			byID[id] = &instance{id: id}
		}
		return byID[id]
	}
	uids := map[types.UID]bool{}
	note := func(pods []*corev1.Pod, what func(*corev1.Pod) state) {
		for _, pod := range pods {
			uids[pod.UID] = true
			if id := pod.Labels[v1beta1.LabelInstanceID]; id != "" {
				if in, s := of(id), what(pod); s > in.state {
					in.state, in.pod = s, pod
				}
			}
		}
	}
	leaves := map[types.UID]bool{}
	for _, pod := range f.Leaving {
		leaves[pod.UID] = true
	}
	note(f.Pods.Terminating, func(*corev1.Pod) state { return gone })
	note(f.Pods.Ended, func(pod *corev1.Pod) state {
		if f.Reuse && !podset.SpecifiedDelete(pod) {
			return waiting
		}
		return leaving
	})
	note(f.Pods.Active, func(pod *corev1.Pod) state {
		if leaves[pod.UID] {
			return leaving
		}
		return live
	})
	var out []*instance
	for _, claim := range slices.SortedFunc(slices.Values(f.Claims), oldest) {
		if !f.ours(claim, uids) {
			continue
		}
		in := of(claim.Labels[v1beta1.LabelInstanceID])
		if len(in.claims) == 0 {
			out = append(out, in)
		}
		in.claims = append(in.claims, claim)
	}
	return out
}

// ours reports whether the claim is the set's: by its name, and by the set or one of its pods as owner and nobody else
// as controller.
func (f Facts) ours(claim *corev1.PersistentVolumeClaim, pods map[types.UID]bool) bool {
	if templateOf(claim.Name, f.Set.Object.GetName(), claim.Labels[v1beta1.LabelInstanceID]) == "" {
		return false
	}
	controller := metav1.GetControllerOfNoCopy(claim)
	if controller != nil {
		return controller.UID == f.Set.Object.GetUID() || (isPod(*controller) && pods[controller.UID])
	}
	return slices.ContainsFunc(claim.OwnerReferences,
		func(ref metav1.OwnerReference) bool { return isPod(ref) && pods[ref.UID] })
}

// mounted returns the names of the claims that pods of the set use, whatever their labels say.
func (f Facts) mounted() map[string]bool {
	out := map[string]bool{}
	for _, bucket := range buckets(f.Pods) {
		for _, pod := range bucket {
			for i := range pod.Spec.Volumes {
				if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
					out[source.ClaimName] = true
				}
			}
		}
	}
	return out
}

// remove plans the deletion of the claims of an instance without a pod.
func (f Facts) remove(plan *Plan, in *instance, mounted func() map[string]bool) {
	for _, claim := range in.claims {
		if claim.DeletionTimestamp != nil || !f.controls(claim) || mounted()[claim.Name] {
			continue
		}
		if wait := settleAfter - f.Now.Sub(claim.CreationTimestamp.Time); wait > 0 {
			if plan.Wake == 0 || wait < plan.Wake {
				plan.Wake = wait
			}
			continue
		}
		plan.Delete = append(plan.Delete, Removal{Claim: claim, Why: WhyNoPod})
	}
}

// offer puts the id of an instance without a pod among the free ones, if it may be used again: it has a claim of a
// template that the set still has, no claim of it leaves or is in use, and what it lacks can be made.
func (f Facts) offer(plan *Plan, in *instance, mounted func() map[string]bool) {
	has := map[string]bool{}
	for _, claim := range in.claims {
		if claim.DeletionTimestamp != nil || mounted()[claim.Name] || !f.controls(claim) {
			return
		}
		has[claim.Name] = true
	}
	wanted := false
	var conflicts []*Conflict
	for i := range f.Set.Templates {
		name := Name(f.Set.Templates[i].Name, f.Set.Object.GetName(), in.id)
		if has[name] {
			wanted = true
			continue
		}
		if other := f.named(name); other != nil {
			if other.DeletionTimestamp != nil || f.controls(other) || slices.ContainsFunc(other.OwnerReferences, isPod) {
				return // it went with its pod and is about to be gone, or the cache has just changed
			}
			conflicts = append(conflicts, f.Set.conflict(other))
		}
	}
	switch {
	case !wanted: // nobody needs the names either
	case len(conflicts) > 0:
		plan.Conflicts = append(plan.Conflicts, conflicts...)
	default:
		plan.Free = append(plan.Free, in.id)
	}
}

// hold makes a new pod wait for the one that is about to leave it its claims.
func (f Facts) hold(plan *Plan, in *instance) {
	if in.pod.DeletionTimestamp == nil {
		return
	}
	for _, claim := range in.claims {
		if claim.DeletionTimestamp != nil || !f.controls(claim) {
			return
		}
	}
	wait := in.pod.DeletionTimestamp.Add(leavesWithin).Sub(f.Now)
	if wait <= 0 {
		return
	}
	plan.Hold++
	if plan.Wake == 0 || wait < plan.Wake {
		plan.Wake = wait
	}
}

func (f Facts) named(name string) *corev1.PersistentVolumeClaim {
	if f.Named == nil {
		return nil
	}
	return f.Named(name)
}

func (s Set) conflict(claim *corev1.PersistentVolumeClaim) *Conflict {
	return &Conflict{Claim: claim, Set: s.Kind.Kind + " " + s.Object.GetName()}
}

func (f Facts) controls(claim *corev1.PersistentVolumeClaim) bool {
	controller := metav1.GetControllerOfNoCopy(claim)
	return controller != nil && controller.UID == f.Set.Object.GetUID()
}

// toPod gives a claim to the pod that it goes with. Other owners stay.
func (f Facts) toPod(plan *Plan, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) {
	if claim.DeletionTimestamp != nil || !f.controls(claim) {
		return
	}
	owners := without(claim, func(ref metav1.OwnerReference) bool {
		return ref.UID == f.Set.Object.GetUID() || ref.UID == pod.UID
	})
	owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
	plan.Own = append(plan.Own, Transfer{Claim: claim, Owners: owners, Why: WhyGoesWithPod})
}

// toSet takes a claim back from pods. Other owners stay.
func (f Facts) toSet(plan *Plan, claim *corev1.PersistentVolumeClaim) {
	if claim.DeletionTimestamp != nil || f.controls(claim) {
		return
	}
	owners := without(claim, func(ref metav1.OwnerReference) bool {
		return isPod(ref) || ref.UID == f.Set.Object.GetUID()
	})
	owners = append(owners, *metav1.NewControllerRef(f.Set.Object, f.Set.Kind))
	plan.Own = append(plan.Own, Transfer{Claim: claim, Owners: owners, Why: WhyKept})
}

func without(claim *corev1.PersistentVolumeClaim, drop func(metav1.OwnerReference) bool) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(claim.OwnerReferences), drop)
}

// oldest orders claims by age, then by name.
func oldest(a, b *corev1.PersistentVolumeClaim) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// IDs returns the instance ids of n new pods: the free ones first, then new ones from random, none twice and none that
// taken knows.
func (p Plan) IDs(n int, random func() string, taken func(id string) bool) []string {
	out := make([]string, 0, n)
	out = append(out, p.Free[:min(n, len(p.Free))]...)
	used := make(map[string]bool, n)
	for _, id := range p.Free {
		used[id] = true
	}
	for len(out) < n {
		if id := random(); !used[id] && !taken(id) {
			used[id] = true
			out = append(out, id)
		}
	}
	return out
}
