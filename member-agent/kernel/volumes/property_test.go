package volumes_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// world is a random state of pods and claims.
type world struct {
	set    volumes.Set
	reuse  bool
	pods   podset.Set
	claims map[string]*corev1.PersistentVolumeClaim
	out    []*corev1.Pod // pods that the controller removes
	now    time.Time
	most   int // instances that were needed at one time
}

func newWorld(r *rand.Rand) *world {
	var templates []corev1.PersistentVolumeClaim
	for _, name := range []string{"data", "log"} {
		if r.IntN(4) > 0 {
			templates = append(templates, claimTemplate(name, "1Gi"))
		}
	}
	w := &world{set: newSet(templates...), reuse: r.IntN(2) == 0, claims: map[string]*corev1.PersistentVolumeClaim{},
		now: start.Add(time.Hour)}
	mounting := newSet(claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi"))
	for i := range 8 {
		id := fmt.Sprintf("id%03d", i)
		pod := newPod(mounting, id)
		switch r.IntN(6) {
		case 0, 1:
			w.pods.Active = append(w.pods.Active, pod)
			if r.IntN(4) == 0 {
				w.out = append(w.out, pod)
			}
		case 2:
			w.pods.Ended = append(w.pods.Ended, pod)
			w.out = append(w.out, pod)
		case 3:
			w.pods.Terminating = append(w.pods.Terminating, pod)
		}
		for _, template := range []string{"data", "log", "gone"} {
			claim := newClaim(w.set, template, id, time.Duration(r.IntN(180))*time.Second)
			switch r.IntN(8) {
			case 0:
				continue
			case 1:
				ofPod(claim, id)
			case 2:
				claim.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", UID: "db", Controller: new(true)}}
			case 3:
				going(claim)
			case 4:
				claim.OwnerReferences = nil
			}
			w.claims[claim.Name] = claim
		}
	}
	return w
}

func (w *world) plan(r *rand.Rand) volumes.Plan {
	claims := slices.Collect(maps.Values(w.claims))
	slices.SortFunc(claims, func(a, b *corev1.PersistentVolumeClaim) int { return len(a.Name) - len(b.Name) })
	r.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	return volumes.Compute(volumes.Facts{
		Set: w.set, Reuse: w.reuse, Claims: claims, Pods: w.pods, Leaving: w.out, Now: w.now,
		Named: func(name string) *corev1.PersistentVolumeClaim { return w.claims[name] },
	})
}

// apply carries a plan out as the API server would.
func (w *world) apply(p volumes.Plan) {
	for _, t := range p.Own {
		t.Claim.OwnerReferences = t.Owners
	}
	for _, r := range p.Delete {
		delete(w.claims, r.Claim.Name)
	}
}

func TestPlansAreSafeAndComeToRest(t *testing.T) {
	deleted, freed, moved := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(r)
		p := w.plan(r)
		if again := w.plan(r); describe(again) != describe(p) {
			t.Fatalf("seed %d: the order of claims matters: %s and %s", seed, describe(p), describe(again))
		}
		w.check(t, seed, p)
		deleted, freed, moved = deleted+len(p.Delete), freed+len(p.Free), moved+len(p.Own)
		w.apply(p)
		rest := w.plan(r)
		if len(rest.Own)+len(rest.Delete) > 0 || !slices.Equal(rest.Free, p.Free) {
			t.Fatalf("seed %d: after %q comes %q", seed, describe(p), describe(rest))
		}
	}
	if deleted < 100 || freed < 100 || moved < 100 {
		t.Errorf("the worlds are too tame: %d deletions, %d free ids, %d transfers", deleted, freed, moved)
	}
}

// check checks one plan against what must never be.
func (w *world) check(t *testing.T, seed uint64, p volumes.Plan) {
	t.Helper()
	has := map[string]*corev1.Pod{}
	for _, bucket := range [][]*corev1.Pod{w.pods.Terminating, w.pods.Ended, w.pods.Active} {
		for _, pod := range bucket {
			has[pod.Name] = pod
		}
	}
	podOf := func(claim *corev1.PersistentVolumeClaim) *corev1.Pod {
		return has["web-"+claim.Name[len(claim.Name)-5:]]
	}
	for _, d := range p.Delete {
		if pod := podOf(d.Claim); pod != nil {
			t.Fatalf("seed %d: claim %s of pod %s is deleted", seed, d.Claim.Name, pod.Name)
		}
		if w.reuse || !metav1.IsControlledBy(d.Claim, w.set.Object) || d.Claim.DeletionTimestamp != nil {
			t.Fatalf("seed %d: claim %s is deleted, reuse %v, owners %v", seed, d.Claim.Name, w.reuse, d.Claim.OwnerReferences)
		}
	}
	seen := map[string]bool{}
	for _, id := range p.Free {
		if seen[id] || has["web-"+id] != nil || !w.reuse {
			t.Fatalf("seed %d: id %s is offered, twice %v, its pod %v", seed, id, seen[id], has["web-"+id])
		}
		seen[id] = true
		for i := range w.set.Templates {
			claim := w.claims[volumes.Name(w.set.Templates[i].Name, "web", id)]
			if claim != nil && (claim.DeletionTimestamp != nil || !metav1.IsControlledBy(claim, w.set.Object)) {
				t.Fatalf("seed %d: id %s is offered with claim %s, which leaves or is another's", seed, id, claim.Name)
			}
		}
	}
	stays := func(pod *corev1.Pod) bool { return slices.Contains(w.pods.Active, pod) && !slices.Contains(w.out, pod) }
	for _, own := range p.Own {
		if pod := podOf(own.Claim); pod == nil || own.Why == volumes.WhyGoesWithPod && stays(pod) {
			t.Fatalf("seed %d: claim %s goes with pod %v", seed, own.Claim.Name, pod)
		}
		if ref := metav1.GetControllerOf(own.Claim); ref != nil && ref.Kind != v1beta1.CloneSetKind.Kind {
			t.Fatalf("seed %d: claim %s of %s is taken", seed, own.Claim.Name, ref.Name)
		}
	}
}

// Over the life of a workload no id has two pods, and what a staying pod mounts is there.
func TestIDsOverALife(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := &world{set: newSet(claimTemplate("data", "1Gi"), claimTemplate("log", "1Gi")), reuse: true,
			claims: map[string]*corev1.PersistentVolumeClaim{}, now: start.Add(time.Hour)}
		random := func() string { return fmt.Sprintf("r%04d", r.IntN(300)) }
		for range 60 {
			w.now = w.now.Add(time.Minute)
			w.out = nil
			if len(w.pods.Active) > 0 {
				switch pod := w.pods.Active[0]; r.IntN(4) {
				case 0: // somebody deletes it
					w.pods.Active, w.pods.Terminating = w.pods.Active[1:], append(w.pods.Terminating, pod)
				case 1: // the controller does
					w.out = append(w.out, pod)
				case 2: // its node evicts it
					w.pods.Active, w.pods.Ended = w.pods.Active[1:], append(w.pods.Ended, pod)
				}
			}
			w.out = append(w.out, w.pods.Ended...)
			p := w.plan(r)
			w.check(t, seed, p)
			w.apply(p)
			w.step(r, t, seed, p, random)
		}
	}
}

// step carries out the rest of a pass: pods go, some are gone with what they own, new ones come.
func (w *world) step(r *rand.Rand, t *testing.T, seed uint64, p volumes.Plan, random func() string) {
	t.Helper()
	for _, pod := range w.out {
		w.pods.Active = slices.DeleteFunc(slices.Clone(w.pods.Active), func(o *corev1.Pod) bool { return o == pod })
		w.pods.Terminating = append(w.pods.Terminating, pod)
	}
	w.pods.Ended = nil
	ids := map[string]bool{}
	for _, pod := range slices.Concat(w.pods.Active, w.pods.Terminating) {
		ids[pod.Name] = true
	}
	if r.IntN(3) == 0 {
		for _, pod := range w.pods.Terminating {
			maps.DeleteFunc(w.claims, func(_ string, c *corev1.PersistentVolumeClaim) bool {
				return c.OwnerReferences[0].UID == pod.UID
			})
		}
		w.pods.Terminating = nil
	}
	taken := func(id string) bool {
		return ids["web-"+id] || w.claims["data-web-"+id] != nil || w.claims["log-web-"+id] != nil
	}
	for _, id := range p.IDs(max(0, 3-len(w.pods.Active)), random, taken) {
		if ids["web-"+id] {
			t.Fatalf("seed %d: id %s is used while a pod has it", seed, id)
		}
		ids["web-"+id] = true
		provision := w.set.For(&corev1.PodTemplateSpec{}, "", nil)
		missing := provision.Missing(id, func(name string) *corev1.PersistentVolumeClaim { return w.claims[name] })
		if r.IntN(5) == 0 {
			missing = missing[:min(1, len(missing))] // a quota stops the pass, and the pod is not made
		}
		for _, claim := range missing {
			claim.CreationTimestamp = metav1.NewTime(w.now)
			w.claims[claim.Name] = claim
		}
		if w.claims["data-web-"+id] == nil || w.claims["log-web-"+id] == nil {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: newPod(w.set, id).ObjectMeta}
		provision.Attach(pod, id)
		w.pods.Active = append(w.pods.Active, pod)
	}
	for _, pod := range w.pods.Active {
		for _, volume := range pod.Spec.Volumes {
			if claim := w.claims[volume.PersistentVolumeClaim.ClaimName]; claim == nil ||
				!metav1.IsControlledBy(claim, w.set.Object) {
				t.Fatalf("seed %d: pod %s lacks claim %s", seed, pod.Name, volume.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	// No more instances are begun than there ever were pods at one time.
	if w.most = max(w.most, len(ids)); len(w.claims) > 2*w.most {
		t.Fatalf("seed %d: %d claims for at most %d pods", seed, len(w.claims), w.most)
	}
}
