package decision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// workloadSpread reads "x:a=30% y:east= z:": name:zone or cluster=maxReplicas.
func workloadSpread(name, text string) apps.WorkloadSpread {
	ws := apps.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	ws.Spec.TargetReference = &apps.TargetReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"}
	for _, part := range strings.Fields(text) {
		rest, limit, _ := strings.Cut(part, "=")
		subset, at, _ := strings.Cut(rest, ":")
		s := apps.WorkloadSpreadSubset{Name: subset}
		if limit != "" {
			s.MaxReplicas = new(intstr.Parse(limit))
		}
		if at != "" {
			key := corev1.LabelTopologyZone
			if len(at) > 1 {
				key = topology.LabelCluster
			}
			s.RequiredNodeSelector = &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{at}}}}
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

// spreadFacts reads what the WorkloadSpreads say; nil for none.
func spreadFacts(t *testing.T, w kinds.Workload, text string) *kinds.Division {
	t.Helper()
	if text == "" {
		return nil
	}
	facts, remarks, refusal := divisionOf(&w, &apps.CloneSet{}, []apps.WorkloadSpread{workloadSpread("ws", text)})
	if refusal != nil || len(remarks) > 0 {
		t.Fatalf("refused: %+v, %v", refusal, remarks)
	}
	return facts
}

// showSpread prints cells as "subset@cluster/zone:replicas".
func showSpread(cells []topology.Cell) string {
	var parts []string
	for _, c := range cells {
		at := c.Cluster
		if c.Zone != "" {
			at += "/" + c.Zone
		}
		parts = append(parts, fmt.Sprintf("%s@%s:%d", c.SpreadSubset, at, c.Replicas))
	}
	return strings.Join(parts, " ")
}

func TestWorkloadSpreads(t *testing.T) {
	type stage struct {
		reason   string
		replicas int32
		members  string
		spread   string
		want     string
	}
	for name, stages := range map[string][]stage{
		"filled in their order": {
			{"the first has room for all", 4, "east/a west/b", "x:a=4 y:b=", "x@east/a:4"},
			{"the rest goes to the next", 9, "east/a west/b", "x:a=4 y:b=", "x@east/a:4 y@west/b:5"},
			{"scaled in, the last is emptied first", 3, "east/a west/b", "x:a=4 y:b=", "x@east/a:3 y@west/b:0"},
		},
		"percentages round up, once for all members": {
			{"10", 10, "east/a west/a south/b", "x:a=30% y:b=70%", "x@east/a:1 y@south/b:7 x@west/a:2"},
			{"5", 5, "east/a west/a south/b", "x:a=30% y:b=70%", "x@east/a:1 y@south/b:3 x@west/a:1"},
		},
		"above the sum of the caps": {
			{"the rest is in no subset", 8, "east/a west/b", "x:a=2 y:b=3", "@east:2 x@east/a:2 @west:1 y@west/b:3"},
		},
		"clusters": {
			{"named by their pseudo label", 6, "east west", "x:west=4 y:east=", "y@east:2 x@west:4"},
		},
		"a subset that matches no member is left out": {
			{"the next one takes its part", 6, "east/a", "x:q=4 y:a=", "y@east/a:6"},
			{"until one does", 6, "east/a west/q", "x:q=4 y:a=", "y@east/a:2 x@west/q:4"},
		},
		"a member that is not Ready keeps what it has": {
			{"two members", 6, "east/a west/a", "x:a=", "x@east/a:3 x@west/a:3"},
			{"one is away", 8, "east!/a west/a", "x:a=", "x@east/a:3 x@west/a:5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last *topology.WorkloadPlacementSpec
			for _, s := range stages {
				f := Facts{Workload: open(s.replicas), Members: members(s.members), Last: last}
				f.Division = spreadFacts(t, f.Workload, s.spread)
				if last != nil {
					f.Reports = reports(last, 0)
				}
				d := plan(t, f)
				if got := showSpread(d.Spec.Cells); got != s.want {
					t.Errorf("%s: %q, want %q", s.reason, got, s.want)
				}
				checkDecision(t, 0, &f, &d.Spec)
				last = &d.Spec
			}
		})
	}
}

// A WorkloadSpread that comes, changes or goes moves no more between members than its subsets ask for.
func TestWorkloadSpreadsComeAndGo(t *testing.T) {
	total := func(spec *topology.WorkloadPlacementSpec) map[string]int32 {
		sum := map[string]int32{}
		for _, c := range spec.Cells {
			sum[c.Cluster] += c.Replicas
		}
		return sum
	}
	f := Facts{Workload: open(9), Members: members("east/a,b west/b south/c")}
	spec := plan(t, f).Spec
	want := total(&spec)
	for _, step := range []string{"x:=4 y:", "y:=2 x:=7", "x:b=6 y:", "", "z:=100%", "x:=2 y:=2", ""} {
		f.Last, f.Reports = &spec, reports(&spec, 0)
		f.Division = spreadFacts(t, f.Workload, step)
		d := plan(t, f)
		checkDecision(t, 0, &f, &d.Spec)
		if got := total(&d.Spec); !cmp.Equal(got, want) {
			t.Errorf("%q: %v, want %v", step, got, want)
		}
		for _, c := range d.Spec.Cells {
			if c.Sequence <= spec.Sequence && spec.Spread != nil && d.Spec.Spread != nil && *spec.Spread != *d.Spec.Spread {
				t.Errorf("%q: the order of %s did not change", step, c.Cluster)
			}
		}
		spec = d.Spec
	}
}

func TestReadSpread(t *testing.T) {
	w := open(10)
	set := &apps.CloneSet{}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	old, young := workloadSpread("old", "x:=30% y:=70%"), workloadSpread("young", "x:")
	young.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	change := func(by func(*apps.WorkloadSpread)) []apps.WorkloadSpread {
		ws := *old.DeepCopy()
		by(&ws)
		return []apps.WorkloadSpread{ws}
	}
	for name, tc := range map[string]struct {
		spreads []apps.WorkloadSpread
		used    bool
		says    string
		refused string
	}{
		"none": {nil, false, "", ""},
		"the oldest": {[]apps.WorkloadSpread{old, young}, true,
			"WorkloadSpread young is not used, because the older old names the same CloneSet", ""},
		"above": {[]apps.WorkloadSpread{workloadSpread("few", "x:=3 y:=4")}, true,
			"3 replicas are above the sum of the maxReplicas of WorkloadSpread few", ""},
		"paths": {change(func(ws *apps.WorkloadSpread) {
			ws.Spec.TargetFilter = &apps.TargetFilter{ReplicasPathList: []string{"spec.x"}}
		}), true, "replicasPathList", ""},
		"other labels": {change(func(ws *apps.WorkloadSpread) {
			ws.Spec.TargetFilter = &apps.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}}
		}), false, "does not match the labels", ""},
		"its labels": {change(func(ws *apps.WorkloadSpread) {
			ws.Spec.TargetFilter = &apps.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
		}), true, "", ""},
		"bad labels": {change(func(ws *apps.WorkloadSpread) {
			ws.Spec.TargetFilter = &apps.TargetFilter{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}
		}), false, "", "targetFilter.selector of WorkloadSpread old for CloneSet ns/web cannot be used"},
		"a bad cap": {change(func(ws *apps.WorkloadSpread) { ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromString("many")) }), false, "", `maxReplicas of subset "x" of WorkloadSpread old for CloneSet ns/web`},
	} {
		t.Run(name, func(t *testing.T) {
			facts, remarks, refusal := divisionOf(&w, set, tc.spreads)
			if (facts != nil) != tc.used {
				t.Errorf("used %v, want %v", facts != nil, tc.used)
			}
			if facts != nil {
				remarks = append(remarks, facts.Remarks...)
			}
			if says := strings.Join(remarks, "; "); !strings.Contains(says, tc.says) || tc.says == "" && says != "" {
				t.Errorf("it says %q, want %q", says, tc.says)
			}
			if got := fmt.Sprintf("%+v", refusal); (refusal != nil) != (tc.refused != "") ||
				!strings.Contains(got, tc.refused) && refusal != nil {
				t.Errorf("refusal %+v, want %q", refusal, tc.refused)
			}
		})
	}
	if facts, _, _ := divisionOf(&w, set, []apps.WorkloadSpread{old}); facts == nil || len(facts.Parts) != 2 ||
		facts.Parts[0].Max.IntVal != 3 || facts.Parts[1].Max.IntVal != 7 {
		t.Errorf("%+v, want caps of 3 and 7", facts)
	}
	other := workloadSpread("other", "x:")
	other.Spec.TargetReference = &apps.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	if key, ok := kindFor(set).Divider.Target(&other); ok {
		t.Errorf("%v is woken by a WorkloadSpread of a Deployment", key)
	}
}
