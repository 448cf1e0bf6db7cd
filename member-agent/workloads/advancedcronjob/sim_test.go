package advancedcronjob

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/cron"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

var seeds = flag.Uint64("seeds", 25, "`number` of simulated AdvancedCronJobs")

// simulated is an AdvancedCronJob with its jobs in an API server that fails now and then, a controller that is started
// again, and people who delete jobs.
type simulated struct {
	*testing.T
	random *rand.Rand
	clock  *clocktesting.FakeClock
	api    client.WithWatch
	r      *Reconciler
	// faults is how many in 24 requests fail, and how many restarts there are in 24 steps.
	faults int
	// keeps: the API server refuses to delete jobs.
	keeps bool
	// created are the ticks of all jobs that the API server created, in their order.
	created []time.Time
	// since is when the schedule began; follows is the schedule.
	since   time.Time
	follows cron.Schedule
}

var errServer = errors.New("the API server failed")

func simulate(t *testing.T, seed uint64) *simulated {
	random := rand.New(rand.NewPCG(seed, 27))
	s := &simulated{T: t, random: random, faults: 1 + random.IntN(12)}
	s.clock = clocktesting.NewFakeClock(noon().Add(time.Duration(random.IntN(200*24)) * time.Hour))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, v1beta1.AddToScheme,
		metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	object := s.drawn()
	s.api = fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, object).
		WithStatusSubresource(&v1beta1.AdvancedCronJob{}, &v1beta1.BroadcastJob{}, &batchv1.Job{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: s.create, Delete: s.delete, SubResourcePatch: s.patchStatus}).Build()
	s.restart()
	return s
}

// drawn returns a random AdvancedCronJob.
func (s *simulated) drawn() *v1beta1.AdvancedCronJob {
	schedules := []string{"* * * * *", "*/7 * * * *", "@every 11m", "15 */3 * * 1-5", "@hourly"}
	policies := []v1beta1.ConcurrencyPolicy{"", v1beta1.AllowConcurrent, v1beta1.ForbidConcurrent,
		v1beta1.ReplaceConcurrent}
	object := hourly(func(c *v1beta1.AdvancedCronJob) {
		c.CreationTimestamp, c.Status = metav1.NewTime(s.clock.Now()), v1beta1.AdvancedCronJobStatus{}
		c.Spec.Schedule = schedules[s.random.IntN(len(schedules))]
		c.Spec.ConcurrencyPolicy = policies[s.random.IntN(len(policies))]
		c.Spec.SuccessfulJobsHistoryLimit = new(int32(s.random.IntN(3)))
		c.Spec.FailedJobsHistoryLimit = new(int32(s.random.IntN(2)))
		if s.random.IntN(2) == 0 {
			c.Spec.TimeZone = new("America/New_York")
		}
		if s.random.IntN(2) == 0 {
			c.Spec.StartingDeadlineSeconds = new(int64(s.random.IntN(3600)))
		}
		if s.random.IntN(2) == 0 {
			c.Spec.Template = v1beta1.CronJobTemplate{JobTemplate: &v1beta1.JobTemplate{}}
		}
	})
	s.since = object.CreationTimestamp.Time
	s.follow(&object.Spec)
	return object
}

func (s *simulated) follow(spec *v1beta1.AdvancedCronJobSpec) {
	zone := ""
	if spec.TimeZone != nil {
		zone = *spec.TimeZone
	}
	var err error
	if s.follows, err = cron.Parse(spec.Schedule, zone); err != nil {
		s.Fatal(err)
	}
}

// restart starts the controller again: it remembers nothing.
func (s *simulated) restart() {
	s.r = &Reconciler{}
	s.r.Controller = workload.New(workload.Parts{Client: s.api, Live: s.api, Events: &events.FakeRecorder{},
		Clock: s.clock},
		s.r.kind())
}

// fails draws whether a request fails, before or after the API server carried it out.
func (s *simulated) fails() (before, after bool) {
	return s.random.IntN(24) < s.faults, s.random.IntN(24) < s.faults
}

func (s *simulated) create(ctx context.Context, api client.WithWatch, object client.Object,
	options ...client.CreateOption) error {
	before, after := s.fails()
	if before {
		return errServer
	}
	object.SetUID(types.UID(object.GetName()))
	object.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
	if err := api.Create(ctx, object, options...); err != nil {
		return err
	}
	s.created = append(s.created, tickOf(object))
	s.checkStart(tickOf(object))
	if after {
		return errServer
	}
	return nil
}

func (s *simulated) delete(ctx context.Context, api client.WithWatch, object client.Object,
	options ...client.DeleteOption) error {
	before, after := s.fails()
	if before || s.keeps {
		return errServer
	}
	if err := api.Delete(ctx, object, options...); err != nil || !after {
		return err
	}
	return errServer
}

func (s *simulated) patchStatus(ctx context.Context, api client.Client, sub string, object client.Object,
	patch client.Patch, options ...client.SubResourcePatchOption) error {
	before, after := s.fails()
	if before {
		return errServer
	}
	if err := api.SubResource(sub).Patch(ctx, object, patch, options...); err != nil || !after {
		return err
	}
	return errServer
}

// object returns the AdvancedCronJob.
func (s *simulated) object() *v1beta1.AdvancedCronJob {
	out := &v1beta1.AdvancedCronJob{}
	if err := s.api.Get(s.Context(), types.NamespacedName{Namespace: "shop", Name: "clean"}, out); err != nil {
		s.Fatal(err)
	}
	return out
}

// jobs returns the jobs.
func (s *simulated) jobs() []Job {
	var out []Job
	var jobs batchv1.JobList
	var broadcasts v1beta1.BroadcastJobList
	if err := errors.Join(s.api.List(s.Context(), &jobs), s.api.List(s.Context(), &broadcasts)); err != nil {
		s.Fatal(err)
	}
	for i := range jobs.Items {
		out = append(out, nativeJob(&jobs.Items[i]))
	}
	for i := range broadcasts.Items {
		out = append(out, broadcastJob(&broadcasts.Items[i]))
	}
	return out
}

// checkStart checks the start of a tick against all that were started before, and the policies.
func (s *simulated) checkStart(tick time.Time) {
	s.Helper()
	now, object := s.clock.Now(), s.object()
	if n := len(s.created); n > 1 && !tick.After(s.created[n-2]) {
		s.Fatalf("the tick of %v is started after that of %v", tick, s.created[n-2])
	}
	if next := s.follows.Next(s.accounted(object)); tick.After(next) {
		s.Fatalf("the tick of %v is started, and the status does not say that the one of %v was missed", tick, next)
	}
	if tick.After(now) || s.follows.Next(tick.Add(-time.Second)) != tick && object.Spec.Schedule[0] != '@' {
		s.Fatalf("%v is no tick of %s at %v", tick, object.Spec.Schedule, now)
	}
	if d := object.Spec.StartingDeadlineSeconds; d != nil && now.Sub(tick) > time.Duration(*d)*time.Second {
		s.Fatalf("the tick of %v is started at %v, with a deadline of %d s", tick, now, *d)
	}
	running := 0
	for _, job := range s.jobs() {
		if !job.Finished {
			running++
		}
	}
	if policy := object.Spec.ConcurrencyPolicy; running > 1 &&
		(policy == v1beta1.ForbidConcurrent || policy == v1beta1.ReplaceConcurrent) {
		s.Fatalf("%d jobs run under %s", running, policy)
	}
	if object.Spec.Paused != nil && *object.Spec.Paused {
		s.Fatal("a tick is started while paused")
	}
}

// accounted returns the time up to which each tick was started, is reported missed, or is not one of this schedule.
func (s *simulated) accounted(object *v1beta1.AdvancedCronJob) time.Time {
	out := s.since
	for _, at := range []*metav1.Time{object.Status.LastScheduleTime, object.Status.LastMissedTime} {
		if at != nil && at.After(out) {
			out = at.Time
		}
	}
	if n := len(s.created); n > 1 && s.created[n-2].After(out) {
		out = s.created[n-2]
	}
	return out
}

// pass reconciles once.
func (s *simulated) pass() error {
	_, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop",
		Name: "clean"}})
	return err
}

// happen lets one thing happen to the jobs, the object, or the controller.
func (s *simulated) happen() {
	if s.random.IntN(24) < s.faults {
		s.restart()
	}
	switch what := s.random.IntN(20); {
	case what < 9:
		s.endJob()
	case what < 11:
		s.deleteJob()
	case what < 12:
		s.change(func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = new(s.random.IntN(2) == 0) })
	}
}

func (s *simulated) change(edit func(*v1beta1.AdvancedCronJob)) {
	object := s.object()
	edit(object)
	object.Generation++
	if err := s.api.Update(s.Context(), object); err != nil {
		s.Fatal(err)
	}
}

// endJob ends one of the jobs. It returns whether one was running.
func (s *simulated) endJob() bool {
	var running []Job
	for _, job := range s.jobs() {
		if !job.Finished {
			running = append(running, job)
		}
	}
	if len(running) == 0 {
		return false
	}
	switch job := running[s.random.IntN(len(running))].Object.(type) {
	case *batchv1.Job:
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if s.random.IntN(3) == 0 {
			job.Status.Conditions[0].Type = batchv1.JobFailed
		}
		s.must(s.api.Status().Update(s.Context(), job))
	case *v1beta1.BroadcastJob:
		job.Status.Conditions = []v1beta1.JobCondition{{Type: v1beta1.JobComplete, Status: corev1.ConditionTrue}}
		if s.random.IntN(3) == 0 {
			job.Status.Conditions[0].Type = v1beta1.JobFailed
		}
		s.must(s.api.Status().Update(s.Context(), job))
	}
	return true
}

// deleteJob deletes one of the jobs whose tick is recorded, as a person or its TTL does.
func (s *simulated) deleteJob() {
	recorded := Facts{Cron: s.object()}.recorded()
	jobs := slices.DeleteFunc(s.jobs(), func(j Job) bool { return j.Tick.After(recorded) })
	if len(jobs) > 0 {
		faults := s.faults
		s.faults = 0
		s.must(s.api.Delete(s.Context(), jobs[s.random.IntN(len(jobs))].Object))
		s.faults = faults
	}
}

func (s *simulated) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// TestJobsThatCannotBeDeleted: a job of the history that stays keeps no tick from its start. One that is to be replaced
// does, and the status says so.
func TestJobsThatCannotBeDeleted(t *testing.T) {
	for name, tt := range map[string]struct {
		policy v1beta1.ConcurrencyPolicy
		done   bool
		starts int
		failed corev1.ConditionStatus
	}{
		"of the history": {v1beta1.ForbidConcurrent, true, 2, ""},
		"to be replaced": {v1beta1.ReplaceConcurrent, false, 1, corev1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t, 1)
			s.faults, s.keeps = 0, true
			s.change(func(c *v1beta1.AdvancedCronJob) {
				c.Spec.StartingDeadlineSeconds, c.Spec.Schedule, c.Spec.ConcurrencyPolicy = nil, "@hourly", tt.policy
				c.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
				c.Spec.Template = v1beta1.CronJobTemplate{JobTemplate: &v1beta1.JobTemplate{}}
				s.follow(&c.Spec)
			})
			s.must(s.pass())
			for range 2 {
				s.clock.SetTime(s.follows.Next(s.clock.Now()).Add(time.Second))
				_ = s.pass() // the error of a deletion is retried
				_ = s.pass()
				for _, job := range s.jobs() {
					if native, ok := job.Object.(*batchv1.Job); ok && tt.done {
						native.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete,
							Status: corev1.ConditionTrue}}
						s.must(s.api.Status().Update(t.Context(), native))
					}
				}
			}
			var failed corev1.ConditionStatus
			for _, c := range s.object().Status.Conditions {
				if string(c.Type) == conditionFailedCreateJob {
					failed = c.Status
				}
			}
			if recorded := s.object().Status.LastScheduleTime; len(s.created) != tt.starts || recorded == nil ||
				!recorded.Time.Equal(s.created[len(s.created)-1]) || failed != tt.failed {
				t.Errorf("started %v, recorded %v, FailedCreateJob %q", s.created, recorded, failed)
			}
		})
	}
}

// TestSimulated checks, over random schedules, policies, faults, restarts, deletions and clocks, that each tick is
// started once at most, that no policy is broken, that the status never moves back, and that ticks go on when the
// faults end.
func TestSimulated(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := simulate(t, seed)
			var last v1beta1.AdvancedCronJobStatus
			for range 150 {
				switch jump := s.random.IntN(25); jump {
				case 0:
					s.clock.Step(time.Duration(s.random.IntN(10*3600)) * time.Second)
				case 1:
					s.clock.SetTime(s.clock.Now().Add(-time.Duration(s.random.IntN(600)) * time.Second))
				default:
					s.clock.Step(time.Duration(s.random.IntN(240)) * time.Second)
				}
				s.happen()
				_ = s.pass() // faults: the next pass tries again
				status := s.object().Status
				if before(status.LastScheduleTime, last.LastScheduleTime) || before(status.LastMissedTime, last.LastMissedTime) {
					t.Fatalf("the status moves back: %+v, then %+v", last, status)
				}
				if at := status.LastMissedTime; at != nil && slices.ContainsFunc(s.created, at.Time.Equal) {
					t.Fatalf("the tick of %v was started, and is reported as missed", at)
				}
				last = status
			}
			s.rest()
		})
	}
}

func before(now, last *metav1.Time) bool { return last != nil && (now == nil || now.Before(last)) }

// rest ends the faults and checks that the next tick is started.
func (s *simulated) rest() {
	s.faults = 0
	s.change(func(c *v1beta1.AdvancedCronJob) { c.Spec.Paused = nil })
	for range 5 {
		for s.endJob() {
		}
		s.must(s.pass())
	}
	object := s.object()
	handled := object.CreationTimestamp.Time
	for _, at := range []*metav1.Time{object.Status.LastScheduleTime, object.Status.LastMissedTime} {
		if at != nil && at.After(handled) {
			handled = at.Time
		}
	}
	next := s.follows.Next(handled)
	if next.Before(s.clock.Now()) {
		s.Fatalf("the tick of %v is open at %v", next, s.clock.Now())
	}
	s.clock.SetTime(next)
	for range 3 {
		s.must(s.pass())
	}
	if got := s.object().Status; got.LastScheduleTime == nil || !got.LastScheduleTime.Time.Equal(next) ||
		len(got.Active) != 1 {
		s.Fatalf("at the tick of %v: %+v", next, got)
	}
	for _, job := range s.jobs() {
		if !job.Finished && !job.Tick.Equal(next) {
			s.Errorf("the job of %v still runs", job.Tick)
		}
	}
}
