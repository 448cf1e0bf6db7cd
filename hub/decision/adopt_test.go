package decision

import (
	"math/rand/v2"
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
)

// TestAdoptionLooksFirst holds that nothing is decided before every selected member has told, and then nothing moves.
func TestAdoptionLooksFirst(t *testing.T) {
	f := Facts{Workload: open(12), Members: members("east west! south other-"), Adopt: true}
	first, refusal := Plan(f)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if len(first.Spec.Cells) != 3 || first.Spec.Placed != 0 || len(first.Notes) != 1 ||
		first.Notes[0].Reason != Adopting ||
		!strings.Contains(first.Notes[0].Message, "until east, south, west have told") &&
			!strings.Contains(first.Notes[0].Message, "until east, west, south have told") {
		t.Fatalf("first decision %+v", first)
	}
	for _, c := range first.Spec.Cells {
		if c.Adoption.Phase != topology.AdoptionDiscovering || c.Replicas != 0 {
			t.Errorf("cell %+v does not look", c)
		}
	}
	f.Last = &first.Spec
	f.Found = map[string]Found{"east": {"": 9}, "south": {}}
	waits, refusal := Plan(f)
	if refusal != nil || waits.Spec.Sequence != first.Spec.Sequence ||
		!strings.Contains(waits.Notes[0].Message, "until west has told") {
		t.Fatalf("second decision %+v, %+v", waits, refusal)
	}
	f.Found["west"] = Found{"": 3}
	decided, refusal := Plan(f)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if decided.Spec.Clusters != "east:9 west:3" || decided.Spec.Placed != 12 ||
		decided.Spec.Sequence <= first.Spec.Sequence {
		t.Errorf("decision %+v", decided.Spec)
	}
	adopt := map[string]string{}
	for _, c := range decided.Spec.Cells {
		adopt[c.Cluster] = c.Adoption.Value()
	}
	if adopt["east"] != "9" || adopt["west"] != "3" {
		t.Errorf("the members are told to adopt %v", adopt)
	}

	f.Last = &decided.Spec
	again, refusal := Plan(f)
	if refusal != nil || again.Spec.Sequence != decided.Spec.Sequence {
		t.Errorf("the same facts give another decision: %+v", again.Spec)
	}
	f.Found = map[string]Found{} // all adopted
	f.Reports = map[string]capacity.Report{}
	for _, name := range []string{"east", "west", "south"} {
		f.Reports[name] = capacity.Report{Sequence: decided.Spec.Sequence, Applied: true}
	}
	after, refusal := Plan(f)
	if refusal != nil || after.Spec.Sequence != decided.Spec.Sequence || after.Spec.Clusters != decided.Spec.Clusters {
		t.Errorf("the decision changes once all is adopted: %+v", after.Spec)
	}
}

// TestAdoptionOfAConflict: what was meant for members that refused it is not what runs there. Members that tell one
// after the other are waited for, those that carried out their order stay as they are.
func TestAdoptionOfAConflict(t *testing.T) {
	f := Facts{Workload: open(9), Members: members("east south west")}
	conflict, refusal := Plan(f)
	if refusal != nil || conflict.Spec.Clusters != "east:3 south:3 west:3" {
		t.Fatalf("%+v, %+v", conflict.Spec, refusal)
	}
	f.Adopt, f.Last, f.Reports = true, &conflict.Spec, map[string]capacity.Report{"south": {Sequence: 1, Applied: true}}
	task, refusal := Plan(f)
	if refusal != nil || task.Spec.Clusters != "south:3" || task.Spec.Unplaced[0].Replicas != 6 {
		t.Fatalf("%+v, %+v", task.Spec, refusal)
	}
	f.Last, f.Found = &task.Spec, map[string]Found{"east": {"": 5}}
	waits, refusal := Plan(f)
	if refusal != nil || waits.Spec.Sequence != task.Spec.Sequence ||
		!strings.Contains(waits.Notes[0].Message, "until west has told") {
		t.Fatalf("%+v, %+v", waits.Spec, refusal)
	}
	f.Found["west"] = Found{"": 1}
	decided, refusal := Plan(f)
	if refusal != nil || decided.Spec.Clusters != "east:5 south:3 west:1" {
		t.Fatalf("%+v, %+v", decided.Spec, refusal)
	}
	f.Last, f.Found = &decided.Spec, map[string]Found{"west": {"": 1}} // east is adopted, and has not said so
	f.Reports["east"] = capacity.Report{Applied: true}
	f.Members = members("east north south west")
	again, refusal := Plan(f)
	if refusal != nil || again.Spec.Clusters != "east:5 south:3 west:1" {
		t.Errorf("%+v, %+v", again.Spec, refusal)
	}
}

func TestAdoptionRefusesAForeignSubset(t *testing.T) {
	f := Facts{Workload: subsets(4, "a:a b:b"), Members: members("east/a west/b"), Adopt: true,
		Found: map[string]Found{"east": {"a": 2, "old": 1}, "west": {"b": 1}}}
	_, refusal := Plan(f)
	if refusal == nil || refusal.Reason != AdoptionRefused ||
		!strings.Contains(refusal.Message, `in east has subset "old" with 1 replicas`) {
		t.Errorf("refusal %+v", refusal)
	}
}

// TestAdoptionLeavesOutWhatIsNotSelected holds that a member that has something and is not selected gets no order to
// remove it.
func TestAdoptionLeavesOutWhatIsNotSelected(t *testing.T) {
	f := Facts{Workload: open(4), Members: members("east west"), Adopt: true}
	first, _ := Plan(f)
	f.Last, f.Found = &first.Spec, map[string]Found{"east": {"": 4}, "west": {"": 3}}
	f.Members[1].Selected = false
	decided, refusal := Plan(f)
	if refusal != nil || len(decided.Spec.Cells) != 1 || decided.Spec.Clusters != "east:4" {
		t.Errorf("decision %+v, %+v", decided.Spec, refusal)
	}
}

// TestAdoptionMovesNothing: whatever runs where, an object that asks for as many replicas as run leaves them there.
func TestAdoptionMovesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := Facts{Members: members("a b c d e"), Adopt: true, Found: map[string]Found{}}
		total := int32(0)
		for i := range f.Members {
			n := random.Int32N(20)
			f.Found[f.Members[i].Name] = Found{"": n}
			total += n
		}
		f.Workload = open(total)
		first, refusal := Plan(Facts{Workload: f.Workload, Members: f.Members, Adopt: true})
		if refusal != nil {
			t.Fatal(refusal)
		}
		f.Last = &first.Spec
		decided, refusal := Plan(f)
		if refusal != nil {
			t.Fatal(refusal)
		}
		for _, c := range decided.Spec.Cells {
			if found := f.Found[c.Cluster].sum(); c.Replicas != found {
				t.Fatalf("%s had %d and is to have %d (%v)", c.Cluster, found, c.Replicas, f.Found)
			}
		}
	}
}
