package cloneset

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// grace is when an update began that is to wait before it touches the containers, and for how long.
type grace struct {
	begun   time.Time
	seconds int32
}

// promises are what every write to a pod is held to, beside the limits.
func (c *checker) promises(w simulator.Write, before, after *corev1.Pod) error {
	if w.Verb == "create" && before != nil {
		return fmt.Errorf("pod %s was to be created while another one of its name is there", c.world.Name(w.Key.Name))
	}
	if before != nil && after != nil && before.UID == after.UID &&
		before.Labels[v1beta1.LabelInstanceID] != after.Labels[v1beta1.LabelInstanceID] {
		return fmt.Errorf("%s got another instance id", c.world.Name(after.Name))
	}
	for _, check := range []func(simulator.Write, *corev1.Pod, *corev1.Pod) error{c.hooks, c.gracePeriod, c.batches,
		c.partition, c.spread} {
		if err := check(w, before, after); err != nil {
			return err
		}
	}
	if before != nil && before.DeletionTimestamp == nil && !podstate.Ended(before) && w.Verb == "delete" &&
		(after == nil || after.DeletionTimestamp != nil) {
		c.removed[before.Labels[v1beta1.LabelInstanceID]] = true
	}
	return nil
}

// begins tells whether the write begins an update in place.
func begins(before, after *corev1.Pod) bool {
	return before != nil && after != nil && before.Labels[podset.LabelRevision] != after.Labels[podset.LabelRevision]
}

// changed returns the containers whose image a write changed.
func changedImages(before, after *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	if before == nil || after == nil {
		return nil
	}
	for i := range after.Spec.Containers {
		if after.Spec.Containers[i].Image != before.Spec.Containers[i].Image {
			out = append(out, &after.Spec.Containers[i])
		}
	}
	return out
}

// hooks: nobody is deleted or changed in place whom a hook held when the pass began.
func (c *checker) hooks(w simulator.Write, before, after *corev1.Pod) error {
	if before == nil || c.spec.Spec.Lifecycle == nil {
		return nil
	}
	have, l := c.seen[before.UID], c.spec.Spec.Lifecycle
	if have == nil || !podstate.Active(have) {
		return nil
	}
	if w.Verb == "delete" && holdsPod(l.PreDelete, have) {
		return fmt.Errorf("%s was deleted while preDelete holds it", c.world.Name(before.Name))
	}
	if (begins(before, after) || len(changedImages(before, after)) > 0) && holdsPod(l.InPlaceUpdate, have) {
		return fmt.Errorf("%s was updated in place while inPlaceUpdate holds it", c.world.Name(before.Name))
	}
	return nil
}

// gracePeriod: images are written only when the grace period has passed in full.
func (c *checker) gracePeriod(_ simulator.Write, before, after *corev1.Pod) error {
	images := changedImages(before, after)
	if begins(before, after) {
		delete(c.graces, after.UID)
		if text := after.Annotations[v1beta1.AnnotationInPlaceUpdateGrace]; text != "" {
			var g inplace.Grace
			if err := json.Unmarshal([]byte(text), &g); err != nil {
				return fmt.Errorf("read the grace period of %s: %w", c.world.Name(after.Name), err)
			}
			c.graces[after.UID] = grace{c.world.Now(), g.GraceSeconds}
		}
		wanted := c.spec.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy
		if len(images) > 0 && wanted != nil && wanted.GracePeriodSeconds > 0 {
			return fmt.Errorf("%s got images at once, with a grace period of %d s", c.world.Name(after.Name),
				wanted.GracePeriodSeconds)
		}
		return nil
	}
	if len(images) == 0 {
		return nil
	}
	// The update began at the second that the record tells; the request that told it took a moment.
	if g, ok := c.graces[after.UID]; ok && c.world.Now().Sub(g.begun) < time.Duration(g.seconds)*time.Second-time.Second/2 {
		return fmt.Errorf("%s got images %s after its update began, with a grace period of %d s", c.world.Name(after.Name),
			c.world.Now().Sub(g.begun), g.seconds)
	}
	return nil
}

// batches: containers of different priority are never changed at once, and a later one only when the earlier ones run.
func (c *checker) batches(_ simulator.Write, before, after *corev1.Pod) error {
	images := changedImages(before, after)
	if len(images) > 1 {
		return fmt.Errorf("%s got images of two batches at once", c.world.Name(after.Name))
	}
	if len(images) == 0 || begins(before, after) || c.seen[before.UID] == nil {
		return nil
	}
	have := c.seen[before.UID]
	var record inplace.State
	if err := json.Unmarshal([]byte(have.Annotations[v1beta1.AnnotationInPlaceUpdateState]), &record); err != nil {
		return fmt.Errorf("read the record of %s: %w", c.world.Name(after.Name), err)
	}
	if record.PreCheckBeforeNext == nil {
		return nil
	}
	for i := range have.Status.ContainerStatuses {
		status := &have.Status.ContainerStatuses[i]
		if slices.Contains(record.PreCheckBeforeNext.ContainersRequiredReady, status.Name) && !status.Ready {
			return fmt.Errorf("%s got its next batch while %s is not ready", c.world.Name(after.Name), status.Name)
		}
	}
	return nil
}

// revisions returns the names of the revisions whose template is that of the spec.
func (c *checker) revisions() ([]*appsv1.ControllerRevision, error) {
	var out []*appsv1.ControllerRevision
	for _, obj := range c.world.List("ControllerRevision") {
		stored, ok := obj.(*appsv1.ControllerRevision)
		if !ok {
			continue
		}
		template, known := c.templates[stored.UID]
		if !known {
			decoded, err := workload.RevisionOf(stored)
			if err != nil {
				return nil, err
			}
			template = decoded.Template
			c.templates[stored.UID] = template
		}
		if want := &c.spec.Spec.Template; equality.Semantic.DeepEqual(template.Spec, want.Spec) &&
			maps.Equal(template.Labels, want.Labels) && maps.Equal(template.Annotations, want.Annotations) {
			out = append(out, stored)
		}
	}
	return out, nil
}

// partition: no write makes more pods updated than the partition allows.
func (c *checker) partition(_ simulator.Write, before, after *corev1.Pod) error {
	if after == nil || before != nil && !begins(before, after) {
		return nil
	}
	revisions, err := c.revisions()
	if err != nil {
		return err
	}
	updated := func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(revisions, func(r *appsv1.ControllerRevision) bool {
			return podset.HasRevision(pod, history.ShortHash(r))
		})
	}
	if !updated(after) || before != nil && updated(before) {
		return nil
	}
	// Pods that somebody named count for nothing; those that leave are replaced already.
	in := func(pod *corev1.Pod) bool {
		return podstate.Active(pod) && c.owns(pod) && !podset.SpecifiedDelete(pod) &&
			!slices.Contains(c.spec.Spec.ScaleStrategy.PodsToDelete, pod.Name) && !c.leaves(pod)
	}
	kept := int(c.limits.Partition)
	current := c.spec.Status.CurrentRevision
	same := true
	for _, obj := range c.world.List("ControllerRevision") {
		same = same && (obj.GetName() != current || slices.ContainsFunc(revisions, func(r *appsv1.ControllerRevision) bool {
			return r.Name == current
		}))
	}
	if same {
		// There is no other revision to create pods of.
		old := 0
		for _, pod := range c.seen {
			if in(pod) && !updated(pod) {
				old++
			}
		}
		kept = min(kept, old)
	}
	n := 0
	for _, obj := range c.world.List("Pod") {
		if pod, ok := obj.(*corev1.Pod); ok && in(pod) && updated(pod) {
			n++
		}
	}
	if most := int(c.limits.Replicas) - kept; n > most {
		return fmt.Errorf("%s is one updated pod too many: %d of %d, and partition %d allows %d", c.world.Name(after.Name), n,
			c.limits.Replicas, c.limits.Partition, most)
	}
	return nil
}

// leaves tells whether a pod is on its way out and counts no more.
func (c *checker) leaves(pod *corev1.Pod) bool {
	return c.spec.Spec.ScaleStrategy.ExcludePreparingDelete && lifecycle.State(pod) == v1beta1.LifecyclePreparingDelete
}

// claimChanged holds every change of a claim, whoever makes it, to the promise that a pod that lives keeps its claims.
func (c *checker) claimChanged(before, after client.Object) error {
	going := before != nil && before.GetDeletionTimestamp() == nil && (after == nil || after.GetDeletionTimestamp() != nil)
	if !going || c.givenUp[before.GetUID()] {
		return nil
	}
	for _, obj := range c.world.List("Pod") {
		if pod, ok := obj.(*corev1.Pod); ok && podstate.Active(pod) && simulator.Mounts(pod, before.GetName()) {
			return fmt.Errorf("claim %s goes, and %s has it", before.GetName(), c.world.Name(pod.Name))
		}
	}
	return nil
}

// podMade holds every pod that the controller makes to the promise that no two pods have one instance id. Somebody who
// makes pods by hand may copy an id.
func (c *checker) podMade(pod client.Object) error {
	id := pod.GetLabels()[v1beta1.LabelInstanceID]
	if metav1.GetControllerOf(pod) == nil {
		return nil
	}
	for _, obj := range c.world.List("Pod") {
		if obj.GetUID() != pod.GetUID() && id != "" && obj.GetLabels()[v1beta1.LabelInstanceID] == id {
			return fmt.Errorf("pods %s and %s have one instance id", c.world.Name(pod.GetName()), c.world.Name(obj.GetName()))
		}
	}
	return nil
}

// outside is told of every change of the world.
func (c *checker) outside(kind simulator.Kind, before, after client.Object) error {
	switch {
	case kind == "PersistentVolumeClaim":
		return c.claimChanged(before, after)
	case kind == "Pod" && before == nil:
		return c.podMade(after)
	}
	return nil
}

// claimsAtRest judges the claims of a world in which nothing happens any more.
func (c *checker) claimsAtRest(cs *v1beta1.CloneSet) error {
	for _, obj := range c.world.List("PersistentVolumeClaim") {
		used := slices.ContainsFunc(c.world.List("Pod"), func(o client.Object) bool {
			pod, ok := o.(*corev1.Pod)
			// A claim whose template is gone goes when the pod of its instance does.
			id := obj.GetLabels()[v1beta1.LabelInstanceID]
			return ok && (simulator.Mounts(pod, obj.GetName()) || id != "" && pod.Labels[v1beta1.LabelInstanceID] == id)
		})
		switch {
		case used:
		case !cs.Spec.ScaleStrategy.EnablePVCReuse:
			return fmt.Errorf("at rest claim %s is left, and nobody uses it", obj.GetName())
		case c.removed[obj.GetLabels()[v1beta1.LabelInstanceID]]:
			return fmt.Errorf("at rest claim %s is left, and the controller removed its pod", obj.GetName())
		}
	}
	return nil
}

// same tells whether a pod has what the template asks for.
func same(pod *corev1.Pod, template *corev1.PodTemplateSpec) bool {
	for _, key := range []string{"tier-0", "tier-1"} { // what the strange change in templates
		if pod.Labels[key] != template.Labels[key] {
			return false
		}
	}
	if pod.Annotations["note"] != template.Annotations["note"] {
		return false
	}
	own := slices.DeleteFunc(slices.Clone(pod.Spec.Containers), func(c corev1.Container) bool {
		return c.Name == injected
	})
	return slices.EqualFunc(own, template.Spec.Containers, func(have, want corev1.Container) bool {
		return have.Image == want.Image && reflect.DeepEqual(have.Env, want.Env) &&
			equality.Semantic.DeepEqual(have.Resources, want.Resources)
	})
}

// records of a checker over time.
type records struct {
	// templates are those of revisions.
	templates map[types.UID]*corev1.PodTemplateSpec
	graces    map[types.UID]grace
	// removed are the instance ids of pods that the controller removed; givenUp the claims that the user did.
	removed map[string]bool
	givenUp map[types.UID]bool
	// ws is the WorkloadSpread that the pass has found, or nil.
	ws *v1beta1.WorkloadSpread
}
