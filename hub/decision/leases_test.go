package decision

import (
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
)

// TestPlanSilence: a member goes silent in the middle of a rollout of 9 over three, of which 1 may be unavailable. Its
// order is lowered first; what it holds goes to the others once that order is written, and comes back to nobody without
// being confirmed.
func TestPlanSilence(t *testing.T) {
	facts := Facts{Workload: open(9), Members: members("east west south"),
		Policy: topology.PolicyReference{Kind: "FederationPolicy", Name: "all"}}
	decide := func() topology.WorkloadPlacementSpec {
		t.Helper()
		spec := plan(t, facts).Spec
		var held int32
		for i := range spec.Cells {
			held += spec.Cells[i].Reserved.Unavailable
		}
		if held > 1 {
			t.Fatalf("%d may be unavailable, 1 is allowed: %+v", held, spec.Cells)
		}
		facts.Last = &spec
		return spec
	}
	// report tells what all members but the silent have carried out, with so many updated pods.
	report := func(silent string, updated int32) {
		reports := map[string]capacity.Report{silent: facts.Reports[silent]}
		for _, c := range facts.Last.Cells {
			if c.Cluster == silent {
				continue
			}
			reports[c.Cluster] = capacity.Report{Sequence: c.Sequence, Applied: true, Use: map[string]work.SubsetUse{
				"": {Desired: c.Replicas, Total: c.Replicas, Ready: c.Replicas, Available: c.Replicas, Updated: updated,
					CanGoBack: true},
			}}
		}
		facts.Reports = reports
	}
	cell := func(cluster string) topology.Cell {
		for _, c := range facts.Last.Cells {
			if c.Cluster == cluster {
				return c
			}
		}
		t.Fatalf("%s has no cell", cluster)
		return topology.Cell{}
	}
	decide()
	facts.Workload.Revision = "two"
	decide()
	report("", 0)
	decide()
	silent := ""
	for _, c := range facts.Last.Cells {
		if c.Granted.Unavailable > 0 {
			silent = c.Cluster
		}
	}
	if silent == "" {
		t.Fatalf("nobody may break a pod: %+v", facts.Last.Cells)
	}
	before := cell(silent)

	for i := range facts.Members {
		facts.Members[i].Silent = facts.Members[i].Name == silent
		facts.Members[i].Ready = facts.Members[i].Name != silent
	}
	facts.Written = map[string]int64{silent: before.Sequence}
	decide()
	if c := cell(silent); c.Granted.Unavailable != 0 || c.Reserved.Unavailable != 1 || c.Sequence <= before.Sequence ||
		!c.Waiting {
		t.Fatalf("its order is to be lowered before anything else: %+v, was %+v", c, before)
	}
	report(silent, 0)
	decide()
	if c := cell(silent); c.Reserved.Unavailable != 1 {
		t.Fatalf("its lower order is not written, and it holds nothing any more: %+v", c)
	}
	facts.Written[silent] = cell(silent).Sequence
	decide()
	if c := cell(silent); c.Reserved.Unavailable != 0 || c.Granted.Updated != before.Granted.Updated ||
		c.Reserved.Updated != before.Reserved.Updated {
		t.Fatalf("its lower order is written: %+v, was %+v", c, before)
	}
	others := int32(0)
	for _, c := range facts.Last.Cells {
		others += c.Granted.Unavailable
	}
	if others != 1 {
		t.Errorf("nobody goes on: %+v", facts.Last.Cells)
	}
	stands := *facts.Last
	if again := decide(); again.Sequence != stands.Sequence {
		t.Errorf("a second look changes something: %+v", again.Cells)
	}
}
