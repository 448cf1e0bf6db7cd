package podset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
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

func TestDaemon(t *testing.T) {
	on := func(node string, ready corev1.ConditionStatus, program string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeName, p.Labels = node, map[string]string{"app.kubernetes.io/name": program}
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		}
	}
	source, err := sourceOf(pod("a", "", on("runs", "True", "flotilla-node")), pod("b", "", on("starts", "False",
		"flotilla-node")), pod("c", "", on("ends", "True", "flotilla-node"), deleting),
		pod("d", "", on("other", "True", "web")))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"runs", "starts", "ends", "other", "none", ""} {
		if got := source.Daemon(node); got != (node == "runs") {
			t.Errorf("node %q: %t", node, got)
		}
	}
}

func TestObserve(t *testing.T) {
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	source, err := sourceOf(
		pod("a", "u"), pod("b", "u"), pod("c", "u", deleting), pod("d", "u", failed), pod("e", "u", failed, deleting),
		pod("f", "other"), pod("g", ""), pod("h", "", deleting), pod("i", "", func(p *corev1.Pod) { p.Labels = nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	set, err := source.Observe("u", nil)
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
	if podset.SpecifiedDelete(pod("a", "u")) || !podset.SpecifiedDelete(pod("a", "u",
		func(p *corev1.Pod) { p.Labels[v1beta1.LabelSpecifiedDelete] = "" })) {
		t.Error("any value of the label asks for deletion, and only the label")
	}
}

func TestStrangers(t *testing.T) {
	unlabelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web-debug"} }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	source, err := sourceOf(pod("a", "u"), pod("b", "u", unlabelled), pod("c", "u", unlabelled, failed),
		pod("d", "u", unlabelled, deleting),
		pod("e", "other", unlabelled), pod("f", "u", failed))
	if err != nil {
		t.Fatal(err)
	}
	names := func(pods []*corev1.Pod) string {
		var out []string
		for _, p := range pods {
			out = append(out, p.Name)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	for _, tt := range []struct {
		name                                  string
		selector                              labels.Selector
		active, ended, terminating, strangers string
	}{
		{"with a selector", selector, "a", "f", "d", "b c"},
		{"without one nobody is a stranger", nil, "a b", "c f", "d", ""},
	} {
		set, err := source.Observe("u", tt.selector)
		if err != nil {
			t.Fatal(err)
		}
		if names(set.Active) != tt.active || names(set.Ended) != tt.ended || names(set.Terminating) != tt.terminating ||
			names(set.NoLongerMatching) != tt.strangers {
			t.Errorf("%s: observed %+v", tt.name, set)
		}
	}
	if orphans, err := source.Orphans("shop", selector); err != nil || len(orphans) > 0 {
		t.Errorf("a stranger is an orphan before it is released: %v, %v", orphans, err)
	}
}

func TestLabelForm(t *testing.T) {
	with := func(label string) *corev1.Pod {
		return pod("a", "u", func(p *corev1.Pod) { p.Labels[podset.LabelRevision] = label })
	}
	for _, tt := range []struct {
		name  string
		pods  []*corev1.Pod
		short bool
		want  history.Form
	}{
		{"the first pods", nil, false, history.FullForm},
		{"the installation wants it short", []*corev1.Pod{with("web-abc")}, true, history.ShortForm},
		{"all short", []*corev1.Pod{with("abc"), with("xyz")}, false, history.ShortForm},
		{"adopted pods without the label do not count", []*corev1.Pod{with(""), with("abc"), pod("b", "u")}, false,
			history.ShortForm},
		{"only pods without the label", []*corev1.Pod{with(""), pod("b", "u")}, false, history.FullForm},
		{"mixed", []*corev1.Pod{with("abc"), with("web-abc"), with("abc")}, false, history.FullForm},
	} {
		if got := (podset.Set{Active: tt.pods}).LabelForm(tt.short); got != tt.want {
			t.Errorf("%s: form %d, want %d", tt.name, got, tt.want)
		}
	}
}

// BenchmarkObserve gives the costs of one unchanged pod in a set of 500, with a selector of one and of three
// requirements.
func BenchmarkObserve(b *testing.B) {
	const n = 500
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, pod(fmt.Sprint("web-", i), "u", func(p *corev1.Pod) {
			for _, key := range []string{"tier", "team", podset.LabelRevision, v1beta1.LabelInstanceID,
				v1beta1.LabelLifecycleState, v1beta1.LabelPodTemplateHash} {
				p.Labels[key] = "x"
			}
		}))
	}
	source, err := sourceOf(pods...)
	if err != nil {
		b.Fatal(err)
	}
	one, err := labels.Parse("app=web")
	if err != nil {
		b.Fatal(err)
	}
	three, err := labels.Parse("app=web,tier in (x,y),!debug")
	if err != nil {
		b.Fatal(err)
	}
	for name, selector := range map[string]labels.Selector{"no selector": nil, "one requirement": one,
		"three requirements": three} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := source.Observe("u", selector); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/pod")
		})
	}
}

// sourceOf returns a source over these pods.
func sourceOf(pods ...*corev1.Pod) (*podset.Source, error) {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for _, object := range pods {
		if err := indexer.Add(object); err != nil {
			return nil, err
		}
	}
	return podset.FromIndexer(indexer)
}
