package drain

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func TestChange(t *testing.T) {
	own := corev1.Taint{Key: "owner", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	drain := corev1.Taint{Key: topology.TaintDrain, Effect: corev1.TaintEffectNoExecute}
	for _, tc := range []struct {
		reason string
		taints []corev1.Taint
		undo   bool
		want   string
	}{
		{"a taint is added", []corev1.Taint{own}, false, "owner=a:NoSchedule topology.flotilla.dev/drain:NoExecute"},
		{"it is there already", []corev1.Taint{drain}, false, "nothing"},
		{"it is taken away, and no other", []corev1.Taint{own, drain}, true, "owner=a:NoSchedule"},
		{"there is nothing to take away", []corev1.Taint{own}, true, "nothing"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			member := &topology.MemberCluster{Spec: topology.MemberClusterSpec{Taints: tc.taints}}
			before := member.DeepCopy()
			got := "nothing"
			if changed := change(member, tc.undo); changed != nil {
				var all []string
				for i := range changed.Spec.Taints {
					all = append(all, changed.Spec.Taints[i].ToString())
				}
				got = strings.Join(all, " ")
			}
			if got != tc.want || len(member.Spec.Taints) != len(before.Spec.Taints) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestMarkAmongOtherWrites holds that a taint that somebody else sets between reading and writing costs a drain
// nothing, and stays.
func TestMarkAmongOtherWrites(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topology.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	met := false
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"}}).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object,
			p client.Patch, options ...client.PatchOption) error {
			if !met {
				met = true
				other := &topology.MemberCluster{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
					return err
				}
				other.Spec.Taints = []corev1.Taint{{Key: "owner", Effect: corev1.TaintEffectNoSchedule}}
				if err := c.Update(ctx, other); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, p, options...)
		}}).Build()
	if err := mark(t.Context(), hub, "west", false); err != nil {
		t.Fatal(err)
	}
	stands := &topology.MemberCluster{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "west"}, stands); err != nil {
		t.Fatal(err)
	}
	if taints := stands.Spec.Taints; !met || len(taints) != 2 || taints[0].Key != "owner" ||
		taints[1].Key != topology.TaintDrain {
		t.Errorf("taints %v", taints)
	}
}

func TestProgress(t *testing.T) {
	of := func(workload string, pods ...int32) work.Work {
		w := work.Work{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationWorkload: workload,
			topology.AnnotationSequence: "1"}}}
		w.Status.Report = &work.Report{Sequence: 1}
		for _, n := range pods {
			w.Status.Report.InUse = append(w.Status.Report.InUse, work.SubsetUse{Total: n})
		}
		return w
	}
	untold := of("CloneSet/shop/new")
	untold.Status.Report = nil
	lines, done := progress([]work.Work{of("UnitedDeployment/shop/web", 2, 1), of("ConfigMap/shop/settings"),
		of("CloneSet/shop/api", 4), of("CloneSet/shop/gone", 0), untold})
	want := "  CloneSet shop/api: 4 pods|  UnitedDeployment shop/web: 3 pods|7 pods are left"
	if got := strings.Join(lines, "|"); got != want || done {
		t.Errorf("got %s, done %t, want %s", got, done, want)
	}
	clean := of("AdvancedCronJob.apps.kruise.io/shop/clean", 1)
	clean.Spec.Workload.Manifests = []work.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"metadata":{"annotations":{"topology.flotilla.dev/ticks":"{\"alone\":true}"}}}`)}}}
	lines, done = progress([]work.Work{clean})
	want = "  AdvancedCronJob shop/clean: its schedule|0 pods and schedules are left"
	if got := strings.Join(lines, "|"); got != want || done {
		t.Errorf("got %s, done %t, want %s", got, done, want)
	}
	if lines, done := progress([]work.Work{of("CloneSet/shop/gone", 0)}); strings.Join(lines, "|") != "0 pods are left" ||
		!done {
		t.Errorf("at the end: %v, done %t", lines, done)
	}
}
