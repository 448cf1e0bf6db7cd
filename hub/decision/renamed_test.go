package decision

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// A zone that gets another name moves nothing, whatever else the policy spreads over; its pods count under the new
// name.
func TestRenamedZones(t *testing.T) {
	byZone := topology.Spread{By: topology.SpreadByZone}
	tests := []struct {
		name          string
		before, after string // members
		was, spread   topology.Spread
		cells         string // of the last decision, where it is not the one that is made for before
		replicas      int32
		want          string
		renamed       string // zone<from of the cells that say so
	}{
		{"one zone", "east/a west/b south/c", "east/x west/b south/c", byZone, byZone, "", 9, "east/x:3 south/c:3 west/b:3",
			"x<a"},
		{"one that had more than the others", "east/a west/b", "east/x west/b", byZone, byZone, "east/a:7 west/b:2", 9,
			"east/x:7 west/b:2", "x<a"},
		{"the name of another member's zone", "east/a west/b", "east/b west/b", byZone, byZone, "east/a:4 west/b:4", 8,
			"east/b:4 west/b:4", "b<a"},
		{"several, in the order of their names", "east/a,b west/c", "east/x,y west/c", byZone, byZone,
			"east/a:5 east/b:1 west/c:3", 9, "east/x:5 east/y:1 west/c:3", "x<a y<b"},
		{"two become one", "east/a,b west/c", "east/x west/c", byZone, byZone, "east/a:3 east/b:2 west/c:3", 8,
			"east/x:5 west/c:3", "x<a, b"},
		{"one becomes two", "east/a west/c", "east/x,y west/c", byZone, byZone, "east/a:4 west/c:4", 8,
			"east/x:4 east/y:0 west/c:4", "x<a"},
		{"its nodes come one by one: the new one has a cell already", "east/a west/b", "east/x west/b", byZone, byZone,
			"east/a:4 east/x:0 west/b:4", 8, "east/x:4 west/b:4", "x<a"},
		{"beside one that stays", "east/a,b west/c", "east/b,x west/c", byZone, byZone, "east/a:3 east/b:3 west/c:3", 9,
			"east/b:3 east/x:3 west/c:3", "x<a"},
		{"at the same time it is scaled out", "east/a west/b", "east/x west/b", byZone, byZone, "east/a:4 west/b:4", 9,
			"east/x:4 west/b:5", "x<a"},
		{"the label goes", "east/a west/b", "east/? west/b", byZone, byZone, "east/a:4 west/b:4", 8, "east:4 west/b:4", ""},
		{"the labels come: pods that were bound to none may be in any", "east/? west/b", "east/x,y west/b", byZone, byZone,
			"east:5 west/b:4", 9, "east/x:3 east/y:2 west/b:4", ""},
		{"a zone is lost and none took its place: its replicas are divided anew", "east/a,b west/c", "east/b west/c", byZone,
			byZone, "", 9, "east/b:5 west/c:4", ""},
		{"a zone that had nothing", "east/a,b west/c", "east/a,x west/c", byZone, byZone, "east/a:3 east/b:0 west/c:3", 6,
			"east/a:3 east/x:0 west/c:3", ""},
		{"a member that is not Ready keeps its zones", "east/a west/b", "east!/x west/b", byZone, byZone, "east/a:4 west/b:4",
			8, "east/a:4 west/b:4", ""},
		{"a policy begins to spread over zones", "east/a,b west/b", "east/a,b west/b", topology.Spread{}, byZone,
			"east:5 west:4", 9, "east/a:3 east/b:2 west/b:4", ""},
		{"and ceases to", "east/a,b west/b", "east/a,b west/b", byZone, topology.Spread{}, "east/a:3 east/b:2 west/b:4", 9,
			"east:5 west:4", ""},
		{"while a member is not Ready", "east/a,b west/b", "east!/a,b west/b", byZone, topology.Spread{},
			"east/a:3 east/b:2 west/b:4", 9, "east:5 west:4", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			first := plan(t, Facts{Workload: open(tc.replicas), Members: members(tc.before), Spread: tc.was}).Spec
			if tc.cells != "" {
				first = placed(t, tc.cells)
			}
			f := Facts{Workload: open(tc.replicas), Members: members(tc.after), Spread: tc.spread, Last: &first,
				Reports: reports(&first, 0)}
			d := plan(t, f)
			if got := show(d.Spec.Cells); got != tc.want {
				t.Errorf("cells %q, want %q", got, tc.want)
			}
			renamed := ""
			for _, c := range d.Spec.Cells {
				if c.Reason.Code == CellRenamed {
					renamed += " " + c.Zone + "<" + c.Reason.Params[ParamFrom]
				}
			}
			if want := tc.renamed; renamed != "" && renamed[1:] != want || renamed == "" && want != "" {
				t.Errorf("renamed %q, want %q", renamed, want)
			}
			checkDecision(t, 0, &f, &d.Spec)
			// What is decided again from the decision is the same, reason and all.
			f.Last, f.Reports = &d.Spec, reports(&d.Spec, 0)
			once := plan(t, f).Spec
			f.Last = &once
			if again := plan(t, f).Spec; !cmp.Equal(once, again) {
				t.Errorf("decided again: %s", cmp.Diff(once, again))
			}
		})
	}
}

// What was lent to a zone is lent to the one that took its place: no permission is lost, and none is given twice.
func TestRenamedZonesKeepWhatIsLent(t *testing.T) {
	spread := topology.Spread{By: topology.SpreadByZone}
	f := Facts{Workload: open(9), Members: members("east/a,b west/c"), Spread: spread}
	first := plan(t, f).Spec
	f.Last, f.Reports, f.Workload.Revision = &first, reports(&first, 0), "two"
	rolling := plan(t, f).Spec
	f.Last, f.Reports, f.Members = &rolling, nil, members("east/x,y west/c")
	renamed := plan(t, f).Spec
	sum := func(cells []topology.Cell) (held topology.Budget) {
		for i := range cells {
			held = sumOf(held, cells[i].Reserved)
		}
		return held
	}
	if before, after := sum(rolling.Cells), sum(renamed.Cells); before != after {
		t.Errorf("%+v is held, and was %+v", after, before)
	}
	for i := range renamed.Cells {
		if changed := renamed.Cells[i].Sequence > rolling.Sequence; changed != (renamed.Cells[i].Cluster == "east") {
			t.Errorf("the order of %s has the sequence %d after %d", renamed.Cells[i].Cluster, renamed.Cells[i].Sequence,
				rolling.Sequence)
		}
	}
}

// placed is a decision with these cells, each with a share of its own: "east/a:3 west:2".
func placed(t *testing.T, text string) topology.WorkloadPlacementSpec {
	t.Helper()
	spec := topology.WorkloadPlacementSpec{Sequence: 1, RevisionSequence: 1}
	for _, part := range strings.Fields(text) {
		at, number, _ := strings.Cut(part, ":")
		replicas, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		c := topology.Cell{Sequence: 1, Replicas: int32(replicas), Reason: topology.Reason{Code: division.CellKept}}
		c.Cluster, c.Zone, _ = strings.Cut(at, "/")
		spec.Cells, spec.Replicas = append(spec.Cells, c), spec.Replicas+c.Replicas
	}
	return spec
}
