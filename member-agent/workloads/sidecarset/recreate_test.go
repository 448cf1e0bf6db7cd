package sidecarset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// TestHelped: an eviction has not helped if the new pod lacks the sidecars, unless these have changed since.
func TestHelped(t *testing.T) {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "logs"}}
	set.Spec.Containers = []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "log", Image: "log:1"}}}
	hashes, err := revision.HashesOf(&set.Spec)
	if err != nil {
		t.Fatal(err)
	}
	pod := func(uid string, sets ...inject.Set) *corev1.Pod {
		out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}}
		out.Spec.Containers = []corev1.Container{{Name: "app"}}
		if err := inject.Pod(out, sets, inject.Allowed{}, metav1.Now().Time); err != nil {
			t.Fatal(err)
		}
		return out
	}
	injected := inject.Set{Name: set.Name, Spec: &set.Spec, Hashes: hashes, Revision: "logs-1"}
	for _, tt := range []struct {
		name   string
		hash   string
		active []*corev1.Pod
		want   bool
	}{
		{"the new pod has them", hashes.All, []*corev1.Pod{pod("old"), pod("new", injected)}, true},
		{"the new pod lacks them", hashes.All, []*corev1.Pod{pod("old"), pod("new")}, false},
		{"there is no new pod", hashes.All, []*corev1.Pod{pod("old")}, true},
		{"the SidecarSet has changed", "other", []*corev1.Pod{pod("old"), pod("new")}, true},
	} {
		e := eviction{hash: tt.hash, known: map[types.UID]bool{"old": true}}
		if got := e.helped(&scope{set: set, hashes: hashes}, tt.active); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// TestAbsent: an evicted pod is absent until its workload has created another one.
func TestAbsent(t *testing.T) {
	e := eviction{uid: "old", known: map[types.UID]bool{"old": true, "other": true}}
	for _, tt := range []struct {
		active string
		want   bool
	}{{"old other", false}, {"other", true}, {"", true}, {"other new", false}} {
		var active []*corev1.Pod
		for _, uid := range strings.Fields(tt.active) {
			active = append(active, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}})
		}
		if got := e.absent(active); got != tt.want {
			t.Errorf("with %q: %t", tt.active, got)
		}
	}
}

// TestAskBoth: a PodUnavailableBudget records nothing for a pod that the API server does not evict.
func TestAskBoth(t *testing.T) {
	for _, tt := range []struct{ name, budgets, server, asked, want string }{
		{"all agree", "", "", "dry server real", ""},
		{"the API server refuses", "", "a PodDisruptionBudget", "dry server", "a PodDisruptionBudget"},
		{"a budget refuses, and records that the pod waits", "no", "", "dry real", "no"},
	} {
		var asked []string
		why, err := askBoth(func(dryRun bool) (string, error) {
			asked = append(asked, map[bool]string{true: "dry", false: "real"}[dryRun])
			return tt.budgets, nil
		}, func() string {
			asked = append(asked, "server")
			return tt.server
		})
		if err != nil || why != tt.want || strings.Join(asked, " ") != tt.asked {
			t.Errorf("%s: asked %v, %q, %v", tt.name, asked, why, err)
		}
	}
}
