package decision

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// members reads "east/a,b west/b,? south!/c": name/zones, "?" for nodes without a zone, "!" for not Ready, "-" for not
// selected.
func members(text string) []Member {
	var out []Member
	for _, part := range strings.Fields(text) {
		name, zones, _ := strings.Cut(part, "/")
		m := Member{Selected: true, Ready: true, Region: "r1"}
		if strings.HasSuffix(name, "!") {
			m.Ready, name = false, strings.TrimSuffix(name, "!")
		}
		if strings.HasSuffix(name, "-") {
			m.Selected, name = false, strings.TrimSuffix(name, "-")
		}
		m.Name = name
		if zones != "" {
			m.Zones = strings.Split(strings.ReplaceAll(zones, "?", ""), ",")
		}
		out = append(out, m)
	}
	return out
}

// limits lends everything for updates, breaks pods of it for disruption.
func limits(breaks int32) func(int32) lending.Amounts {
	return func(n int32) lending.Amounts { return lending.Amounts{Updated: n, Unavailable: breaks} }
}

func open(replicas int32) kinds.Workload {
	return kinds.Workload{
		Key: wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns", Name: "web"}, Replicas: replicas,
		Revision: "one", Open: true,
		Subsets: []kinds.Subset{{Amounts: limits(1)}},
	}
}

// subsets reads "a:a b:b=3 x:": name:zone=replicas.
func subsets(replicas int32, text string) kinds.Workload {
	w := kinds.Workload{Key: wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: "ns", Name: "web"},
		Replicas: replicas, Revision: "one"}
	for _, part := range strings.Fields(text) {
		rest, number, given := strings.Cut(part, "=")
		name, zone, _ := strings.Cut(rest, ":")
		s := kinds.Subset{Subset: division.Subset{Name: name}, Amounts: limits(1)}
		if given {
			s.Replicas = new(intstr.Parse(number))
		}
		if zone != "" {
			s.Term.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone,
				Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}
		}
		w.Subsets = append(w.Subsets, s)
	}
	return w
}

// show prints cells as "subset/cluster/zone:replicas".
func show(cells []topology.Cell) string {
	var parts []string
	for _, c := range cells {
		at := c.Cluster
		if c.Subset != "" {
			at = c.Subset + "/" + at
		}
		if c.Zone != "" {
			at += "/" + c.Zone
		}
		parts = append(parts, fmt.Sprintf("%s:%d", at, c.Replicas))
	}
	return strings.Join(parts, " ")
}

// plan decides; members that are Ready, and of which the facts do not say when they were heard last, are heard just
// now.
func plan(t *testing.T, f Facts) Decision {
	t.Helper()
	if f.Object != nil {
		f.Kind = kindFor(f.Object)
	}
	news := maps.Clone(f.News)
	if news == nil {
		news = map[string]time.Time{}
	}
	for i := range f.Members {
		if m := &f.Members[i]; m.Ready && news[m.Name].IsZero() {
			news[m.Name] = f.Now
		}
	}
	f.News = news
	d, refusal := Plan(f)
	if refusal != nil {
		t.Fatalf("refused: %+v", refusal)
	}
	return d
}

func TestPlanStories(t *testing.T) {
	type stage struct {
		reason   string
		workload kinds.Workload
		members  string
		by       topology.SpreadBy
		reported bool // every member has carried out the last decision
		want     string
		notes    string
	}
	stories := map[string][]stage{
		"a CloneSet over clusters": {
			{"even", open(12), "east west south", "", false, "east:4 south:4 west:4", ""},
			{"more", open(14), "east west south", "", false, "east:5 south:5 west:4", ""},
			{"a member joins: nothing moves", open(14), "east west south north", "", false, "east:5 south:5 west:4", ""},
			{"the new one is furthest below", open(18), "east west south north", "", false, "east:5 north:4 south:5 west:4", ""},
			{"a member is not Ready: it keeps and gets nothing", open(30), "east! west south north", "", false,
				"east:5 north:9 south:8 west:8", ""},
			{"a member is excluded: its replicas move step by step", open(30), "east west- south north", "", true,
				"east:5 north:9 south:8 west:7", "PlacedPlaced"},
			{"to nothing: the cells stay", open(0), "east south north", "", false, "east:0 north:0 south:0", ""},
		},
		"a CloneSet over zones": {
			{"zones first, then the clusters of a zone", open(8), "east/a,b west/b,c south/c,d", topology.SpreadByZone, false,
				"east/a:2 east/b:1 south/c:1 south/d:2 west/b:1 west/c:1", ""},
			{"a used cluster keeps a cell in each of its zones", open(1), "east/a,b", topology.SpreadByZone, false,
				"east/a:1 east/b:0", ""},
		},
		"a CloneSet over zones with unlabelled nodes": {
			{"nodes without a zone are a zone where there is no other", open(6), "east/a west/?", topology.SpreadByZone, false,
				"east/a:3 west:3", ""},
			{"beside named zones they get nothing: no pod may run there", open(6), "east/a,? west/?", topology.SpreadByZone,
				false, "east/a:3 west:3", ""},
			{"a member gets its first named zone: its pods go there", open(6), "east/a,? west/?,b", topology.SpreadByZone, false,
				"east/a:3 west/b:3", ""},
		},
		"a UnitedDeployment over zones": {
			{"a zone in two clusters is shared", subsets(8, "a:a b:b"), "east/a,b west/b", "", false,
				"a/east/a:4 b/east/b:2 b/west/b:2", ""},
			{"a zone is lost with its only member: what runs there stays, and the rest moves step by step",
				subsets(8, "a:a b:b"), "east-/a,b west/b", "", true, "a/east/a:4 b/east/b:1 b/west/b:2",
				"SubsetUnmatchedPlacedPlaced"},
			{"it is gone", subsets(8, "a:a b:b"), "east-/a,b west/b", "", true, "a/east/a:4 b/east/b:1 b/west/b:3",
				"SubsetUnmatchedPlacedPlaced"},
			{"so is the next", subsets(8, "a:a b:b"), "east-/a,b west/b", "", true, "a/east/a:4 b/east/b:0 b/west/b:3",
				"SubsetUnmatchedPlaced"},
			{"nothing is left of it", subsets(8, "a:a b:b"), "east-/a,b west/b", "", true, "a/east/a:4 b/west/b:4",
				"SubsetUnmatched"},
		},
		"a subset names another zone": {
			{"before", subsets(4, "a:a"), "east/a west/b", "", false, "a/east/a:4", ""},
			{"it moves step by step", subsets(4, "a:b"), "east/a west/b", "", true, "a/east/a:3 a/west/b:1", "PlacedPlaced"},
			{"the next one goes", subsets(4, "a:b"), "east/a west/b", "", true, "a/east/a:2 a/west/b:1", "PlacedPlaced"},
		},
		"a subset that no member matches": {
			{"from the start: the others are placed", subsets(8, "a:a q:q=2"), "east/a", "", false, "a/east/a:6",
				"SubsetUnmatched!"},
			{"and follow", subsets(10, "a:a q:q=2"), "east/a", "", false, "a/east/a:8", "SubsetUnmatched!"},
			{"left open it harms nobody, but is told", subsets(8, "a:a q:q"), "east/a", "", false, "a/east/a:8",
				"SubsetUnmatched"},
		},
		"a zone of a subset is renamed": {
			{"before", subsets(8, "a:a b:b"), "east/a west/b", "", false, "a/east/a:4 b/west/b:4", ""},
			{"what runs stays, and it is told", subsets(8, "a:a b:b"), "east/q west/b", "", false, "a/east/a:4 b/west/b:4",
				"SubsetUnmatched"},
			{"more has no place", subsets(10, "a:a b:b"), "east/q west/b", "", false, "a/east/a:4 b/west/b:5",
				"SubsetUnmatched!"},
			{"fewer stay", subsets(6, "a:a b:b"), "east/q west/b", "", false, "a/east/a:3 b/west/b:3", "SubsetUnmatched"},
			{"it has its old name again", subsets(10, "a:a b:b"), "east/a west/b", "", false, "a/east/a:5 b/west/b:5", ""},
		},
		"no member is Ready": {
			{"nothing is placed, and nobody has to act", open(4), "east!", "", false, "", "Unplaced"},
			{"it comes", open(4), "east", "", false, "east:4", ""},
		},
	}
	for name, stages := range stories {
		t.Run(name, func(t *testing.T) {
			var last *topology.WorkloadPlacementSpec
			for _, s := range stages {
				f := Facts{Workload: s.workload, Members: members(s.members), Spread: topology.Spread{By: s.by}, Last: last}
				if s.reported {
					f.Reports = reports(last, 0)
				}
				d := plan(t, f)
				want := ""
				for _, n := range d.Notes {
					want += n.Reason
					if n.Stalled {
						want += "!"
					}
				}
				got := show(d.Spec.Cells)
				if s.want != got {
					t.Errorf("%s: cells %q, want %q", s.reason, got, s.want)
				}
				if want != s.notes {
					t.Errorf("%s: notes %q, want %q", s.reason, want, s.notes)
				}
				again := f
				again.Last = &d.Spec
				if twice := plan(t, again); !cmp.Equal(twice.Spec, d.Spec) && !s.reported {
					t.Errorf("%s: decided again from itself: %s", s.reason, cmp.Diff(d.Spec, twice.Spec))
				}
				last = &d.Spec
			}
		})
	}
}

// reports is what members say that carried out a decision, with old pods of the last revision each.
func reports(spec *topology.WorkloadPlacementSpec, old int32) map[string]capacity.Report {
	out := map[string]capacity.Report{}
	for _, c := range spec.Cells {
		r, ok := out[c.Cluster]
		if !ok {
			r = capacity.Report{Sequence: c.Sequence, Use: map[string]work.SubsetUse{}}
		}
		use := r.Use[c.Subset]
		use.Desired += c.Replicas
		use.Total, use.Available, use.Ready = use.Desired, use.Desired, use.Desired
		use.Updated = max(use.Total-old, 0)
		r.Use[c.Subset] = use
		out[c.Cluster] = r
	}
	return out
}

func TestPlanRefuses(t *testing.T) {
	first := plan(t, Facts{Workload: subsets(8, "a:a b:b"), Members: members("east/a west/b")})
	many := make([]string, 0, 1001)
	for i := range 1001 {
		many = append(many, fmt.Sprintf("m%d", i))
	}
	tests := []struct {
		name     string
		facts    Facts
		reason   string
		sentence string
	}{
		{"a new subset that nobody matches", Facts{Workload: subsets(8, "a:a b:b q:q=2"), Members: members("east/a west/b"),
			Last: &first.Spec},
			SubsetUnmatched, `subset "q" of UnitedDeployment ns/web matches no member: no member has zone "q" (zones: a, b); correct the subset's nodeSelectorTerm or join a member there; what is placed stays as it was`},
		{"no member", Facts{Workload: open(3), Policy: topology.PolicyReference{Kind: "FederationPolicy", Name: "p"},
			Members: members("east-")},
			NoMember, "FederationPolicy p selects no accepted member for CloneSet ns/web; join and accept a member, or widen " +
				"spec.clusters"},
		{"no member of a mistyped name", Facts{Workload: open(3), Policy: topology.PolicyReference{Kind: "FederationPolicy",
			Name: "p"}, Members: members("east-"), UnknownMembers: []string{"eest"}},
			NoMember, "FederationPolicy p selects no accepted member for CloneSet ns/web; join and accept a member, or widen " +
				"spec.clusters; there is no member eest"},
		{"too many cells", Facts{Workload: open(2000), Members: members(strings.Join(many, " "))},
			TooManyCells, "CloneSet ns/web would have 1001 cells (subsets × members), and at most 1000 are placed; use fewer " +
				"subsets, or select fewer members"},
		{"a percentage that is none", Facts{Workload: subsets(8, "a:a=x% b:b"), Members: members("east/a west/b")},
			kinds.InvalidSubsets, "UnitedDeployment ns/web: subset \"a\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, refusal := Plan(tt.facts)
			if refusal == nil || refusal.Reason != tt.reason || !strings.HasPrefix(refusal.Message, tt.sentence) {
				t.Errorf("refusal %+v, want %s: %s", refusal, tt.reason, tt.sentence)
			}
		})
	}
}

// TestMistypedMembers holds that a decision says which members its policy names and that do not exist.
func TestMistypedMembers(t *testing.T) {
	list := []topology.MemberCluster{{ObjectMeta: metav1.ObjectMeta{Name: "east"}}}
	unknown := UnknownMembers(&topology.ClusterSelector{Names: []string{"east", "wset"}}, list)
	f := Facts{Workload: open(3), Policy: topology.PolicyReference{Kind: "FederationPolicy", Name: "p"},
		Members: members("east"), UnknownMembers: unknown}
	notes := plan(t, f).Notes
	if len(notes) != 1 || notes[0] != (Note{Reason: Placed, Message: "FederationPolicy p names no such member: wset"}) {
		t.Errorf("%+v", notes)
	}
	f.UnknownMembers = UnknownMembers(&topology.ClusterSelector{}, list)
	if notes := plan(t, f).Notes; len(notes) != 0 {
		t.Errorf("%+v", notes)
	}
}

func TestSequence(t *testing.T) {
	f := Facts{Workload: open(6), Members: members("east west south"), MaxReported: 40}
	one := plan(t, f).Spec
	if one.Sequence != 41 || one.RevisionSequence != 41 || one.Cells[0].Sequence != 41 {
		t.Errorf("the first order is %d (revision %d), want one above what was reported", one.Sequence, one.RevisionSequence)
	}
	f.Last, f.MaxReported, f.Reports = &one, 41, reports(&one, 0)
	f.Workload.Ref.Generation = 2
	if again := plan(t, f).Spec; again.Sequence != 41 {
		t.Errorf("a new generation that changes no order has sequence %d", again.Sequence)
	}
	f.Workload.Replicas = 7
	two := plan(t, f).Spec
	changed := 0
	for i, c := range two.Cells {
		if c.Sequence == 42 {
			changed++
		} else if c.Replicas != one.Cells[i].Replicas || c.Granted != one.Cells[i].Granted {
			t.Errorf("the order of %s changed without a sequence", c.Cluster)
		}
	}
	if two.Sequence != 42 || two.RevisionSequence != 41 || changed != 1 {
		t.Errorf("one more replica: sequence %d, revision %d, %d orders changed", two.Sequence, two.RevisionSequence, changed)
	}
	f.Last, f.Workload.Revision = &two, "two"
	three := plan(t, f).Spec
	if three.Sequence != 43 || three.RevisionSequence != 43 {
		t.Errorf("a new template: sequence %d, revision %d", three.Sequence, three.RevisionSequence)
	}
	// The hub was restored to the first decision; the members know the third.
	f.Workload, f.Last, f.MaxReported, f.Reports = open(6), &one, 43, reports(&three, 0)
	for _, c := range plan(t, f).Spec.Cells {
		if c.Sequence != 44 {
			t.Errorf("after a restore %s has the order %d", c.Cluster, c.Sequence)
		}
	}
}

// TestLendingOverClusters rolls a template out with one unit of permission and checks each decision.
func TestLendingOverClusters(t *testing.T) {
	f := Facts{Workload: open(9), Members: members("east west south")}
	spec := plan(t, f).Spec
	f.Reports = reports(&spec, 0)
	f.Last, f.Workload.Revision = &spec, "two"
	spec = plan(t, f).Spec
	updated := map[string]int32{}
	for range 20 {
		f.Last = &spec
		f.Reports = map[string]capacity.Report{}
		var lent int32
		for _, c := range spec.Cells {
			lent += c.Reserved.Unavailable
			if c.Granted.Unavailable > 0 && updated[c.Cluster] < c.Granted.Updated {
				updated[c.Cluster]++
			}
			f.Reports[c.Cluster] = capacity.Report{Sequence: c.Sequence, Use: map[string]work.SubsetUse{
				"": {Desired: c.Replicas, Total: c.Replicas, Available: c.Replicas, Updated: updated[c.Cluster]},
			}}
		}
		if lent > 1 {
			t.Fatalf("%d units are held of 1: %+v", lent, spec.Cells)
		}
		spec = plan(t, f).Spec
	}
	if fmt.Sprint(updated) != "map[east:3 south:3 west:3]" {
		t.Errorf("updated %v", updated)
	}
	f.Last = &spec
	if rest := plan(t, f).Spec; !cmp.Equal(rest, spec) {
		t.Errorf("at rest something changes: %s", cmp.Diff(spec, rest))
	}
}

// TestPlanProperties: whatever happens, sums are exact, nothing is decided twice differently, and members that are not
// Ready get nothing new.
func TestPlanProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		names := strings.Fields("east/a,b west/b,c south/c,d north/d")
		var last *topology.WorkloadPlacementSpec
		w, by := open(0), []topology.SpreadBy{topology.SpreadByCluster, topology.SpreadByZone,
			topology.SpreadByRegion}[r.IntN(3)]
		if r.IntN(2) == 0 {
			w = subsets(0, "a:a b:b c:c d:d")
		}
		for range 8 {
			var text []string
			for _, n := range names {
				if r.IntN(5) == 0 {
					n = strings.Replace(n, "/", "!/", 1)
				}
				text = append(text, n)
			}
			w.Replicas = r.Int32N(40)
			f := Facts{Workload: w, Members: members(strings.Join(text, " ")), Spread: topology.Spread{By: by}, Last: last}
			if last != nil && r.IntN(2) == 0 {
				f.Reports = reports(last, 0)
			}
			d := plan(t, f)
			checkDecision(t, seed, &f, &d.Spec)
			last = &d.Spec
		}
	}
}

func checkDecision(t *testing.T, seed uint64, f *Facts, spec *topology.WorkloadPlacementSpec) {
	t.Helper()
	var placed, unplaced int32
	before := map[string]int32{}
	if f.Last != nil {
		for _, c := range f.Last.Cells {
			before[c.Cluster] += c.Replicas
		}
	}
	after := map[string]int32{}
	for _, c := range spec.Cells {
		placed += c.Replicas
		after[c.Cluster] += c.Replicas
	}
	for _, u := range spec.Unplaced {
		unplaced += u.Replicas
	}
	if placed+unplaced != spec.Replicas || placed != spec.Placed {
		t.Errorf("seed %d: %d placed (told %d) and %d unplaced of %d", seed, placed, spec.Placed, unplaced, spec.Replicas)
	}
	for _, m := range f.Members {
		if !m.Ready && after[m.Name] > before[m.Name] {
			t.Errorf("seed %d: %s is not Ready and went from %d to %d", seed, m.Name, before[m.Name], after[m.Name])
		}
	}
	again := *f
	again.Last = spec
	if twice := plan(t, again).Spec; !cmp.Equal(twice, *spec) {
		t.Errorf("seed %d: decided again from itself: %s", seed, cmp.Diff(*spec, twice))
	}
}

func BenchmarkPlan(b *testing.B) {
	f := Facts{Workload: subsets(100, "a:a b:b c:c d:d"), Members: members("east/a,b west/b,c south/c,d")}
	first, _ := Plan(f)
	f.Last, f.Reports = &first.Spec, reports(&first.Spec, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := Plan(f); refusal != nil {
			b.Fatal(refusal)
		}
	}
}

// TestARenamedZoneIsNamed holds that what a subset cannot get any more is told with the zone that nobody has, and not
// as if members were unhealthy: nobody could bring those back.
func TestARenamedZoneIsNamed(t *testing.T) {
	first := plan(t, Facts{Workload: subsets(8, "a:a b:b"), Members: members("east/a west/b")})
	d := plan(t, Facts{Workload: subsets(10, "a:a b:b"), Members: members("east/q west/b"), Last: &first.Spec})
	want := `subset "a" of UnitedDeployment ns/web matches no member: no member has zone "a" (zones: b, q); correct the subset's nodeSelectorTerm or join a member there; what runs of it stays where it is`
	if len(d.Notes) != 1 || d.Notes[0].Message != want {
		t.Errorf("notes %+v, want %q", d.Notes, want)
	}
	if u := d.Spec.Unplaced; len(u) != 1 || u[0].Subset != "a" || u[0].Replicas != 1 ||
		u[0].Reason.Code != division.UnplacedNoCell {
		t.Errorf("unplaced %+v, want one of subset a: %s", u, division.UnplacedNoCell)
	}
}
