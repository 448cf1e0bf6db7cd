package advancedcronjob

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// ordered gives the AdvancedCronJob these ticks of a hub, as JSON.
func ordered(ticks string) func(*v1beta1.AdvancedCronJob) {
	return func(c *v1beta1.AdvancedCronJob) {
		c.Annotations = map[string]string{topology.AnnotationTicks: ticks}
	}
}

// TestTicksOfAHub starts ticks of a schedule that another member had before. The object was created at 11:30, and it is
// shortly after 15:00.
func TestTicksOfAHub(t *testing.T) {
	fresh := func(c *v1beta1.AdvancedCronJob) { c.Status = v1beta1.AdvancedCronJobStatus{} }
	created := func(hours int) func(*v1beta1.AdvancedCronJob) {
		return func(c *v1beta1.AdvancedCronJob) {
			fresh(c)
			c.CreationTimestamp = metav1.NewTime(noon().Add(time.Duration(hours)*time.Hour + 30*time.Minute))
		}
	}
	followed := func(schedule string, hours int) func(*v1beta1.AdvancedCronJob) {
		return func(c *v1beta1.AdvancedCronJob) {
			c.Status.ObservedSchedule = &v1beta1.ObservedSchedule{Schedule: schedule,
				Since: metav1.NewTime(noon().Add(time.Duration(hours) * time.Hour))}
		}
	}
	const moved = `{"alone":true,"at":"2026-03-01T14:30:00Z","since":"2026-03-01T12:00:00Z"`
	for name, tt := range map[string]struct {
		changes []func(*v1beta1.AdvancedCronJob)
		budget  workload.Budget
		want    string
		held    string
	}{
		"alone from the beginning": {[]func(*v1beta1.AdvancedCronJob){ordered(`{"alone":true}`)}, workload.Budget{},
			"missed 2 until 14, wake 1s", ""},
		"the object was created by the move": {[]func(*v1beta1.AdvancedCronJob){created(2), ordered(moved + "}")},
			workload.Budget{}, "missed 2 until 14, wake 1s", ""},
		"and the status has been written": {[]func(*v1beta1.AdvancedCronJob){created(2), followed("@hourly", 0),
			ordered(moved + "}")}, workload.Budget{}, "missed 2 until 14, wake 1s", ""},
		"the object was there before": {[]func(*v1beta1.AdvancedCronJob){fresh, followed("@hourly", -9),
			ordered(moved + "}")}, workload.Budget{}, "missed 2 until 14, wake 1s", ""},
		"the former member may have started some": {[]func(*v1beta1.AdvancedCronJob){created(2),
			ordered(moved + `,"startAfter":"2026-03-01T14:30:00Z"}`)}, workload.Budget{},
			"missed 2 until 14, wake 1s", ""},
		"or all": {[]func(*v1beta1.AdvancedCronJob){created(2), ordered(moved + `,"startAfter":"2026-03-01T15:00:00Z"}`)},
			workload.Budget{}, "missed 3 until 15 MemberLost, wake 1m0s", ""},
		"the schedule changed after the move": {[]func(*v1beta1.AdvancedCronJob){fresh, followed("@daily", 1),
			ordered(moved + "}")}, workload.Budget{}, "wake 1m0s", ""},
		"the schedule had changed after the move": {[]func(*v1beta1.AdvancedCronJob){fresh, followed("@hourly", 3),
			ordered(moved + "}")}, workload.Budget{}, "wake 1m0s", ""},
		"the hub may have moved it": {[]func(*v1beta1.AdvancedCronJob){ordered(`{"alone":true}`)},
			workload.Budget{UnconfirmedSince: noon()}, "", "may have given the schedule to another member"},
		"each member runs it": {[]func(*v1beta1.AdvancedCronJob){ordered(`{"at":"2026-03-01T14:30:00Z",` +
			`"since":"2026-03-01T14:30:00Z"}`)}, workload.Budget{UnconfirmedSince: noon()}, "start 15, wake 1m0s", ""},
		"no JSON": {[]func(*v1beta1.AdvancedCronJob){ordered("soon")}, workload.Budget{}, "", "cannot be read"},
		"no at": {[]func(*v1beta1.AdvancedCronJob){ordered(`{"since":"2026-03-01T14:30:00Z"}`)}, workload.Budget{}, "",
			"no at"},
		"without it": {nil, workload.Budget{UnconfirmedSince: noon()}, "missed 2 until 14, wake 1s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := Facts{Cron: hourly(tt.changes...), Now: noon().Add(3*time.Hour + time.Second)}
			facts.readTicks(tt.budget)
			if got := describe(Compute(facts)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if (facts.Held != nil) != (tt.held != "") || facts.Held != nil && !strings.Contains(facts.Held.Message, tt.held) {
				t.Errorf("held: %+v", facts.Held)
			}
		})
	}
}

// asked is a gate that says since when the hub may have moved the schedule.
type asked struct{ since time.Time }

func (*asked) Federated(context.Context, client.Object) (bool, error) { return false, nil }
func (*asked) Foreign(client.Object) bool                             { return false }
func (*asked) Ordered(schema.GroupVersionKind) source.Source          { return nil }
func (a *asked) Budget(context.Context, client.Object) (workload.Budget, error) {
	return workload.Budget{UnconfirmedSince: a.since}, nil
}

func TestStartsNothingBeforeTheHubHasAnswered(t *testing.T) {
	s := simulate(t, 1)
	s.faults = 0
	gate := &asked{since: s.clock.Now()}
	s.r = &Reconciler{}
	s.r.Controller = workload.New(workload.Parts{Client: s.api, Live: s.api, Events: &events.FakeRecorder{},
		Clock: s.clock, Gate: gate}, s.r.kind())
	s.change(func(c *v1beta1.AdvancedCronJob) {
		c.Spec.StartingDeadlineSeconds, c.Spec.Schedule = nil, "@hourly"
		ordered(`{"alone":true}`)(c)
		s.follow(&c.Spec)
	})
	s.must(s.pass())
	s.clock.SetTime(s.follows.Next(s.clock.Now()).Add(time.Second))
	s.must(s.pass())
	status := s.object().Status
	ready := func() (out metav1.Condition) {
		for _, c := range s.object().Status.Conditions {
			if common, _ := c.Common(); common.Type == v1beta1.ConditionReady {
				out = common
			}
		}
		return out
	}
	if len(s.created) != 0 || status.LastMissedTime != nil || ready().Reason != reasonScheduleUnconfirmed {
		t.Fatalf("%v, %+v", s.created, status)
	}
	gate.since = time.Time{}
	s.must(s.pass())
	if len(s.created) != 1 || ready().Status != metav1.ConditionStatus(corev1.ConditionTrue) {
		t.Fatalf("%v, %+v", s.created, s.object().Status)
	}
}

func TestReporting(t *testing.T) {
	for _, paused := range []bool{false, true} {
		object := hourly(func(c *v1beta1.AdvancedCronJob) {
			c.Spec.Paused, c.Generation, c.Status.ObservedGeneration = &paused, 3, 2
		})
		data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		live := &unstructured.Unstructured{Object: data}
		use, err := Reporting().Use(live)
		want := work.SubsetUse{Desired: 1, Total: 1, Ready: 1, Available: 1}
		if paused {
			want = work.SubsetUse{Desired: 1, NodeUse: work.NodeUse{Withheld: 1}}
		}
		if err != nil || len(use) != 1 || use[0] != want || Reporting().Observed(live) {
			t.Errorf("paused %t: %+v, %v", paused, use, err)
		}
	}
}
