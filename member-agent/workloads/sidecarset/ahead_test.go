package sidecarset

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workload/ahead"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/rollout"
)

// aheadScope is a pass over a SidecarSet whose image changes in two namespaces.
func aheadScope() *scope {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "logs", UID: "u", Annotations: map[string]string{
		"apps.kruise.io/image-predownload-parallelism": "2"}}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	s := &scope{pass: &pass{Object: set, Memory: &memory{}}, set: set,
		latest: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "logs-2"}}}
	s.plan.Counts = rollout.Counts{Matched: 9}
	s.plan.Ahead = rollout.Images{"shop": {"log": "log:2"}, "bank": {"log": "log:2"}}
	return s
}

func TestSidecarImagesArePulledAhead(t *testing.T) {
	const both = "[bank/logs-2-log shop/logs-2-log]"
	for _, tt := range []struct {
		name   string
		change func(*scope)
		want   string
	}{
		{"one job in each namespace", nil, both},
		{"not asked for", func(s *scope) { s.set.Annotations = nil }, "[]"},
		{"three pods", func(s *scope) { s.plan.Counts.Matched = 3 }, "[]"},
		{"all at once", func(s *scope) {
			s.set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromString("100%"))
		}, "[]"},
		{"all at once, but for a partition", func(s *scope) {
			s.set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromString("100%"))
			s.set.Spec.UpdateStrategy.Partition = new(intstr.FromInt32(1))
		}, both},
		{"the hub grants all at once", func(s *scope) {
			s.Budget.Amounts = &topology.MemberBudget{Budget: topology.Budget{Updated: 9, Unavailable: 9}}
		}, "[]"},
		{"the hub grants less", func(s *scope) {
			s.set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromString("100%"))
			s.Budget.Amounts = &topology.MemberBudget{Budget: topology.Budget{Updated: 9, Unavailable: 1}}
		}, both},
		{"too few updated pods are ready", func(s *scope) {
			s.set.Annotations["apps.kruise.io/image-predownload-min-updated-ready-pods"] = "1"
		}, "[]"},
		{"all are updated", func(s *scope) { s.plan.Ahead = nil }, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := aheadScope()
			if tt.change != nil {
				tt.change(s)
			}
			wish := ahead.Of(s.set, nil)
			jobs := s.jobsAhead(&wish)
			begin, err := s.beginAhead(&wish)
			if !begin {
				jobs = nil
			}
			if got := fmt.Sprint(slices.Sorted(maps.Keys(jobs))); err != nil || got != tt.want {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
		})
	}
	s := aheadScope()
	wish := ahead.Of(s.set, nil)
	job := s.jobAhead(&wish, "shop", "log", "log:2")
	if job.Spec.Image != "log:2" || job.Spec.Parallelism.IntVal != 2 || job.Spec.PullSecrets[0] != "registry" ||
		job.Spec.PodSelector.MatchLabels["app"] != "web" || !metav1.IsControlledBy(job, s.set) {
		t.Errorf("%+v", job)
	}
}

// TestPullsAheadForUpdatedPodsAlone: nodes of pods that updateStrategy.selector leaves out pull nothing.
func TestPullsAheadForUpdatedPodsAlone(t *testing.T) {
	s := aheadScope()
	s.set.Spec.UpdateStrategy.Selector = &metav1.LabelSelector{
		MatchLabels:      map[string]string{"app": "web", "canary": "yes"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	selector, err := metav1.LabelSelectorAsSelector(s.jobAhead(&ahead.Wish{}, "shop", "log", "log:2").Spec.PodSelector)
	if got, want := fmt.Sprint(selector), "app in (web),app in (web),canary in (yes),!old"; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// TestJobsThatPullSidecarImages: an undone update and namespaces whose pods are updated lose their jobs.
func TestJobsThatPullSidecarImages(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := aheadScope()
	foreign := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mine"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(foreign).Build()
	r := &Reconciler{Controller: &workload.Controller[*v1beta1.SidecarSet, memory]{
		Client: c, Live: c, Events: events.NewFakeRecorder(100)}}
	pass := func(want string) {
		t.Helper()
		if next, err := r.pullAhead(t.Context(), s); !next || err != nil {
			t.Fatal(next, err)
		}
		var list v1beta1.ImagePullJobList
		if err := c.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range list.Items {
			got = append(got, list.Items[i].Namespace+"/"+list.Items[i].Name)
		}
		if slices.Sort(got); fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	pass("[bank/logs-2-log shop/logs-2-log shop/mine]")
	pass("[bank/logs-2-log shop/logs-2-log shop/mine]")
	delete(s.plan.Ahead, "bank") // its pods are updated
	pass("[shop/logs-2-log shop/mine]")
	s.latest.Name = "logs-1" // undone
	s.plan.Ahead = rollout.Images{"bank": {"log": "log:1"}}
	pass("[bank/logs-1-log shop/mine]")
	s.Memory.ahead = aheadState{} // the agent was started again
	pass("[bank/logs-1-log shop/mine]")
	annotations := s.set.Annotations
	s.set.Annotations = map[string]string{"apps.kruise.io/image-predownload-parallelism": "2",
		"apps.kruise.io/image-predownload-min-updated-ready-pods": "1"}
	s.plan.Ahead["shop"] = map[string]string{"log": "log:1"}
	pass("[bank/logs-1-log shop/mine]") // an updated pod is not ready any more
	s.plan.Counts.UpdatedReady = 1
	pass("[bank/logs-1-log shop/logs-1-log shop/mine]")
	s.plan.Counts.UpdatedReady = 0
	pass("[bank/logs-1-log shop/logs-1-log shop/mine]")
	s.set.Annotations = nil
	s.Memory.ahead = aheadState{} // the agent was started again
	pass("[shop/mine]")
	s.set.Annotations = annotations
	pass("[bank/logs-1-log shop/logs-1-log shop/mine]")
	s.set.Annotations = nil
	pass("[shop/mine]")
	if err := c.Delete(t.Context(), foreign); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}
