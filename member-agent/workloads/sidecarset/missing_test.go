package sidecarset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

func TestLacks(t *testing.T) {
	since := time.Unix(1000, 0)
	for _, tt := range []struct {
		name string
		age  time.Duration // since the injection began
		edit func(*corev1.Pod)
		want bool
	}{
		{"created in an outage", time.Minute, nil, true},
		{"older than the SidecarSet", -time.Minute, nil, false},
		{"created at the same time, by clocks that differ", 5 * time.Second, nil, false},
		{"injected", time.Minute, func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1beta1.AnnotationSidecarSetInjected: "a,logs"}
		}, false},
		{"injected by another one", time.Minute, func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1beta1.AnnotationSidecarSetInjected: "a"}
		}, true},
		{"it has the canary", time.Minute, func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1beta1.AnnotationSidecarSetInjected: "canary"}
		}, false},
		{"a pod of the kubelet", time.Minute, func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, false},
		{"it has ended", time.Minute, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false},
		{"it is being deleted", time.Minute, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(since.Add(tt.age))}}
			if tt.edit != nil {
				tt.edit(pod)
			}
			if got := lacks(pod, "logs", []string{"canary"}, since); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}

// TestSince: pods that were created before the selection was as it is, or while nothing was injected, are no victims.
func TestSince(t *testing.T) {
	created, now := metav1.NewTime(time.Unix(1000, 0)), time.Unix(5000, 0)
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Generation: 1, CreationTimestamp: created}}
	set.Spec.Containers = []v1beta1.SidecarContainer{{}}
	for _, step := range []struct {
		name    string
		edit    func(*scope)
		want    time.Time
		nothing bool
	}{
		{name: "a new one", want: created.Time},
		{name: "another change", edit: func(s *scope) { s.set.Generation = 2 }, want: created.Time},
		{name: "another selector", want: now, edit: func(s *scope) {
			s.set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}},
		{name: "it is paused", nothing: true, edit: func(s *scope) { s.set.Spec.InjectionStrategy.Paused = true }},
		{name: "it goes on", want: now.Add(time.Hour), edit: func(s *scope) {
			s.set.Spec.InjectionStrategy.Paused, now = false, now.Add(time.Hour)
		}},
		{name: "a conflict", nothing: true, edit: func(s *scope) { s.Stalled = &conditions.Cause{} }},
		{name: "it injects nothing", nothing: true, edit: func(s *scope) { s.Stalled, s.set.Spec.Containers = nil, nil }},
		{name: "it injects again", want: now.Add(time.Hour), edit: func(s *scope) {
			s.set.Spec.Containers = []v1beta1.SidecarContainer{{}}
		}},
		{name: "the status of another release", want: now.Add(time.Hour), edit: func(s *scope) {
			s.set.Status.Flotilla = nil
		}},
	} {
		s := &scope{pass: &pass{}, set: set}
		if step.edit != nil {
			step.edit(s)
		}
		got, err := s.progress(now)
		if err != nil {
			t.Fatal(err)
		}
		since := got.InjectingSince
		if (since == nil) != step.nothing || since != nil && !since.Time.Equal(step.want) {
			t.Errorf("%s: %v, want %v", step.name, since, step.want)
		}
		set.Status.Flotilla = got
	}
}
