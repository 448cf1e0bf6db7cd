package placement

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// TestRemember: a template that is left is kept under the name that the status gave it, in the order of use, as many as the workload
// asks for; nothing is kept while the template stays.
func TestRemember(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	r := &Reconciler{gatherer: gatherer{rules: AllRules(HubRunsNatives)}, client: c, live: c}
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "one"}}
	cs.Spec.RevisionHistoryLimit = new(int32(2))
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.Labels = map[string]string{"app": "web"}
	s := &state{key: wire.Key{Kind: "CloneSet", Namespace: "shop", Name: "web"}, object: cs, placement: &topology.WorkloadPlacement{}}
	s.placement.UID = "placement"
	change := func(image string, sequence int64) {
		t.Helper()
		cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
		w, refusal := readCloneSet(cs)
		if refusal != nil {
			t.Fatal(refusal)
		}
		next := topology.WorkloadPlacementSpec{Workload: w.Ref, Revision: w.Revision, RevisionSequence: sequence, Template: &runtime.RawExtension{Raw: w.Template}}
		for range 2 { // a write that failed after it is tried again
			if err := r.remember(t.Context(), s, &next); err != nil {
				t.Fatal(err)
			}
		}
		s.placement.Spec = next
	}
	expect := func(want string) {
		t.Helper()
		list := &appsv1.ControllerRevisionList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		var revisions []*appsv1.ControllerRevision
		for i := range list.Items {
			revisions = append(revisions, &list.Items[i])
		}
		history.Sort(revisions)
		var got []string
		for _, revision := range revisions {
			template, err := history.Decode[corev1.PodTemplateSpec](revision.Data.Raw)
			if err != nil || !metav1.IsControlledBy(revision, cs) {
				t.Fatalf("%v, %+v", err, revision)
			}
			got = append(got, fmt.Sprintf("%d:%s", revision.Revision, template.Spec.Containers[0].Image))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v are kept, want %s", got, want)
		}
	}
	change("a", 1)
	change("a", 1)
	expect("")
	change("b", 4)
	expect("1:a")
	change("a", 9)
	expect("1:a 4:b")
	change("c", 12)
	expect("4:b 9:a")
	change("d", 20)
	expect("9:a 12:c")
}
