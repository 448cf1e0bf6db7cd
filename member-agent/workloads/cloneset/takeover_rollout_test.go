package cloneset_test

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

func (c *taken) edit(name string, f func(*v1beta1.CloneSet)) {
	c.Helper()
	cs := c.cloneSet(name)
	before := cs.DeepCopy()
	f(cs)
	c.must(c.Patch(c.Context(), cs, client.MergeFrom(before)))
}

// podsOf returns the pods of a CloneSet that are not being deleted, by name.
func (c *taken) podsOf(name string) map[string]corev1.Pod {
	c.Helper()
	cs, out := c.cloneSet(name), map[string]corev1.Pod{}
	for pod, object := range c.state().pods {
		if metav1.IsControlledBy(&object, cs) && object.DeletionTimestamp == nil {
			out[pod] = object
		}
	}
	return out
}

// finish lowers the partition to 0 and waits until all pods have the update revision and are available. It returns the
// pods before and after, and the names of those to which the controller wrote.
func (c *taken) finish(name string) (before, after map[string]corev1.Pod, written map[string]bool) {
	c.Helper()
	before = c.podsOf(name)
	skip := len(c.writes(0))
	c.edit(name, func(cs *v1beta1.CloneSet) { cs.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(0)) })
	c.done(name)
	written = map[string]bool{}
	for _, write := range c.writes(skip) {
		if strings.Contains(write, "/persistentvolumeclaims") || strings.Contains(write, "/controllerrevisions") {
			c.Errorf("a rollout that goes on needs no %s", write)
		}
		if _, rest, ok := strings.Cut(write, "/namespaces/"+c.namespace+"/pods/"); ok {
			pod, _, _ := strings.Cut(rest, "?")
			pod, _, _ = strings.Cut(pod, "/")
			written[pod] = true
		}
	}
	return before, c.podsOf(name), written
}

// done waits until the CloneSet is at rest with all pods on the update revision.
func (c *taken) done(name string) {
	c.Helper()
	c.eventually(name+" comes to rest", func() string {
		cs := c.cloneSet(name)
		s, all := cs.Status, *cs.Spec.Replicas
		if s.ObservedGeneration != cs.Generation || s.Replicas != all || s.UpdatedAvailableReplicas != all ||
			s.AvailableReplicas != all ||
			s.CurrentRevision != s.UpdateRevision || len(c.podsOf(name)) != int(all) {
			return fmt.Sprintf("generation %d, status %+v", cs.Generation, s)
		}
		return ""
	})
}

// finishInPlace expects that the rest of the rollout is made in the running pods, and that those updated before stay
// alone.
func (c *taken) finishInPlace(name string) {
	left := c.cloneSet(name)
	before, after, written := c.finish(name)
	c.expectSame(before, after)
	for pod, was := range before {
		is := after[pod]
		if updated(left, &was) {
			if written[pod] || is.Status.ContainerStatuses[0].RestartCount != was.Status.ContainerStatuses[0].RestartCount ||
				is.Status.ContainerStatuses[0].ContainerID != was.Status.ContainerStatuses[0].ContainerID ||
				!reflect.DeepEqual(is.Labels, was.Labels) || !reflect.DeepEqual(is.Annotations, was.Annotations) {
				c.Errorf("pod %s was updated already, and yet it went from %+v to %+v", pod, was, is)
			}
			continue
		}
		if n := is.Status.ContainerStatuses[0].RestartCount; !written[pod] ||
			n != was.Status.ContainerStatuses[0].RestartCount+1 {
			c.Errorf("pod %s restarted %d times", pod, n)
		}
	}
	c.expectRevisions(name)
	c.expectLikeRecorded(name, after)
}

// finishAnew expects that the rest of the pods is replaced.
func (c *taken) finishAnew(name string) {
	left := c.cloneSet(name)
	before, after, written := c.finish(name)
	for pod, was := range before {
		is, stayed := after[pod]
		if stayed != updated(left, &was) {
			c.Errorf("pod %s of revision %s stayed: %v", pod, was.Labels["controller-revision-hash"], stayed)
		}
		if stayed && (is.UID != was.UID || written[pod]) {
			c.Errorf("pod %s was updated already, and yet it was touched", pod)
		}
	}
	c.expectRevisions(name)
	c.expectLikeRecorded(name, after)
}

// goTo gives the CloneSet the spec that it has in a later moment. What we make of that must be what the manager made of
// it.
func (c *taken) goTo(moment, name string) {
	later := readRecorded(c, moment)
	want := later.cloneSet(name)
	c.edit(name, func(cs *v1beta1.CloneSet) { cs.Spec = want.Spec })
	c.eventually(name+" is where it was", func() string {
		is := c.cloneSet(name).Status
		if is.UpdatedAvailableReplicas != want.Status.UpdatedAvailableReplicas ||
			is.AvailableReplicas != want.Status.AvailableReplicas ||
			is.UpdateRevision != want.Status.UpdateRevision {
			return fmt.Sprintf("status %+v", is)
		}
		return ""
	})
	c.expectLeftAlike(later, name)
}

// grow adds a pod, which must look like those that are there.
func (c *taken) grow(name string) {
	c.edit(name, func(cs *v1beta1.CloneSet) { *cs.Spec.Replicas++ })
	c.done(name)
	for pod, object := range c.podsOf(name) {
		if object.Labels["controller-revision-hash"] != object.Labels[v1beta1.LabelPodTemplateHash] {
			c.Errorf("pod %s names its revision in another form: %v", pod, object.Labels)
		}
	}
}

// expectRevisions fails unless the revisions are those that were recorded, under their names and numbers.
func (c *taken) expectRevisions(name string) {
	c.Helper()
	now := c.state().revisions
	for _, was := range c.recorded.revisions(name) {
		if is, ok := now[was.Name]; !ok || is.Revision != was.Revision {
			c.Errorf("revision %s has number %d, was %d", was.Name, is.Revision, was.Revision)
		}
		delete(now, was.Name)
	}
	cs := c.cloneSet(name)
	for _, revision := range now {
		if metav1.IsControlledBy(&revision, cs) {
			c.Errorf("revision %s is new", revision.Name)
		}
	}
}

// expectLikeRecorded fails unless every pod looks like a recorded one of the update revision.
func (c *taken) expectLikeRecorded(name string, pods map[string]corev1.Pod) {
	c.Helper()
	cs := c.recorded.cloneSet(name)
	var want map[string]string
	for _, pod := range c.recorded.pods(name) {
		if updated(cs, pod) {
			want = shapeOfPod(c, pod)
		}
	}
	for pod, object := range pods {
		expectShape(c, "pod "+pod, shapeOfPod(c, &object), want)
	}
}
