package cloneset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestZones holds what a hub's annotation about zones does: where pods are made, and that zones which come, go or are
// renamed touch no pod that runs.
func TestZones(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	const name = "zones"
	w.must(w.Create(w.Context(), newCloneSet(name, 4, zones(4, `{"a":3,"b":1}`))))
	running := w.expectZones(name, "a3 b1")
	for _, pod := range running {
		if zone := w.zone(pod.Spec.NodeName); pod.Annotations[topology.AnnotationZone] != zone {
			t.Errorf("pod %s of zone %s has the annotations %v", pod.Name, zone, pod.Annotations)
		}
	}
	revision := w.get(name).Status.UpdateRevision

	t.Log("a zone gets another name")
	for _, node := range []string{"solo-a-0", "solo-a-1"} {
		w.rezone(node, "x")
	}
	w.change(name, zones(4, `{"b":1,"x":3}`))
	w.expectSame(running, w.expectZones(name, "b1 x3"))
	w.change(name, zones(6, `{"b":2,"x":4}`))
	more := w.expectZones(name, "b2 x4")
	for pod := range running {
		if _, ok := more[pod]; !ok {
			t.Errorf("pod %s is gone", pod)
		}
	}
	if got := w.get(name).Status.UpdateRevision; got != revision {
		t.Errorf("the revision is %s, was %s", got, revision)
	}

	t.Log("pods that wait in a zone that is gone are made anew in others, and pods that run stay")
	w.change(name, zones(8, `{"b":2,"gone":2,"x":4}`))
	w.eventually("two pods wait", func() string {
		waiting := 0
		for _, pod := range w.pods(name) {
			if pod.Spec.NodeName == "" && pod.Annotations[topology.AnnotationZone] == "gone" {
				waiting++
			}
		}
		if waiting != 2 {
			return fmt.Sprintf("%d wait", waiting)
		}
		return ""
	})
	w.change(name, zones(8, `{"b":3,"x":5}`))
	after := w.expectZones(name, "b3 x5")
	for pod := range more {
		if _, ok := after[pod]; !ok {
			t.Errorf("pod %s is gone", pod)
		}
	}

	t.Log("zones that cannot be read touch nothing")
	w.change(name, zones(4, `{"a":-1}`))
	w.eventually("it is stalled", func() string {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == v1beta1.ConditionStalled && c.Status == corev1.ConditionTrue && c.Reason == "InvalidZones" &&
				strings.Contains(c.Message, "less than 0") {
				return ""
			}
		}
		return "it is not"
	})
	w.expectSame(after, w.pods(name))

	t.Log("without zones pods run wherever they fit")
	w.change(name, func(cs *v1beta1.CloneSet) {
		delete(cs.Annotations, topology.AnnotationZones)
		cs.Spec.Replicas = new(int32(9))
	})
	for pod, object := range w.expectZones(name, "") {
		if _, ok := after[pod]; !ok && object.Spec.Affinity != nil {
			t.Errorf("pod %s has the affinity %v", pod, object.Spec.Affinity)
		}
	}
}

// zones gives a CloneSet replicas and their zones as a hub does, in one write.
func zones(replicas int32, text string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		cs.Spec.Replicas = &replicas
		if cs.Annotations == nil {
			cs.Annotations = map[string]string{}
		}
		cs.Annotations[topology.AnnotationZones] = text
	}
}

// expectZones waits until the controller has seen the zones and is at rest, and compares how many pods each zone has:
// "a3 b1"; "" for any.
func (w *world) expectZones(name, want string) map[string]corev1.Pod {
	w.Helper()
	var pods map[string]corev1.Pod
	w.eventually(fmt.Sprintf("%s has %s", name, want), func() string {
		cs := w.get(name)
		if cs.Status.ObservedSpread != topology.SpreadSeen(cs.Annotations) {
			return fmt.Sprintf("%q is observed", cs.Status.ObservedSpread)
		}
		pods = w.settle(name)
		count := map[string]int{}
		for _, pod := range pods {
			count[w.zone(pod.Spec.NodeName)]++
		}
		var got []string
		for _, zone := range slices.Sorted(maps.Keys(count)) {
			got = append(got, fmt.Sprintf("%s%d", zone, count[zone]))
		}
		if text := strings.Join(got, " "); want != "" && text != want {
			return text
		}
		return ""
	})
	return pods
}

// zone returns the zone of a node, by its label now.
func (w *world) zone(node string) string {
	w.Helper()
	object := &corev1.Node{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: node}, object))
	return object.Labels[corev1.LabelTopologyZone]
}

// rezone gives a node another zone, and waits until the controller knows.
func (w *world) rezone(node, zone string) {
	w.Helper()
	object := &corev1.Node{}
	key := client.ObjectKey{Name: node}
	w.must(w.Get(w.Context(), key, object))
	before := object.DeepCopy()
	object.Labels[corev1.LabelTopologyZone] = zone
	w.must(w.Patch(w.Context(), object, client.MergeFrom(before)))
	w.eventually("the controller knows "+node, func() string {
		var cached corev1.Node
		w.must(w.cached.Get(w.Context(), key, &cached))
		return strings.TrimPrefix(cached.Labels[corev1.LabelTopologyZone], zone)
	})
}
