package placement

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/meter"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestMeasures holds what a reconcile tells the meter: since when a change is there, and which numbers a decision
// changed.
func TestMeasures(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	clock, all := clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), prometheus.NewRegistry()
	m := meter.New(all, fake.NewClientBuilder().WithScheme(scheme).Build(), kinds.Workloads(), clock)
	if err := all.Register(m.Collector(t.Context())); err != nil {
		t.Fatal(err)
	}
	value := func(name string) (counted float64, sum float64) {
		families, err := all.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == name {
				for _, metric := range family.GetMetric() {
					counted += metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
					sum += metric.GetHistogram().GetSampleSum()
				}
			}
		}
		return counted, sum
	}
	key, r := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "api"}, &Reconciler{meter: m}
	s := &State{key: key, Object: &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, now: clock.Now()}
	cells := []topology.Cell{{Cluster: "east", Replicas: 3, Reason: topology.Reason{Code: "Even"}},
		{Cluster: "west", Replicas: 3, Reason: topology.Reason{Code: "Even"}}}
	r.observeRequest(s)
	r.recordDecision(s, Step{Spec: &topology.WorkloadPlacementSpec{Cells: cells}})
	clock.SetTime(clock.Now().Add(4 * time.Second))
	m.Answered(key, 2, true, false)
	if n, sum := value("flotilla_spec_to_last_member_seconds"); n != 1 || sum != 4 {
		t.Errorf("a change took %v s, %v times", sum, n)
	}
	s.Placement = &topology.WorkloadPlacement{Spec: topology.WorkloadPlacementSpec{Cells: cells}}
	r.recordDecision(s, Step{}) // nothing was decided
	if n, _ := value("flotilla_plan_changes_total"); n != 2 {
		t.Errorf("%v numbers changed, want 2", n)
	}
	s.Object = nil
	r.observeRequest(s)
	r.recordDecision(s, Step{Remove: true})
	m.Answered(key, 2, true, true)
	if n, _ := value("flotilla_plan_changes_total"); n != 4 {
		t.Errorf("%v numbers changed, want 4", n)
	}
	if n, _ := value("flotilla_rollout_seconds"); n != 0 {
		t.Error("a workload that is gone is measured")
	}
}
