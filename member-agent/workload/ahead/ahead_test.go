package ahead

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// storedRevision returns a stored revision whose containers main and log have these images.
func storedRevision(hash, image, log string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + hash, Labels: map[string]string{podset.LabelRevision: hash}},
		Data: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":{"$patch":"replace",`+
			`"metadata":{"labels":{"app":"web"}},"spec":{"imagePullSecrets":[{"name":"registry"}],`+
			`"containers":[{"name":"main","image":%q},{"name":"log","image":%q}]}}}}`, image, log)},
	}
}

func aheadOf(t *testing.T, pods ...string) *Wish {
	t.Helper()
	a := &Wish{Parallelism: new(intstr.FromInt32(2)), InPlace: true, Kind: v1beta1.CloneSetKind,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	a.Revisions.Stored = []*appsv1.ControllerRevision{storedRevision("old", "web:1", "log:1"),
		storedRevision("new", "web:2", "log:1")}
	var err error
	if a.Revisions.Update, err = workload.RevisionOf(a.Revisions.Stored[1]); err != nil {
		t.Fatal(err)
	}
	a.Revisions.Update.Hash = "new"
	for i, revision := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i),
			Labels: map[string]string{podset.LabelRevision: "web-" + revision}}}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		a.Pods = append(a.Pods, pod)
	}
	return a
}

func TestImagesAreOnlyPulledAheadOfUpdatesInPlace(t *testing.T) {
	for _, row := range []struct {
		name    string
		pods    []string
		change  func(*Wish)
		want    string
		updated bool
	}{
		{name: "the image that changes", pods: []string{"old", "old", "old", "old"}, want: "map[main:web:2]"},
		{name: "in the middle of the update", pods: []string{"new", "old", "old", "old"}, want: "map[main:web:2]"},
		{name: "all are updated", pods: []string{"new", "new", "new", "new"}, want: "map[]", updated: true},
		{name: "three pods", pods: []string{"old", "old", "old"}, want: "map[]"},
		{name: "pods are created again", pods: []string{"old", "old", "old", "old"},
			change: func(a *Wish) { a.InPlace = false }, want: "map[]"},
		{name: "all at once", pods: []string{"old", "old", "old", "old"}, change: func(a *Wish) { a.AtOnce = true },
			want: "map[]"},
		{name: "too few are updated and ready", pods: []string{"new", "old", "old", "old"},
			change: func(a *Wish) { a.MinUpdatedReady = intstr.FromInt32(2) }, want: "map[]"},
		{name: "enough are updated and ready", pods: []string{"new", "new", "old", "old"},
			change: func(a *Wish) { a.MinUpdatedReady = intstr.FromInt32(2) }, want: "map[main:web:2]"},
		{name: "less than half of them are updated and ready", pods: []string{"new", "new", "old", "old", "old"},
			change: func(a *Wish) { a.MinUpdatedReady = intstr.FromString("50%") }, want: "map[]"},
		{name: "half of them are updated and ready", pods: []string{"new", "new", "old", "old"},
			change: func(a *Wish) { a.MinUpdatedReady = intstr.FromString("50%") }, want: "map[main:web:2]"},
		{name: "back to the old revision", pods: []string{"new", "new", "new", "old"}, change: func(a *Wish) {
			a.Revisions.Update, _ = workload.RevisionOf(a.Revisions.Stored[0])
			a.Revisions.Update.Hash = "old"
		}, want: "map[main:web:1]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := aheadOf(t, row.pods...)
			if row.change != nil {
				row.change(a)
			}
			images, updated, err := a.images()
			if err != nil || fmt.Sprint(images) != row.want || updated != row.updated {
				t.Errorf("%v, %t, %v; want %s, %t", images, updated, err, row.want, row.updated)
			}
		})
	}
}

func TestJobThatPullsAhead(t *testing.T) {
	a := aheadOf(t, "old")
	a.Timeout = new(int32(60))
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	job := a.job(set, "main", "web:2")
	if job.Name != "web-new-main" || job.Spec.Image != "web:2" || *job.Spec.PullPolicy.TimeoutSeconds != 60 ||
		job.Spec.PullSecrets[0] != "registry" || job.OwnerReferences[0].UID != "u" {
		t.Errorf("%+v", job)
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.PodSelector)
	if err != nil || selector.String() != "app=web,controller-revision-hash notin (new,web-new)" {
		t.Errorf("%v, %v", selector, err)
	}
}

func TestAnnotationsAskForPullsAhead(t *testing.T) {
	set := &v1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"apps.kruise.io/image-predownload-parallelism": "10%", "apps.kruise.io/image-predownload-timeout-seconds": "60",
		"apps.kruise.io/image-predownload-min-updated-ready-pods": "3"}}}
	a := Of(set, nil)
	if a.Parallelism == nil || a.Parallelism.String() != "10%" || *a.Timeout != 60 || a.MinUpdatedReady.IntVal != 3 {
		t.Errorf("%+v", a)
	}
	set.Annotations["apps.kruise.io/image-predownload-parallelism"] = "some"
	if a := Of(set, nil); a.Parallelism != nil {
		t.Errorf("%+v", a)
	}
	fields := &v1beta1.InPlaceUpdateStrategy{ImagePreDownloadParallelism: new(intstr.FromInt32(4))}
	if a := Of(set, fields); a.Parallelism.String() != "4" || a.Timeout != nil {
		t.Errorf("%+v", a)
	}
	for text, want := range map[string]string{"25%": "25%", "-1": "0", "some": "0", "": "0"} {
		set.Annotations["apps.kruise.io/image-predownload-min-updated-ready-pods"] = text
		if a := Of(set, fields); a.MinUpdatedReady.String() != want {
			t.Errorf("beside the fields, %q is %s, want %s", text, a.MinUpdatedReady.String(), want)
		}
	}
	fields.ImagePreDownloadMinUpdatedReadyPods = new(int32(1))
	set.Annotations["apps.kruise.io/image-predownload-min-updated-ready-pods"] = "25%"
	if a := Of(set, fields); a.MinUpdatedReady.String() != "1" {
		t.Errorf("%s, want the field's", a.MinUpdatedReady.String())
	}
}
