package placement

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// kindFor returns what the hub knows of a workload's kind.
func kindFor(o kinds.Object) kinds.Kind {
	if _, ok := o.(*apps.CloneSet); ok {
		return kinds.Workloads()[apps.CloneSetKind.GroupKind()]
	}
	return kinds.Workloads()[apps.UnitedDeploymentKind.GroupKind()]
}

func readCloneSet(o *apps.CloneSet) (kinds.Workload, *kinds.Rejection) { return kindFor(o).Read(o) }

func readUnitedDeployment(o *apps.UnitedDeployment) (kinds.Workload, *kinds.Rejection) {
	return kindFor(o).Read(o)
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

func cloneSet(change ...func(*apps.CloneSet)) *apps.CloneSet {
	cs := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	cs.Spec.Template.PodTemplateSpec = podTemplate()
	cs.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{}
	for _, c := range change {
		c(cs)
	}
	return cs
}

func unitedDeployment(change ...func(*apps.UnitedDeployment)) *apps.UnitedDeployment {
	ud := &apps.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	ud.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ud.Spec.Template.DeploymentTemplate = &apps.DeploymentTemplateSpec{Spec: apps.NativeDeploymentSpec{DeploymentSpec: appsv1.DeploymentSpec{Template: podTemplate()}}}
	ud.Spec.Topology.Subsets = []apps.Subset{{Name: "a"}, {Name: "b"}}
	for _, c := range change {
		c(ud)
	}
	return ud
}

// members reads "east/a,b west/b,? south!/c": name/zones, "?" for nodes without a zone, "!" for not Ready, "-" for not
// selected.
func members(text string) []decision.Member {
	var out []decision.Member
	for _, part := range strings.Fields(text) {
		name, zones, _ := strings.Cut(part, "/")
		m := decision.Member{Selected: true, Ready: true, Region: "r1"}
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

// plan decides; members that are Ready, and of which the facts do not say when they were heard last, are heard just
// now.
func plan(t *testing.T, f decision.Facts) decision.Decision {
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
	d, refusal := decision.Plan(f)
	if refusal != nil {
		t.Fatalf("refused: %+v", refusal)
	}
	return d
}

// carryOut makes every member report its last order as done.
func carryOut(f *decision.Facts, d *decision.Decision) {
	f.Last, f.Reports = &d.Spec, map[string]capacity.Report{}
	for i := range d.Spec.Cells {
		c := &d.Spec.Cells[i]
		r, ok := f.Reports[c.Cluster]
		if !ok {
			r = capacity.Report{Sequence: c.Sequence, Applied: true, Use: map[string]work.SubsetUse{}}
			f.Reports[c.Cluster] = r
		}
		use := r.Use[c.Subset]
		use.Desired, use.Total, use.Available = use.Desired+c.Replicas, use.Total+c.Replicas, use.Available+c.Replicas
		use.Updated, use.UpdatedAvailable = use.Updated+c.Granted.Updated, use.UpdatedAvailable+c.Granted.Updated
		use.CanGoBack = use.Updated < use.Total
		r.Use[c.Subset] = use
	}
}

// shares prints what each cell may update.
func shares(d *decision.Decision) string {
	var parts []string
	for i := range d.Spec.Cells {
		parts = append(parts, fmt.Sprintf("%s:%d", d.Spec.Cells[i].Cluster, d.Spec.Cells[i].Granted.Updated))
	}
	return strings.Join(parts, " ")
}
