package sidecarset

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// TestObserved: counters of an earlier revision are never those of the newest generation, by which a hub would take its
// update for done.
func TestObserved(t *testing.T) {
	counts := rollout.Counts{Matched: 9, Updated: 1, Ready: 9, UpdatedReady: 1}
	for _, tt := range []struct {
		name       string
		change     func(*scope)
		generation int64
		updated    int32
	}{
		{"the revision is there", func(s *scope) { s.latest = &appsv1.ControllerRevision{} }, 2, 1},
		{"the revision could not be written", func(s *scope) { s.Fail(failureRevision, errors.New("timeout")) }, 1, 9},
		{"a person has to correct it", func(s *scope) { s.Stalled = &conditions.Cause{Reason: reasonInvalidSpec} }, 2, 0},
	} {
		set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		set.Status = v1beta1.SidecarSetStatus{ObservedGeneration: 1, MatchedPods: 9, UpdatedPods: 9, UpdatedReadyPods: 9,
			NotUpdatablePods: 3}
		s := &scope{pass: &pass{Object: set, Memory: &memory{}}, set: set, plan: rollout.Plan{Counts: counts}}
		tt.change(s)
		got := s.status(time.Unix(1000, 0))
		if got.ObservedGeneration != tt.generation || got.UpdatedPods != tt.updated ||
			got.UpdatedReadyPods != tt.updated || got.MatchedPods != 9 {
			t.Errorf("%s: generation %d, %+v", tt.name, got.ObservedGeneration, got)
		}
	}
}
