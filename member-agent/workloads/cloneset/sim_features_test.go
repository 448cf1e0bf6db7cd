package cloneset

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
)

var simFeatures = flag.String("features", "", "what all simulated CloneSets have: hooks, claims, batches, order, "+
	"spread, strange; else the seed decides")

// features are what a random CloneSet has beside pods and updates.
type features struct {
	// hooks are lifecycle hooks, and somebody outside who serves them.
	hooks bool
	// claims are volumeClaimTemplates.
	claims bool
	// batches are two containers of different priority, with cpu that changes and grace periods.
	batches bool
	// order is what a user says about the order of updates.
	order bool
	// spread is a WorkloadSpread.
	spread bool
	// strange are webhooks, quotas, and people who touch what is not theirs.
	strange bool
}

// featuresOf spreads the features over the seeds: a quarter of the runs have none, and are cheap.
func featuresOf(seed uint64) features {
	if *simFeatures != "" {
		return features{hooks: strings.Contains(*simFeatures, "hooks"), claims: strings.Contains(*simFeatures, "claims"),
			batches: strings.Contains(*simFeatures, "batches"), order: strings.Contains(*simFeatures, "order"),
			spread: strings.Contains(*simFeatures, "spread"), strange: strings.Contains(*simFeatures, "strange")}
	}
	return []features{{}, {hooks: true}, {spread: true}, {claims: true}, {strange: true}, {batches: true, order: true},
		{spread: true, order: true},
		{hooks: true, claims: true, batches: true, order: true, spread: true}}[seed%8]
}

// give gives a CloneSet the features.
func (f features) give(cs *v1beta1.CloneSet, r *rand.Rand) {
	if f.hooks {
		cs.Spec.Lifecycle = randomLifecycle(r)
		cs.Spec.ScaleStrategy.ExcludePreparingDelete = r.IntN(3) == 0
	}
	if f.claims {
		cs.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{simClaim("data")}
		cs.Spec.ScaleStrategy.EnablePVCReuse = r.IntN(2) == 0
	}
	if f.batches {
		twoBatches(cs, r.Int32N(5))
	}
}

// twoBatches gives a CloneSet a second container of a higher priority, cpu, and a grace period in seconds.
func twoBatches(cs *v1beta1.CloneSet, seconds int32) {
	spec := &cs.Spec.Template.Spec
	spec.Containers = append(spec.Containers, corev1.Container{Name: "side", Image: "side:1"})
	for i := range spec.Containers {
		spec.Containers[i].Env = []corev1.EnvVar{{Name: "KRUISE_CONTAINER_PRIORITY", Value: fmt.Sprint(i)}}
		setCPU(&spec.Containers[i], 1)
	}
	cs.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &v1beta1.InPlaceUpdateStrategy{GracePeriodSeconds: seconds}
}

func setCPU(c *corev1.Container, n int64) {
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
}

func simClaim(name string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

// randomLifecycle returns hooks of a few labels and finalizers, some of which may be shared.
func randomLifecycle(r *rand.Rand) *v1beta1.Lifecycle {
	hook := func(mayMark bool) *v1beta1.LifecycleHook {
		if r.IntN(3) == 0 {
			return nil
		}
		out := &v1beta1.LifecycleHook{MarkPodNotReady: mayMark && r.IntN(2) == 0}
		for len(out.LabelsHandler)+len(out.FinalizersHandler) == 0 {
			for _, name := range []string{"drain", "traffic", "config"} {
				if r.IntN(4) == 0 {
					if out.LabelsHandler == nil {
						out.LabelsHandler = map[string]string{}
					}
					out.LabelsHandler[partyPrefix+name] = "held"
				}
			}
			for _, name := range []string{"lb", "backup"} {
				if r.IntN(4) == 0 {
					out.FinalizersHandler = append(out.FinalizersHandler, partyPrefix+name)
				}
			}
		}
		return out
	}
	return &v1beta1.Lifecycle{PreDelete: hook(true), InPlaceUpdate: hook(true), PreNormal: hook(false)}
}

func hookText(l *v1beta1.Lifecycle) string {
	if l == nil {
		return "none"
	}
	out := ""
	for _, h := range []struct {
		name string
		hook *v1beta1.LifecycleHook
	}{{"preDelete", l.PreDelete}, {"inPlaceUpdate", l.InPlaceUpdate}, {"preNormal", l.PreNormal}} {
		if h.hook != nil {
			out += fmt.Sprintf("%s %v %v mark %v; ", h.name, h.hook.LabelsHandler, h.hook.FinalizersHandler,
				h.hook.MarkPodNotReady)
		}
	}
	return out
}

// actions returns what a user does with the features.
func (u *user) actions() []func() {
	r, f := u.random, u.features
	var out []func()
	if f.hooks {
		out = append(out, func() {
			l := randomLifecycle(r)
			if r.IntN(4) == 0 {
				l = nil
			}
			u.spec("lifecycle "+hookText(l), func(s *v1beta1.CloneSetSpec) { s.Lifecycle = l })
		}, func() {
			exclude := r.IntN(2) == 0
			u.spec(fmt.Sprintf("excludePreparingDelete %v", exclude), func(s *v1beta1.CloneSetSpec) {
				s.ScaleStrategy.ExcludePreparingDelete = exclude
			})
		})
	}
	if f.claims {
		out = append(out, u.claimTemplates, u.deleteClaim, u.deleteHeld, u.deleteHeld, func() {
			reuse := r.IntN(2) == 0
			u.spec(fmt.Sprintf("enablePVCReuse %v", reuse), func(s *v1beta1.CloneSetSpec) {
				s.ScaleStrategy.EnablePVCReuse = reuse
			})
		})
	}
	if f.batches {
		out = append(out, func() {
			image := fmt.Sprintf("side:%d", r.IntN(3))
			u.spec("image "+image, func(s *v1beta1.CloneSetSpec) { s.Template.Spec.Containers[1].Image = image })
		}, func() {
			n := r.IntN(4)
			u.spec(fmt.Sprintf("images app:%d and side:%d", n, n), func(s *v1beta1.CloneSetSpec) {
				s.Template.Spec.Containers[0].Image, s.Template.Spec.Containers[1].Image = fmt.Sprintf("app:%d", n),
					fmt.Sprintf("side:%d", n)
			})
		}, func() {
			i, n := r.IntN(2), 1+r.Int64N(3)
			u.spec(fmt.Sprintf("cpu %d of container %d", n, i), func(s *v1beta1.CloneSetSpec) {
				setCPU(&s.Template.Spec.Containers[i], n)
			})
		}, func() {
			n := r.Int32N(5)
			u.spec(fmt.Sprintf("gracePeriodSeconds %d", n), func(s *v1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &v1beta1.InPlaceUpdateStrategy{GracePeriodSeconds: n}
			})
		})
	}
	if f.order {
		out = append(out, func() {
			w := randomWish(r)
			u.spec(w.text(), w.write)
		}, func() {
			for _, pod := range u.pods() {
				u.labelPod(pod.Name, r)
			}
		})
	}
	if f.spread {
		out = append(out, u.caps, u.caps, u.closeOrOpen, u.removeSpread)
	}
	if f.strange {
		out = append(out, u.strangeActions()...)
	}
	return out
}

func (u *user) claimTemplates() {
	more := u.random.IntN(2) == 0
	u.spec(fmt.Sprintf("a claim for logs: %v", more), func(s *v1beta1.CloneSetSpec) {
		s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{simClaim("data")}
		if more {
			s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, simClaim("logs"))
		}
	})
}

// deleteClaim deletes a claim that a pod uses: it goes with the pod.
func (u *user) deleteClaim() {
	claims := u.List("PersistentVolumeClaim")
	if len(claims) == 0 {
		return
	}
	claim := claims[u.random.IntN(len(claims))]
	for _, pod := range u.pods() {
		if pod.Spec.NodeName != "" && simulator.Mounts(pod, claim.GetName()) {
			u.Tell("user: delete claim %s", claim.GetName())
			u.check.givenUp[claim.GetUID()] = true
			if err := u.Delete("PersistentVolumeClaim", client.ObjectKeyFromObject(claim)); err != nil {
				u.Fail(err)
			}
			return
		}
	}
}

// deleteHeld deletes a pod that stays terminating for a long time.
func (u *user) deleteHeld() {
	name := u.anyPod(u.random)
	if name == "" {
		return
	}
	u.Tell("user: delete %s, whose volume hangs", name)
	letGo := u.Kubelet.Hold(podKey(name))
	u.letGo = append(u.letGo, letGo)
	if u.random.IntN(3) > 0 {
		u.After(time.Duration(u.random.IntN(30))*time.Second, letGo)
	}
	if err := u.Delete("Pod", podKey(name)); err != nil {
		u.Fail(err)
	}
}
