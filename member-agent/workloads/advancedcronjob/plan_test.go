package advancedcronjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/cron"
)

// noon is a full hour.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// hourly returns an AdvancedCronJob that was created at 11:30 and has recorded the tick of 12:00 and nothing missed.
func hourly(change ...func(*v1beta1.AdvancedCronJob)) *v1beta1.AdvancedCronJob {
	out := &v1beta1.AdvancedCronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "clean", UID: "clean",
			CreationTimestamp: metav1.NewTime(noon().Add(-30 * time.Minute))},
		Spec: v1beta1.AdvancedCronJobSpec{Schedule: "@hourly",
			Template: v1beta1.CronJobTemplate{BroadcastJobTemplate: &v1beta1.BroadcastJobTemplateSpec{}}},
		Status: v1beta1.AdvancedCronJobStatus{LastScheduleTime: &metav1.Time{Time: noon()}},
	}
	for _, f := range change {
		f(out)
	}
	return out
}

// jobAt returns the job of the tick so many hours after noon. Its state is "runs", "done", "failed" or "leaves".
func jobAt(hours int, state string) Job {
	tick := noon().Add(time.Duration(hours) * time.Hour)
	job := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
		Name:              fmt.Sprintf("clean-%d", tick.Unix()),
		CreationTimestamp: metav1.NewTime(tick)}}
	finish := func(t v1beta1.JobConditionType) {
		job.Status.Conditions = []v1beta1.JobCondition{{Type: t, Status: corev1.ConditionTrue}}
	}
	switch state {
	case "done":
		finish(v1beta1.JobComplete)
	case "failed":
		finish(v1beta1.JobFailed)
	case "leaves":
		job.DeletionTimestamp = &metav1.Time{Time: tick}
	}
	return broadcastJob(job)
}

func TestCompute(t *testing.T) {
	forbid := func(c *v1beta1.AdvancedCronJob) { c.Spec.ConcurrencyPolicy = v1beta1.ForbidConcurrent }
	replace := func(c *v1beta1.AdvancedCronJob) { c.Spec.ConcurrencyPolicy = v1beta1.ReplaceConcurrent }
	unrecorded := func(c *v1beta1.AdvancedCronJob) { c.Status.LastScheduleTime = nil }
	for _, tt := range []struct {
		name   string
		change func(*v1beta1.AdvancedCronJob)
		jobs   []Job
		after  time.Duration // after noon
		// remembered is the tick that the controller remembers, in hours after noon, 0 for none.
		remembered int
		want       string
	}{
		{name: "between ticks", after: 30 * time.Minute, want: "wake 1m0s"},
		{name: "just before a tick", after: time.Hour - 5*time.Second, want: "wake 5s"},
		{name: "a tick", after: time.Hour, want: "start 13, wake 1m0s"},
		{name: "the first tick of a new object", change: unrecorded, want: "start 12, wake 1m0s"},
		{name: "a tick whose job the status does not record yet", after: time.Hour, jobs: []Job{jobAt(1, "runs")},
			want: "1 active, wake 1m0s"},
		{name: "a tick that the controller remembers", after: time.Hour, remembered: 1, want: "wake 1m0s"},
		{name: "a job that was deleted by hand does not come again", after: 59 * time.Minute, want: "wake 1m0s"},
		{name: "ticks that were missed", after: 3 * time.Hour, want: "missed 2 until 14, wake 1s"},
		{name: "missed ticks that were reported", after: 3 * time.Hour,
			change: func(c *v1beta1.AdvancedCronJob) {
				c.Status.LastMissedTime = &metav1.Time{Time: noon().Add(2 * time.Hour)}
			}, want: "start 15, wake 1m0s"},
		{name: "a deadline", after: time.Hour + 11*time.Second,
			change: func(c *v1beta1.AdvancedCronJob) { c.Spec.StartingDeadlineSeconds = new(int64(10)) },
			want:   "missed 1 until 13 TooLate, wake 1m0s"},
		{name: "a deadline of all time", after: time.Hour,
			change: func(c *v1beta1.AdvancedCronJob) { c.Spec.StartingDeadlineSeconds = new(int64(1<<63 - 1)) },
			want:   "start 13, wake 1m0s"},
		{name: "Allow", after: time.Hour, jobs: []Job{jobAt(0, "runs")}, want: "start 13, 1 active, wake 1m0s"},
		{name: "Forbid", change: forbid, after: time.Hour, jobs: []Job{jobAt(0, "runs")},
			want: "missed 1 until 13 StillRunning, 1 active, wake 1m0s"},
		{name: "Forbid, and the job has ended", change: forbid, after: time.Hour, jobs: []Job{jobAt(0, "failed")},
			want: "start 13, wake 1m0s"},
		{name: "Forbid, and the job is being deleted", change: forbid, after: time.Hour, jobs: []Job{jobAt(0, "leaves")},
			want: "missed 1 until 13 StillRunning, 1 active, wake 1m0s"},
		{name: "Replace", change: replace, after: time.Hour, jobs: []Job{jobAt(0, "runs")},
			want: "replace 12, start 13, 1 active, wake 1m0s"},
		{name: "Replace, and the job is being deleted", change: replace, after: time.Hour,
			jobs: []Job{jobAt(0, "leaves")}, want: "start 13, 1 active, wake 1m0s"},
		{name: "Replace waits until the status has recorded the job that goes", change: replace, after: 2 * time.Hour,
			jobs: []Job{jobAt(1, "runs")}, want: "1 active, wake 1s"},
		{name: "paused", after: 3 * time.Hour,
			change: func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = new(true) }, want: ""},
		{name: "the history", after: 4*time.Hour + time.Minute, remembered: 4,
			change: func(c *v1beta1.AdvancedCronJob) { c.Status.LastScheduleTime.Time = noon().Add(4 * time.Hour) },
			jobs: []Job{jobAt(4, "done"), jobAt(3, "done"), jobAt(2, "done"), jobAt(1, "failed"), jobAt(0, "done"),
				jobAt(-1, "failed")}, want: "delete 12, delete 11, wake 1m0s"},
		{name: "a history of 0 waits until the status has recorded the tick", after: time.Minute,
			change: func(c *v1beta1.AdvancedCronJob) {
				c.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
				unrecorded(c)
			}, jobs: []Job{jobAt(0, "done")}, want: "wake 1s"},
		{name: "another schedule has no ticks before it was seen", after: 10 * time.Minute,
			change: func(c *v1beta1.AdvancedCronJob) {
				c.Spec.Schedule = "*/5 * * * *"
				c.Status.ObservedSchedule = &v1beta1.ObservedSchedule{Schedule: "@hourly", Since: c.CreationTimestamp}
			}, want: "wake 1m0s"},
		{name: "another time zone neither", after: time.Hour + 10*time.Minute,
			change: func(c *v1beta1.AdvancedCronJob) {
				c.Spec.TimeZone = new("Europe/Berlin")
				c.Status.ObservedSchedule = &v1beta1.ObservedSchedule{Schedule: "@hourly", Since: c.CreationTimestamp}
			}, want: "wake 1m0s"},
		{name: "no such time zone", change: func(c *v1beta1.AdvancedCronJob) { c.Spec.TimeZone = new("Mars/Olympus") },
			after: time.Hour, want: "stalled UnknownTimeZone"},
		{name: "a schedule that never fires", change: func(c *v1beta1.AdvancedCronJob) { c.Spec.Schedule = "0 0 31 2 *" },
			want: "stalled ScheduleNeverFires"},
		{name: "ImageListPullJobs", change: func(c *v1beta1.AdvancedCronJob) {
			c.Spec.Template = v1beta1.CronJobTemplate{ImageListPullJobTemplate: &v1beta1.ImageListPullJobTemplateSpec{}}
		}, after: time.Hour, want: "start 13, wake 1m0s"},
		{name: "a template that cannot be decoded", after: time.Hour, change: func(c *v1beta1.AdvancedCronJob) {
			job := &v1beta1.JobTemplate{}
			_ = job.UnmarshalJSON([]byte(`{"spec":{"parallelism":"three"}}`))
			c.Spec.Template = v1beta1.CronJobTemplate{JobTemplate: job}
		}, want: "stalled InvalidTemplate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts := Facts{Cron: hourly(), Jobs: tt.jobs, Now: noon().Add(tt.after)}
			if tt.change != nil {
				tt.change(facts.Cron)
			}
			if tt.remembered != 0 {
				facts.Started = noon().Add(time.Duration(tt.remembered) * time.Hour)
			}
			if got := describe(Compute(facts)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// describe returns a plan in words; ticks are hours of the day.
func describe(p Plan) string {
	var words []string
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	for _, d := range p.Delete {
		verb := "delete"
		if d.Replaced {
			verb = "replace"
		}
		say("%s %d", verb, d.Tick.UTC().Hour())
	}
	if !p.Start.IsZero() {
		say("start %d", p.Start.UTC().Hour())
	}
	if p.Missed.Count > 0 {
		say("%s", strings.TrimSpace(fmt.Sprintf("missed %d until %d %s", p.Missed.Count, p.Missed.Newest.UTC().Hour(),
			p.Missed.Cause)))
	}
	if len(p.Active) > 0 {
		say("%d active", len(p.Active))
	}
	if p.Wake != 0 {
		say("wake %v", p.Wake)
	}
	if p.Stalled != nil {
		say("stalled %s", p.Stalled.Reason)
	}
	return strings.Join(words, ", ")
}

func TestTicksOfJobs(t *testing.T) {
	tick := noon().Add(time.Hour)
	for name, annotations := range map[string]map[string]string{
		"clean-7":                            {v1beta1.AnnotationScheduledAt: tick.Format(time.RFC3339)},
		fmt.Sprintf("clean-%d", tick.Unix()): nil,
		fmt.Sprintf("a-b-c-%d", tick.Unix()): {v1beta1.AnnotationScheduledAt: "tomorrow"},
		fmt.Sprintf("clean-%d", tick.Unix()-1): {v1beta1.AnnotationScheduledAt: tick.In(time.FixedZone("",
			3600)).Format(time.RFC3339)},
	} {
		if got := tickOf(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: annotations}}); !got.Equal(tick) {
			t.Errorf("%s, %v: %v", name, annotations, got)
		}
	}
	for _, name := range []string{"by-hand", "clean-20261127001", "clean-20261127120000"} {
		job := nativeJob(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon())}})
		if !job.Tick.IsZero() {
			t.Errorf("%s: %v", name, job.Tick)
		}
	}
}

func TestJobsHaveTheMetadataOfTheTemplate(t *testing.T) {
	c := hourly()
	c.Spec.Template = v1beta1.CronJobTemplate{JobTemplate: &v1beta1.JobTemplate{JobTemplateSpec: batchv1.JobTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "ops"},
			Annotations: map[string]string{"why": "disk"}},
		Spec: batchv1.JobSpec{BackoffLimit: new(int32(2))},
	}}}
	job, _ := jobOf(c, noon()).(*batchv1.Job)
	if job == nil || job.Name != fmt.Sprintf("clean-%d", noon().Unix()) || job.Labels["team"] != "ops" ||
		job.Annotations["why"] != "disk" || job.Annotations[v1beta1.AnnotationScheduledAt] != "2026-03-01T12:00:00Z" ||
		*job.Spec.BackoffLimit != 2 || !metav1.IsControlledBy(job, c) {
		t.Errorf("%+v", job)
	}
	if len(c.Spec.Template.JobTemplate.Annotations) != 1 {
		t.Error("the template was changed")
	}
}

func TestMissedInWords(t *testing.T) {
	for want, m := range map[string]cron.Missed{
		"1 tick was missed, the newest at 2026-03-01T12:00:00Z: the job of an earlier tick was running, and " +
			"concurrencyPolicy is Forbid": {Count: 1, Newest: noon(), Cause: cron.StillRunning},
		"more than 1000 ticks were missed, the newest at 2026-03-01T12:00:00Z: a later tick came before the job could " +
			"be created, and only the newest tick is started": {Count: 1000, More: true, Newest: noon()},
		"2 ticks were missed, the newest at 2026-03-01T12:00:00Z: startingDeadlineSeconds had passed when it could have " +
			"been started": {Count: 2, Newest: noon(), Cause: cron.TooLate},
		"2 ticks were missed, the newest at 2026-03-01T12:00:00Z: the member that had the schedule before is lost, and may " +
			"have started them": {Count: 2, Newest: noon(), Cause: cron.Elsewhere},
	} {
		if got := missed(m); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if !slices.Contains([]string{reasonSkipped}, causeOf(cron.Missed{Count: 1})) {
		t.Error("ticks that were skipped have no reason")
	}
}
