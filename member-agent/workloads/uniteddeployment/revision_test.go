package uniteddeployment

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// joined is a UnitedDeployment of 4 pods that came to a member in the middle of an update, of which so many are not to
// be updated.
func joined(t *testing.T, base, before string, stays int32) *observed {
	t.Helper()
	o := &observed{ud: fixture(t, base, 4, "a"), revision: "web-2", known: map[types.UID]written{}}
	if before != "" {
		o.ud.Annotations = map[string]string{topology.AnnotationTemplateBefore: before}
	}
	if stays > 0 {
		o.ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": stays}}
	}
	o.limits = map[string]topology.SubsetLimit{"a": {MaxUnavailable: 1}}
	var bad *problem
	if o.previous, bad = readPrevious(o.ud); bad != nil {
		t.Fatalf("%+v", bad)
	}
	return o
}

const (
	cloneSetBefore    = `{"cloneSetTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:0"}]}}}}}`
	statefulSetBefore = `{"statefulSetTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:0"}]}}}}}`
)

// TestTemplateBeforeOfCloneSets: a child gets the template of before as long as pods of it are to keep that, with the
// term, the labels and the patch of its subset, and loses it again.
func TestTemplateBeforeOfCloneSets(t *testing.T) {
	o := joined(t, cloneSets, cloneSetBefore, 3)
	o.ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{"metadata":{"annotations":{"of":"a"}}}`)
	p, err := makePlan(o)
	if err != nil || len(p.create) != 1 {
		t.Fatalf("%v, %v", err, p)
	}
	made, _ := p.create[0].object.(*kruise.CloneSet)
	text := made.Annotations[topology.AnnotationTemplateBefore]
	for _, want := range []string{`"image":"web:0"`, `"of":"a"`, fmt.Sprintf("%q:%q", kruise.LabelSubset, "a"),
		fmt.Sprintf("%q:%q", kruise.LabelSubsetRevision, o.previous.revision)} {
		if !strings.Contains(text, want) {
			t.Errorf("the template of before lacks %s: %s", want, text)
		}
	}
	if o.previous.revision == "" || o.previous.revision == o.revision {
		t.Errorf("its revision is %q", o.previous.revision)
	}
	live, _ := made.DeepCopyObject().(*kruise.CloneSet)
	live.Name, live.UID, live.Generation = "web-a-x", "uid-a", 1
	live.Status = kruise.CloneSetStatus{ObservedGeneration: 1, Replicas: 4, ReadyReplicas: 4, AvailableReplicas: 4,
		UpdatedReplicas: 1}
	for _, tc := range []struct {
		what, before string
		stays        int32
		want         string // the change
	}{
		{"as it is", cloneSetBefore, 3, "[]"},
		{"all are to be updated", cloneSetBefore, 0, "[change CloneSet web-a-x to 4]"},
		{"the hub gives none", "", 3, "[change CloneSet web-a-x to 4]"},
		{"one of another kind", statefulSetBefore, 3, "[change CloneSet web-a-x to 4]"},
	} {
		next := joined(t, cloneSets, tc.before, tc.stays)
		next.ud.Spec.Topology.Subsets[0].Patch.Raw = o.ud.Spec.Topology.Subsets[0].Patch.Raw
		next.children = []child{fromCloneSet(live)}
		p, err := makePlan(next)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(actions(p)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
		}
		for _, c := range p.change {
			if _, has := c.object.GetAnnotations()[topology.AnnotationTemplateBefore]; has || !dropsPrevious(live, c.object) {
				t.Errorf("%s: the template of before stays", tc.what)
			}
		}
	}
}

// TestTemplateBeforeOfStatefulSets: a StatefulSet gets the template of before with no pods, and the newest one when its
// controller has made a revision of that, whether it is new or has given up its pods.
func TestTemplateBeforeOfStatefulSets(t *testing.T) {
	o := joined(t, statefulSets, statefulSetBefore, 3)
	live := &appsv1.StatefulSet{}
	step := func(what, want string) {
		t.Helper()
		if live.Name != "" {
			o.children = []child{fromStatefulSet(live)}
		}
		p, err := makePlan(o)
		if err != nil {
			t.Fatal(err)
		}
		var object *appsv1.StatefulSet
		got := "nothing"
		for _, c := range p.create {
			object, _ = c.object.(*appsv1.StatefulSet)
			got = "create"
		}
		for _, c := range p.change {
			object, _ = c.object.(*appsv1.StatefulSet)
			got = "change"
		}
		if object != nil {
			got += fmt.Sprintf(" %s %d-%d", object.Spec.Template.Spec.Containers[0].Image, *object.Spec.Replicas,
				*object.Spec.UpdateStrategy.RollingUpdate.Partition)
			status := live.Status
			live = object.DeepCopy()
			live.Name, live.UID, live.Status = "web-a-x", "uid-a", status
			live.Generation = status.ObservedGeneration + 1
		}
		if got != want {
			t.Fatalf("%s: %s, want %s", what, got, want)
		}
	}
	carriedOut := func(current, update string, pods, updated int32) {
		live.Status = appsv1.StatefulSetStatus{ObservedGeneration: live.Generation, Replicas: pods, ReadyReplicas: pods,
			AvailableReplicas: pods,
			UpdatedReplicas:   updated, CurrentRevision: current, UpdateRevision: update}
	}
	step("it is new", "create web:0 0-0")
	step("its controller has not seen it", "nothing")
	carriedOut("r0", "r0", 0, 0)
	step("its controller has a revision of it", "change web:1 4-3")
	carriedOut("r0", "r1", 4, 1)
	o.pods = map[types.UID][]*corev1.Pod{live.UID: stsPods(live, "r0", "r0", "r0", "r1")}
	step("at rest", "nothing")
	o.ud.Spec.Replicas = new(int32(0))
	o.ud.Spec.UpdateStrategy.ManualUpdate = nil
	step("scaled to nothing", "change web:1 0-0")
	carriedOut("r1", "r1", 0, 0)
	o.pods = nil
	o.ud.Spec.Replicas = new(int32(4))
	step("and back, with all updated", "change web:1 4-0")
	o.ud.Spec.Replicas = new(int32(0))
	carriedOut("r1", "r1", 4, 4)
	step("scaled to nothing again", "change web:1 0-0")
	o.ud.Spec.Replicas = new(int32(4))
	o.ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"a": 3}}
	carriedOut("r1", "r1", 2, 2)
	step("and back while pods still go", "nothing")
	carriedOut("r1", "r1", 0, 0)
	step("they are gone: it has to learn again", "change web:0 0-0")
	carriedOut("r1", "r0", 0, 0)
	step("its controller still has the other one", "nothing")
	carriedOut("r0", "r0", 0, 0)
	step("it has it", "change web:1 4-3")
}

// stsPods are pods of a StatefulSet, by ordinal, with these revisions.
func stsPods(set *appsv1.StatefulSet, revisions ...string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i, revision := range revisions {
		pod := &corev1.Pod{}
		pod.Name = fmt.Sprintf("%s-%d", set.Name, i)
		pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: revision}
		pods = append(pods, pod)
	}
	return pods
}

// TestTemplateBeforeThatCannotBeRead says what is wrong, and what to do.
func TestTemplateBeforeThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":   "unexpected end of JSON input",
		"{}": "it has no containers",
		`{"cloneSetTemplate":{"spec":{"template":{}}}}`: "it has no containers",
	} {
		ud := fixture(t, cloneSets, 4, "a")
		ud.Annotations = map[string]string{topology.AnnotationTemplateBefore: text}
		_, bad := readPrevious(ud)
		if bad == nil || bad.reason != ReasonInvalidTemplate || !strings.Contains(bad.message, want) ||
			!strings.Contains(bad.message, "remove it if no hub owns this object") {
			t.Errorf("%q: %+v, want %s", text, bad, want)
		}
	}
}
