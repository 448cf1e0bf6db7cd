package cloneset_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// TestPullsAhead: nodes get a job for the new image before their pods are updated, also on the way back.
func TestPullsAhead(t *testing.T) {
	w := newWorld(t, "imagepulljobs")
	w.create(newCloneSet("ahead", 5, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.InPlaceUpdateStrategy = &v1beta1.InPlaceUpdateStrategy{
			ImagePreDownloadParallelism: new(intstr.FromInt32(2)), ImagePreDownloadTimeoutSeconds: new(int32(60))}
	})))
	jobs := func(want int, image string) {
		t.Helper()
		w.eventually(fmt.Sprintf("%d jobs pull %s", want, image), func() string {
			var list v1beta1.ImagePullJobList
			w.must(w.List(t.Context(), &list, client.InNamespace("default")))
			if len(list.Items) != want {
				return fmt.Sprintf("%d jobs", len(list.Items))
			}
			for i := range list.Items {
				job := &list.Items[i]
				if job.Spec.Image != image || !strings.HasSuffix(job.Name, "-main") || job.Spec.Parallelism.IntValue() != 2 ||
					*job.Spec.PullPolicy.TimeoutSeconds != 60 || len(job.Spec.PodSelector.MatchExpressions) != 1 {
					return fmt.Sprintf("%+v", job)
				}
			}
			return ""
		})
	}
	jobs(0, "")
	w.change("ahead", both(image("nginx:2"), partition("3")))
	jobs(1, "nginx:2")
	w.change("ahead", image("nginx:1"))
	jobs(1, "nginx:1")
	w.change("ahead", partition("0"))
	w.settle("ahead")
	jobs(0, "")
}
