package podset_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

func pod(name string, owner types.UID, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "CloneSet", Name: "web", UID: owner, Controller: new(true)}}
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }

func TestObserve(t *testing.T) {
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	source, err := podset.NewSourceOf(
		pod("a", "u"), pod("b", "u"), pod("c", "u", deleting), pod("d", "u", failed), pod("e", "u", failed, deleting),
		pod("f", "other"), pod("g", ""), pod("h", "", deleting), pod("i", "", func(p *corev1.Pod) { p.Labels = nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	set, err := source.Observe("u")
	if err != nil || len(set.Active) != 2 || len(set.Ended) != 1 || len(set.Terminating) != 2 {
		t.Errorf("observed %+v, %v", set, err)
	}
	orphans, err := source.Orphans("shop", labels.SelectorFromSet(labels.Set{"app": "web"}))
	if err != nil || len(orphans) != 1 || orphans[0].Name != "g" {
		t.Errorf("orphans %v, %v", orphans, err)
	}
	if orphans, _ := source.Orphans("shop", labels.Everything()); len(orphans) > 0 {
		t.Error("an empty selector took pods over")
	}
	if seen := source.Get(types.NamespacedName{Namespace: "shop", Name: "c"}); !seen.Present || !seen.Deleting {
		t.Errorf("seen %+v", seen)
	}
	if seen := source.Get(types.NamespacedName{Namespace: "shop", Name: "x"}); seen.Present {
		t.Errorf("seen %+v", seen)
	}
}

func TestHasRevision(t *testing.T) {
	for label, want := range map[string]bool{"web-abc": true, "abc": true, "web-xyz": false, "": false} {
		p := pod("a", "u", func(p *corev1.Pod) { p.Labels[podset.LabelRevision] = label })
		if got := podset.HasRevision(p, "abc"); got != want {
			t.Errorf("label %q: %v", label, got)
		}
	}
	if podset.HasRevision(pod("a", "u"), "") {
		t.Error("no revision is a pod's revision")
	}
}

func TestSpecifiedDelete(t *testing.T) {
	if podset.SpecifiedDelete(pod("a", "u")) || !podset.SpecifiedDelete(pod("a", "u", func(p *corev1.Pod) { p.Labels[v1beta1.LabelSpecifiedDelete] = "" })) {
		t.Error("any value of the label asks for deletion, and only the label")
	}
}

func BenchmarkObserve500(b *testing.B) {
	var pods []*corev1.Pod
	for i := range 500 {
		pods = append(pods, pod(string(rune('a'+i%26))+string(rune('a'+i/26)), "u"))
	}
	source, err := podset.NewSourceOf(pods...)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := source.Observe("u"); err != nil {
			b.Fatal(err)
		}
	}
}
