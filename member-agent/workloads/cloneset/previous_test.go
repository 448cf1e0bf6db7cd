package cloneset

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const templateOfApp1 = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"app:1"}]}}`

// images counts the pods by their image.
func (s *simulated) images() map[string]int {
	n := map[string]int{}
	for _, pod := range s.pods() {
		n[pod.Spec.Containers[0].Image]++
	}
	return n
}

// annotate changes the template of before, "" for none, and the spec, as one order does.
func (s *simulated) annotate(what, before string, edit func(*v1beta1.CloneSetSpec)) {
	s.Tell("hub: %s", what)
	err := s.Change("CloneSet", simKey(), func(obj client.Object) {
		if cs, ok := obj.(*v1beta1.CloneSet); ok {
			cs.Annotations = nil
			if before != "" {
				cs.Annotations = map[string]string{topology.AnnotationTemplateBefore: before}
			}
			edit(&cs.Spec)
		}
	})
	if err != nil {
		s.Fail(fmt.Errorf("the hub: %w", err))
	}
}

func partitioned(replicas, partition int32) func(*v1beta1.CloneSetSpec) {
	return func(spec *v1beta1.CloneSetSpec) {
		spec.Replicas, spec.UpdateStrategy.RollingUpdate.Partition = &replicas, new(intstr.FromInt32(partition))
	}
}

// TestTemplateBefore: a CloneSet that comes to a member in the middle of an update makes pods which are not to be
// updated of the template that the update leaves, whatever goes wrong meanwhile, and updates them when it may.
func TestTemplateBefore(t *testing.T) {
	for i, profile := range profiles() {
		for seed := range uint64(3) {
			for _, policy := range []v1beta1.PodUpdatePolicyType{v1beta1.InPlaceIfPossiblePodUpdatePolicy,
				v1beta1.ReCreatePodUpdatePolicy} {
				t.Run(fmt.Sprintf("profile %d, seed %d, %s", i, seed, policy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						joinDuringUpdate(t, simulator.Options{Seed: seed, Profile: profile, Story: true, Guard: true}, policy)
					})
				})
			}
		}
	}
}

func joinDuringUpdate(t *testing.T, o simulator.Options, policy v1beta1.PodUpdatePolicyType) {
	s := newSimulated(o)
	err := s.joinDuringUpdate(policy)
	s.Stop()
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Story())
	}
}

func (s *simulated) joinDuringUpdate(policy v1beta1.PodUpdatePolicyType) error {
	cs := simCloneSet(5, policy)
	cs.Spec.Template.Spec.Containers[0].Image = "app:2"
	cs.Annotations = map[string]string{topology.AnnotationTemplateBefore: templateOfApp1}
	partitioned(5, 5)(&cs.Spec)
	if err := s.begin(cs); err != nil {
		return err
	}
	if err := s.RunFor(15 * time.Millisecond); err != nil { // it may be in the middle of anything
		return err
	}
	if err := s.Restart(); err != nil {
		return err
	}
	if err := s.imagesAre("none is to be updated", map[string]int{"app:1": 5}); err != nil {
		return err
	}
	if status := s.cloneSet().Status; status.UpdatedReplicas != 0 || status.CurrentRevision == status.UpdateRevision {
		return fmt.Errorf("status %+v", status)
	}
	for _, stage := range []struct {
		what, before        string
		replicas, partition int32
		want                map[string]int
	}{
		{"5 of 8 are to be updated", templateOfApp1, 8, 3, map[string]int{"app:1": 3, "app:2": 5}},
		{"back to 2 of 8", templateOfApp1, 8, 6, map[string]int{"app:1": 6, "app:2": 2}},
		{"all", "", 8, 0, map[string]int{"app:2": 8}},
		{"a part again, and all have been updated", templateOfApp1, 8, 4, map[string]int{"app:2": 8}},
		{"to nothing", "", 0, 0, map[string]int{}},
		{"and back, before the update is over", templateOfApp1, 4, 3, map[string]int{"app:1": 3, "app:2": 1}},
	} {
		s.annotate(stage.what, stage.before, partitioned(stage.replicas, stage.partition))
		if err := s.imagesAre(stage.what, stage.want); err != nil {
			return err
		}
	}
	return nil
}

// imagesAre waits for rest, and tells what is wrong with the pods then.
func (s *simulated) imagesAre(what string, want map[string]int) error {
	if err := s.rest(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if got := s.images(); !maps.Equal(got, want) {
		return fmt.Errorf("%s: the pods are %v, want %v; status %+v", what, got, want, s.cloneSet().Status)
	}
	return nil
}

// TestTemplateBeforeThatCannotBeRead says what is wrong, and with what.
func TestTemplateBeforeThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":        `annotation topology.flotilla.dev/template-before is "": unexpected end of JSON input; the hub writes it as a pod template, remove it if no hub owns this object`,
		"null":    `annotation topology.flotilla.dev/template-before is "null": it has no containers; the hub writes it as a pod template, remove it if no hub owns this object`,
		`{"a":1}`: `annotation topology.flotilla.dev/template-before is "{\"a\":1}": it has no containers; the hub writes it as a pod template, remove it if no hub owns this object`,
	} {
		cs := simCloneSet(1, v1beta1.ReCreatePodUpdatePolicy)
		cs.Annotations = map[string]string{topology.AnnotationTemplateBefore: text}
		if _, cause := validate(cs); cause == nil || cause.Reason != workload.ReasonInvalidTemplate || cause.Message != want {
			t.Errorf("%q: %+v, want %s", text, cause, want)
		}
	}
	if template, cause := workload.ReadPrevious(simCloneSet(1, v1beta1.ReCreatePodUpdatePolicy)); template != nil ||
		cause != nil {
		t.Errorf("without the annotation: %v, %v", template, cause)
	}
}
