package kinds

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func pullList(images ...string) *apps.ImageListPullJob {
	job := &apps.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "release"}}
	job.Spec.Images = images
	return job
}

func TestReadImageListPullJobs(t *testing.T) {
	job := pullList("web:1", "db:2")
	job.Spec.Parallelism, job.Spec.PullSecrets = new(intstr.FromString("25%")), []string{"registry"}
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
	w, rejection := readImageListPullJob(job)
	want := lending.Amounts{Updated: 10, Unavailable: 3}
	if rejection != nil || w.Subsets[0].Amounts(10) != want || w.Job == nil || w.Job.Endless || len(w.Needs) != 1 {
		t.Errorf("%+v, %v", w, rejection)
	}
	for _, tt := range []struct {
		budget *topology.MemberBudget
		want   string
	}{{nil, "0"}, {&topology.MemberBudget{}, "25%"}} {
		manifest, err := renderImageListPullJob(job, &Order{Budget: tt.budget})
		if err != nil {
			t.Fatal(err)
		}
		spec := manifest.Spec.(*apps.ImageListPullJobSpec)
		if spec.Parallelism.String() != tt.want || spec.CompletionPolicy.TTLSecondsAfterFinished != nil ||
			len(spec.Images) != 2 {
			t.Errorf("%+v, want parallelism %s", spec, tt.want)
		}
	}
	job.Spec.Parallelism = new(intstr.FromString("x"))
	if _, rejection := readImageListPullJob(job); rejection == nil || rejection.Reason != InvalidAmount {
		t.Errorf("%+v", rejection)
	}
	usage, err := reflectImageListPullJob(&Reflected{
		Status: []byte(`{"flotilla":{"nodes":9,"pulling":2,"asked":5,"ended":4}}`), Seen: true, Current: true})
	if u := usage.InUse[0]; err != nil || !usage.Answered || u.Desired != 9 || u.Total-u.Available != 2 || u.Updated != 5 ||
		u.UpdatedAvailable != 4 {
		t.Errorf("%+v, %v", usage, err)
	}
}

// TestStatusOfImageListPullJobs: an image has ended when it has in all members; failures name the member.
func TestStatusOfImageListPullJobs(t *testing.T) {
	now := time.Unix(2_000_000, 0)
	member := func(completed, succeeded, nodes int32, failed string) []byte {
		return fmt.Appendf(nil, `{"desired":2,"completed":%d,"succeeded":%d,"flotilla":{"nodes":%d},`+
			`"failedImageStatuses":[%s]}`, completed, succeeded, nodes, failed)
	}
	const lacks = `{"imagePullJob":"release-1","name":"web:1","message":"x"}, {"imagePullJob":"y","name":"other:1"}`
	end := &topology.JobEnd{Time: metav1.NewTime(now)}
	for name, tt := range map[string]struct {
		sum    Sum
		ready  string
		status corev1.ConditionStatus
		counts string // desired, active, completed, succeeded, failed
		ends   bool
	}{
		"pulls": {Sum{Statuses: [][]byte{member(1, 1, 4, ""), member(2, 2, 2, "")}, Job: &JobSum{}}, "Pulling", "False",
			"2 1 1 1 0", false},
		"no status": {Sum{Job: &JobSum{}}, "NoNodeSelected", "False", "2 2 0 0 0", false},
		"no node": {Sum{Statuses: [][]byte{member(0, 0, 0, "")}, Job: &JobSum{}}, "NoNodeSelected", "False", "2 2 0 0 0",
			false},
		"an unreadable status": {Sum{Statuses: [][]byte{member(2, 2, 4, ""), []byte(`[]`)}, Job: &JobSum{}}, "Pulling",
			"False", "2 2 0 0 0", false},
		"pulled": {Sum{Statuses: [][]byte{member(2, 2, 4, ""), member(2, 2, 2, "")}, Job: &JobSum{End: end}}, "Pulled",
			"True", "2 0 2 2 0", true},
		"failed in one member": {Sum{Statuses: [][]byte{member(2, 2, 4, ""), member(2, 1, 2, lacks)},
			Job: &JobSum{End: end}}, "PullFailed", "False", "2 0 2 1 1", true},
		"members do not answer": {Sum{Statuses: [][]byte{member(1, 1, 4, "")}, Job: &JobSum{Elsewhere: true}}, "Generic",
			"False", "2 1 1 1 0", false},
	} {
		t.Run(name, func(t *testing.T) {
			job := pullList("web:1", "db:2")
			tt.sum.Members = []string{"east", "west"}[:len(tt.sum.Statuses)]
			for _, c := range []string{apps.ConditionReady, apps.ConditionReconciling, apps.ConditionStalled} {
				tt.sum.Conditions = append(tt.sum.Conditions, conditions.Condition{Type: c, Status: "False", Reason: "Generic"})
			}
			if !imageListPullJobStatus(job, &tt.sum, now) || imageListPullJobStatus(job, &tt.sum, now.Add(time.Hour)) {
				t.Error("nothing changed, or the same sum changed it again")
			}
			s := &job.Status
			ready := meta.FindStatusCondition(s.Conditions, apps.ConditionReady)
			if ready.Reason != tt.ready || string(ready.Status) != string(tt.status) {
				t.Errorf("Ready is %+v", ready)
			}
			if got := fmt.Sprint(s.Desired, s.Active, s.Completed, s.Succeeded, len(s.FailedImageStatuses)); got != tt.counts ||
				(s.CompletionTime != nil) != tt.ends {
				t.Errorf("%s, %+v; want %s", got, s, tt.counts)
			}
			for _, image := range s.FailedImageStatuses {
				if image.ImagePullJob != "west/release-1" || image.Name != "web:1" {
					t.Errorf("%+v", image)
				}
			}
			if stalled := meta.IsStatusConditionTrue(s.Conditions, apps.ConditionStalled); stalled != (tt.ready == "PullFailed") {
				t.Errorf("stalled: %t", stalled)
			}
		})
	}
}
