package decision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// pods is a zone whose nodes take so many pods, of which some are there.
func pods(zone string, all, there string) topology.Zone {
	return topology.Zone{
		Name: zone, Nodes: 1, Ready: 1,
		Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(all),
			corev1.ResourceCPU: resource.MustParse("1k")},
		Requested: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(there)},
	}
}

// sized gives a workload pods of a size.
func sized(w kinds.Workload, cpu string) kinds.Workload {
	template := &corev1.PodTemplateSpec{}
	if cpu != "" {
		template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	}
	w.Requests = kinds.PodRequests(template)
	return w
}

func TestPlanSpreads(t *testing.T) {
	number := func(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }
	change := func(text string, name string, by func(*Member)) []Member {
		all := members(text)
		for i := range all {
			all[i].Weight = 1
			if all[i].Name == name {
				by(&all[i])
			}
		}
		return all
	}
	full := func(m *Member) { m.Capacity.Zones = []topology.Zone{pods("a", "100", "93")} }
	tests := []struct {
		name     string
		workload kinds.Workload
		members  []Member
		spread   topology.Spread
		want     string
		unplaced string
	}{
		{"weights of members", open(9), change("east west", "east", func(m *Member) { m.Weight = 2 }),
			topology.Spread{Type: topology.SpreadWeighted}, "east:6 west:3", ""},
		{"weights without effect", open(8), change("east west", "east", func(m *Member) { m.Weight = 2 }), topology.Spread{},
			"east:4 west:4", ""},
		{"a weight of the policy goes before the member's", open(8),
			change("east west", "east", func(m *Member) { m.Weight = 2 }),
			topology.Spread{Type: topology.SpreadWeighted, Places: []topology.SpreadPlace{{Cluster: "east",
				Weight: new(int32(3))}}}, "east:6 west:2", ""},
		{"weights of zero are nowhere", open(3), change("east", "east", func(m *Member) { m.Weight = 0 }),
			topology.Spread{Type: topology.SpreadWeighted}, "", "Bounds"},
		{"a policy's weights that are all zero are nowhere", open(3), members("east west"), topology.Spread{
			Type: topology.SpreadWeighted, Places: []topology.SpreadPlace{{Cluster: "east", Weight: new(int32(0))},
				{Cluster: "west", Weight: new(int32(0))}},
		}, "", "Bounds"},
		{"two regions, one with two members", open(8), change("east west north", "north",
			func(m *Member) { m.Region = "r2" }), topology.Spread{By: topology.SpreadByRegion}, "east:2 north:4 west:2", ""},
		{"a region's max", open(8), change("east west north", "north", func(m *Member) { m.Region = "r2" }),
			topology.Spread{By: topology.SpreadByRegion, Places: []topology.SpreadPlace{{Region: "r2", Max: number("25%")}}},
			"east:3 north:2 west:3", ""},
		{"regions by weight", open(9), change("east west north", "north", func(m *Member) { m.Region = "r2" }),
			topology.Spread{
				By: topology.SpreadByRegion, Type: topology.SpreadWeighted,
				Places: []topology.SpreadPlace{{Region: "r1", Weight: new(int32(2))}},
			}, "east:3 north:3 west:3", ""},
		{"a cluster's max", open(8), members("east west"),
			topology.Spread{Places: []topology.SpreadPlace{{Cluster: "east", Max: number("25%")}}}, "east:2 west:6", ""},
		{"bounds that no fleet can meet", open(9), members("east west"),
			topology.Spread{Places: []topology.SpreadPlace{{Cluster: "east", Max: number("2")},
				{Cluster: "west", Max: number("3")}}}, "east:2 west:3", "Bounds"},
		{"a zone's max over clusters", open(9), members("east/a,b west/b"),
			topology.Spread{By: topology.SpreadByZone, Places: []topology.SpreadPlace{{Zone: "b", Max: number("2")}}},
			"east/a:7 east/b:1 west/b:1", ""},
		{"a zone that is named makes cells of zones", open(8), members("east/a,b west/c"),
			topology.Spread{Places: []topology.SpreadPlace{{Zone: "b", Max: number("1")}}}, "east/a:3 east/b:1 west/c:4", ""},
		{"a cluster's max over all subsets", subsets(12, "a: b:"), members("east west"),
			topology.Spread{Places: []topology.SpreadPlace{{Cluster: "east", Max: number("4")}}},
			"a/east:2 a/west:4 b/east:2 b/west:4", ""},
		{"a full member", sized(open(9), ""), change("east west", "east", full), topology.Spread{}, "east:2 west:7", ""},
		{"a full fleet", sized(open(9), ""), change("east", "east", full), topology.Spread{}, "east:2", "Capacity"},
		{"room that subsets share", sized(subsets(12, "a: b:"), ""), change("east west", "east", full), topology.Spread{},
			"a/east:1 a/west:5 b/east:1 b/west:5", ""},
		{"a zone without a node that is ready", sized(open(8), ""), change("east/a,b west/b", "east", func(m *Member) {
			m.Capacity.Zones = []topology.Zone{{Name: "a", Nodes: 2}, pods("b", "100", "0")}
		}), topology.Spread{By: topology.SpreadByZone}, "east/a:0 east/b:4 west/b:4", ""},
		{"pods that are too large", sized(open(4), "600"),
			change("east west", "east", func(m *Member) { m.Capacity.Zones = []topology.Zone{pods("a", "100", "0")} }),
			topology.Spread{}, "east:1 west:3", ""},
		{"available", sized(open(30), ""), change("east west", "east",
			func(m *Member) { m.Capacity.Zones = []topology.Zone{pods("a", "20", "9")} }),
			topology.Spread{Type: topology.SpreadAvailable}, "east:10 west:20", ""},
		{"taints", open(6), change("east west", "east", func(m *Member) { m.Taint = division.NoSchedule }), topology.Spread{},
			"west:6", ""},
		{"only taints", open(6), change("east", "east", func(m *Member) { m.Taint = division.NoExecute }), topology.Spread{},
			"", "Tainted"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := Facts{Workload: tc.workload, Members: tc.members, Spread: tc.spread}
			d := plan(t, f)
			unplaced := ""
			for _, u := range d.Spec.Unplaced {
				unplaced += u.Reason.Code
			}
			if got := show(d.Spec.Cells); got != tc.want || unplaced != tc.unplaced {
				t.Errorf("cells %q, unplaced %q; want %q, %q", got, unplaced, tc.want, tc.unplaced)
			}
			checkDecision(t, 0, &f, &d.Spec)
		})
	}
}

// What a member was told and has not created yet takes its room, and what is there is not counted twice.
func TestRoomIsSpentOnce(t *testing.T) {
	all := members("east")
	all[0].Capacity.Zones = []topology.Zone{pods("a", "100", "85")} // 10 fit
	f := Facts{Workload: sized(open(6), ""), Members: all}
	first := plan(t, f).Spec
	f.Last, f.Workload = &first, sized(open(12), "")
	if d := plan(t, f); d.Spec.Placed != 10 {
		t.Errorf("placed %d before the member has created anything, 10 fit", d.Spec.Placed)
	}
	f.Reports = reports(&first, 0)
	all[0].Capacity.Zones = []topology.Zone{pods("a", "100", "91")}
	if d := plan(t, f); d.Spec.Placed != 10 {
		t.Errorf("placed %d after 6 were created, 4 more fit", d.Spec.Placed)
	}
	all[0].Capacity.Zones = []topology.Zone{pods("a", "100", "100")}
	if d := plan(t, f); d.Spec.Placed != 6 {
		t.Errorf("placed %d, but a full member keeps what it has and gets nothing new", d.Spec.Placed)
	}
}

func TestReportedAmountsAreClamped(t *testing.T) {
	of := kinds.PodRequests(&corev1.PodTemplateSpec{})
	tests := []struct {
		name string
		zone topology.Zone
		want int32
	}{
		{"5 % are left", pods("a", "100", "0"), 95},
		{"negative", pods("a", "-100", "0"), 0},
		{"a negative request gives no room", pods("a", "100", "-100"), 95},
		{"more requested than there is", pods("a", "100", "1000"), 0},
		{"huge", pods("a", "9E", "0"), capacity.MostPods},
		{"beyond 64 bits", pods("a", "1e30", "0"), capacity.MostPods},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := (&capacity.Capacity{Zones: []topology.Zone{tc.zone}}).Room(nil, of); got == nil || *got != tc.want {
				t.Errorf("room %v, want %d", got, tc.want)
			}
		})
	}
	if got := new(capacity.Capacity).Room(nil, of); got != nil {
		t.Errorf("a member that reports no zone has room for %d, not for an unknown number", *got)
	}
}

func TestTolerations(t *testing.T) {
	taints := []corev1.Taint{
		{Key: "spot", Value: "yes", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "drain", Effect: corev1.TaintEffectNoExecute},
	}
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		want        division.Effect
	}{
		{"the strongest counts", nil, division.NoExecute},
		{"the other is left", []corev1.Toleration{{Key: "drain", Operator: corev1.TolerationOpExists}},
			division.PreferNoSchedule},
		{"another value", []corev1.Toleration{{Key: "drain"}, {Key: "spot", Value: "no"}}, division.PreferNoSchedule},
		{"all", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, ""},
		{"an effect", []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			division.PreferNoSchedule},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := untolerated(taints, tc.tolerations); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
