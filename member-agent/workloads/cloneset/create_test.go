package cloneset

import (
	"testing"

	"github.com/flotilla-dev/flotilla/member-agent/workload"
	corev1 "k8s.io/api/core/v1"
)

func TestAPassCreatesABoundedNumberOfPods(t *testing.T) {
	old, update := workload.Revision{Template: &corev1.PodTemplateSpec{}},
		workload.Revision{Template: &corev1.PodTemplateSpec{}}
	got := toCreate([]Creation{{Revision: old, Count: 3}, {Revision: update, Count: 2_000_000_000}}, nil)
	if len(got) != workload.CreatesPerPass || got[2].Template != old.Template || got[3].Template != update.Template {
		t.Errorf("%d pods, want %d: 3 old ones first", len(got), workload.CreatesPerPass)
	}
	if got := toCreate([]Creation{{Revision: old, Count: 2}}, nil); len(got) != 2 {
		t.Errorf("%d pods, want 2", len(got))
	}
}

func TestLater(t *testing.T) {
	plan := &Plan{Later: 2, Create: []Creation{{Count: 3}, {Count: workload.CreatesPerPass}}}
	if got := later(plan); got != 5 {
		t.Errorf("%d pods are created later, want 5", got)
	}
}
