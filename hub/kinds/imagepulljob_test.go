package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
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

func pullJob(change ...func(*apps.ImagePullJob)) *apps.ImagePullJob {
	job := &apps.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pull"}}
	job.Spec.Image = "web:1"
	for _, f := range change {
		f(job)
	}
	return job
}

func pullsAtOnce(text string) func(*apps.ImagePullJob) {
	return func(job *apps.ImagePullJob) { job.Spec.Parallelism = new(intstr.Parse(text)) }
}

func TestReadImagePullJobs(t *testing.T) {
	for name, tt := range map[string]struct {
		job  *apps.ImagePullJob
		want lending.Amounts
	}{
		"the default":            {pullJob(), lending.Amounts{Updated: 10, Unavailable: 1}},
		"a number":               {pullJob(pullsAtOnce("3")), lending.Amounts{Updated: 10, Unavailable: 3}},
		"a percentage rounds up": {pullJob(pullsAtOnce("11%")), lending.Amounts{Updated: 10, Unavailable: 2}},
		"0":                      {pullJob(pullsAtOnce("0")), lending.Amounts{Updated: 10}},
		"more than nodes":        {pullJob(pullsAtOnce("50")), lending.Amounts{Updated: 10, Unavailable: 10}},
	} {
		w, rejection := readImagePullJob(tt.job)
		if rejection != nil || w.Subsets[0].Amounts(10) != tt.want || w.Job == nil || w.Job.Endless {
			t.Errorf("%s: %+v, %v, want %+v", name, w, rejection, tt.want)
		}
	}
	w, _ := readImagePullJob(pullJob(func(job *apps.ImagePullJob) {
		job.Spec.PullSecrets = []string{"b", "a"}
		job.Spec.CompletionPolicy.Type = apps.NeverCompletionPolicyType
	}))
	if len(w.Needs) != 2 || w.Needs[0].Name != "a" || w.Needs[0].Kind != SecretKind || !w.Job.Endless {
		t.Errorf("%+v", w)
	}
	if _, rejection := readImagePullJob(pullJob(pullsAtOnce("x"))); rejection == nil ||
		!strings.HasPrefix(rejection.Message, "spec.parallelism of ImagePullJob shop/pull") {
		t.Errorf("%+v", rejection)
	}
}

func TestManifestsOfImagePullJobs(t *testing.T) {
	job := pullJob(pullsAtOnce("10%"), func(job *apps.ImagePullJob) {
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
	})
	for _, tt := range []struct {
		budget *topology.MemberBudget
		want   string
	}{{nil, "0"}, {&topology.MemberBudget{}, "10%"}} {
		manifest, err := renderImagePullJob(job, &Order{Budget: tt.budget})
		if err != nil {
			t.Fatal(err)
		}
		spec := manifest.Spec.(*apps.ImagePullJobSpec)
		if spec.Parallelism.String() != tt.want || spec.CompletionPolicy.TTLSecondsAfterFinished != nil {
			t.Errorf("%+v, want parallelism %s", spec, tt.want)
		}
	}
	if job.Spec.CompletionPolicy.TTLSecondsAfterFinished == nil {
		t.Error("the user's job was changed")
	}
}

// TestStatusOfImagePullJobs: the sum over members, the end, and what Ready says.
func TestStatusOfImagePullJobs(t *testing.T) {
	now := time.Unix(2_000_000, 0)
	member := func(active, succeeded, failed, desired int32, nodes ...string) []byte {
		list, err := json.Marshal(nodes)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, `{"active":%d,"succeeded":%d,"failed":%d,"desired":%d,"failedNodes":%s}`, active, succeeded,
			failed, desired, list)
	}
	end := &topology.JobEnd{Time: metav1.NewTime(now)}
	for name, tt := range map[string]struct {
		sum            Sum
		ready, message string
		status         corev1.ConditionStatus
		counts         string
		ends           bool
		nodes          string
	}{
		"pulls": {Sum{Statuses: [][]byte{member(1, 3, 0, 6), member(0, 2, 0, 2)}, Job: &JobSum{}}, "Pulling",
			"5 of 8 nodes in 2 members have the image", "False", "8 1 5 0", false, ""},
		"no node": {Sum{Statuses: [][]byte{member(0, 0, 0, 0)}, Job: &JobSum{}}, "NoNodeSelected", "no node of 1 members",
			"False", "0 0 0 0", false, ""},
		"pulled": {Sum{Statuses: [][]byte{member(0, 3, 0, 3)}, Job: &JobSum{End: end}}, "Pulled", "3 of 3", "True",
			"3 0 3 0", true, ""},
		"failed": {Sum{Statuses: [][]byte{member(0, 2, 1, 3, "a"), member(0, 1, 1, 2, "a")}, Job: &JobSum{End: end}},
			"PullFailed", "3 of 5 nodes in 2 members have the image, 2 failed", "False", "5 0 3 2", true, "east/a west/a"},
		"members do not answer": {Sum{Statuses: [][]byte{member(1, 3, 0, 6)}, Job: &JobSum{Elsewhere: true}}, "Generic", "",
			"False", "6 1 3 0", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := pullJob()
			for _, c := range []string{apps.ConditionReady, apps.ConditionReconciling, apps.ConditionStalled,
				apps.ConditionProgressing} {
				tt.sum.Conditions = append(tt.sum.Conditions, conditions.Condition{Type: c, Status: "False", Reason: "Generic"})
			}
			tt.sum.Members = []string{"east", "west"}[:len(tt.sum.Statuses)]
			if !imagePullJobStatus(job, &tt.sum, now) || imagePullJobStatus(job, &tt.sum, now.Add(time.Hour)) {
				t.Error("nothing changed, or the same sum changed it again")
			}
			s := &job.Status
			ready := meta.FindStatusCondition(s.Conditions, apps.ConditionReady)
			if ready.Reason != tt.ready || string(ready.Status) != string(tt.status) ||
				!strings.Contains(ready.Message, tt.message) {
				t.Errorf("Ready is %+v", ready)
			}
			if got := fmt.Sprint(s.Desired, s.Active, s.Succeeded, s.Failed); got != tt.counts ||
				(s.CompletionTime != nil) != tt.ends {
				t.Errorf("%+v, want %s", s, tt.counts)
			}
			if got := strings.Join(s.FailedNodes, " "); got != tt.nodes {
				t.Errorf("failedNodes %q, want %q", got, tt.nodes)
			}
			if stalled := meta.IsStatusConditionTrue(s.Conditions, apps.ConditionStalled); stalled != (tt.ready == "PullFailed") {
				t.Errorf("stalled: %t", stalled)
			}
			if meta.FindStatusCondition(s.Conditions, apps.ConditionProgressing) != nil {
				t.Error("a job has the condition Progressing")
			}
		})
	}
}
