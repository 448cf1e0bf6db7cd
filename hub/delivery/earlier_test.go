package delivery

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestRolloutOfTheVersionBeforeGoesOn reads what a hub of the version before had written in the middle of a rollout,
// with the reports of its agents. The decision is the same one, and agents of either version get the same orders: each
// Work is what the earlier hub wrote.
func TestRolloutOfTheVersionBeforeGoesOn(t *testing.T) {
	for name, object := range map[string]client.Object{"cloneset": &apps.CloneSet{}, "uniteddeployment": &apps.UnitedDeployment{}} {
		t.Run(name, func(t *testing.T) {
			placement, works := &topology.WorkloadPlacement{}, []work.Work{}
			readEarlier(t, name, object)
			readEarlier(t, name+"-placement", placement)
			readEarlier(t, name+"-works", &works)
			if wire.Foreign(placement) {
				t.Fatal("the decision counts as edited")
			}

			kind := kindFor(object)
			workload, rejection := kind.Read(object)
			if rejection != nil {
				t.Fatal(rejection)
			}
			facts := decision.Facts{
				Kind: kind, Workload: workload, Policy: *placement.Spec.Policy, Object: object, Adopt: name == "cloneset",
				Now: time.Unix(1000, 0), Heard: time.Unix(900, 0), Last: &placement.Spec, Reports: map[string]capacity.Report{},
			}
			for i := range works {
				w := &works[i]
				report, nonsense := kinds.Workloads().ReportOf(w)
				if report == nil || nonsense != "" {
					t.Fatalf("the report in %s: %+v %s", w.Namespace, report, nonsense)
				}
				member := w.Namespace[len(work.NamespacePrefix):]
				seen := capacity.Report{Sequence: report.Sequence, Applied: true, Use: map[string]work.SubsetUse{}}
				for _, use := range report.InUse {
					seen.Use[use.Subset] = use
				}
				facts.Reports[member] = seen
			}
			for _, m := range []struct{ name, zone string }{{"east", "a"}, {"south", "c"}, {"west", "b"}} {
				facts.Members = append(facts.Members, decision.Member{
					Name: m.name, Region: "r1", Zones: []string{m.zone}, Selected: true, Ready: true,
				})
			}
			next, rejection := decision.Plan(facts)
			if rejection != nil {
				t.Fatal(rejection)
			}
			if !equality.Semantic.DeepEqual(&next.Spec, &placement.Spec) {
				t.Errorf("the decision changed:\n%s\nwas\n%s", asJSON(t, next.Spec), asJSON(t, placement.Spec))
			}

			key := wire.Key{Group: "apps.kruise.io", Kind: kind.GVK.Kind, Namespace: "shop", Name: "web"}
			now, rejection, err := planOf(key, "hub", object, placement, additions{})
			if err != nil || rejection != nil || len(now) != len(works) {
				t.Fatalf("%d Works, %v, %v", len(now), rejection, err)
			}
			for i := range works {
				was := &works[i]
				if now[i].Name != was.Name || !equality.Semantic.DeepEqual(now[i].Annotations, was.Annotations) ||
					!equality.Semantic.DeepEqual(tree(t, now[i].Spec), tree(t, was.Spec)) {
					t.Errorf("the order for %s is\n%s\nwas\n%s", was.Namespace, asJSON(t, now[i]), asJSON(t, was))
				}
			}
		})
	}
}

func readEarlier(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/earlier/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("read %s: %w", name, err))
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func tree(t *testing.T, v any) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(asJSON(t, v)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
