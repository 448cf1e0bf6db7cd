package meter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// world is a hub's cache, its meter, and its clock.
type world struct {
	t     *testing.T
	c     client.Client
	clock *clocktesting.FakePassiveClock
	m     *Meter
	all   *prometheus.Registry
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, c: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), all: prometheus.NewRegistry()}
	w.m = New(w.all, w.c, kinds.Workloads(), w.clock)
	if err := w.all.Register(w.m.Collector(t.Context())); err != nil {
		t.Fatal(err)
	}
	return w
}

// series returns all series whose name begins so, as name{labels} value; of a histogram its count and sum.
func (w *world) series(prefix string) map[string]float64 {
	w.t.Helper()
	families, err := w.all.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName() + labels(metric)
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			switch family.GetType() {
			case dto.MetricType_HISTOGRAM:
				found[name+" count"] = float64(metric.GetHistogram().GetSampleCount())
				found[name+" sum"] = metric.GetHistogram().GetSampleSum()
			case dto.MetricType_COUNTER:
				found[name] = metric.GetCounter().GetValue()
			default:
				found[name] = metric.GetGauge().GetValue()
			}
		}
	}
	return found
}

func labels(m *dto.Metric) string {
	all := map[string]string{}
	for _, pair := range m.GetLabel() {
		all[pair.GetName()] = pair.GetValue()
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, name+"="+all[name])
	}
	return "{" + strings.Join(texts, ",") + "}"
}

func (w *world) expect(prefix string, want map[string]float64) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.series(prefix)); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", prefix, diff)
	}
}

func member(name string, ready metav1.ConditionStatus) *topology.MemberCluster {
	m := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Status.Conditions = []metav1.Condition{{Type: topology.MemberAccepted, Status: metav1.ConditionTrue},
		{Type: topology.MemberReady, Status: ready}}
	return m
}

func order(cluster, name string, sequence int64, report *work.Report, applied metav1.ConditionStatus) *work.Work {
	w := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: wire.MemberNamespace(cluster), Name: name,
		Annotations: map[string]string{topology.AnnotationSequence: fmt.Sprint(sequence)}}}
	w.Status.Report = report
	w.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied, Status: applied}}
	return w
}

func TestMembers(t *testing.T) {
	east, west := member("east", metav1.ConditionTrue), member("west", metav1.ConditionFalse)
	p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cloneset-api"}}
	p.Spec.Cells = []topology.Cell{
		{Cluster: "east", Zone: "a", Replicas: 3, Granted: topology.Budget{Updated: 2, Unavailable: 1, Surge: 1},
			Reserved: topology.Budget{Updated: 3, Unavailable: 1}},
		{Cluster: "east", Zone: "b", Replicas: 2, Granted: topology.Budget{Updated: 1},
			Reserved: topology.Budget{Updated: 1, Surge: 4}},
		{Cluster: "west", Replicas: 4},
		{Cluster: "gone", Replicas: 7, Granted: topology.Budget{Updated: 7}},
	}
	p.Spec.Unplaced = []topology.Unplaced{{Replicas: 2, Reason: topology.Reason{Code: "Capacity"}},
		{Replicas: 1, Reason: topology.Reason{Code: "Capacity"}}}
	waits := member("waits", metav1.ConditionFalse)
	waits.Status.Conditions[0].Status = metav1.ConditionFalse // for a person
	w := newWorld(t, east, west, waits, p,
		order("east", "done", 5, &work.Report{Sequence: 5, InUse: []work.SubsetUse{{Total: 5, Ready: 4, Available: 3}}},
			metav1.ConditionTrue),
		order("east", "late", 6, &work.Report{Sequence: 5, InUse: []work.SubsetUse{{Total: 1, Ready: 1, Available: 1}}},
			metav1.ConditionFalse),
		order("west", "lies", 1, &work.Report{Sequence: 1, InUse: []work.SubsetUse{{Total: -4, Ready: 9}}},
			metav1.ConditionTrue),
		order("west", "silent", 1, nil, metav1.ConditionUnknown),
		order("gone", "left", 1, nil, metav1.ConditionUnknown))
	w.m.Heard("east")
	w.clock.SetTime(w.clock.Now().Add(12 * time.Second))
	w.m.Heard("gone")

	of := map[string]float64{
		"flotilla_member_lag_seconds{member=east}": 12, "flotilla_member_ready{member=east}": 1,
		"flotilla_member_ready{member=west}":         0,
		"flotilla_member_orders_behind{member=east}": 1, "flotilla_member_orders_behind{member=west}": 1,
		"flotilla_member_orders_failed{member=east}": 1, "flotilla_member_orders_failed{member=west}": 0,
		"flotilla_member_replicas{member=east,state=placed}": 5, "flotilla_member_replicas{member=east,state=total}": 6,
		"flotilla_member_replicas{member=east,state=ready}": 5, "flotilla_member_replicas{member=east,state=available}": 4,
		"flotilla_member_replicas{member=west,state=placed}": 4, "flotilla_member_replicas{member=west,state=total}": 0,
		"flotilla_member_replicas{member=west,state=ready}": 0, "flotilla_member_replicas{member=west,state=available}": 0,
	}
	if got := w.series("flotilla_member_ready{member=waits}"); len(got) != 0 {
		t.Errorf("a member that takes no part: %v", got)
	}
	if err := w.c.Delete(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	w.expect("flotilla_member_", of)
	w.expect("flotilla_allowance_", map[string]float64{
		"flotilla_allowance_share{limit=update,member=east}": 3, "flotilla_allowance_share{limit=break,member=east}": 1,
		"flotilla_allowance_share{limit=add,member=east}":   1,
		"flotilla_allowance_held{limit=update,member=east}": 4, "flotilla_allowance_held{limit=break,member=east}": 1,
		"flotilla_allowance_held{limit=add,member=east}":     4,
		"flotilla_allowance_share{limit=update,member=west}": 0, "flotilla_allowance_share{limit=break,member=west}": 0,
		"flotilla_allowance_share{limit=add,member=west}":   0,
		"flotilla_allowance_held{limit=update,member=west}": 0, "flotilla_allowance_held{limit=break,member=west}": 0,
		"flotilla_allowance_held{limit=add,member=west}": 0,
	})
	w.expect("flotilla_unplaced_", map[string]float64{"flotilla_unplaced_replicas{reason=Capacity}": 3})

	// A member that leaves takes its series with it, and one that comes back under its name does not begin with the lag of
	// before.
	if err := w.c.Delete(t.Context(), east); err != nil {
		t.Fatal(err)
	}
	w.m.Gone("east")
	for name := range of {
		if strings.Contains(name, "member=east") {
			delete(of, name)
		}
	}
	w.expect("flotilla_member_", of)
	if err := w.c.Create(t.Context(), member("east", metav1.ConditionFalse)); err != nil {
		t.Fatal(err)
	}
	w.expect("flotilla_member_lag", map[string]float64{})
}

// TestPodsOfOtherWorkloads: pods that a SidecarSet selects, or a PodProbeMarker probes, count once, as those of their
// workload. Allowances count as they are.
func TestPodsOfOtherWorkloads(t *testing.T) {
	objects := []client.Object{member("east", metav1.ConditionTrue)}
	use := work.SubsetUse{Desired: 3, Total: 3, Ready: 3, Available: 3}
	for _, gvk := range []schema.GroupVersionKind{apps.CloneSetKind, apps.SidecarSetKind, v1alpha1.PodProbeMarkerKind,
		policy.PodUnavailableBudgetKind, apps.ResourceDistributionKind, apps.ImagePullJobKind} {
		key := wire.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: "shop", Name: "api"}
		w := order("east", strings.ToLower(gvk.Kind), 1, &work.Report{Sequence: 1, InUse: []work.SubsetUse{use}},
			metav1.ConditionTrue)
		w.Annotations[topology.AnnotationWorkload] = key.String()
		p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: w.Name}}
		p.Spec.Workload.APIVersion, p.Spec.Workload.Kind = gvk.ToAPIVersionAndKind()
		p.Spec.Workload.Name = "api"
		p.Spec.Cells = []topology.Cell{{Cluster: "east", Replicas: 3, Granted: topology.Budget{Updated: 1}}}
		objects = append(objects, w, p)
	}
	w := newWorld(t, objects...)
	w.expect("flotilla_member_replicas", map[string]float64{
		"flotilla_member_replicas{member=east,state=placed}": 3, "flotilla_member_replicas{member=east,state=total}": 3,
		"flotilla_member_replicas{member=east,state=ready}": 3, "flotilla_member_replicas{member=east,state=available}": 3,
	})
	w.expect("flotilla_allowance_share{limit=update", map[string]float64{
		"flotilla_allowance_share{limit=update,member=east}": 6})
}

func TestPlanChanges(t *testing.T) {
	w := newWorld(t)
	cell := func(cluster, zone string, replicas int32, reason string) topology.Cell {
		return topology.Cell{Cluster: cluster, Zone: zone, Replicas: replicas,
			Reason: topology.Reason{Code: reason, Params: map[string]string{"max": "3"}}}
	}
	first := []topology.Cell{cell("east", "a", 3, "Even"), cell("east", "b", 3, "Even"), cell("west", "", 0, "Full")}
	w.m.Decided(nil, first)
	w.m.Decided(first, first)
	w.expect("flotilla_plan_", map[string]float64{"flotilla_plan_changes_total{reason=Even}": 2})
	// Another reason for the same number is no change; a cell that is gone is one, if it had anything.
	w.m.Decided(first, []topology.Cell{cell("east", "a", 3, "Kept"), cell("north", "", 3, "Lost")})
	w.expect("flotilla_plan_", map[string]float64{
		"flotilla_plan_changes_total{reason=Even}": 2, "flotilla_plan_changes_total{reason=Lost}": 1,
		"flotilla_plan_changes_total{reason=CellRemoved}": 1,
	})
}

func TestTimes(t *testing.T) {
	w := newWorld(t)
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "api"}
	at := func(seconds int) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds) * time.Second) }
	placed := func(generation int64) *topology.WorkloadPlacement {
		p := &topology.WorkloadPlacement{}
		p.Spec.Workload.Generation = generation
		return p
	}
	w.m.Asked(key, 1, nil, at(0))
	w.clock.SetTime(at(3))
	w.m.Asked(key, 1, placed(1), at(3)) // a look that is no change
	w.m.Answered(key, 1, false, true)   // what ran before is done, the order is on its way
	w.expect("flotilla_spec_", map[string]float64{})
	w.m.Answered(key, 1, true, false)
	w.clock.SetTime(at(10))
	w.m.Answered(key, 1, true, true)
	w.clock.SetTime(at(90))
	w.m.Answered(key, 1, true, true) // told again and again
	want := map[string]float64{"flotilla_spec_to_last_member_seconds{kind=CloneSet} count": 1,
		"flotilla_spec_to_last_member_seconds{kind=CloneSet} sum": 3}
	w.expect("flotilla_spec_", want)
	w.expect("flotilla_rollout_", map[string]float64{"flotilla_rollout_seconds{kind=CloneSet} count": 1,
		"flotilla_rollout_seconds{kind=CloneSet} sum": 10})

	// The members' answers are for the generation of before until the placement has the new one. One that is overtaken
	// counts nothing.
	w.m.Asked(key, 2, placed(1), at(100))
	w.m.Answered(key, 1, true, true)
	w.m.Asked(key, 3, placed(2), at(101))
	w.m.Answered(key, 2, true, true)
	w.expect("flotilla_spec_", want)
	w.clock.SetTime(at(105))
	w.m.Answered(key, 3, true, true)
	w.expect("flotilla_spec_", map[string]float64{"flotilla_spec_to_last_member_seconds{kind=CloneSet} count": 2,
		"flotilla_spec_to_last_member_seconds{kind=CloneSet} sum": 7})

	// What was placed before this hub began is of an unknown age. A workload that is made again under its name is a new
	// one.
	old := wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "shop", Name: "web"}
	w.m.Asked(old, 7, placed(7), at(105))
	w.m.Answered(old, 7, true, true)
	w.expect("flotilla_spec_to_last_member_seconds{kind=UnitedDeployment}", map[string]float64{})
	w.m.Forget(old)
	w.m.Asked(old, 1, nil, at(105))
	w.m.Answered(old, 1, true, true)
	w.expect("flotilla_rollout_", map[string]float64{
		"flotilla_rollout_seconds{kind=CloneSet} count": 2, "flotilla_rollout_seconds{kind=CloneSet} sum": 14,
		"flotilla_rollout_seconds{kind=UnitedDeployment} count": 1, "flotilla_rollout_seconds{kind=UnitedDeployment} sum": 0,
	})
}

// TestNone holds that a stage without a meter runs.
func TestNone(t *testing.T) {
	var m *Meter
	m.Heard("east")
	m.Gone("east")
	m.Asked(wire.Key{}, 1, nil, time.Time{})
	m.Answered(wire.Key{}, 1, true, true)
	m.Decided(nil, nil)
	m.Forget(wire.Key{})
}

// TestStart holds that a hub shows its metrics while it leads, and that a second one in the process takes nothing from
// the first.
func TestStart(t *testing.T) {
	all := prometheus.NewRegistry()
	w := newWorld(t, member("east", metav1.ConditionTrue))
	shown := func() int {
		families, err := all.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return len(families)
	}
	first, second := New(all, w.c, kinds.Workloads(), w.clock), New(all, w.c, kinds.Workloads(), w.clock)
	stop, ended := start(t, first)
	for deadline := time.Now().Add(time.Minute); shown() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is shown")
		}
	}
	stopSecond, endedSecond := start(t, second)
	stopSecond()
	if err := <-endedSecond; err != nil {
		t.Fatal(err)
	}
	if shown() == 0 {
		t.Error("the second took the metrics of the first away")
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := shown(); n != 0 {
		t.Errorf("%d metrics are shown by a hub that has ended", n)
	}
}

func start(t *testing.T, m *Meter) (context.CancelFunc, <-chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	return stop, ended
}
