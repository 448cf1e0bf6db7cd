package tree

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// text returns the tree of facts as text, with single spaces.
func text(t *testing.T, f *Facts) string {
	t.Helper()
	var out strings.Builder
	if err := Write(&out, Build(f)); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// TestReplacedPodsCountOnce holds that a failover and a drain show as many pods as the spec asks for, and those that
// are replaced.
func TestReplacedPodsCountOnce(t *testing.T) {
	use := func(n int32) work.SubsetUse { return work.SubsetUse{Total: n, Ready: n, Available: n, Updated: n} }
	f := &Facts{HubID: "hub", Workloads: []client.Object{running("api", 45, "")},
		Members: []topology.MemberCluster{member("east", metav1.ConditionTrue), member("north", metav1.ConditionTrue),
			member("west", metav1.ConditionFalse)},
		Placements: []topology.WorkloadPlacement{placed("api",
			topology.Cell{Cluster: "east", Replicas: 35, Sequence: 3},
			topology.Cell{Cluster: "north", Replicas: 15, Replaced: 5, Sequence: 3},
			topology.Cell{Cluster: "west", Replicas: 15, Replaced: 15, Sequence: 3})},
		Works: []work.Work{order("east", "api", 3, use(35)), order("north", "api", 3, use(15)),
			order("west", "api", 3, use(15))},
	}
	got := text(t, f)
	for _, want := range []string{
		"CloneSet shop/api 45 45 45 45 20 replaced elsewhere; stale: west",
		"north 10 10 10 10 5 replaced elsewhere",
		"west 0 0 0 0 15 replaced elsewhere; stale: the member is unreachable",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
}

// TestImagesByRevision holds that images of pods of the previous revision come from its ControllerRevision where the
// placement no longer has them, and that the tree says so where they are not at hand.
func TestImagesByRevision(t *testing.T) {
	api := running("api", 9, "nginx:1.27")
	api.Status.CurrentRevision = "api-old"
	f := &Facts{HubID: "hub", Workloads: []client.Object{api},
		Placements: []topology.WorkloadPlacement{placed("api", topology.Cell{Cluster: "east", Replicas: 9, Sequence: 3})},
		Works:      []work.Work{order("east", "api", 3, work.SubsetUse{Total: 9, Ready: 9, Available: 9, Updated: 4})},
	}
	const unread = "previous revision (its images are not read: ask for this workload alone) ×5, nginx:1.27 ×4"
	if got := text(t, f); !strings.Contains(got, unread) {
		t.Errorf("without the revision: %s", got)
	}
	names := Build(f).Revisions()
	if len(names) != 1 || names[0] != (Stored{Namespace: "shop", Name: "api-old"}) {
		t.Fatalf("asks for %v", names)
	}
	f.Revisions = map[Stored][]byte{names[0]: []byte(
		`{"spec":{"template":{"spec":{"containers":[{"image":"nginx:1.26"},{"image":"proxy:2"}]}}}}`)}
	if got := text(t, f); !strings.Contains(got, "nginx:1.26+proxy:2 ×5, nginx:1.27 ×4") {
		t.Errorf("with the revision: %s", got)
	}
	if names := Build(f).Revisions(); len(names) != 0 {
		t.Errorf("asks again for %v", names)
	}
	f.Revisions[names[0]] = nil
	if got := text(t, f); !strings.Contains(got, "previous revision ×5, nginx:1.27 ×4") {
		t.Errorf("without a revision that there is: %s", got)
	}
}

// TestImagesAfterAnUndo holds that pods that a partition keeps at the template that an undo left have its images, not
// those of the template that the others have.
func TestImagesAfterAnUndo(t *testing.T) {
	api := running("api", 30, "nginx:old")
	api.UID, api.Status.CurrentRevision = "uid", "api-one"
	p := placed("api", topology.Cell{Cluster: "east", Replicas: 30, Sequence: 3})
	p.Spec.Revision = "one"
	f := &Facts{HubID: "hub", Workloads: []client.Object{api}, Placements: []topology.WorkloadPlacement{p},
		Works: []work.Work{order("east", "api", 3, work.SubsetUse{Total: 30, Ready: 30, Available: 30, Updated: 27})}}
	names := Build(f).Revisions()
	if len(names) != 1 {
		t.Fatalf("asks for %v", names)
	}
	kept := func(name, leftFor, image string, number int64) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
			Labels: map[string]string{topology.LabelWorkload: "uid"}, Annotations: map[string]string{
				topology.AnnotationLeftFor: leftFor}}, Revision: number, Data: *template(image)}
	}
	v := &verb{stored: fake.NewClientBuilder().WithObjects(kept("api-zero", "one", "nginx:older", 1),
		kept("api-two", "one", "nginx:bad", 3), kept("api-one", "two", "nginx:old", 2)).Build()}
	f.Revisions = v.revisions(t.Context(), names)
	if got := text(t, f); !strings.Contains(got, "nginx:bad ×3, nginx:old ×27") {
		t.Error(got)
	}
}

// TestMembersThatAreGone holds that the row of a member that was removed, or is being removed, names it.
func TestMembersThatAreGone(t *testing.T) {
	west := member("west", metav1.ConditionTrue)
	west.DeletionTimestamp = &metav1.Time{}
	f := &Facts{HubID: "hub", Workloads: []client.Object{running("api", 3, "nginx:1.27")},
		Members: []topology.MemberCluster{member("south", metav1.ConditionTrue), west},
		Placements: []topology.WorkloadPlacement{placed("api", topology.Cell{Cluster: "east", Replicas: 1, Sequence: 3},
			topology.Cell{Cluster: "south", Replicas: 1, Sequence: 3},
			topology.Cell{Cluster: "west", Replicas: 1, Sequence: 3})}}
	got := text(t, f)
	for _, want := range []string{"east 1 1 0 0 1 missing; the hub has no member of this name any more",
		"south 1 1 0 0 1 missing; no Work yet", "west 1 1 0 0 1 missing; the member is being removed from the hub"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
}

// TestMistypedMember holds that the tree says which members the policy names and that do not exist.
func TestMistypedMember(t *testing.T) {
	api := running("api", 3, "nginx:1.27")
	api.Status.Conditions = append(api.Status.Conditions, apps.CloneSetCondition{Type: apps.ConditionFederated,
		Status:  corev1.ConditionTrue,
		Message: "placed on 1 cluster by FederationPolicy p; FederationPolicy p names no such member: wset"})
	f := &Facts{HubID: "hub", Workloads: []client.Object{api}, Placements: []topology.WorkloadPlacement{
		placed("api", topology.Cell{Cluster: "east", Replicas: 3, Sequence: 3})}}
	if got := text(t, f); !strings.Contains(got, "; FederationPolicy p names no such member: wset") ||
		strings.Contains(got, "placed on 1 cluster") {
		t.Error(got)
	}
}

// template returns a template as a placement has it.
func template(image string) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"containers":[{"name":"main","image":%q}]}}`, image)}
}

// TestImagesAfterARollback holds that pods run what the placement has, and those of the failed revision what the
// object has, or once it has another template the ControllerRevision.
func TestImagesAfterARollback(t *testing.T) {
	api := running("api", 9, "nginx:bad")
	failed := kinds.Workloads()[apps.CloneSetKind.GroupKind()].Template.Revision(api)
	f := &Facts{HubID: "hub", Workloads: []client.Object{api},
		Placements: []topology.WorkloadPlacement{placed("api", topology.Cell{Cluster: "east", Replicas: 9, Sequence: 3})},
		Works:      []work.Work{order("east", "api", 3, work.SubsetUse{Total: 9, Ready: 9, Available: 9, Updated: 7})},
	}
	spec := &f.Placements[0].Spec
	spec.Revision, spec.Template = "good", template("nginx:good")
	spec.Wave = &topology.WaveProgress{From: "good", RolledBack: failed, Template: template("nginx:good")}
	if got := text(t, f); !strings.Contains(got, "nginx:bad ×2, nginx:good ×7") {
		t.Error(got)
	}
	api.Spec.Template = running("api", 9, "nginx:next").Spec.Template
	if names := Build(f).Revisions(); len(names) != 1 || names[0].Name != "api-"+failed {
		t.Errorf("asks for %v", names)
	}
	if got := text(t, f); strings.Contains(got, "next") || !strings.Contains(got, "nginx:good ×7") {
		t.Error(got)
	}
}

// TestImagesOfOtherKinds holds that the revisions of a DaemonSet are asked for by their names, and that members that
// start jobs run no images.
func TestImagesOfOtherKinds(t *testing.T) {
	containers := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x:2"}}}
	set := &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	set.SetGroupVersionKind(apps.DaemonSetKind)
	set.Spec.Template, set.Status.CurrentRevision = apps.NewPodTemplate(corev1.PodTemplateSpec{Spec: containers}), "5d4f"
	job := &apps.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	job.SetGroupVersionKind(apps.AdvancedCronJobKind)
	job.Spec.Template.BroadcastJobTemplate = &apps.BroadcastJobTemplateSpec{}
	job.Spec.Template.BroadcastJobTemplate.Spec.Template = set.Spec.Template
	of := func(object client.Object) *Tree {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		p := placed("api", topology.Cell{Cluster: "east", Replicas: 3, Sequence: 3})
		p.Spec.Workload.Kind = kind
		w := order("east", "api", 3, work.SubsetUse{Total: 3, Ready: 3, Updated: 2})
		key := wire.Key{Group: "apps.kruise.io", Kind: kind, Namespace: "shop", Name: "api"}
		w.Name, w.Annotations[topology.AnnotationWorkload] = key.Work("east").Name, key.String()
		return Build(&Facts{HubID: "hub", Workloads: []client.Object{object}, Works: []work.Work{w},
			Placements: []topology.WorkloadPlacement{p}})
	}
	tree := of(set)
	if names := tree.Revisions(); len(names) != 1 || names[0].Name != "api-5d4f" {
		t.Errorf("asks for %v", names)
	}
	if images := tree.Workloads[0].Images; len(images) != 2 || images[1].Images[0] != "x:2" {
		t.Errorf("DaemonSet: %v", images)
	}
	if w := of(job).Workloads[0]; w.Pods.Ready != 3 || len(w.Images) != 0 {
		t.Errorf("AdvancedCronJob: %v of %v", w.Images, w.Pods)
	}
}

// TestRevisionsAreReadOnce holds that a tree that is drawn again reads no ControllerRevision again, also none that
// does not exist, and not too many at once.
func TestRevisionsAreReadOnce(t *testing.T) {
	var names []Stored
	for i := range mostRevisions + 1 {
		names = append(names, Stored{Namespace: "shop", Name: fmt.Sprintf("r%d", i)})
	}
	reads := 0
	v := &verb{stored: interceptor.NewClient(fake.NewClientBuilder().WithObjects(&appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r0"}, Data: *template("x"),
	}).Build(), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
		o client.Object, opts ...client.GetOption) error {
		reads++
		return c.Get(ctx, key, o, opts...)
	}})}
	for i, want := range []int{mostRevisions, mostRevisions + 1, mostRevisions + 1} {
		found := v.revisions(t.Context(), names)
		if len(found) != want || reads != want || len(found[names[0]]) == 0 {
			t.Errorf("draw %d: %d found after %d reads, want %d", i, len(found), reads, want)
		}
	}
}

// TestWavesAndPausesInTree holds that the tree says how far waves are, what they wait for, and that updates are
// paused.
func TestWavesAndPausesInTree(t *testing.T) {
	const waits = "wave 2 of 3 (east), since 12:00, waits for approval: flotilla rollout approve cloneset/api -n shop"
	ready := func(message string) []apps.CloneSetCondition {
		return []apps.CloneSetCondition{{Type: "Ready", Status: "False", Message: message}}
	}
	for name, tc := range map[string]struct {
		wave   topology.WaveProgress
		said   string
		paused bool
		want   string
	}{
		"an approval": {topology.WaveProgress{Number: 2, Of: 3, Name: "east"}, "4 of 9 pods; " + waits, false, waits},
		"nothing is said": {topology.WaveProgress{Number: 2, Of: 3, Name: "east",
			Failed: &topology.WaveFailed{Message: "no"}},
			"", false, "wave 2 of 3 (east) failed: no"},
		"all are over": {topology.WaveProgress{Number: 4, Of: 3}, "", true,
			"paused: flotilla rollout resume cloneset/api -n shop"},
		"steps": {topology.WaveProgress{Number: 1, Of: 3, Name: "50%", Steps: true}, "", false, "step 1 of 3 (50%)"},
	} {
		api := running("api", 1, "")
		api.Status.Conditions = ready(tc.said)
		api.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{Paused: tc.paused}
		f := &Facts{HubID: "hub", Workloads: []client.Object{api},
			Placements: []topology.WorkloadPlacement{placed("api", topology.Cell{Cluster: "east", Replicas: 1})}}
		f.Placements[0].Spec.Wave = &tc.wave
		if got := text(t, f); !strings.Contains(got, tc.want) || strings.Contains(got, "wave 4") {
			t.Errorf("%s: %s\nlacks %s", name, got, tc.want)
		}
	}
}

// TestReasonsOfPodsInTree holds that the tree has the most frequent reasons in text, and all of them for programs.
func TestReasonsOfPodsInTree(t *testing.T) {
	east := order("east", "api", 3, work.SubsetUse{Desired: 3, Total: 3, Updated: 3})
	for i, reason := range []string{"ImagePullBackOff", "CrashLoopBackOff", "Unschedulable"} {
		east.Status.Report.NotReady = append(east.Status.Report.NotReady, work.PodReason{Reason: reason,
			Message: "as reported",
			Count:   int32(3 - i), Pod: "api-x"})
	}
	f := &Facts{HubID: "hub", Workloads: []client.Object{running("api", 3, "")}, Works: []work.Work{east},
		Placements: []topology.WorkloadPlacement{placed("api", topology.Cell{Cluster: "east", Replicas: 3, Sequence: 3})}}
	got := text(t, f)
	const most = "ImagePullBackOff: as reported (3 pods: east 3; see pod api-x in east); CrashLoopBackOff: "
	if !strings.Contains(got, most) ||
		strings.Contains(got, "Unschedulable") {
		t.Error(got)
	}
	if reasons := Build(f).Workloads[0].PodReasons; len(reasons) != 3 {
		t.Errorf("%v", reasons)
	}
}

// TestWaiting holds what a workload is said to wait for.
func TestWaiting(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*apps.CloneSet)
		placed bool
		want   string
	}{
		"nothing":      {func(*apps.CloneSet) {}, true, ""},
		"no placement": {func(*apps.CloneSet) {}, false, "not placed yet"},
		"an unseen change": {func(c *apps.CloneSet) { c.Generation = 3 }, true,
			"the hub has not seen the last change yet"},
		"pods": {func(c *apps.CloneSet) { c.Status.Conditions[0].Status = "False" }, true, "as reported"},
		"the first condition": {func(c *apps.CloneSet) { c.Status.Conditions = nil }, true,
			"the members have not reported yet"},
	} {
		api := running("api", 1, "")
		api.Generation, api.Status.ObservedGeneration = 2, 2
		api.Status.Conditions = []apps.CloneSetCondition{{Type: "Ready", Status: "True", Message: "as reported"}}
		tc.change(api)
		f := &Facts{HubID: "hub", Workloads: []client.Object{api}}
		if tc.placed {
			f.Placements = []topology.WorkloadPlacement{placed("api", topology.Cell{Cluster: "east", Replicas: 1})}
		}
		if got := Build(f).Workloads[0].Waiting; got != tc.want {
			t.Errorf("%s: waits for %q, want %q", name, got, tc.want)
		}
	}
}
