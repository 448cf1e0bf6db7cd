package imagelistpulljob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-d))) }

func newJob(images ...string) *v1beta1.ImageListPullJob {
	job := &v1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pull", UID: "u",
		Labels: map[string]string{"team": "web"}}}
	job.Spec.Images = images
	return job
}

// children returns the jobs that the plan of the job creates.
func children(t *testing.T, job *v1beta1.ImageListPullJob) []*v1beta1.ImagePullJob {
	t.Helper()
	plan, err := Make(Facts{Job: job, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Create
}

func ended(job *v1beta1.ImagePullJob, succeeded, failed int32) *v1beta1.ImagePullJob {
	job.Status = v1beta1.ImagePullJobStatus{Desired: succeeded + failed, Succeeded: succeeded, Failed: failed,
		CompletionTime: ago(0)}
	return job
}

func TestChildren(t *testing.T) {
	job := newJob("web:1", "db:2")
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
	job.Spec.PullSecrets = []string{"registry"}
	first, again := children(t, job), children(t, job)
	for i, child := range first {
		if child.Spec.Image != job.Spec.Images[i] || child.Spec.PullSecrets[0] != "registry" ||
			child.Labels["team"] != "web" || child.Labels["controller-revision-hash"] == "" ||
			!metav1.IsControlledBy(child, job) || !strings.HasPrefix(child.Name, "pull-") {
			t.Errorf("child %+v", child)
		}
		if child.Spec.CompletionPolicy.TTLSecondsAfterFinished != nil {
			t.Error("a child is deleted before its job has counted it")
		}
		if child.Name != again[i].Name || child.Name == first[1-i].Name {
			t.Errorf("names %s and %s", child.Name, again[i].Name)
		}
	}
}

func TestPlan(t *testing.T) {
	for _, row := range []struct {
		name    string
		job     func(*v1beta1.ImageListPullJob)
		of      func([]*v1beta1.ImagePullJob)
		want    string // desired, active, completed, succeeded
		creates int
		deletes int
		ends    bool
	}{
		{name: "two run", want: "2 2 0 0"},
		{name: "one has ended", of: func(c []*v1beta1.ImagePullJob) { ended(c[0], 3, 0) }, want: "2 1 1 1"},
		{name: "both have ended", of: func(c []*v1beta1.ImagePullJob) { ended(c[0], 3, 0); ended(c[1], 3, 0) },
			want: "2 0 2 2", ends: true},
		{name: "one has failed", of: func(c []*v1beta1.ImagePullJob) { ended(c[0], 2, 1); ended(c[1], 3, 0) },
			want: "2 0 2 1", ends: true},
		{name: "Never", job: func(j *v1beta1.ImageListPullJob) { j.Spec.CompletionPolicy.Type = "Never" },
			of: func(c []*v1beta1.ImagePullJob) {
				for _, child := range c {
					ended(child, 3, 0)
					child.Status.CompletionTime = nil
				}
			}, want: "2 0 2 2"},
		{name: "another template", of: func(c []*v1beta1.ImagePullJob) { c[0].Labels["controller-revision-hash"] = "x" },
			want: "2 1 0 0", creates: 1, deletes: 1},
		{name: "another image", of: func(c []*v1beta1.ImagePullJob) { c[0].Spec.Image = "old:1" }, want: "2 1 0 0",
			creates: 1, deletes: 1},
		{name: "an old child that is being deleted", of: func(c []*v1beta1.ImagePullJob) {
			c[0].Spec.Image, c[0].DeletionTimestamp = "old:1", ago(0)
		}, want: "2 1 0 0", creates: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			job := newJob("web:1", "db:2")
			if row.job != nil {
				row.job(job)
			}
			list := children(t, job)
			if row.of != nil {
				row.of(list)
			}
			plan, err := Make(Facts{Job: job, Children: list, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			s := plan.Status
			if got := fmt.Sprint(s.Desired, s.Active, s.Completed, s.Succeeded); got != row.want ||
				len(plan.Create) != row.creates || len(plan.Delete) != row.deletes || (s.CompletionTime != nil) != row.ends {
				t.Errorf("%s, %d created, %d deleted, ended %v; want %+v", got, len(plan.Create), len(plan.Delete),
					s.CompletionTime, row)
			}
		})
	}
}

func TestStalledChildIsShown(t *testing.T) {
	job := newJob("web:1", "db:2")
	list := children(t, job)
	list[1].Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionStalled, Status: metav1.ConditionTrue,
		Reason: "PullSecretMissing", Message: "create it"}}
	plan, err := Make(Facts{Job: job, Children: list, Now: now})
	if err != nil || plan.Held == nil || plan.Held.Reason != "PullSecretMissing" ||
		plan.Held.Message != "ImagePullJob "+list[1].Name+": create it" {
		t.Errorf("%+v, %v", plan.Held, err)
	}
}

func TestTimeToLive(t *testing.T) {
	job := newJob("web:1")
	job.Status.CompletionTime = ago(time.Minute)
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(90))
	plan, err := Make(Facts{Job: job, Now: now})
	if err != nil || plan.Expired || plan.Next.Sub(now) != 30*time.Second || len(plan.Create) > 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	if plan, _ = Make(Facts{Job: job, Now: now.Add(time.Minute)}); !plan.Expired {
		t.Errorf("%+v", plan)
	}
}
