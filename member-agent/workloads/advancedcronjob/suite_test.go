package advancedcronjob_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/advancedcronjob"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// world is one cluster with the controller running in it. Nothing runs BroadcastJobs here.
type world struct {
	*testing.T
	client.Client
	name string
}

// TestOnAServer runs every scenario on one cluster, in parallel.
func TestOnAServer(t *testing.T) {
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: fleet.Nodes("solo", "eu", []string{"a"}, 1)}, false,
		"advancedcronjobs.apps.kruise.io", "broadcastjobs.apps.kruise.io",
		"imagelistpulljobs.apps.kruise.io")
	config := c.RESTConfig()
	config.QPS = -1
	own := rest.CopyConfig(config)
	own.UserAgent = "advancedcronjob-under-test"
	apiserver.Run(t, own, func(ctx context.Context, mgr ctrl.Manager) error {
		return advancedcronjob.Add(ctx, &workload.Env{Manager: mgr})
	})
	api, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("scenarios", func(t *testing.T) {
		for name, scenario := range map[string]func(*world){
			"starts jobs by the schedule, and keeps as many as asked": keepsHistory,
			"misses ticks while a job runs, and says so":              forbids,
			"replaces the job that runs":                              replaces,
			"starts a tick once, though its job is deleted":           startsOnce,
			"says what keeps it from starting jobs":                   saysWhy,
			"leaves a job of another owner alone":                     leavesForeignJobs,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(&world{T: t, Client: api})
			})
		}
	})
}

// eventually polls until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// create creates an AdvancedCronJob of BroadcastJobs with this schedule.
func (w *world) create(name, schedule string, change ...func(*v1beta1.AdvancedCronJob)) {
	w.Helper()
	w.name = name
	cron := &v1beta1.AdvancedCronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1beta1.AdvancedCronJobSpec{Schedule: schedule,
			Template: v1beta1.CronJobTemplate{BroadcastJobTemplate: &v1beta1.BroadcastJobTemplateSpec{
				Spec: v1beta1.BroadcastJobSpec{Template: v1beta1.NewPodTemplate(podTemplate())}}}},
	}
	for _, f := range change {
		f(cron)
	}
	w.must(w.Create(w.Context(), cron))
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "main", Image: "job:1"}}}}
}

func (w *world) get() *v1beta1.AdvancedCronJob {
	w.Helper()
	out := &v1beta1.AdvancedCronJob{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: w.name}, out))
	return out
}

// change changes the AdvancedCronJob, again where another writer was faster.
func (w *world) change(edit func(*v1beta1.AdvancedCronJob)) {
	w.Helper()
	w.eventually("the change is stored", func() string {
		cron := w.get()
		edit(cron)
		err := w.Update(w.Context(), cron)
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		w.must(err)
		return ""
	})
}

// condition waits for a condition with this status and reason, and returns its message.
func (w *world) condition(name, status, reason string) (message string) {
	w.Helper()
	w.eventually(name+" is "+reason, func() string {
		conditions := w.get().Status.Conditions
		i := slices.IndexFunc(conditions, func(c v1beta1.JobCondition) bool { return string(c.Type) == name })
		if i < 0 || string(conditions[i].Status) != status || conditions[i].Reason != reason {
			return fmt.Sprintf("%+v", conditions)
		}
		message = conditions[i].Message
		return ""
	})
	return message
}

// broadcasts returns the BroadcastJobs, sorted by name.
func (w *world) broadcasts() []v1beta1.BroadcastJob {
	w.Helper()
	var list v1beta1.BroadcastJobList
	w.must(w.List(w.Context(), &list, client.InNamespace("default")))
	return slices.DeleteFunc(list.Items, func(job v1beta1.BroadcastJob) bool {
		ref := metav1.GetControllerOf(&job)
		return ref == nil || ref.Name != w.name
	})
}

// end ends a BroadcastJob.
func (w *world) end(job *v1beta1.BroadcastJob) {
	w.Helper()
	job.Status.Conditions = []v1beta1.JobCondition{{Type: v1beta1.JobComplete, Status: corev1.ConditionTrue,
		LastProbeTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	w.must(client.IgnoreNotFound(w.Status().Update(w.Context(), job)))
}

// keepsHistory runs Jobs of Kubernetes, whose pods the simulated nodes complete.
func keepsHistory(w *world) {
	w.create("history", "@every 2s", func(c *v1beta1.AdvancedCronJob) {
		c.Spec.SuccessfulJobsHistoryLimit = new(int32(1))
		c.Spec.Template = v1beta1.CronJobTemplate{JobTemplate: &v1beta1.JobTemplate{JobTemplateSpec: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "ops"}},
			Spec:       batchv1.JobSpec{Template: podTemplate()}}}}
	})
	seen := map[string]string{} // ticks by the names of their jobs
	w.eventually("5 ticks were started, and old jobs are gone", func() string {
		var list batchv1.JobList
		w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"team": "ops"}))
		ended := 0
		for _, job := range list.Items {
			seen[job.Name] = job.Annotations[v1beta1.AnnotationScheduledAt]
			if job.Status.CompletionTime != nil {
				ended++
			}
		}
		if len(seen) < 5 || len(list.Items) > 4 {
			return fmt.Sprintf("%v, %d of %d have ended", seen, ended, len(list.Items))
		}
		return ""
	})
	if ticks := slices.Sorted(maps.Values(seen)); len(slices.Compact(ticks)) != len(seen) {
		w.Errorf("two jobs have one tick: %v", seen)
	}
	if status := w.get().Status; status.Type != v1beta1.JobTemplateType || status.LastScheduleTime == nil ||
		status.LastMissedTime != nil {
		w.Errorf("%+v", status)
	}
}

func forbids(w *world) {
	w.create("forbid", "@every 1s", func(c *v1beta1.AdvancedCronJob) {
		c.Spec.ConcurrencyPolicy = v1beta1.ForbidConcurrent
	})
	message := w.condition("TicksMissed", "True", "StillRunning")
	if !strings.Contains(message, "the job of an earlier tick was running, and concurrencyPolicy is Forbid") {
		w.Error(message)
	}
	first := w.broadcasts()
	if len(first) != 1 {
		w.Fatalf("%d jobs run", len(first))
	}
	if active := w.get().Status.Active; len(active) != 1 || active[0].Name != first[0].Name ||
		active[0].Kind != "BroadcastJob" || active[0].APIVersion != "apps.kruise.io/v1beta1" ||
		active[0].UID != first[0].UID {
		w.Errorf("%+v", active)
	}
	w.end(&first[0])
	w.eventually("the next job is started", func() string {
		return map[bool]string{true: "one job"}[len(w.broadcasts()) < 2]
	})
}

func replaces(w *world) {
	w.create("replace", "@every 2s", func(c *v1beta1.AdvancedCronJob) {
		c.Spec.ConcurrencyPolicy = v1beta1.ReplaceConcurrent
	})
	seen := map[string]bool{}
	w.eventually("3 jobs were started", func() string {
		jobs := w.broadcasts()
		if len(jobs) > 1 {
			w.Fatalf("%d jobs run", len(jobs))
		}
		for _, job := range jobs {
			seen[job.Name] = true
		}
		return map[bool]string{true: fmt.Sprint(seen)}[len(seen) < 3]
	})
	if missed := w.get().Status.LastMissedTime; missed != nil && seen[fmt.Sprintf("replace-%d", missed.Unix())] {
		w.Errorf("%v was started, and is reported as missed", missed)
	}
}

// startsOnce gives an AdvancedCronJob a schedule since half an hour ago.
func startsOnce(w *world) {
	paused := func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = new(true) }
	w.create("once", "@every 20m", paused)
	w.condition("Ready", "True", "Paused")
	since := metav1.NewTime(time.Now().Add(-50 * time.Minute).Truncate(time.Second))
	w.eventually("its schedule is older", func() string {
		cron := w.get()
		cron.Status.ObservedSchedule.Since = since
		if err := w.Status().Update(w.Context(), cron); err != nil {
			return err.Error()
		}
		return ""
	})
	w.change(func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = nil })
	var jobs []v1beta1.BroadcastJob
	w.eventually("the newest tick is started", func() string {
		jobs = w.broadcasts()
		if last := w.get().Status.LastScheduleTime; len(jobs) != 1 || last == nil ||
			!last.Time.Equal(since.Add(40*time.Minute)) {
			return fmt.Sprintf("%d jobs, %v", len(jobs), last)
		}
		return ""
	})
	if message := w.condition("TicksMissed", "True", "Skipped"); !strings.HasPrefix(message, "1 tick was missed, ") {
		w.Error(message)
	}
	w.must(w.Delete(w.Context(), &jobs[0]))
	w.change(paused)
	w.condition("Ready", "True", "Paused")
	w.change(func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = nil })
	if message := w.condition("Ready", "True", "Scheduled"); !strings.Contains(message,
		since.Add(time.Hour).UTC().Format(time.RFC3339)) {
		w.Errorf("%s, the schedule is since %v", message, since)
	}
	if jobs := w.broadcasts(); len(jobs) != 0 {
		w.Errorf("a tick is started twice: %s", jobs[0].Name)
	}
}

func saysWhy(w *world) {
	w.create("zone", "@hourly", func(c *v1beta1.AdvancedCronJob) { c.Spec.TimeZone = new("Europe/Nowhere") })
	if message := w.condition("Stalled", "True", "UnknownTimeZone"); !strings.Contains(message, `"Europe/Nowhere"`) {
		w.Error(message)
	}
	w.change(func(c *v1beta1.AdvancedCronJob) { c.Spec.TimeZone = new("Europe/Oslo") })
	w.condition("Ready", "True", "Scheduled")
	w.create("refused", "@every 1s", func(c *v1beta1.AdvancedCronJob) {
		pods := podTemplate()
		pods.Spec.Containers[0].Name = "No_Name"
		c.Spec.Template = v1beta1.CronJobTemplate{JobTemplate: &v1beta1.JobTemplate{
			JobTemplateSpec: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}}}}
	})
	if message := w.condition("Stalled", "True", "InvalidTemplate"); !strings.Contains(message, "No_Name") {
		w.Error(message)
	}
}

// leavesForeignJobs has a job of nobody in the way of the ticks of the next seconds.
func leavesForeignJobs(w *world) {
	w.create("taken", "@every 3s", func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = new(true) })
	w.condition("Ready", "True", "Paused")
	since := w.get().Status.ObservedSchedule.Since
	foreign := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
		Spec: v1beta1.BroadcastJobSpec{Template: v1beta1.NewPodTemplate(podTemplate())}}
	for i := range 60 {
		job := foreign.DeepCopy()
		job.Name = fmt.Sprintf("taken-%d", since.Add(time.Duration(i)*time.Second).Unix())
		w.must(w.Create(w.Context(), job))
	}
	w.change(func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = nil })
	if message := w.condition("FailedCreateJob", "True", "Retrying"); !strings.Contains(message, "delete that job") {
		w.Error(message)
	}
}
