package kinds

import (
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

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

func TestCloneSetAmounts(t *testing.T) {
	value := func(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }
	tests := []struct {
		reason string
		change func(*apps.CloneSet)
		n      int32
		want   lending.Amounts
	}{
		{"the default of 20 % rounds up", func(*apps.CloneSet) {}, 9, lending.Amounts{Updated: 9, Unavailable: 2}},
		{"50 % of 11 stay, rounded up", func(cs *apps.CloneSet) { cs.Spec.UpdateStrategy.RollingUpdate.Partition = value("50%") }, 11, lending.Amounts{Updated: 5, Unavailable: 3}},
		{"99 % leaves one to update", func(cs *apps.CloneSet) { cs.Spec.UpdateStrategy.RollingUpdate.Partition = value("99%") }, 10, lending.Amounts{Updated: 1, Unavailable: 2}},
		{"with surge, unavailable rounds down", func(cs *apps.CloneSet) {
			cs.Spec.UpdateStrategy.RollingUpdate.MaxSurge, cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = value("25%"),
				value("25%")
		}, 10, lending.Amounts{Updated: 10, Unavailable: 2, Surge: 3}},
		{"OnDelete does not use the limits of a rolling update", func(cs *apps.CloneSet) {
			cs.Spec.UpdateStrategy.Type = apps.OnDeleteCloneSetUpdateStrategyType
			cs.Spec.UpdateStrategy.RollingUpdate.Partition, cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = value("50%"),
				value("100%")
		}, 10, lending.Amounts{Updated: 10, Unavailable: 2}},
		{"never 0 and 0", func(cs *apps.CloneSet) { cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = value("0") }, 10,
			lending.Amounts{Updated: 10, Unavailable: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			w, refusal := readCloneSet(cloneSet(tt.change))
			if refusal != nil {
				t.Fatal(refusal)
			}
			if got := w.Subsets[0].Amounts(tt.n); got != tt.want {
				t.Errorf("amounts %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestUnitedDeploymentAmounts(t *testing.T) {
	partitioned := func(ud *apps.UnitedDeployment) {
		ud.Spec.UpdateStrategy.ManualUpdate = &apps.ManualUpdate{Partitions: map[string]int32{"a": 3, "b": 99}}
	}
	ofCloneSets := func(ud *apps.UnitedDeployment) {
		ud.Spec.Template = apps.SubsetTemplate{CloneSetTemplate: &apps.CloneSetTemplateSpec{Spec: apps.CloneSetSpec{Template: apps.NewPodTemplate(podTemplate())}}}
	}
	ofStatefulSets := func(unavailable string) func(*apps.UnitedDeployment) {
		return func(ud *apps.UnitedDeployment) {
			spec := appsv1.StatefulSetSpec{Template: podTemplate()}
			if unavailable != "" {
				spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.Parse(unavailable))}
			}
			ud.Spec.Template = apps.SubsetTemplate{StatefulSetTemplate: &apps.StatefulSetTemplateSpec{Spec: apps.NativeStatefulSetSpec{StatefulSetSpec: spec}}}
		}
	}
	tests := []struct {
		reason string
		object *apps.UnitedDeployment
		a, b   lending.Amounts
	}{
		{"a partition above the subset's replicas keeps all", unitedDeployment(ofCloneSets, partitioned),
			lending.Amounts{Updated: 5, Unavailable: 2}, lending.Amounts{Updated: 0, Unavailable: 2}},
		{"a Deployment has no partition: all its pods are updated", unitedDeployment(partitioned),
			lending.Amounts{Updated: 8, Unavailable: 2, Surge: 2}, lending.Amounts{Updated: 8, Unavailable: 2, Surge: 2}},
		{"StatefulSets take one pod at a time", unitedDeployment(ofStatefulSets(""), partitioned),
			lending.Amounts{Updated: 5, Unavailable: 1}, lending.Amounts{Updated: 0, Unavailable: 1}},
		{"StatefulSets with maxUnavailable, which rounds down", unitedDeployment(ofStatefulSets("45%")),
			lending.Amounts{Updated: 8, Unavailable: 3}, lending.Amounts{Updated: 8, Unavailable: 3}},
		{"StatefulSets with a percentage of less than one pod", unitedDeployment(ofStatefulSets("1%")),
			lending.Amounts{Updated: 8, Unavailable: 1}, lending.Amounts{Updated: 8, Unavailable: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			w, refusal := readUnitedDeployment(tt.object)
			if refusal != nil {
				t.Fatal(refusal)
			}
			if a, b := w.Subsets[0].Amounts(8), w.Subsets[1].Amounts(8); a != tt.a || b != tt.b {
				t.Errorf("a %+v, b %+v; want %+v, %+v", a, b, tt.a, tt.b)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	read := func(o any) (Workload, *Rejection) {
		if cs, ok := o.(*apps.CloneSet); ok {
			return readCloneSet(cs)
		}
		return readUnitedDeployment(o.(*apps.UnitedDeployment))
	}
	tests := []struct {
		name   string
		object any
		reason string
		text   string
	}{
		{"a selector that does not match", cloneSet(func(cs *apps.CloneSet) { cs.Spec.Selector.MatchLabels["app"] = "other" }), InvalidSelector,
			`the selector "app=other" of CloneSet ns/web does not match the labels "app=web" of its pod template; make them agree`},
		{"a selector of everything", cloneSet(func(cs *apps.CloneSet) { cs.Spec.Selector = &metav1.LabelSelector{} }),
			InvalidSelector, "would select every pod"},
		{"a template that cannot be decoded", cloneSet(func(cs *apps.CloneSet) {
			cs.Spec.Template.Undecoded = []byte(`{"spec":{"containers":"x"}}`)
		}), InvalidTemplate, `the template of CloneSet ns/web cannot be used: spec.template.spec.containers: Invalid value: "x": must be of type array`},
		{"a template of StatefulSets that cannot be decoded", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Template = apps.SubsetTemplate{StatefulSetTemplate: &apps.StatefulSetTemplateSpec{
				Spec: apps.NativeStatefulSetSpec{Undecoded: []byte(`{"serviceName":5}`)},
			}}
		}), InvalidTemplate, `spec.template.statefulSetTemplate.spec.serviceName: Invalid value: 5: must be of type string`},
		{"a percentage that is none", cloneSet(func(cs *apps.CloneSet) {
			cs.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromString("half"))
		}), InvalidAmount, `"half"`},
		{"a limit of advanced StatefulSets that is none", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Template = apps.SubsetTemplate{AdvancedStatefulSetTemplate: &apps.AdvancedStatefulSetTemplateSpec{
				Spec: apps.StatefulSetSpec{Template: apps.NewPodTemplate(podTemplate()),
					UpdateStrategy: apps.StatefulSetUpdateStrategy{RollingUpdate: &apps.RollingUpdateStatefulSetStrategy{
						MaxUnavailable: new(intstr.FromString("half"))}}}}}
		}), InvalidAmount,
			`spec.template.advancedStatefulSetTemplate.spec.updateStrategy.rollingUpdate of UnitedDeployment ns/web: maxUnavailable "half"`},
		{"no template", unitedDeployment(func(ud *apps.UnitedDeployment) { ud.Spec.Template = apps.SubsetTemplate{} }),
			UnsupportedTemplate, "has no template; give"},
		{"a limit of StatefulSets that is none", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Template = apps.SubsetTemplate{StatefulSetTemplate: &apps.StatefulSetTemplateSpec{Spec: apps.NativeStatefulSetSpec{StatefulSetSpec: appsv1.StatefulSetSpec{Template: podTemplate(),
				UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromString("half"))}}}}}}
		}), InvalidAmount, `spec.template.statefulSetTemplate.spec.updateStrategy.rollingUpdate of UnitedDeployment ns/web: maxUnavailable "half"`},
		{"a partition of nothing", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.UpdateStrategy.ManualUpdate = &apps.ManualUpdate{Partitions: map[string]int32{"z": 1}}
		}), InvalidSubsets, `names subset "z", which does not exist`},
		{"nodes with none of no values", unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Topology.Subsets[1].NodeSelectorTerm.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: "zone",
				Operator: corev1.NodeSelectorOpIn}}
		}), InvalidSubsets, `subset "b" of UnitedDeployment ns/web: nodeSelectorTerm.matchExpressions[0] asks for zone with operator In and no values; name them, or use Exists or DoesNotExist`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, refusal := read(tt.object); refusal == nil || refusal.Reason != tt.reason ||
				!strings.Contains(refusal.Message, tt.text) {
				t.Errorf("refusal %+v", refusal)
			}
		})
	}
}

func TestRevision(t *testing.T) {
	one, _ := readCloneSet(cloneSet())
	same, _ := readCloneSet(cloneSet(func(cs *apps.CloneSet) {
		cs.Spec.MinReadySeconds = 5
		cs.Spec.Template.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log" // the default, written out
	}))
	other, _ := readCloneSet(cloneSet(func(cs *apps.CloneSet) { cs.Spec.Template.Spec.Containers[0].Image = "web:2" }))
	if one.Revision != same.Revision || one.Revision == other.Revision || one.Revision == "" {
		t.Errorf("revisions %q, %q, %q", one.Revision, same.Revision, other.Revision)
	}
	plain, _ := readUnitedDeployment(unitedDeployment())
	patched, _ := readUnitedDeployment(unitedDeployment(func(ud *apps.UnitedDeployment) {
		ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{"spec":{}}`)
	}))
	if plain.Revision == patched.Revision {
		t.Error("a subset's patch changes its pods, but not the revision")
	}
}

// TestKindsThatWork: a message names each kind with the group and version that a policy writes.
func TestKindsThatWork(t *testing.T) {
	const want = "AdvancedCronJob, BroadcastJob, CloneSet, DaemonSet, ImagePullJob, PodProbeMarker, ResourceDistribution, " +
		"SidecarSet, StatefulSet, UnitedDeployment (apps.kruise.io), and PodUnavailableBudget (policy.kruise.io), and ServiceExport " +
		"(multicluster.x-k8s.io/v1alpha1), and ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount (v1)"
	if got := Names(All(HubRunsBuiltIns)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := Names(All(MembersRunBuiltIns)); !strings.HasPrefix(got, want+", and DaemonSet (apps/v1)") &&
		!strings.HasPrefix(got, want+", and Deployment (apps/v1)") {
		t.Errorf("%s", got)
	}
}

// TestReadAdaptive: the published defaults, and times that are too short for members to be asked for.
func TestReadAdaptive(t *testing.T) {
	read := func(a *apps.AdaptiveUnitedDeploymentStrategy) Adaptive {
		w, refusal := readUnitedDeployment(unitedDeployment(func(ud *apps.UnitedDeployment) {
			ud.Spec.Topology.ScheduleStrategy = apps.UnitedDeploymentScheduleStrategy{Type: apps.AdaptiveUnitedDeploymentScheduleStrategyType, Adaptive: a}
		}))
		if refusal != nil || w.Adaptive == nil {
			t.Fatal(refusal, w.Adaptive)
		}
		return *w.Adaptive
	}
	for _, tt := range []struct {
		given *apps.AdaptiveUnitedDeploymentStrategy
		want  Adaptive
	}{
		{nil, Adaptive{30 * time.Second, 5 * time.Minute}},
		{&apps.AdaptiveUnitedDeploymentStrategy{}, Adaptive{30 * time.Second, 5 * time.Minute}},
		{&apps.AdaptiveUnitedDeploymentStrategy{RescheduleCriticalSeconds: new(int32(10)),
			UnschedulableDuration: new(int32(20))}, Adaptive{10 * time.Second, 20 * time.Second}},
		{&apps.AdaptiveUnitedDeploymentStrategy{RescheduleCriticalSeconds: new(int32(0)),
			UnschedulableDuration: new(int32(0))}, Adaptive{time.Second, time.Second}},
	} {
		if got := read(tt.given); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.given, got, tt.want)
		}
	}
	if w, _ := readUnitedDeployment(unitedDeployment()); w.Adaptive != nil {
		t.Errorf("Fixed: %+v", w.Adaptive)
	}
}

// TestRolesOfUsers: who may view or edit a namespace of a hub may do that with what the hub places of apps.kruise.io.
func TestRolesOfUsers(t *testing.T) {
	data, err := os.ReadFile("../../charts/flotilla-crds/templates/roles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range Workloads() {
		resource := "\n  - " + strings.ToLower(name.Kind) + "s\n"
		if kind.ClusterScoped || name.Group != apps.GroupVersion.Group {
			continue
		}
		if found := strings.Count(string(data), resource); found != 2 {
			t.Errorf("%s is in %d roles of the chart, want flotilla-view and flotilla-edit", name.Kind, found)
		}
	}
}
