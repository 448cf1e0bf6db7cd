package report

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/uniteddeployment"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

const meta5 = `"metadata":{"name":"web","namespace":"shop","generation":2,"labels":{"topology.flotilla.dev/hub":"hub"},"annotations":{"topology.flotilla.dev/sequence":"5"}}`

func cloneSet(t *testing.T, status string) *unstructured.Unstructured {
	return object(t, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet",`+meta5+`,"spec":{"replicas":4}`+status+`}`)
}

// kinds are those that the agent divides.
func kinds() Kinds {
	return Kinds{
		apps.CloneSetKind.GroupKind():         cloneset.Reporting(),
		apps.UnitedDeploymentKind.GroupKind(): uniteddeployment.Reporting(),
	}
}

func TestBuild(t *testing.T) {
	outcome := apply.Outcome{
		Generation: 3, HubID: "hub", Sequence: 5, Applied: true, Reason: work.ReasonApplied,
		Ref: objects.Ref{
			GroupVersionKind: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"},
			NamespacedName:   types.NamespacedName{Namespace: "shop", Name: "web"},
		},
	}
	refused := outcome
	refused.Applied, refused.Reason = false, work.ReasonApplyFailed
	before := work.WorkStatus{Report: &work.Report{HubID: "hub", Sequence: 4}}
	cases := []struct {
		name     string
		previous work.WorkStatus
		outcome  apply.Outcome
		live     *unstructured.Unstructured
		applied  metav1.ConditionStatus
		sequence int64
		health   work.ResourceHealth
		inUse    []work.SubsetUse
	}{
		{
			"applied and not seen: the order before is the newest that was carried out", before, outcome, cloneSet(t, ""),
			metav1.ConditionTrue, 4, work.ResourceUnknown, []work.SubsetUse{{Desired: 4}},
		},
		{
			"the controller answers an older generation", before, outcome,
			cloneSet(t, `,"status":{"observedGeneration":1,"replicas":2}`),
			metav1.ConditionTrue, 4, work.ResourceUnknown, []work.SubsetUse{{Desired: 4, Total: 2}},
		},
		{
			"the controller has seen it", before, outcome,
			cloneSet(t, `,"status":{"observedGeneration":2,"replicas":4,"readyReplicas":3,"availableReplicas":2,"updatedReplicas":3,"updatedReadyReplicas":2,"updatedAvailableReplicas":1,"conditions":[{"type":"Ready","status":"False"}]}`),
			metav1.ConditionTrue, 5, work.ResourceUnhealthy,
			[]work.SubsetUse{{Desired: 4, Total: 4, Ready: 3, Available: 2, Updated: 3, UpdatedReady: 2, UpdatedAvailable: 1}},
		},
		{
			"in a rollout pods can go back", before, outcome,
			cloneSet(t, `,"status":{"observedGeneration":2,"replicas":4,"updatedReplicas":4,"currentRevision":"web-a","updateRevision":"web-b"}`),
			metav1.ConditionTrue, 5, work.ResourceUnknown, []work.SubsetUse{{Desired: 4, Total: 4, Updated: 4, CanGoBack: true}},
		},
		{
			"after it they cannot", before, outcome,
			cloneSet(t, `,"status":{"observedGeneration":2,"replicas":4,"updatedReplicas":4,"currentRevision":"web-b","updateRevision":"web-b"}`),
			metav1.ConditionTrue, 5, work.ResourceUnknown, []work.SubsetUse{{Desired: 4, Total: 4, Updated: 4}},
		},
		{
			"refused: what stands is reported on", before, refused,
			cloneSet(t, `,"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True"}]}`),
			metav1.ConditionFalse, 5, work.ResourceHealthy, []work.SubsetUse{{Desired: 4}},
		},
		{"nothing stands", before, refused, nil, metav1.ConditionFalse, 4, "", nil},
		{
			"a report to another hub does not count", work.WorkStatus{Report: &work.Report{HubID: "old", Sequence: 9}}, refused,
			nil,
			metav1.ConditionFalse, 0, "", nil,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := kinds().Build(tc.previous, tc.outcome, tc.live, metav1.Now())
			if err != nil {
				t.Fatal(err)
			}
			if c := got.Conditions[0]; c.Type != work.ConditionApplied || c.Status != tc.applied || c.ObservedGeneration != 3 {
				t.Errorf("condition %+v, want Applied=%s for generation 3", c, tc.applied)
			}
			if got.Report.Sequence != tc.sequence || got.Report.HubID != "hub" {
				t.Errorf("report %+v, want sequence %d of hub", got.Report, tc.sequence)
			}
			if diff := cmp.Diff(tc.inUse, got.Report.InUse); diff != "" {
				t.Errorf("in use (-want +got):\n%s", diff)
			}
			if tc.health == "" {
				if len(got.ManifestStatuses) != 0 {
					t.Errorf("a status of an object that does not stand: %+v", got.ManifestStatuses)
				}
				return
			}
			m := got.ManifestStatuses[0]
			if m.Health != tc.health || m.Identifier.Kind != "CloneSet" || m.Identifier.Name != "web" ||
				m.Identifier.Namespace != "shop" {
				t.Errorf("manifest status %+v, want %s", m, tc.health)
			}
		})
	}
}

func TestBuildUnitedDeployment(t *testing.T) {
	live := object(t, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment",`+meta5+`,"status":{"observedGeneration":2,"subsetStatuses":[
		{"name":"a","desiredReplicas":4,"replicas":4,"readyReplicas":4,"availableReplicas":4,"updatedReplicas":1,"updatedReadyReplicas":1,"canGoBack":true},
		{"name":"b","desiredReplicas":2,"replicas":3,"readyReplicas":3,"availableReplicas":1,"updatedReplicas":2,"updatedReadyReplicas":2},
		{"name":"c","desiredReplicas":3,"replicas":3,"readyReplicas":2,"availableReplicas":2,"updatedReplicas":2,"updatedReadyReplicas":2,"updatedAvailableReplicas":2}]}}`)
	got, err := kinds().Build(work.WorkStatus{}, apply.Outcome{HubID: "hub", Applied: true, Reason: work.ReasonApplied},
		live, metav1.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := []work.SubsetUse{
		{Subset: "a", Desired: 4, Total: 4, Ready: 4, Available: 4, Updated: 1, UpdatedReady: 1, UpdatedAvailable: 1,
			CanGoBack: true},
		{Subset: "b", Desired: 2, Total: 3, Ready: 3, Available: 1, Updated: 2, UpdatedReady: 2, UpdatedAvailable: 0},
		{Subset: "c", Desired: 3, Total: 3, Ready: 2, Available: 2, Updated: 2, UpdatedReady: 2, UpdatedAvailable: 2}, // the one that is not is old
	}
	if diff := cmp.Diff(want, got.Report.InUse); diff != "" {
		t.Errorf("in use (-want +got):\n%s", diff)
	}
}

func TestHealthAndObserved(t *testing.T) {
	cases := []struct {
		name, object string
		health       work.ResourceHealth
		observed     bool
	}{
		{"ConfigMap", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`, work.ResourceHealthy, true},
		{"Deployment before its first status", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":1}}`,
			work.ResourceUnknown, false},
		{"Deployment that is available", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":1},"status":{"observedGeneration":1,"conditions":[{"type":"Available","status":"True"}]}}`, work.ResourceHealthy, true},
		{"Ready goes before Available", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":2},"status":{"observedGeneration":1,"conditions":[{"type":"Available","status":"True"},{"type":"Ready","status":"Unknown"}]}}`, work.ResourceUnknown, false},
		{"UnitedDeployment whose children carry the order",
			`{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment","metadata":{"generation":1,"annotations":{"topology.flotilla.dev/sequence":"7"}},"status":{"observedGeneration":1,"observedSequence":7}}`, work.ResourceUnknown, true},
		{"UnitedDeployment whose children still have the limits of an older order",
			`{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment","metadata":{"generation":1,"annotations":{"topology.flotilla.dev/sequence":"8"}},"status":{"observedGeneration":1,"observedSequence":7}}`, work.ResourceUnknown, false},
		{"UnitedDeployment whose removed subset still has pods",
			`{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment","metadata":{"generation":2,"annotations":{"topology.flotilla.dev/sequence":"8"}},"status":{"observedGeneration":1,"observedSequence":8}}`, work.ResourceUnknown, true},
		{"UnitedDeployment before its first status", `{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment","metadata":{"generation":1,"annotations":{"topology.flotilla.dev/sequence":"8"}}}`, work.ResourceUnknown, false},
		{"a Service has a status and no conditions", `{"apiVersion":"v1","kind":"Service","metadata":{},"status":{"loadBalancer":{}}}`, work.ResourceUnknown, true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			live := object(t, tc.object)
			if got := kinds().Health(live); got != tc.health {
				t.Errorf("health is %s, want %s", got, tc.health)
			}
			if got := kinds().Observed(live); got != tc.observed {
				t.Errorf("observed is %t, want %t", got, tc.observed)
			}
		})
	}
}

func TestSame(t *testing.T) {
	base := func() work.WorkStatus {
		return work.WorkStatus{
			Conditions: []metav1.Condition{{Type: "Applied", Status: "True"}},
			ManifestStatuses: []work.ManifestStatus{{Health: work.ResourceHealthy,
				Status: &runtime.RawExtension{Raw: []byte(`{"a":1,"b":2}`)}}},
			Report: &work.Report{HubID: "hub", Sequence: 1, InUse: []work.SubsetUse{{Total: 1}}},
		}
	}
	cases := []struct {
		name   string
		change func(*work.WorkStatus)
		want   bool
	}{
		{"nothing", func(*work.WorkStatus) {}, true},
		{"when and as which report", func(s *work.WorkStatus) {
			s.Report.Epoch, s.Report.Counter, s.Report.ObservedAt = 9, 9, metav1.NowMicro()
		}, true},
		{"order of keys", func(s *work.WorkStatus) { s.ManifestStatuses[0].Status.Raw = json.RawMessage(`{"b":2, "a":1}`) },
			true},
		{"a counter in the status", func(s *work.WorkStatus) { s.ManifestStatuses[0].Status.Raw = json.RawMessage(`{"b":2,"a":2}`) }, false},
		{"the sequence", func(s *work.WorkStatus) { s.Report.Sequence = 2 }, false},
		{"the amount in use", func(s *work.WorkStatus) { s.Report.InUse[0].Total = 2 }, false},
		{"whether pods can go back", func(s *work.WorkStatus) { s.Report.InUse[0].CanGoBack = true }, false},
		{"the health", func(s *work.WorkStatus) { s.ManifestStatuses[0].Health = work.ResourceUnknown }, false},
		{"the condition", func(s *work.WorkStatus) { s.Conditions[0].ObservedGeneration = 2 }, false},
		{"no report", func(s *work.WorkStatus) { s.Report = nil }, false},
		{"no object", func(s *work.WorkStatus) { s.ManifestStatuses = nil }, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			other := base()
			tc.change(&other)
			if got := Same(base(), other); got != tc.want {
				t.Errorf("same is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestPause(t *testing.T) {
	now := time.Unix(1000, 0)
	cases := []struct {
		name string
		m    moment
		want time.Duration
	}{
		{"the first report leaves at once", moment{settled: true}, 0},
		{"one report per second", moment{sent: now.Add(-300 * time.Millisecond), settled: true}, 700 * time.Millisecond},
		{"after a second at once", moment{sent: now.Add(-time.Second), settled: true}, 0},
		{"a new order waits for the controller", moment{fresh: true, since: now.Add(-50 * time.Millisecond)},
			250 * time.Millisecond},
		{"but not long", moment{fresh: true, since: now.Add(-300 * time.Millisecond)}, 0},
		{"a new order that was seen leaves at once", moment{fresh: true, since: now, settled: true}, 0},
		{"a known order does not wait", moment{since: now}, 0},
		{"what the hub waits for leaves soon", moment{sent: now.Add(-30 * time.Millisecond), settled: true, awaited: true},
			70 * time.Millisecond},
		{"and at once after that", moment{sent: now.Add(-soon), settled: true, awaited: true}, 0},
		{"the longer of both", moment{fresh: true, since: now, sent: now.Add(-900 * time.Millisecond)},
			300 * time.Millisecond},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.now = now
			if got := pause(tc.m); got != tc.want {
				t.Errorf("pause is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAwaits(t *testing.T) {
	status := func(sequence int64, health work.ResourceHealth) work.WorkStatus {
		return work.WorkStatus{ManifestStatuses: []work.ManifestStatus{{Health: health}},
			Report: &work.Report{HubID: "hub", Sequence: sequence}}
	}
	const working, done = work.ResourceUnhealthy, work.ResourceHealthy
	cases := []struct {
		name       string
		last, next work.WorkStatus
		finished   int64
		want       bool
	}{
		{"the first report leaves at once anyway", work.WorkStatus{}, status(1, working), 0, false},
		{"a new order is followed", status(1, done), status(2, working), 1, true},
		{"counters that move", status(2, working), status(2, working), 1, false},
		{"all is done that the order asked for", status(2, working), status(2, done), 1, true},
		{"a pod that came back after that", status(2, working), status(2, done), 2, false},
		{"a pod that goes", status(2, done), status(2, working), 2, false},
		{"another hub's orders begin anew", status(9, working), status(1, working), 9, false},
		{"the object is gone", status(2, working), work.WorkStatus{Report: &work.Report{Sequence: 2}}, 1, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := awaits(tc.last, tc.next, tc.finished); got != tc.want {
				t.Errorf("awaits is %t, want %t", got, tc.want)
			}
		})
	}
}
