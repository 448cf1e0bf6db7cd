package restarts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/restarts"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type request = v1beta1.ContainerRecreateRequest

// requestFor returns a request for containers that had the IDs <name>-0 when it was created.
func requestFor(name string, containers ...string) *request {
	r := &request{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: "web", Strategy: &v1beta1.ContainerRecreateRequestStrategy{
			FailurePolicy: v1beta1.CRRFail, TerminationGracePeriodSeconds: new(int64(30)),
		}},
	}
	for _, c := range containers {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{
			Name: c, StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://" + c + "-0"},
		})
	}
	return r
}

// with changes the request.
func with(r *request, changes ...func(*request)) *request {
	for _, change := range changes {
		change(r)
	}
	return r
}

func recreating(states ...v1beta1.ContainerRecreateState) func(*request) {
	return func(r *request) {
		r.Status.Phase, r.Status.ContainerRecreateStates = v1beta1.CRRRecreating, states
	}
}

func state(name string, phase v1beta1.ContainerRecreateRequestPhase, killed bool, message string,
) v1beta1.ContainerRecreateState {
	return v1beta1.ContainerRecreateState{Name: name, Phase: phase, IsKilled: killed, Message: message}
}

// ready adds containers to the snapshot that the agent keeps.
func ready(ids ...string) func(*request) {
	return func(r *request) {
		for _, id := range ids {
			name, _, _ := strings.Cut(id, "-")
			r.Status.ContainerStatusSnapshot = append(r.Status.ContainerStatusSnapshot,
				v1beta1.ContainerStatusSnapshot{Name: name, Ready: true, ContainerID: "containerd://" + id})
		}
	}
}

func strategy(change func(*v1beta1.ContainerRecreateRequestStrategy)) func(*request) {
	return func(r *request) { change(r.Spec.Strategy) }
}

func force(s *v1beta1.ContainerRecreateRequestStrategy)   { s.ForceRecreate = true }
func ordered(s *v1beta1.ContainerRecreateRequestStrategy) { s.OrderedRecreate = true }
func ignore(s *v1beta1.ContainerRecreateRequestStrategy)  { s.FailurePolicy = v1beta1.CRRIgnore }
func minStarted(s *v1beta1.ContainerRecreateRequestStrategy) {
	s.MinStartedSeconds = 10
}
func unready(s *v1beta1.ContainerRecreateRequestStrategy) {
	s.UnreadyGracePeriodSeconds = new(int64(20))
}

// since makes the pod not ready since before now.
func since(before time.Duration) func(*request) {
	return func(r *request) {
		r.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionPreRecreateGrace, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now.Add(-before))}}
	}
}

// containers reads "a-0 running, b-1 exited".
func containers(text string) map[string]restarts.Container {
	out := map[string]restarts.Container{}
	for item := range strings.SplitSeq(text, ", ") {
		if item == "" {
			continue
		}
		id, how, _ := strings.Cut(item, " ")
		name, count, _ := strings.Cut(id, "-")
		c := restarts.Container{ID: id, Running: how != "exited", StartedAt: now.Add(-time.Hour)}
		fmt.Sscan(count, &c.Restarts)
		out[name] = c
	}
	return out
}

// describe writes a plan on one line: the statuses of all requests after it, then the stop.
func describe(f restarts.Facts, plan restarts.Plan) string {
	var lines []string
	for _, r := range f.Requests {
		status := r.Status
		for _, u := range plan.Updates {
			if u.Request == r {
				status = u.Status
			}
		}
		line := fmt.Sprintf("%s %s", r.Name, status.Phase)
		for _, s := range status.ContainerRecreateStates {
			line += fmt.Sprintf(" %s=%s", s.Name, s.Phase)
			if s.IsKilled {
				line += "(killed)"
			}
		}
		lines = append(lines, line)
	}
	if plan.Stop != nil {
		lines = append(lines, "stop "+plan.Stop.ID)
	}
	return strings.Join(lines, "; ")
}

func TestPlan(t *testing.T) {
	const p, r, s, f = v1beta1.CRRPending, v1beta1.CRRRecreating, v1beta1.CRRSucceeded, v1beta1.CRRFailed
	running := func(request types.UID, container string) *restarts.StopKey {
		return &restarts.StopKey{Request: request, Container: container}
	}
	ended := func(container, failure string) map[restarts.StopKey]restarts.Outcome {
		return map[restarts.StopKey]restarts.Outcome{{Request: "one", Container: container}: {Failure: failure}}
	}
	for _, tt := range []struct {
		name  string
		facts restarts.Facts
		want  string
	}{
		{"a new request begins with its first container",
			restarts.Facts{Requests: []*request{requestFor("one", "a", "b")}, Containers: containers("a-0, b-0")},
			"one Recreating a=Recreating b=Pending; stop a-0"},
		{"one container is stopped at a time",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"),
				recreating(state("a", r, false, "stopping a-0"), state("b", p, false, "")))},
				Containers: containers("a-0, b-0"), Running: running("one", "a")},
			"one Recreating a=Recreating b=Pending"},
		{"the next one is stopped while the first restarts",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"),
				recreating(state("a", r, false, "stopping a-0"), state("b", p, false, "")))},
				Containers: containers("a-0 exited, b-0"), Ended: ended("a", "")},
			"one Recreating a=Recreating(killed) b=Recreating; stop b-0"},
		{"in order, the next one waits until the first has restarted",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"), strategy(ordered),
				recreating(state("a", r, true, ""), state("b", p, false, "")))},
				Containers: containers("a-1, b-0")},
			"one Recreating a=Recreating(killed) b=Pending"},
		{"in order, the first is ready",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"), strategy(ordered), ready("a-1"),
				recreating(state("a", r, true, ""), state("b", p, false, "")))},
				Containers: containers("a-1, b-0")},
			"one Recreating a=Succeeded(killed) b=Recreating; stop b-0"},
		{"restarted and ready", restarts.Facts{Requests: []*request{with(requestFor("one", "a"), ready("a-1"),
			recreating(state("a", r, true, "")))}, Containers: containers("a-1")},
			"one Completed a=Succeeded(killed)"},
		{"the snapshot is of the container before", restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
			ready("a-0"), recreating(state("a", r, true, "")))}, Containers: containers("a-1")},
			"one Recreating a=Recreating(killed)"},
		{"it exited again", restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
			ready("a-1"), recreating(state("a", r, true, "")))}, Containers: containers("a-1 exited")},
			"one Recreating a=Recreating(killed)"},
		{"a container that restarted meanwhile is not stopped",
			restarts.Facts{Requests: []*request{requestFor("one", "a")}, Containers: containers("a-1")},
			"one Recreating a=Recreating"},
		{"a container that restarted meanwhile has succeeded once it is ready",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), ready("a-1"))}, Containers: containers("a-1")},
			"one Completed a=Succeeded"},
		{"the same ID with more restarts is not stopped",
			restarts.Facts{Requests: []*request{requestFor("one", "a")},
				Containers: map[string]restarts.Container{"a": {ID: "a-0", Running: true, Restarts: 2}}},
			"one Recreating a=Recreating"},
		{"forced, a container that restarted meanwhile is stopped",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(force), ready("a-1"))},
				Containers: containers("a-1")},
			"one Recreating a=Recreating; stop a-1"},
		{"forced, it is stopped once",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(force),
				recreating(state("a", r, true, "")))}, Containers: containers("a-2")},
			"one Recreating a=Recreating(killed)"},
		{"forced, the daemon ended in the middle of the stop, which took place",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(force),
				recreating(state("a", r, false, "stopping a-1")))}, Containers: containers("a-2")},
			"one Recreating a=Recreating(killed)"},
		{"forced, the daemon ended in the middle of the stop, which did not take place",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(force),
				recreating(state("a", r, false, "stopping a-1")))}, Containers: containers("a-1")},
			"one Recreating a=Recreating; stop a-1"},
		{"the daemon ended in the middle of the stop, and the container has exited",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
				recreating(state("a", r, false, "stopping a-0")))}, Containers: containers("a-0 exited")},
			"one Recreating a=Recreating(killed)"},
		{"the daemon ended in the middle of the stop, and the kubelet removed the container",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
				recreating(state("a", r, false, "stopping a-0")))}, Containers: containers("")},
			"one Recreating a=Recreating(killed)"},
		{"the daemon ended before the first stop",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), recreating(state("a", p, false, "")))},
				Containers: containers("a-0")},
			"one Recreating a=Recreating; stop a-0"},
		{"exited by itself, it is waited for",
			restarts.Facts{Requests: []*request{requestFor("one", "a")}, Containers: containers("a-0 exited")},
			"one Recreating a=Recreating"},
		{"not on the node", restarts.Facts{Requests: []*request{requestFor("one", "a")}, Containers: containers("")},
			"one Recreating a=Pending"},
		{"it cannot be stopped",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"),
				recreating(state("a", r, false, "stopping a-0"), state("b", p, false, "")))},
				Containers: containers("a-0, b-0"), Ended: ended("a", "refused")},
			"one Completed a=Failed b=Pending"},
		{"it cannot be stopped, and others go on",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"), strategy(ignore),
				recreating(state("a", r, false, "stopping a-0"), state("b", p, false, "")))},
				Containers: containers("a-0, b-0"), Ended: ended("a", "refused")},
			"one Recreating a=Failed b=Recreating; stop b-0"},
		{"the second cannot be stopped while the first restarts",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"),
				recreating(state("a", r, true, ""), state("b", r, false, "stopping b-0")))},
				Containers: containers("a-0 exited, b-0"), Ended: ended("b", "refused")},
			"one Completed a=Recreating(killed) b=Failed"},
		{"all but one restarted",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a", "b"), strategy(ignore), ready("b-1"),
				recreating(state("a", f, false, "refused"), state("b", r, true, "")))}, Containers: containers("a-0, b-1")},
			"one Completed a=Failed b=Succeeded(killed)"},
		{"not filled in",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
				func(r *request) { r.Spec.Containers[0].StatusContext = nil })}, Containers: containers("a-0")},
			"one Completed a=Failed"},
		{"not filled in, and without a strategy",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
				func(r *request) { r.Spec.Strategy, r.Spec.Containers[0].StatusContext = nil, nil })},
				Containers: containers("a-0")},
			"one Completed a=Failed"},
		{"the older request comes first", restarts.Facts{Requests: []*request{
			with(requestFor("two", "a"), func(r *request) { r.CreationTimestamp = metav1.NewTime(now) }),
			requestFor("one", "a")}, Containers: containers("a-0")},
			"two Pending; one Recreating a=Recreating; stop a-0"},
		{"the request that has begun comes first", restarts.Facts{Requests: []*request{
			with(requestFor("two", "a"), func(r *request) { r.CreationTimestamp = metav1.NewTime(now) },
				recreating(state("a", p, false, ""))), requestFor("one", "a")}, Containers: containers("a-0")},
			"two Recreating a=Recreating; one Pending; stop a-0"},
		{"the second request follows when the first has ended",
			restarts.Facts{Requests: []*request{
				with(requestFor("one", "a"), func(r *request) { r.Status.Phase = v1beta1.CRRCompleted }),
				with(requestFor("two", "b"), func(r *request) { r.Status.Phase = p })}, Containers: containers("a-1, b-0")},
			"one Completed; two Recreating b=Recreating; stop b-0"},
		{"the second request stops nothing that the first stopped",
			restarts.Facts{Requests: []*request{with(requestFor("two", "a"), func(r *request) { r.Status.Phase = p })},
				Containers: containers("a-1")},
			"two Recreating a=Recreating"},
		{"a request waits for the stop of one that is gone",
			restarts.Facts{Requests: []*request{requestFor("two", "a")}, Containers: containers("a-0"),
				Running: running("one", "a")},
			"two Pending"},
		{"a stop ends after its request",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), recreating(state("a", f, false, "too late")),
				func(r *request) { r.Status.Phase = v1beta1.CRRCompleted })}, Containers: containers("a-1"),
				Ended: ended("a", "")},
			"one Completed a=Failed(killed)"},
		{"a request that is being deleted stops nothing",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
				func(r *request) { r.DeletionTimestamp = new(metav1.NewTime(now)) }), requestFor("two", "a")},
				Containers: containers("a-0")},
			"one ; two Recreating a=Recreating; stop a-0"},
		{"the pod is ready yet", restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(unready))},
			Containers: containers("a-0")}, "one Recreating a=Pending"},
		{"the pod is not ready, and its time has not passed",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(unready), since(19*time.Second))},
				Containers: containers("a-0")}, "one Recreating a=Pending"},
		{"the pod is not ready, and its time has passed",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(unready), since(20*time.Second))},
				Containers: containers("a-0")}, "one Recreating a=Recreating; stop a-0"},
		{"the clock was set back since the pod is not ready",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(unready), since(-time.Hour))},
				Containers: containers("a-0"), Unready: map[types.UID]time.Time{"one": now.Add(-20 * time.Second)}},
			"one Recreating a=Recreating; stop a-0"},
		{"the new container has not run long enough",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(minStarted), ready("a-1"),
				recreating(state("a", r, true, "")))},
				Containers: map[string]restarts.Container{"a": {ID: "a-1", Running: true, StartedAt: now.Add(-9 * time.Second)}}},
			"one Recreating a=Recreating(killed)"},
		{"the new container has run long enough, and the clock was set back",
			restarts.Facts{Requests: []*request{with(requestFor("one", "a"), strategy(minStarted), ready("a-1"),
				recreating(state("a", r, true, "")))},
				Containers: map[string]restarts.Container{"a": {ID: "a-1", Running: true, StartedAt: now.Add(time.Hour),
					Seen: now.Add(-10 * time.Second)}}},
			"one Completed a=Succeeded(killed)"},
		{"all at the end", restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
			recreating(state("a", s, true, "")))}, Containers: containers("a-1")}, "one Completed a=Succeeded(killed)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.Now = now
			plan := restarts.Make(tt.facts)
			if got := describe(tt.facts, plan); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestPlanWaits: the plan says when to look again.
func TestPlanWaits(t *testing.T) {
	r := with(requestFor("one", "a"), strategy(unready), since(15*time.Second))
	f := restarts.Facts{Requests: []*request{r}, Containers: containers("a-0"), Now: now}
	if got := restarts.Make(f).Wait; got != 5*time.Second {
		t.Errorf("waits for %s until the pod was not ready for its time", got)
	}
	r = with(requestFor("one", "a"), strategy(minStarted), ready("a-1"),
		recreating(state("a", v1beta1.CRRRecreating, true, "")))
	f = restarts.Facts{Requests: []*request{r}, Now: now,
		Containers: map[string]restarts.Container{"a": {ID: "a-1", Running: true, StartedAt: now.Add(-9 * time.Second)}}}
	if got := restarts.Make(f).Wait; got != time.Second {
		t.Errorf("waits for %s until the container has run for its time", got)
	}
}

// TestPlanWritesOnce: a status that says everything is not written again.
func TestPlanWritesOnce(t *testing.T) {
	f := restarts.Facts{
		Requests: []*request{requestFor("one", "a"), requestFor("two", "a")}, Containers: containers("a-0"), Now: now,
	}
	plan := restarts.Make(f)
	for _, u := range plan.Updates {
		u.Request.Status = u.Status
	}
	f.Running = &plan.Stop.StopKey
	f.Now = now.Add(time.Hour)
	if again := restarts.Make(f); len(again.Updates) > 0 || again.Stop != nil {
		t.Errorf("a second pass writes %+v, stops %+v", again.Updates, again.Stop)
	}
}

func TestPlanMessages(t *testing.T) {
	f := restarts.Facts{
		Requests: []*request{requestFor("one", "a"), requestFor("two", "a")}, Containers: containers("a-0"), Now: now,
	}
	plan := restarts.Make(f)
	if got := plan.Updates[0].Status.ContainerRecreateStates[0].Message; got != "stopping a-0" {
		t.Errorf("before the stop the status says %q", got)
	}
	if got := plan.Updates[1].Status.Message; got != "request one of this pod comes first" {
		t.Errorf("the second request says %q", got)
	}
	if plan.Stop.Grace != 30*time.Second || plan.Stop.PreStop.Name != "a" {
		t.Errorf("stop %+v", plan.Stop)
	}
	f = restarts.Facts{Requests: []*request{with(requestFor("one", "a"),
		recreating(state("a", v1beta1.CRRRecreating, false, "stopping a-0")))}, Containers: containers("a-0"), Now: now,
		Ended: map[restarts.StopKey]restarts.Outcome{{Request: "one", Container: "a"}: {Failure: "no answer"}}}
	want := "container a failed and failurePolicy is Fail: kill container error: no answer"
	if got := restarts.Make(f).Updates[0].Status; got.Message != want || !got.CompletionTime.Time.Equal(now) {
		t.Errorf("a refused stop: %+v", got)
	}
}
