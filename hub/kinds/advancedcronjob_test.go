package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// cronAt is so many minutes after the AdvancedCronJob of these tests was created.
func cronAt(minutes int) *metav1.Time {
	return &metav1.Time{Time: time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC)}
}

func cronJob(change ...func(*apps.AdvancedCronJob)) *apps.AdvancedCronJob {
	job := &apps.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "clean",
		CreationTimestamp: *cronAt(0)}}
	job.Spec.Schedule, job.Spec.TimeZone = "30 2 * * *", new("Europe/Berlin")
	job.Spec.Template.BroadcastJobTemplate = &apps.BroadcastJobTemplateSpec{}
	job.Spec.Template.BroadcastJobTemplate.Spec.Template.PodTemplateSpec = podTemplate()
	for _, c := range change {
		c(job)
	}
	return job
}

func TestAdvancedCronJobsThatAreRead(t *testing.T) {
	names := func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "script"}}}}}
	}
	byNode := cronJob(func(job *apps.AdvancedCronJob) {
		names(&job.Spec.Template.BroadcastJobTemplate.Spec.Template.Spec)
	})
	once := cronJob(func(job *apps.AdvancedCronJob) {
		job.Spec.Template = apps.CronJobTemplate{JobTemplate: &apps.JobTemplate{}}
		names(&job.Spec.Template.JobTemplate.Spec.Template.Spec)
	})
	pulls := cronJob(func(job *apps.AdvancedCronJob) {
		job.Spec.Template = apps.CronJobTemplate{ImageListPullJobTemplate: &apps.ImageListPullJobTemplateSpec{}}
	})
	revisions := map[string]bool{}
	for _, tt := range []struct {
		job   *apps.AdvancedCronJob
		needs int
	}{{byNode, 1}, {once, 1}, {pulls, 0}} {
		w, rejection := readAdvancedCronJob(tt.job)
		if rejection != nil || len(w.Needs) != tt.needs || len(w.Subsets) != 0 || w.Alone || w.Paused || w.NoWaves == "" {
			t.Errorf("%+v, %v", w, rejection)
		}
		revisions[w.Revision] = true
	}
	paused, _ := readAdvancedCronJob(cronJob(func(job *apps.AdvancedCronJob) { job.Spec.Paused = new(true) }))
	if revisions[paused.Revision] || len(revisions) != 3 || !paused.Paused {
		t.Errorf("a pause, and another template, are another order: %+v, %v", paused, revisions)
	}
	broken := cronJob(func(job *apps.AdvancedCronJob) {
		job.Spec.Template = apps.CronJobTemplate{JobTemplate: &apps.JobTemplate{Undecoded: []byte(`{"spec":7}`)}}
	})
	if _, rejection := readAdvancedCronJob(broken); rejection == nil || rejection.Reason != InvalidTemplate ||
		!strings.Contains(rejection.Message, "spec.template.jobTemplate") {
		t.Errorf("%+v", rejection)
	}
}

func TestTicksOfAdvancedCronJobs(t *testing.T) {
	job := cronJob()
	observed := func(schedule string, minutes int) *apps.ObservedSchedule {
		return &apps.ObservedSchedule{Schedule: schedule, TimeZone: "Europe/Berlin", Since: *cronAt(minutes)}
	}
	for name, tt := range map[string]struct {
		status apps.AdvancedCronJobStatus
		want   Ticks
	}{
		"no tick yet": {apps.AdvancedCronJobStatus{ObservedSchedule: observed("30 2 * * *", 3)},
			Ticks{Settled: cronAt(3).Time}},
		"a tick was started": {apps.AdvancedCronJobStatus{ObservedSchedule: observed("30 2 * * *", 3),
			LastScheduleTime: cronAt(9), LastMissedTime: cronAt(8)}, Ticks{Settled: cronAt(9).Time}},
		"a tick was missed": {apps.AdvancedCronJobStatus{ObservedSchedule: observed("30 2 * * *", 3),
			LastScheduleTime: cronAt(9), LastMissedTime: cronAt(10)}, Ticks{Settled: cronAt(10).Time}},
		"another schedule": {apps.AdvancedCronJobStatus{ObservedSchedule: observed("@hourly", 20),
			LastScheduleTime: cronAt(9)}, Ticks{Settled: cronAt(9).Time, Outdated: true}},
		"nothing": {},
	} {
		data, err := json.Marshal(&tt.status)
		if err != nil {
			t.Fatal(err)
		}
		if got := ticksOfAdvancedCronJob(job, data); !got.Settled.Equal(tt.want.Settled) || got.Outdated != tt.want.Outdated {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	if got := ticksOfAdvancedCronJob(job, []byte("7")); !got.Settled.IsZero() {
		t.Errorf("of nonsense: %+v", got)
	}
	if got := ticksOfAdvancedCronJob(job, nil); !got.Settled.Equal(cronAt(0).Time) {
		t.Errorf("before any tick: %+v", got)
	}
	job.Status.LastScheduleTime = cronAt(7)
	if got := ticksOfAdvancedCronJob(job, nil); !got.Settled.Equal(cronAt(7).Time) {
		t.Errorf("by the hub's own status: %+v", got)
	}
}

// TestManifestsOfAdvancedCronJobs: the member that runs it alone has the user's spec, and the others are paused.
func TestManifestsOfAdvancedCronJobs(t *testing.T) {
	for name, tt := range map[string]struct {
		replicas   int32
		ticks      *topology.Ticks
		paused     bool
		annotation string
	}{
		"each member":        {1, nil, false, ""},
		"before its report":  {0, nil, false, ""},
		"the only one":       {1, &topology.Ticks{Alone: true}, false, `{"alone":true}`},
		"on standby":         {0, &topology.Ticks{Alone: true}, true, `{"alone":true}`},
		"each, after others": {1, &topology.Ticks{At: cronAt(5), Since: cronAt(5)}, false, `"since":"2026-03-01T12:05:00Z"`},
	} {
		job := cronJob()
		manifest, err := renderAdvancedCronJob(job, &Order{Cells: []topology.Cell{{Cluster: "east", Replicas: tt.replicas,
			Ticks: tt.ticks}}})
		if err != nil {
			t.Fatal(err)
		}
		spec := manifest.Spec.(*apps.AdvancedCronJobSpec)
		if paused := spec.Paused != nil && *spec.Paused; paused != tt.paused || job.Spec.Paused != nil ||
			!strings.Contains(manifest.Annotations[topology.AnnotationTicks], tt.annotation) ||
			(tt.annotation == "") != (len(manifest.Annotations) == 0) {
			t.Errorf("%s: paused %t, %v", name, paused, manifest.Annotations)
		}
	}
}

func TestReflectedAdvancedCronJobs(t *testing.T) {
	for reason, want := range map[string]int32{"Scheduled": 1, conditions.ReasonPaused: 0} {
		status := fmt.Appendf(nil, `{"conditions":[{"type":"Ready","reason":%q}]}`, reason)
		use, err := reflectAdvancedCronJob(&Reflected{Status: status, Seen: true, Current: true})
		if err != nil || !use.Answered || use.InUse[0].Total != want {
			t.Errorf("%s: %+v, %v", reason, use, err)
		}
	}
}

func TestStatusOfAdvancedCronJobsIsTheNewest(t *testing.T) {
	job := cronJob()
	job.Status.LastScheduleTime = cronAt(1)
	active := func(cluster string, n int) (out []apps.JobReference) {
		for i := range n {
			out = append(out, apps.JobReference{Namespace: "shop", Name: fmt.Sprintf("clean-%s-%d", cluster, i)})
		}
		return out
	}
	var statuses [][]byte
	for _, status := range []apps.AdvancedCronJobStatus{
		{LastScheduleTime: cronAt(5), LastMissedTime: cronAt(3), Active: active("east", 15),
			ObservedSchedule: &apps.ObservedSchedule{Schedule: "@hourly"}},
		{LastScheduleTime: cronAt(4), LastMissedTime: cronAt(4), Active: active("west", 15)},
		{},
	} {
		data, err := json.Marshal(&status)
		if err != nil {
			t.Fatal(err)
		}
		statuses = append(statuses, data)
	}
	sum := &Sum{
		ObservedGeneration: 4, Whole: Counts{Available: 3}, Statuses: append(statuses, []byte("7")),
		Conditions: []conditions.Condition{
			{Type: apps.ConditionReady, Status: corev1.ConditionTrue, Reason: conditions.ReasonAllAvailable},
			{Type: apps.ConditionProgressing, Status: corev1.ConditionTrue, Reason: "AdvancedCronJobAvailable"},
		},
		Failures: map[string]*conditions.Cause{ticksMissed: {Reason: "TooLate", Message: "east: 1 tick was missed"}},
	}
	now := time.Unix(100, 0)
	if !advancedCronJobStatus(job, sum, now) || advancedCronJobStatus(job, sum, now) {
		t.Error("the status changes once")
	}
	want := apps.AdvancedCronJobStatus{ObservedGeneration: 4, Type: apps.BroadcastJobTemplateType,
		LastScheduleTime: cronAt(5), LastMissedTime: cronAt(4), Active: append(active("east", 15), active("west", 5)...)}
	if diff := cmp.Diff(want, job.Status, cmpopts.IgnoreFields(want, "Conditions")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	found := map[string]string{}
	for _, c := range job.Status.Conditions {
		common, _ := c.Common()
		found[common.Type] = string(common.Status) + " " + common.Reason + ": " + common.Message
	}
	if diff := cmp.Diff(map[string]string{
		"Ready":       "True Scheduled: 3 members start jobs, each its own",
		"TicksMissed": "True TooLate: east: 1 tick was missed",
	}, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	sum.Statuses, sum.Failures = nil, nil
	advancedCronJobStatus(job, sum, now)
	if !job.Status.LastScheduleTime.Equal(cronAt(5)) || len(job.Status.Conditions) != 1 || len(job.Status.Active) != 0 {
		t.Errorf("without members: %+v", job.Status)
	}
}
