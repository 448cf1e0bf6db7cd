package broadcastjob

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// granted is the budget of a member whose hub answers.
func granted(amounts topology.MemberBudget) workload.Budget {
	return workload.Budget{Granted: true, Amounts: &amounts}
}

func amounts(updated, unavailable int32) topology.MemberBudget {
	return topology.MemberBudget{Budget: topology.Budget{Updated: updated, Unavailable: unavailable}}
}

// TestOrders shows what a job does under the order of a hub, and what the hub reads of it.
func TestOrders(t *testing.T) {
	with := func(updated, unavailable int32, change func(*topology.MemberBudget)) workload.Budget {
		out := amounts(updated, unavailable)
		change(&out)
		return granted(out)
	}
	paused, expired := with(4, 2, func(b *topology.MemberBudget) { b.Paused = true }), granted(amounts(4, 2))
	expired.Expired = true
	for name, tt := range map[string]struct {
		nodes  string
		budget workload.Budget
		change []func(*v1beta1.BroadcastJob)
		want   string
		ready  string
		counts v1beta1.BroadcastJobNodeCounts
	}{
		"as many nodes as the hub grants": {nodes: "a b c d", budget: granted(amounts(3, 2)), want: "+a +b",
			ready: "Running"},
		"not more than it lets touch": {nodes: "a:s b:s c d", budget: granted(amounts(3, 2)), want: "+c", ready: "Running",
			counts: v1beta1.BroadcastJobNodeCounts{Touched: 2, Proven: 2}},
		"parallelism of the spec is one over all clusters": {nodes: "a b c d", budget: granted(amounts(4, 3)),
			change: []func(*v1beta1.BroadcastJob){parallelism("1")}, want: "+a +b +c", ready: "Running"},
		"paused by the hub": {nodes: "a b", budget: paused, ready: "Running"},
		"the lease has expired": {nodes: "a:r b c d", budget: expired, ready: "HubSilent",
			counts: v1beta1.BroadcastJobNodeCounts{Active: 1, Touched: 1}},
		"a job that is through here waits for the hub": {nodes: "a:s b:s", budget: granted(amounts(2, 1)),
			ready: "NodesDone", counts: v1beta1.BroadcastJobNodeCounts{Touched: 2, Proven: 2}},
		"the hub ends it": {nodes: "a:s b:s", budget: with(2, 1, func(b *topology.MemberBudget) { b.Ended = true }),
			ready: "Complete", counts: v1beta1.BroadcastJobNodeCounts{Touched: 2, Proven: 2}},
		"a batch of the hub": {nodes: "a:s1 b c d",
			budget: with(3, 3, func(b *topology.MemberBudget) { b.Batch = 4 }),
			change: []func(*v1beta1.BroadcastJob){batches(1)}, want: "+b +c", ready: "Running",
			counts: v1beta1.BroadcastJobNodeCounts{Touched: 1, Proven: 1}},
		"pods of checks keep to the parallelism of the spec": {nodes: "a:s4 b:s4",
			budget: with(2, 0, func(b *topology.MemberBudget) { b.Batch, b.Paused = 4, true }),
			change: []func(*v1beta1.BroadcastJob){parallelism("1"), batches(1, withChecks(podCheck("probe")))},
			want:   "?a", ready: "Soaking", counts: v1beta1.BroadcastJobNodeCounts{Touched: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.nodes, tt.change...)
			w.budget = tt.budget
			w.job.Annotations = map[string]string{topology.AnnotationSequence: "7"}
			got, status := w.step()
			if ready := condition(status, v1beta1.ConditionReady); got != tt.want || ready.Reason != tt.ready {
				t.Errorf("%q, %s (%s); want %q, %s", got, ready.Reason, ready.Message, tt.want, tt.ready)
			}
			if status.NodeCounts == nil || *status.NodeCounts != tt.counts || status.ObservedSequence != 7 {
				t.Errorf("node counts %+v, sequence %d; want %+v", status.NodeCounts, status.ObservedSequence, tt.counts)
			}
		})
	}
}

// TestAFailedJobAnswersOrders: its status stays but for what the hub has to know.
func TestAFailedJobAnswersOrders(t *testing.T) {
	w := newWorld(t, "a:f b:r c")
	w.budget = granted(amounts(2, 2))
	_, failed := w.step()
	if failed.Phase != v1beta1.PhaseFailed || failed.NodeCounts.Active != 1 {
		t.Fatalf("%+v", failed)
	}
	w.job.Annotations = map[string]string{topology.AnnotationSequence: "9"}
	w.pods = w.pods[:1]
	_, status := w.step()
	if status.ObservedSequence != 9 || status.NodeCounts.Active != 0 || status.Failed != failed.Failed {
		t.Errorf("%+v", status)
	}
}

// TestReports shows what the hub reads of a status.
func TestReports(t *testing.T) {
	report := func(status *v1beta1.BroadcastJobStatus) ([]work.SubsetUse, *work.JobHalt) {
		t.Helper()
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1beta1.BroadcastJob{Status: *status})
		if err != nil {
			t.Fatal(err)
		}
		live := &unstructured.Unstructured{Object: object}
		use, err := Reporting().Use(live)
		if err != nil {
			t.Fatal(err)
		}
		halt, err := Reporting().Halted(live)
		if err != nil {
			t.Fatal(err)
		}
		return use, halt
	}
	w := newWorld(t, "a:s b:f c:r d", failure("Pause"))
	w.budget = granted(amounts(3, 3))
	_, status := w.step()
	use, halt := report(&status)
	want := work.SubsetUse{Desired: 4, Total: 4, Ready: 3, Available: 3, Updated: 3, UpdatedReady: 2, UpdatedAvailable: 2}
	if len(use) != 1 || use[0] != want {
		t.Errorf("%+v, want %+v", use, want)
	}
	if halt == nil || halt.Failed || halt.Reason != "PodFailed" || !halt.Time.Time.Equal(w.now) ||
		!strings.HasPrefix(halt.Message, "1 pods failed") {
		t.Errorf("%+v", halt)
	}

	w = newWorld(t, "a:f b:r c")
	w.budget = granted(amounts(3, 3))
	w.now = w.now.Add(time.Minute)
	_, status = w.step()
	if _, halt = report(&status); halt == nil || !halt.Failed || halt.Reason != "PodFailed" ||
		!halt.Time.Time.Equal(w.now) || !strings.Contains(halt.Message, "FailFast") {
		t.Errorf("%+v", halt)
	}
	for i := range status.Conditions {
		status.Conditions[i].Message = strings.Repeat("ä", 2000)
	}
	if _, halt = report(&status); len(halt.Message) > 1010 {
		t.Errorf("a message of %d bytes", len(halt.Message))
	}

	w = newWorld(t, "a:s b:t")
	w.nodes = w.nodes[:1]
	w.budget = granted(amounts(1, 1))
	_, status = w.step()
	if use, halt = report(&status); use[0].Desired-use[0].Available != 1 || halt != nil {
		t.Errorf("a pod that leaves a node that is gone: %+v, %+v", use, halt)
	}
	if ready := condition(status, v1beta1.ConditionReady); ready.Status == corev1.ConditionUnknown {
		t.Errorf("%+v", ready)
	}
}
