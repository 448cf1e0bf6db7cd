package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// TestRemember: a template that is left is kept under the name that the status gave it, in the order of use, as many as
// the workload asks for; nothing is kept while the template stays.
func TestRemember(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	r := &Reconciler{Gatherer: Gatherer{rules: kinds.All(kinds.HubRunsBuiltIns)}, client: c, live: c}
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "one"}}
	cs.Spec.RevisionHistoryLimit = new(int32(2))
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.Labels = map[string]string{"app": "web"}
	s := &State{key: wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}, Object: cs,
		Placement: &topology.WorkloadPlacement{}}
	s.Placement.UID = "placement"
	change := func(image string, sequence int64) {
		t.Helper()
		cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
		w, refusal := readCloneSet(cs)
		if refusal != nil {
			t.Fatal(refusal)
		}
		next := topology.WorkloadPlacementSpec{Workload: w.Ref, Revision: w.Revision, RevisionSequence: sequence,
			Template: &runtime.RawExtension{Raw: w.Template}}
		for range 2 { // a write that failed after it is tried again
			if err := r.remember(t.Context(), s, &next); err != nil {
				t.Fatal(err)
			}
		}
		s.Placement.Spec = next
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
	expect("1:a 2:b")
	change("c", 12)
	expect("2:b 3:a")
	change("d", 20)
	expect("3:a 4:c")

	// It is let go and placed anew, by which sequences begin anew: what is left now is the newest all the same.
	s.Placement = &topology.WorkloadPlacement{}
	cs.Spec.RevisionHistoryLimit = new(int32(3))
	change("d", 1)
	change("e", 3)
	expect("3:a 4:c 5:d")
	leftFor := func(want string) {
		t.Helper()
		list := &appsv1.ControllerRevisionList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		newest := list.Items[0]
		for _, revision := range list.Items {
			if revision.Revision > newest.Revision {
				newest = revision
			}
		}
		if got := newest.Annotations[topology.AnnotationLeftFor]; got != want {
			t.Errorf("the newest was left for %q, want %q", got, want)
		}
	}
	leftFor(s.Placement.Spec.Revision)
	change("c", 5)
	change("a", 7)
	expect("5:d 6:e 7:c")
	leftFor(s.Placement.Spec.Revision)

	// Those that a hub of before kept count alike, though they do not name their workload.
	older := &appsv1.ControllerRevisionList{}
	if err := c.List(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	for i := range older.Items {
		delete(older.Items[i].Labels, topology.LabelWorkload)
		if err := c.Update(t.Context(), &older.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	change("h", 8)
	expect("6:e 7:c 8:a")
	leftFor(s.Placement.Spec.Revision)

	// What members were only asked about never ran.
	s.Placement.Spec.Cells = []topology.Cell{{Cluster: "east",
		Adoption: topology.Adoption{Phase: topology.AdoptionDiscovering}}}
	change("f", 9)
	expect("6:e 7:c 8:a")

	// It is deleted, its revisions stay behind, and one of that name comes back: what it left is its own again.
	list := &appsv1.ControllerRevisionList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].OwnerReferences = nil
		if err := c.Update(t.Context(), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	cs.UID, s.Placement = "two", &topology.WorkloadPlacement{}
	change("c", 1)
	change("g", 2)
	owned := 0
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], cs) {
			owned++
		}
	}
	if owned != 1 {
		t.Errorf("%d revisions are its own, want what it left alone", owned)
	}
}

// TestChangeCause keeps what the user said about a template with the revision that the workload leaves.
func TestChangeCause(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topology.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "one",
		Annotations: map[string]string{topology.AnnotationChangeCause: "first"}}}
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.Labels = map[string]string{"app": "web"}
	spec := func(image string) *topology.WorkloadPlacementSpec {
		cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
		w, refusal := readCloneSet(cs)
		if refusal != nil {
			t.Fatal(refusal)
		}
		return &topology.WorkloadPlacementSpec{Workload: w.Ref, Revision: w.Revision,
			Template: &runtime.RawExtension{Raw: w.Template}}
	}
	p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cloneset-web", UID: "p"},
		Spec: *spec("web:1")}
	withDigest(p)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(p).Build()
	r := &Reconciler{Gatherer: Gatherer{rules: kinds.All(kinds.HubRunsBuiltIns)}, client: c, live: c,
		written: store.NewWritten[wire.Key](clocktesting.NewFakePassiveClock(time.Now()))}
	s := &State{key: wire.KeyFor(apps.CloneSetKind.GroupKind(), cs), Object: cs, Placement: p}
	read := func() string {
		t.Helper()
		got := &topology.WorkloadPlacement{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), got); err != nil {
			t.Fatal(err)
		}
		s.Placement = got
		return got.Annotations[topology.AnnotationChangeCause] + " " + got.ResourceVersion
	}
	read()
	same := func() Step { return Step{Spec: s.Placement.Spec.DeepCopy()} }
	if err := r.apply(t.Context(), s, same()); err != nil {
		t.Fatal(err)
	}
	written := read()
	if !strings.HasPrefix(written, "first ") {
		t.Errorf("the placement has %q", written)
	}
	if err := r.apply(t.Context(), s, same()); err != nil || read() != written {
		t.Errorf("written again: %v, %s", err, read())
	}
	cs.Annotations[topology.AnnotationChangeCause] = strings.Repeat("é", maxCause)
	// A frozen placement has another template than the object.
	if err := r.apply(t.Context(), s, Step{}); err != nil || read() != written {
		t.Errorf("written while frozen: %v, %s", err, read())
	}
	if err := r.apply(t.Context(), s, Step{Spec: spec("web:2")}); err != nil {
		t.Fatal(err)
	}
	if cause, _, _ := strings.Cut(read(), " "); cause != strings.Repeat("é", maxCause/2) {
		t.Errorf("a long cause is %d bytes: %q", len(cause), cause)
	}
	revisions := &appsv1.ControllerRevisionList{}
	if err := c.List(t.Context(), revisions); err != nil || len(revisions.Items) != 1 {
		t.Fatalf("%v, %d revisions", err, len(revisions.Items))
	}
	if got := revisions.Items[0].Annotations[topology.AnnotationChangeCause]; got != "first" {
		t.Errorf("the revision has the cause %q", got)
	}
}

// TestChangeCauseOfARollback: the cause of the template that failed is not that of the one that members go back to,
// also once that is left for a third one.
func TestChangeCauseOfARollback(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topology.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "one"}}
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.Labels = map[string]string{"app": "web"}
	p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cloneset-web", UID: "p"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(p).Build()
	r := &Reconciler{Gatherer: Gatherer{rules: kinds.All(kinds.HubRunsBuiltIns)}, client: c, live: c,
		written: store.NewWritten[wire.Key](clocktesting.NewFakePassiveClock(time.Now()))}
	s := &State{key: wire.KeyFor(apps.CloneSetKind.GroupKind(), cs), Object: cs, Placement: p}
	s.name = client.ObjectKeyFromObject(p)
	specs := map[string]*topology.WorkloadPlacementSpec{}
	for _, image := range []string{"web:1", "web:2", "web:3"} {
		cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
		w, refusal := readCloneSet(cs)
		if refusal != nil {
			t.Fatal(refusal)
		}
		specs[image] = &topology.WorkloadPlacementSpec{Workload: w.Ref, Revision: w.Revision,
			Template: &runtime.RawExtension{Raw: w.Template}}
	}
	back := specs["web:1"].DeepCopy()
	back.Wave = &topology.WaveProgress{RolledBack: specs["web:2"].Revision, From: back.Revision}
	for _, step := range []struct {
		cause, want string
		spec        *topology.WorkloadPlacementSpec
	}{
		{"first", "first", specs["web:1"]}, {"second", "second", specs["web:2"]}, {"second", "first", back},
		{"second", "first", back}, {"third", "third", specs["web:3"]},
	} {
		cs.Annotations = map[string]string{topology.AnnotationChangeCause: step.cause}
		if err := r.apply(t.Context(), s, Step{Spec: step.spec.DeepCopy()}); err != nil {
			t.Fatal(err)
		}
		s.Placement = &topology.WorkloadPlacement{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), s.Placement); err != nil {
			t.Fatal(err)
		}
		if got := s.Placement.Annotations[topology.AnnotationChangeCause]; got != step.want {
			t.Errorf("with %s the placement has the cause %q, want %q", step.cause, got, step.want)
		}
	}
	for image, want := range map[string]string{"web:1": "first", "web:2": "second"} {
		kept := &appsv1.ControllerRevision{}
		name := client.ObjectKey{Namespace: "shop", Name: history.Name("web", specs[image].Revision)}
		if err := c.Get(t.Context(), name, kept); err != nil {
			t.Fatal(err)
		}
		if got := kept.Annotations[topology.AnnotationChangeCause]; got != want {
			t.Errorf("the revision of %s has the cause %q, want %q", image, got, want)
		}
	}
}

// TestRenewed: a name that another's revision has is not taken.
func TestRenewed(t *testing.T) {
	owner := metav1.OwnerReference{Kind: "CloneSet", Name: "web", UID: "one", Controller: new(true)}
	template := func(image string) runtime.RawExtension {
		data, err := history.Encode(corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main",
			Image: image}}}})
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", OwnerReferences: []metav1.OwnerReference{owner},
			Annotations: map[string]string{topology.AnnotationLeftFor: "two"}},
		Data: template("web:1"), Revision: 4,
	}
	other := owner
	other.UID = "another"
	for why, tc := range map[string]struct {
		owners []metav1.OwnerReference
		image  string
		number int64
		want   int64 // 0: not taken
	}{
		"its own":                         {[]metav1.OwnerReference{owner}, "web:1", 1, 4},
		"its own, written before":         {[]metav1.OwnerReference{owner}, "web:1", 4, 4},
		"nobody's":                        {nil, "web:1", 9, 9},
		"nobody's, with another template": {nil, "web:2", 1, 0},
		"another's":                       {[]metav1.OwnerReference{other}, "web:1", 1, 0},
	} {
		stands := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1", OwnerReferences: tc.owners},
			Data: template(tc.image), Revision: tc.number}
		got := renewed(kindFor(&apps.CloneSet{}).Template, stands, revision)
		if got == nil || tc.want == 0 {
			if got != nil || tc.want != 0 {
				t.Errorf("%s: %+v, want %d", why, got, tc.want)
			}
			continue
		}
		if got.Revision != tc.want || got.Annotations[topology.AnnotationLeftFor] != "two" ||
			metav1.GetControllerOf(got).UID != "one" {
			t.Errorf("%s: %+v", why, got)
		}
	}
}
