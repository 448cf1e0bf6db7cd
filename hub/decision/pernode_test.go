package decision

import (
	"fmt"
	"strings"
	"testing"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// rolloutOver is a workload with a pod on each of so many nodes of east, south and west, in the middle of an update.
func rolloutOver(t *testing.T, east, south, west int32, amounts func(int32) lending.Amounts) Facts {
	t.Helper()
	f := perMember("one", amounts)
	f.Members = members("east south west")
	nodes := map[string]int32{"east": east, "south": south, "west": west}
	report := func(updated bool) {
		spec := mustPlan(t, f)
		f.Last, f.Reports = &spec, map[string]capacity.Report{}
		for cluster, n := range nodes {
			f.Reports[cluster] = asks(cellOf(t, &spec, cluster).Sequence, n, 0)
			if updated {
				f.Reports[cluster] = asks(cellOf(t, &spec, cluster).Sequence, n, n)
			}
		}
	}
	report(true)
	report(true)
	f.Workload.Revision = "two"
	report(false)
	return f
}

// answers lets a member carry out its newest order, with another use.
func answers(t *testing.T, f *Facts, cluster string, change func(*work.SubsetUse)) {
	t.Helper()
	use := f.Reports[cluster].Use[""]
	change(&use)
	f.Reports[cluster] = capacity.Report{Sequence: cellOf(t, f.Last, cluster).Sequence, Applied: true,
		Use: map[string]work.SubsetUse{"": use}}
}

// decide makes decisions until nothing changes, with members that answer each order.
func decide(t *testing.T, f *Facts) {
	t.Helper()
	for range 20 {
		spec := mustPlan(t, *f)
		same := spec.Sequence == f.Last.Sequence
		f.Last = &spec
		for _, c := range spec.Cells {
			answers(t, f, c.Cluster, func(*work.SubsetUse) {})
		}
		if same {
			return
		}
	}
	t.Fatalf("no rest: %+v", f.Last.Cells)
}

// grants writes what the members are granted: updated/unavailable/surge.
func grants(spec *topology.WorkloadPlacementSpec) string {
	var words []string
	for _, c := range spec.Cells {
		g := c.Granted
		words = append(words, fmt.Sprintf("%s:%d/%d/%d", c.Cluster, g.Updated, g.Unavailable, g.Surge))
	}
	return strings.Join(words, " ")
}

// TestOneBudgetOverNodesOfAllMembers shows what each member may do of a limit over all nodes.
func TestOneBudgetOverNodesOfAllMembers(t *testing.T) {
	one := func(n int32) lending.Amounts { return lending.Amounts{Updated: n, Unavailable: 1} }
	surge := func(n int32) lending.Amounts { return lending.Amounts{Updated: n, Surge: 2} }
	partition := func(n int32) lending.Amounts { return lending.Amounts{Updated: n - 4, Unavailable: n} }
	updates := func(n int32) func(*work.SubsetUse) {
		return func(u *work.SubsetUse) { u.Updated, u.UpdatedReady, u.UpdatedAvailable = n, n, n }
	}
	notSelected := func(n int32) func(*work.SubsetUse) { return func(u *work.SubsetUse) { u.NotUpdatable = n } }
	for name, tt := range map[string]struct {
		amounts func(int32) lending.Amounts
		uses    map[string]func(*work.SubsetUse)
		want    string
	}{
		"the partition is divided over the nodes": {partition, nil, "east:2/4/0 south:3/4/0 west:3/4/0"},
		"where no node is selected nothing is granted": {partition, map[string]func(*work.SubsetUse){
			"east": notSelected(4), "south": notSelected(3)}, "east:0/4/0 south:1/4/0 west:4/4/0"},
		"a member whose selected nodes are updated hands on": {one, map[string]func(*work.SubsetUse){
			"east": updates(4), "south": func(u *work.SubsetUse) { notSelected(3)(u); updates(1)(u) }},
			"east:4/0/0 south:1/0/0 west:4/1/0"},
		"a member whose other nodes are lost hands on": {one, map[string]func(*work.SubsetUse){
			"east": updates(4), "south": func(u *work.SubsetUse) {
				updates(3)(u)
				u.Available, u.Ready, u.LostUnavailable, u.LostOutdated = 3, 3, 1, 1
			}}, "east:4/0/0 south:3/0/0 west:4/1/0"},
		"a surge is divided": {surge, map[string]func(*work.SubsetUse){"east": updates(4), "south": updates(4)},
			"east:4/0/0 south:4/0/0 west:4/0/2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := rolloutOver(t, 4, 4, 4, tt.amounts)
			for cluster, use := range tt.uses {
				answers(t, &f, cluster, use)
			}
			decide(t, &f)
			if got := grants(f.Last); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestWhatANodeUsesOfTheBudget shows what a report counts as used.
func TestWhatANodeUsesOfTheBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		use  work.SubsetUse
		want lending.Amounts
	}{
		"nothing":            {work.SubsetUse{Desired: 4, Total: 4, Available: 4, Updated: 2}, lending.Amounts{Updated: 2}},
		"an unavailable pod": {work.SubsetUse{Desired: 4, Total: 4, Available: 3}, lending.Amounts{Unavailable: 1}},
		"a node is not waited for": {work.SubsetUse{Desired: 4, Total: 4, Available: 2,
			NodeUse: work.NodeUse{LostUnavailable: 1}}, lending.Amounts{Unavailable: 1}},
		"nodes have no pod by choice": {work.SubsetUse{Desired: 4, Total: 2, Available: 2,
			NodeUse: work.NodeUse{Withheld: 2}}, lending.Amounts{}},
		"a surge beside a node without a pod": {work.SubsetUse{Desired: 4, Total: 4, Available: 3,
			NodeUse: work.NodeUse{Surging: 1}}, lending.Amounts{Unavailable: 1, Surge: 1}},
	} {
		if got := LendingReport(1, tt.use).InUse; got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestWavesCountNodesThatCanBeUpdated: nodes that the workload does not select keep no wave from its end.
func TestWavesCountNodesThatCanBeUpdated(t *testing.T) {
	f := perMember("one", func(n int32) lending.Amounts { return lending.Amounts{Updated: n, Unavailable: n} })
	f.Members = members("east south west")
	f.Rollout = topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
		{Name: "east", Clusters: topology.WaveClusters{Names: []string{"east"}}},
		{Name: "south", Clusters: topology.WaveClusters{Names: []string{"south"}}},
	}}
	spec := mustPlan(t, f)
	f.Last, f.Reports = &spec, map[string]capacity.Report{}
	for _, c := range spec.Cells {
		f.Reports[c.Cluster] = asks(c.Sequence, 4, 4)
	}
	decide(t, &f)
	f.Workload.Revision = "two"
	spec = mustPlan(t, f)
	f.Last = &spec
	for _, c := range spec.Cells {
		answers(t, &f, c.Cluster, func(u *work.SubsetUse) {
			u.Updated, u.UpdatedReady, u.UpdatedAvailable, u.NotUpdatable = 0, 0, 0, 3
		})
	}
	decide(t, &f)
	if got := f.Last.Wave; got == nil || got.Name != "east" || grants(f.Last) != "east:1/4/0 south:0/4/0 west:0/4/0" {
		t.Fatalf("%+v, %s", got, grants(f.Last))
	}
	answers(t, &f, "east", func(u *work.SubsetUse) { u.Updated, u.UpdatedReady, u.UpdatedAvailable = 1, 1, 1 })
	decide(t, &f)
	if got := f.Last.Wave; got.Name != "south" || grants(f.Last) != "east:1/4/0 south:1/4/0 west:0/4/0" {
		t.Errorf("%+v, %s", got, grants(f.Last))
	}
}

// TestPreviousTemplateOfNodes: while some nodes keep the previous template, each member has it, also one that joins and
// has not reported.
func TestPreviousTemplateOfNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		partition int32
		selective bool
		want      bool
	}{
		"all nodes may be updated":    {0, false, false},
		"a partition":                 {1, false, true},
		"some nodes are not selected": {0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := perMember("one", func(n int32) lending.Amounts {
				return lending.Amounts{Updated: n - tt.partition, Unavailable: 1}
			})
			f.Members, f.Workload.Selective = members("east west south-"), tt.selective
			f.Workload.Template = []byte(`{"one":1}`)
			spec := mustPlan(t, f)
			f.Last, f.Reports = &spec, map[string]capacity.Report{"east": asks(1, 2, 2), "west": asks(1, 2, 2)}
			spec = mustPlan(t, f)
			f.Last, f.Workload.Revision, f.Workload.Template = &spec, "two", []byte(`{"two":2}`)
			spec = mustPlan(t, f)
			if got := spec.PreviousTemplate != nil; got != tt.want {
				t.Fatalf("previous template %+v", spec.PreviousTemplate)
			}
			if tt.want && string(spec.PreviousTemplate.Template.Raw) != `{"one":1}` {
				t.Errorf("%s", spec.PreviousTemplate.Template.Raw)
			}
			f.Last, f.Members = &spec, members("east west south")
			joined := mustPlan(t, f)
			cells := orders(joined.Cells)["south"]
			if len(cells) != 1 || !keepsOld(cells) {
				t.Errorf("south, which joined: %+v", cells)
			}
		})
	}
}
