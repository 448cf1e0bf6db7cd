package kinds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func broadcastJob(change ...func(*apps.BroadcastJob)) *apps.BroadcastJob {
	job := &apps.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "repair", Generation: 3}}
	job.Spec.Template.PodTemplateSpec = podTemplate()
	for _, c := range change {
		c(job)
	}
	return job
}

func parallelism(text string) func(*apps.BroadcastJob) {
	return func(job *apps.BroadcastJob) { job.Spec.Parallelism = new(intstr.Parse(text)) }
}

func batchesOf(size string) func(*apps.BroadcastJob) {
	return func(job *apps.BroadcastJob) {
		job.Spec.Flotilla = &apps.BroadcastJobFlotilla{Batches: &apps.BroadcastJobBatches{Size: intstr.Parse(size),
			Soak: "5m"}}
	}
}

func TestBroadcastJobsThatAreRead(t *testing.T) {
	for name, tt := range map[string]struct {
		job  *apps.BroadcastJob
		n    int32
		want lending.Amounts
		size int32 // of a batch
	}{
		"all nodes at once":        {broadcastJob(), 10, lending.Amounts{Updated: 10, Unavailable: 10}, 0},
		"a number":                 {broadcastJob(parallelism("3")), 10, lending.Amounts{Updated: 10, Unavailable: 3}, 0},
		"a number above the nodes": {broadcastJob(parallelism("30")), 10, lending.Amounts{Updated: 10, Unavailable: 10}, 0},
		"a percentage rounds up":   {broadcastJob(parallelism("11%")), 10, lending.Amounts{Updated: 10, Unavailable: 2}, 0},
		"0":                        {broadcastJob(parallelism("0")), 10, lending.Amounts{Updated: 10}, 0},
		"batches":                  {broadcastJob(batchesOf("4")), 10, lending.Amounts{Updated: 10, Unavailable: 10}, 4},
		"batches of a percentage":  {broadcastJob(batchesOf("11%")), 10, lending.Amounts{Updated: 10, Unavailable: 10}, 2},
		"no nodes":                 {broadcastJob(batchesOf("10%")), 0, lending.Amounts{}, 1},
	} {
		w, rejection := readBroadcastJob(tt.job)
		if rejection != nil {
			t.Errorf("%s: %+v", name, rejection)
			continue
		}
		if got := w.Subsets[0].Amounts(tt.n); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		var size int32
		if w.Job.Batches != nil {
			size = w.Job.Batches.Size(tt.n)
		}
		if size != tt.size || w.Revision != "" || size > 0 && w.Job.Batches.Soak != "5m" {
			t.Errorf("%s: batches of %d, %+v", name, size, w.Job)
		}
	}
	for name, job := range map[string]*apps.BroadcastJob{
		`spec.parallelism of BroadcastJob ops/repair "x"`:           broadcastJob(parallelism("x")),
		`spec.flotilla.batches.size of BroadcastJob ops/repair "x"`: broadcastJob(batchesOf("x")),
		`spec.flotilla.batches of BroadcastJob ops/repair: check x: 1 + 1 is no true or false`: broadcastJob(batchesOf("1"),
			func(job *apps.BroadcastJob) {
				job.Spec.Flotilla.Batches.Checks = []apps.BatchCheck{{Name: "x", Expression: "1 + 1"}}
			}),
	} {
		if _, rejection := readBroadcastJob(job); rejection == nil || !strings.HasPrefix(rejection.Message, name) {
			t.Errorf("%+v, want %s", rejection, name)
		}
	}
	w, _ := readBroadcastJob(broadcastJob(func(job *apps.BroadcastJob) {
		job.Spec.Paused, job.Spec.CompletionPolicy.Type = true, apps.NeverCompletionPolicyType
		job.Annotations = map[string]string{apps.AnnotationPromote: "4"}
	}))
	if !w.Paused || !w.Job.Endless || w.Job.Promoted != 4 {
		t.Errorf("%+v, %+v", w, w.Job)
	}
}

// TestNeedsOfBroadcastJobs: what the pods of checks need goes with the job too.
func TestNeedsOfBroadcastJobs(t *testing.T) {
	named := func(name string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: name}}
	}
	w, _ := readBroadcastJob(broadcastJob(batchesOf("1"), func(job *apps.BroadcastJob) {
		job.Spec.Template = apps.NewPodTemplate(named("repair"))
		for _, name := range []string{"probe", "repair"} {
			job.Spec.Flotilla.Batches.Checks = append(job.Spec.Flotilla.Batches.Checks, apps.BatchCheck{
				Pod: &apps.BatchPod{Template: apps.NewPodTemplate(named(name))}})
		}
	}))
	if len(w.Needs) != 2 || w.Needs[0].Name != "probe" || w.Needs[1].Name != "repair" {
		t.Errorf("%+v", w.Needs)
	}
}

func TestManifestsOfBroadcastJobs(t *testing.T) {
	job := broadcastJob(parallelism("10%"), batchesOf("5"), func(job *apps.BroadcastJob) {
		job.Annotations = map[string]string{apps.AnnotationResume: "2026-03-01T15:00:00Z", apps.AnnotationPromote: "2"}
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
		job.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(90))
	})
	for _, budget := range []*topology.MemberBudget{nil, {}} {
		manifest, err := renderBroadcastJob(job, &Order{Budget: budget})
		if err != nil {
			t.Fatal(err)
		}
		spec := manifest.Spec.(*apps.BroadcastJobSpec)
		if spec.Paused != (budget == nil) {
			t.Errorf("paused %v with budget %v", spec.Paused, budget)
		}
		if spec.CompletionPolicy.TTLSecondsAfterFinished != nil || *spec.CompletionPolicy.ActiveDeadlineSeconds != 90 ||
			spec.Parallelism.String() != "10%" {
			t.Errorf("%+v", spec)
		}
		if fmt.Sprint(manifest.Annotations) != fmt.Sprint(job.Annotations) {
			t.Errorf("%v", manifest.Annotations)
		}
	}
	if job.Spec.Paused || job.Spec.CompletionPolicy.TTLSecondsAfterFinished == nil {
		t.Error("the user's job was changed")
	}
}

func TestBudgetsOfJobs(t *testing.T) {
	cells := []topology.Cell{{Batch: 3, Granted: topology.Budget{Updated: 2, Unavailable: 1}}}
	if got := BudgetOf(cells, nil); got.Batch != 3 || got.Ended || got.Paused {
		t.Errorf("%+v", got)
	}
	if got := BudgetOf(cells, &topology.JobEnd{}); !got.Ended {
		t.Errorf("%+v", got)
	}
}

// TestStatusOfBroadcastJobs: the sum over members, the phase, and what Ready and the published conditions say.
func TestStatusOfBroadcastJobs(t *testing.T) {
	now := time.Unix(2_000_000, 0)
	early, late := metav1.NewTime(time.Unix(1_000_000, 0)), metav1.NewTime(time.Unix(1_000_100, 0))
	member := func(active, succeeded, failed, desired int32, began metav1.Time) []byte {
		return fmt.Appendf(nil, `{"active":%d,"succeeded":%d,"failed":%d,"desired":%d,"startTime":%q}`, active, succeeded,
			failed, desired, began.UTC().Format(time.RFC3339))
	}
	generic := func(stalled corev1.ConditionStatus) []conditions.Condition {
		return []conditions.Condition{
			{Type: apps.ConditionFederated, Status: corev1.ConditionTrue, Reason: "Placed"},
			{Type: apps.ConditionReady, Status: corev1.ConditionFalse, Reason: "Generic", Message: "generic"},
			{Type: apps.ConditionReconciling, Status: corev1.ConditionTrue, Reason: "Generic"},
			{Type: apps.ConditionStalled, Status: stalled, Reason: "Generic"},
			{Type: apps.ConditionProgressing, Status: corev1.ConditionTrue, Reason: "Generic"},
		}
	}
	cause := &conditions.Cause{Reason: "JobHalted"}
	halt := &work.JobHalt{Time: late, Reason: "PodFailed", Message: "east: 1 pods failed"}
	wave := &topology.WaveProgress{Number: 2, Of: 5, Since: early, Settled: &late, Limit: 4}
	some, none := [][]byte{member(1, 3, 1, 6, late), member(0, 2, 0, 2, early)}, [][]byte{member(0, 0, 0, 0, late)}
	done := [][]byte{member(0, 3, 1, 4, late)}
	for name, tt := range map[string]struct {
		job      *apps.BroadcastJob
		sum      Sum
		phase    apps.BroadcastJobPhase
		ready    string
		message  string // a part of it
		flotilla bool
		other    string // the published condition that is True
	}{
		"running": {broadcastJob(), Sum{Statuses: some, Job: &JobSum{}}, apps.PhaseRunning, "Running",
			"pods of 6 of 8 nodes have ended, 1 of them failed; 1 pods are active", false, ""},
		"a batch": {broadcastJob(), Sum{Statuses: some, Job: &JobSum{Wave: wave, Waits: "batch 2 of 5 soaks"}},
			apps.PhaseRunning, "Running", "batch 2 of 5 soaks; pods of 6 of 8", true, ""},
		"paused": {broadcastJob(func(job *apps.BroadcastJob) { job.Spec.Paused = true }), Sum{Statuses: some, Job: &JobSum{}},
			apps.PhasePaused, "Paused", "spec.paused is true", false, ""},
		"halted": {broadcastJob(), Sum{Statuses: some, Job: &JobSum{Halted: halt}, Cause: cause}, apps.PhasePaused,
			"Generic", "generic", true, ""},
		"no node fits": {broadcastJob(), Sum{Statuses: none, Job: &JobSum{}}, apps.PhaseRunning, "NoNodeFits",
			"no node of 1 members fits", false, ""},
		"parallelism 0": {broadcastJob(parallelism("0")), Sum{Statuses: [][]byte{member(0, 0, 0, 2, late)}, Job: &JobSum{}},
			apps.PhaseRunning, "ParallelismZero", "raise it", false, ""},
		"members do not answer": {broadcastJob(), Sum{Statuses: some, Job: &JobSum{Elsewhere: true}}, apps.PhaseRunning,
			"Generic", "generic", false, ""},
		"an endless job waits for nodes": {broadcastJob(func(job *apps.BroadcastJob) {
			job.Spec.CompletionPolicy.Type = apps.NeverCompletionPolicyType
		}), Sum{Statuses: done, Job: &JobSum{Proven: true}}, apps.PhaseRunning, "NodesDone", "waits for more nodes", false,
			""},
		"completed": {broadcastJob(), Sum{Statuses: done, Job: &JobSum{End: &topology.JobEnd{Time: late}}},
			apps.PhaseCompleted, "Complete", "Job completed, 3 pods succeeded, 1 pods failed", false, "Complete"},
		"failed": {broadcastJob(), Sum{Statuses: some, Cause: cause, Job: &JobSum{
			End: &topology.JobEnd{Time: late, Failed: true, Message: "the job failed in member east"}}}, apps.PhaseFailed,
			"Generic", "generic", false, "Failed"},
		"without a placement": {broadcastJob(), Sum{}, "", "Generic", "generic", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tt.sum.Conditions, tt.sum.ObservedGeneration = generic(corev1.ConditionFalse), 3
			if !broadcastJobStatus(tt.job, &tt.sum, now) {
				t.Error("nothing changed")
			}
			status := &tt.job.Status
			is := map[string]apps.JobCondition{}
			for _, c := range status.Conditions {
				is[string(c.Type)] = c
			}
			ready := is[apps.ConditionReady]
			if status.Phase != tt.phase || ready.Reason != tt.ready || !strings.Contains(ready.Message, tt.message) ||
				(status.Flotilla != nil) != tt.flotilla || status.ObservedGeneration != 3 {
				t.Errorf("phase %s, %+v, %+v", status.Phase, ready, status.Flotilla)
			}
			if _, found := is[apps.ConditionProgressing]; found {
				t.Error("jobs have no condition Progressing")
			}
			for _, published := range []string{"Complete", "Failed"} {
				if (is[published].Status == corev1.ConditionTrue) != (published == tt.other) {
					t.Errorf("%+v", is[published])
				}
			}
			if (ready.Status == corev1.ConditionTrue) != (tt.ready == "Complete" || tt.ready == "NodesDone") {
				t.Errorf("%+v", ready)
			}
			if (status.CompletionTime != nil) != (tt.other != "") {
				t.Errorf("completionTime %v", status.CompletionTime)
			}
			if broadcastJobStatus(tt.job, &tt.sum, now.Add(time.Hour)) {
				t.Errorf("the same sum changes the status: %+v", status)
			}
		})
	}
	job := broadcastJob()
	broadcastJobStatus(job, &Sum{Statuses: some, Conditions: generic(corev1.ConditionFalse),
		Job: &JobSum{Wave: wave}}, now)
	s := job.Status
	if s.Active != 1 || s.Succeeded != 5 || s.Failed != 1 || s.Desired != 8 || !s.StartTime.Equal(&early) ||
		s.Flotilla.Batch != 2 || !s.Flotilla.BatchTime.Equal(&early) || !s.Flotilla.SoakTime.Equal(&late) {
		t.Errorf("%+v, %+v", s, s.Flotilla)
	}
}

// TestStatusOfAnEndedBroadcastJobStays, whatever members report later, but for pods that still run.
func TestStatusOfAnEndedBroadcastJobStays(t *testing.T) {
	now := time.Unix(2_000_000, 0)
	end := &topology.JobEnd{Time: metav1.NewTime(now), Failed: true, Message: "east failed"}
	sum := func(text string, reason string) *Sum {
		return &Sum{Statuses: [][]byte{[]byte(text)}, Job: &JobSum{End: end}, ObservedGeneration: 3,
			Conditions: []conditions.Condition{
				{Type: apps.ConditionFederated, Status: corev1.ConditionTrue, Reason: reason},
				{Type: apps.ConditionReady, Status: corev1.ConditionFalse, Reason: reason},
			}}
	}
	job := broadcastJob()
	job.Status.Conditions = []apps.JobCondition{{Type: apps.ConditionPodsNotReady, Status: corev1.ConditionTrue}}
	broadcastJobStatus(job, sum(`{"active":2,"failed":1,"desired":3}`, "JobFailed"), now)
	broadcastJobStatus(job, sum(`{"active":0,"failed":1,"succeeded":2,"desired":3}`, "JobFailed"), now)
	if s := job.Status; s.Active != 0 || s.Succeeded != 2 || s.Phase != apps.PhaseFailed {
		t.Errorf("%+v", s)
	}
	over := sum(`{"desired":9}`, "Other")
	over.Conditions = append(over.Conditions, conditions.Remove(apps.ConditionPodsNotReady))
	broadcastJobStatus(job, over, now)
	s := job.Status
	if slices.ContainsFunc(s.Conditions, func(c apps.JobCondition) bool { return c.Type == apps.ConditionPodsNotReady }) {
		t.Errorf("pods of a job that has ended are not Ready: %+v", s.Conditions)
	}
	if s.Succeeded != 2 || s.Desired != 3 || s.Conditions[0].Reason != "Other" || s.Conditions[1].Reason != "JobFailed" {
		t.Errorf("%+v", s)
	}
	broadcastJobStatus(job, sum(`{}`, conditions.ReasonDeleting), now)
	if job.Status.Conditions[1].Reason != conditions.ReasonDeleting {
		t.Errorf("%+v", job.Status.Conditions)
	}
}

// TestHaltsInReports: a reason that is none is replaced.
func TestHaltsInReports(t *testing.T) {
	w := &work.Work{Status: work.WorkStatus{Report: &work.Report{Halted: &work.JobHalt{Reason: "no word"}}}}
	report, nonsense := Workloads().ReportOf(w)
	if report.Halted.Reason != "JobHalted" || nonsense == "" || w.Status.Report.Halted.Reason != "no word" {
		t.Errorf("%+v, %q", report.Halted, nonsense)
	}
	w.Status.Report.Halted.Reason = "CheckFailed"
	if report, nonsense = Workloads().ReportOf(w); nonsense != "" || report != w.Status.Report {
		t.Errorf("%+v, %q", report, nonsense)
	}
}
