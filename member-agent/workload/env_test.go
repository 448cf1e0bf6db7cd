package workload_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// TestAmountsHoldInPlaceOfTheSpec resolves limits of a member with 10 of a workload's 30 replicas. Its spec has the
// user's limits for all of them.
func TestAmountsHoldInPlaceOfTheSpec(t *testing.T) {
	spec := budget.Limits{Replicas: 10, Partition: 10, MaxUnavailable: 1, MaxSurge: 4, ScaleMaxUnavailable: 5}
	amounts := func(updated, unavailable, surge int32, paused bool) *topology.MemberBudget {
		return &topology.MemberBudget{
			Budget: topology.Budget{Updated: updated, Unavailable: unavailable, Surge: surge}, Paused: paused,
		}
	}
	for _, test := range []struct {
		what                      string
		amounts                   *topology.MemberBudget
		kept, unavailable, surge  int32
		pausedBySpec, stopsUpdate bool
	}{
		{"an order without amounts: the spec holds", nil, 10, 1, 4, false, false},
		{"an order without amounts, paused by the spec", nil, 10, 1, 4, true, true},
		{"more than the member's part of the user's limits", amounts(6, 3, 2, false), 4, 3, 2, false, false},
		{"less than the user's limits", amounts(1, 0, 1, false), 9, 0, 1, false, false},
		{"nothing: it waits for its turn", amounts(4, 0, 0, true), 6, 0, 0, false, true},
		{"a pause takes the surge away", amounts(4, 2, 3, true), 6, 2, 0, false, true},
		{"paused by the user", amounts(4, 2, 0, false), 6, 2, 0, true, true},
		{"more pods than there are", amounts(99, 1, 0, false), 0, 1, 0, false, false},
		{"negative amounts are nothing", amounts(-1, -2, -3, false), 10, 0, 0, false, false},
	} {
		b := workload.Budget{Amounts: test.amounts}
		want := budget.Limits{
			Replicas: 10, Partition: test.kept, MaxUnavailable: test.unavailable, MaxSurge: test.surge, ScaleMaxUnavailable: 5,
		}
		if got := b.Limits(spec); got != want {
			t.Errorf("%s: %+v, want %+v", test.what, got, want)
		}
		if got := b.Paused(test.pausedBySpec); got != test.stopsUpdate {
			t.Errorf("%s: paused %t", test.what, got)
		}
	}
}

func TestAmountsAreReadFromTheAnnotation(t *testing.T) {
	for value, want := range map[string]*topology.MemberBudget{
		"": nil,
		`{"updated":3,"unavailable":1,"surge":2}`: {Budget: topology.Budget{Updated: 3, Unavailable: 1,
			Surge: 2}},
		`{"updated":3,"unavailable":0,"surge":0,"paused":true}`: {Budget: topology.Budget{Updated: 3}, Paused: true},
	} {
		object := &metav1.PartialObjectMetadata{}
		if value != "" {
			object.Annotations = map[string]string{topology.AnnotationBudget: value}
		}
		got, err := workload.AmountsOf(object)
		if err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%q: %+v, %v, want %+v", value, got, err, want)
		}
	}
	object := &metav1.PartialObjectMetadata{}
	object.Annotations = map[string]string{topology.AnnotationBudget: "{"}
	if got, err := workload.AmountsOf(object); err == nil {
		t.Errorf("read %+v of an annotation that is no JSON", got)
	}
}

// TestOrdersInAnnotationsAreObservedBySequence: the generation of an object says nothing about an annotation.
func TestOrdersInAnnotationsAreObservedBySequence(t *testing.T) {
	for _, test := range []struct {
		what     string
		status   map[string]any
		observed bool
	}{
		{"no status", nil, false},
		{"an earlier order", map[string]any{"observedSequence": int64(4), "observedGeneration": int64(2)}, false},
		{"this order", map[string]any{"observedSequence": int64(5)}, true},
	} {
		live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"generation": int64(2), "annotations": map[string]any{topology.AnnotationSequence: "5"},
		}}}
		if test.status != nil {
			live.Object["status"] = test.status
		}
		if got := workload.ObservedSequence(live); got != test.observed {
			t.Errorf("%s: observed %t", test.what, got)
		}
	}
}
