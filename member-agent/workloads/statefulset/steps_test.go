package statefulset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

func inSteps(steps ...v1beta1.UpdateStep) change {
	return func(set *v1beta1.StatefulSet) { set.Spec.Flotilla = &v1beta1.FlotillaSpec{Steps: steps} }
}

// at returns steps at these partitions, which wait until they are promoted.
func at(partitions ...string) (steps []v1beta1.UpdateStep) {
	for _, p := range partitions {
		steps = append(steps, v1beta1.UpdateStep{Partition: intstr.Parse(p)})
	}
	return steps
}

// promote does what flotilla rollout promote does.
func promote(set *v1beta1.StatefulSet) {
	if p, sequence := waves.ReadProgress(set.Status.UpdateProgress); p != nil {
		set.Annotations = map[string]string{
			topology.AnnotationWave: waves.ApproveWord(set.Status.UpdateProgress.Revision, sequence, p)}
	}
}

// after makes passes for a time, each with what kubelets do.
func (w *world) after(d time.Duration) Plan {
	w.Helper()
	var plan Plan
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second) {
		plan = w.pass()
		w.kubelet(nil)
	}
	return plan
}

// images returns the images of the pods in the order of their ordinals: "1122".
func (w *world) images() string {
	pods := slices.SortedFunc(slices.Values(w.pods), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var out strings.Builder
	for _, pod := range pods {
		out.WriteString(strings.TrimPrefix(pod.Spec.Containers[0].Image, "app:"))
	}
	return out.String()
}

func (w *world) condition(name string) v1beta1.StatefulSetCondition {
	for _, c := range w.set.Status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.StatefulSetCondition{}
}

func TestStoriesOfSteps(t *testing.T) {
	image := func(name string) func(*world) { return func(w *world) { w.image(name) } }
	scale := func(n int32) func(*world) { return func(w *world) { w.set.Spec.Replicas = &n } }
	set := func(c change) func(*world) { return func(w *world) { c(w.set) } }
	word := set(promote)
	type step struct {
		why    string
		change func(*world)
		after  time.Duration
		want   string // images
		waits  string // a part of what the step waits for; "none" if no step is in progress
	}
	for name, story := range map[string]struct {
		steps []v1beta1.UpdateStep
		story []step
	}{
		"an update stops at each step until it is promoted": {at("75%", "1"), []step{
			{"the first template has no steps", nil, time.Minute, "1111", "none"},
			{"a new template", image("app:2"), time.Minute, "1112", "step 1 of 2 (partition 75%)"},
			{"nothing goes on by itself", nil, time.Hour, "1112", "waits until it is promoted: flotilla rollout promote"},
			{"promoted", word, time.Minute, "1222", "step 2 of 2 (partition 1)"},
			{"what was said of a step is said of no other", nil, time.Hour, "1222", "waits until it is promoted"},
			{"promoted again", word, time.Minute, "2222", "none"},
			{"the next template begins at the first step", image("app:3"), time.Minute, "2223", "step 1 of 2"},
		}},
		"a step goes on after its soak": {
			[]v1beta1.UpdateStep{{Partition: intstr.FromString("50%"), Soak: "10m"}}, []step{
				{"", image("app:1"), time.Minute, "1111", "none"},
				{"it soaks", image("app:2"), 5 * time.Minute, "1122", "soaks until"},
				{"it has soaked", nil, 10 * time.Minute, "2222", "none"},
			}},
		"a soak may need a person as well": {
			[]v1beta1.UpdateStep{{Partition: intstr.FromInt32(3), Soak: "1m", Approval: v1beta1.StepRequired}}, []step{
				{"", nil, time.Minute, "1111", "none"},
				{"it has soaked", image("app:2"), time.Hour, "1112", "waits until it is promoted"},
				{"promoted", word, time.Minute, "2222", "none"},
			}},
		"a change back goes everywhere at once": {at("3"), []step{
			{"", nil, time.Minute, "1111", "none"},
			{"", image("app:2"), time.Minute, "1112", "promoted"},
			{"back", image("app:1"), time.Minute, "1111", "none"},
			{"forth again goes in steps", image("app:2"), time.Minute, "1112", "step 1 of 1"},
		}},
		"the larger partition counts": {at("2"), []step{
			{"", nil, time.Minute, "1111", "none"},
			{"that of the spec is larger", func(w *world) { partition(3)(w.set); w.image("app:2") }, time.Minute, "1112",
				"the partition lets no more pods be updated"},
			{"and lowered", set(partition(0)), time.Minute, "1122", "waits until it is promoted"},
		}},
		"a paused update waits": {at("3"), []step{
			{"", nil, time.Minute, "1111", "none"},
			{"paused", func(w *world) { paused(w.set); w.image("app:2") }, time.Minute, "1111", "the workload is paused"},
			{"resumed", set(func(s *v1beta1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Paused = false }), time.Minute,
				"1112", "waits until it is promoted"},
		}},
		"scaling keeps the step": {at("50%"), []step{
			{"", nil, time.Minute, "1111", "none"},
			{"", image("app:2"), time.Minute, "1122", "promoted"},
			{"more pods are created from the new template", scale(6), time.Minute, "112222", "promoted"},
			{"fewer", scale(3), time.Minute, "112", "promoted"},
		}},
		"a step that takes too long stops the update": {
			[]v1beta1.UpdateStep{{Partition: intstr.FromInt32(2), Timeout: "30s"}}, []step{
				{"", nil, time.Minute, "1111", "none"},
				{"the new pods get not ready", image("app:broken"), 2 * time.Minute, "11brokenbroken",
					"failed at"},
				{"another template begins anew", image("app:3"), time.Minute, "1133", "step 1 of 1"},
			}},
		"without steps the rest is updated": {at("3"), []step{
			{"", nil, time.Minute, "1111", "none"},
			{"", image("app:2"), time.Minute, "1112", "promoted"},
			{"the steps are removed", set(func(s *v1beta1.StatefulSet) { s.Spec.Flotilla = nil }), time.Minute, "2222", "none"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4, parallel, maxUnavailable(4), inSteps(story.steps...))
			sick := func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == "app:broken" }
			for i, s := range story.story {
				if s.change != nil {
					s.change(w)
				}
				var plan Plan
				for end := w.now.Add(s.after); w.now.Before(end); w.now = w.now.Add(5 * time.Second) {
					plan = w.pass()
					w.kubelet(sick)
				}
				waits := plan.StepWaits
				if waits == "" {
					waits = "none"
				}
				if got := w.images(); got != s.want || !strings.Contains(waits, s.waits) {
					t.Fatalf("%d (%s): %s, want %s; it waits: %s, want %s", i, s.why, got, s.want, waits, s.waits)
				}
				ready := w.condition(v1beta1.ConditionReady)
				held := ptr.Deref(rollingOf(w.set).Partition, 0) > 0 // what the user's partition asks for is done
				if waits != "none" && (ready.Status != corev1.ConditionFalse && !held || !strings.Contains(ready.Message, waits)) {
					t.Errorf("%d (%s): Ready is %+v", i, s.why, ready)
				}
				if failed := strings.Contains(waits, "failed at"); failed != (plan.Stalled != nil) {
					t.Errorf("%d (%s): stalled by %+v", i, s.why, plan.Stalled)
				}
			}
		})
	}
}

// TestNoUpdatePassesAStep holds over random steps that no more pods are updated than the step in progress lets, that
// passes at rest change no status, and that the update ends when every step is promoted.
func TestNoUpdatePassesAStep(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 31))
		replicas := 1 + r.Int32N(9)
		var steps []v1beta1.UpdateStep
		keeps := map[string]int32{}
		for percent := 100 - r.Int32N(30); percent > 0; percent -= 1 + r.Int32N(50) {
			text := fmt.Sprint(percent) + "%"
			steps = append(steps, v1beta1.UpdateStep{Partition: intstr.FromString(text)})
			if keeps[text] = max(min((replicas*percent+99)/100, replicas-1), 0); percent == 100 {
				keeps[text] = replicas
			}
		}
		w := newWorld(t, replicas, parallel, maxUnavailable(1+r.Int32N(9)), inSteps(steps[:min(len(steps), 16)]...))
		if seed%3 == 0 {
			inPlace(w.set)
		}
		w.settle(nil)
		w.image("app:2")
		for round := 0; ; round++ {
			w.after(time.Second)
			p := w.set.Status.UpdateProgress
			if updated := int32(strings.Count(w.images(), "2")); p != nil && p.Number <= p.Of &&
				updated > replicas-keeps[p.Partition] {
				t.Fatalf("seed %d: %d of %d pods are updated at partition %s", seed, updated, replicas, p.Partition)
			}
			if strings.Count(w.images(), "2") == int(replicas) && p != nil && p.Number > p.Of {
				break
			}
			if round > 1000 {
				t.Fatalf("seed %d: it does not end: %s, %+v", seed, w.images(), p)
			}
			if r.IntN(3) == 0 {
				promote(w.set)
			}
		}
		w.settle(nil)
		before := w.set.Status.DeepCopy()
		if w.after(time.Minute); !equality.Semantic.DeepEqual(before.UpdateProgress, w.set.Status.UpdateProgress) {
			t.Errorf("seed %d: %+v at rest", seed, w.set.Status.UpdateProgress)
		}
	}
}

// TestADefinitionWithoutTheFieldStopsUpdates: steps that the API server dropped must not be passed over.
func TestADefinitionWithoutTheFieldStopsUpdates(t *testing.T) {
	w := newWorld(t, 3, parallel, maxUnavailable(3)).have("oo-")
	f := w.facts()
	f.NotServed = true
	plan, err := Compute(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(plan); got != "+2:1" || plan.Stalled == nil || plan.Stalled.Reason != reasonFieldNotServed {
		t.Errorf("%q, %+v", got, plan.Stalled)
	}
	for text, want := range map[string]bool{
		"": false, "{": false, `{"spec":{"replicas":3}}`: false, `{"spec":{"flotilla":null}}`: false,
		`{"spec":{"flotilla":{"steps":[{"partition":1}]}}}`: true,
	} {
		w.set.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: text}
		if got := asksForFlotilla(w.set); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
