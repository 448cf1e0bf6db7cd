package placement

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestDecideClusterScopedObject holds that the label of a cluster-scoped object says whose it is.
func TestDecideClusterScopedObject(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "apps.example.com", Version: "v1", Kind: "Beacon"}
	now := time.Unix(1_000_000, 0)
	everywhere := policy.Policy{Ref: topology.PolicyReference{Kind: policy.KindClusterPolicy, Name: "all"}}
	everywhere.Spec.Workloads = []topology.WorkloadSelector{{APIVersion: "apps.example.com/v1", Kind: "Beacon"}}
	for name, tt := range map[string]struct {
		labelled, placed bool
		observed         int64
		age              time.Duration
		policies         []policy.Policy
		reason, message  string
		again            time.Duration
	}{
		"a new one may have a controller here": {age: 4 * time.Second, again: 6 * time.Second},
		"one that a controller runs here":      {age: time.Hour, observed: 1},
		"one that no controller runs here":     {age: time.Hour, reason: decision.NotLabelled, message: "set the label"},
		"one that lost its label": {
			age: time.Hour, placed: true, observed: 1, reason: decision.NotLabelled, message: "lost the label"},
		"one that no policy selects": {
			labelled: true, reason: decision.NoPolicy, message: "no ClusterFederationPolicy selects Beacon lamp;"},
		"one that a policy selects, and nobody has": {
			labelled: true, policies: []policy.Policy{everywhere}, reason: decision.NoMember},
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: "lamp", UID: "u", Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-tt.age))}}
			table := kinds.Table{gvk.GroupKind(): {
				GVK: gvk, Mode: kinds.PerMember, ClusterScoped: true,
				Read:    func(o kinds.Object) (kinds.Workload, *kinds.Rejection) { return kinds.NewWorkload(o, gvk, nil), nil },
				Observe: func(kinds.Object) kinds.Observed { return kinds.Observed{Generation: tt.observed} },
			}}
			s := &State{key: wire.Key{Group: gvk.Group, Kind: gvk.Kind, Name: "lamp"}, Object: object, federated: tt.labelled,
				now: now, Policies: tt.policies}
			if tt.placed {
				s.Placement = &topology.WorkloadPlacement{}
				s.Placement.Spec.Workload.UID = "u"
			}
			next := Decide(s, table)
			if next.Remove || next.Spec != nil || next.again != tt.again {
				t.Errorf("the next step is %+v", next)
			}
			switch {
			case tt.reason == "" && next.Outcome != nil:
				t.Errorf("it says %+v", next.Outcome)
			case tt.reason == "":
			case next.Outcome == nil || next.Outcome.Reason != tt.reason || !strings.Contains(next.Outcome.Message, tt.message):
				t.Errorf("it says %+v, want %s: %s", next.Outcome, tt.reason, tt.message)
			}
		})
	}
}
