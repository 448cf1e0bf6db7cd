package uniteddeployment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// parse reads one object of the test's own text.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("parse fixture: %v", err)
	}
	return out
}

// subset writes a subset as "name", "name=4", "name=25%" or "name[min,max]", with either bound left out.
func subset(t *testing.T, text string) kruise.Subset {
	t.Helper()
	number := func(s string) *intstr.IntOrString {
		if s == "" {
			return nil
		}
		return new(intstr.Parse(s))
	}
	if name, replicas, ok := strings.Cut(text, "="); ok {
		return kruise.Subset{Name: name, Replicas: number(replicas)}
	}
	if name, bounds, ok := strings.Cut(text, "["); ok {
		low, high, _ := strings.Cut(strings.TrimSuffix(bounds, "]"), ",")
		return kruise.Subset{Name: name, MinReplicas: number(low), MaxReplicas: number(high)}
	}
	return kruise.Subset{Name: text}
}

const cloneSets = `
metadata: {name: web, namespace: shop, uid: u-1, generation: 1}
spec:
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: main, image: "web:1"}]}
`

const statefulSets = `
metadata: {name: web, namespace: shop, uid: u-1, generation: 1}
spec:
  selector: {matchLabels: {app: web}}
  template:
    statefulSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        serviceName: web
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: main, image: "web:1"}]}
        volumeClaimTemplates:
        - metadata: {name: data}
          spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

const deployments = `
metadata: {name: web, namespace: shop, uid: u-1, generation: 1}
spec:
  selector: {matchLabels: {app: web}}
  template:
    deploymentTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: main, image: "web:1"}]}
`

// fixture is a UnitedDeployment with these subsets and replicas.
func fixture(t *testing.T, base string, replicas int32, subsets ...string) *kruise.UnitedDeployment {
	t.Helper()
	ud := parse[kruise.UnitedDeployment](t, base)
	ud.Spec.Replicas = &replicas
	for _, s := range subsets {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, subset(t, s))
	}
	return ud
}

// asPlanned returns the child that a plan of these observations would create for the subset, with n pods that are ready
// and updated, as if its controller had carried it out.
func asPlanned(t *testing.T, o *observed, name string, n int32) child {
	t.Helper()
	p, err := makePlan(o)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	for _, c := range p.create {
		if c.subset != name {
			continue
		}
		object, _ := c.object.DeepCopyObject().(client.Object)
		object.SetName("web-" + name + "-x")
		object.SetUID(types.UID("uid-" + string(c.kind) + name))
		object.SetGeneration(1)
		switch live := object.(type) {
		case *kruise.CloneSet:
			live.Spec.Replicas = &n
			live.Status = kruise.CloneSetStatus{ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n,
				UpdatedReplicas: n, UpdatedReadyReplicas: n, UpdatedAvailableReplicas: n}
		case *appsv1.Deployment:
			live.Spec.Replicas = &n
			live.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n,
				UpdatedReplicas: n}
		case *appsv1.StatefulSet:
			live.Spec.Replicas = &n
			live.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n,
				UpdatedReplicas: n}
		}
		return childOf(object)
	}
	t.Fatalf("the plan creates nothing for subset %s", name)
	return child{}
}

func TestDivision(t *testing.T) {
	tests := []struct {
		why     string
		subsets []string
		current map[string]int32
		n       int32
		want    string
	}{
		{why: "two quarters and the rest, 1", subsets: []string{"s0=25%", "s1=25%", "s2"}, n: 1, want: "0 0 1"},
		{why: "two quarters and the rest, 2", subsets: []string{"s0=25%", "s1=25%", "s2"}, n: 2, want: "1 1 0"},
		{why: "two quarters and the rest, 7", subsets: []string{"s0=25%", "s1=25%", "s2"}, n: 7, want: "2 2 3"},
		{why: "all open and new: names decide", subsets: []string{"a", "b", "c"}, n: 7, want: "2 2 3"},
		{why: "all open: the largest keeps its odd one", subsets: []string{"a", "b", "c"},
			current: map[string]int32{"a": 3, "b": 2, "c": 2}, n: 7, want: "3 2 2"},
		{why: "all open, one more", subsets: []string{"a", "b", "c"}, current: map[string]int32{"a": 3, "b": 2, "c": 2}, n: 8,
			want: "3 2 3"},
		{why: "one fixed", subsets: []string{"a=4", "b", "c"}, n: 10, want: "4 3 3"},
		{why: "percentages that make no 100 % of 10 exactly", subsets: []string{"a=33%", "b=33%", "c=34%"}, n: 10,
			want: "3 3 4"},
		{why: "floors first, in order", subsets: []string{"a[2,4]", "b[2,]"}, n: 3, want: "2 1"},
		{why: "then up to the maxima, in order", subsets: []string{"a[2,4]", "b[2,]"}, n: 5, want: "3 2"},
		{why: "the unlimited one takes what is left", subsets: []string{"a[2,4]", "b[2,]"}, n: 10, want: "4 6"},
		{why: "percent bounds", subsets: []string{"a[30%,50%]", "b[20%,]", "c[,3]"}, n: 10, want: "5 5 0"},
		{why: "scaled to zero", subsets: []string{"a[2,4]", "b[2,]"}, n: 0, want: "0 0"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			o := &observed{ud: fixture(t, cloneSets, tt.n, tt.subsets...), revision: "web-1"}
			for name, n := range tt.current {
				c := asPlanned(t, &observed{ud: o.ud, revision: "web-1"}, name, n)
				o.children = append(o.children, c)
			}
			p, err := makePlan(o)
			if err != nil || p.refused != nil {
				t.Fatalf("plan: %v, %v", err, p.refused)
			}
			got := make([]string, 0, len(p.subsets))
			for _, s := range p.subsets {
				got = append(got, fmt.Sprint(s.desired))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %s, want %s", strings.Join(got, " "), tt.want)
			}
		})
	}
}

// actions prints what a plan does, in one line each.
func actions(p *plan) []string {
	var out []string
	for _, c := range p.create {
		out = append(out, fmt.Sprintf("create %s %s %d", c.kind, c.subset, childOf(c.object).replicas))
	}
	for _, c := range p.change {
		out = append(out, fmt.Sprintf("change %s to %d", c.live.name(), childOf(c.object).replicas))
	}
	for _, d := range p.drain {
		out = append(out, fmt.Sprintf("drain %s to %d", d.child.name(), d.keeps))
	}
	for _, c := range p.remove {
		out = append(out, "remove "+c.name())
	}
	for _, bad := range p.problems {
		out = append(out, bad.reason)
	}
	if p.refused != nil {
		out = append(out, "refused "+p.refused.reason)
	}
	return out
}

func TestPlan(t *testing.T) {
	base := func(n int32, subsets ...string) *observed {
		return &observed{ud: fixture(t, cloneSets, n, subsets...), revision: "web-1", known: map[types.UID]written{}}
	}
	// running is a UnitedDeployment at rest, 2 pods in each of these subsets, and then with the subsets of now.
	running := func(n int32, before, now []string) *observed {
		o := base(int32(2*len(before)), before...)
		children := make([]child, 0, len(before))
		for _, s := range before {
			children = append(children, asPlanned(t, &observed{ud: o.ud, revision: o.revision},
				strings.TrimRight(s, "=0123456789"), 2))
		}
		next := base(n, now...)
		next.children = children
		return next
	}
	tests := []struct {
		why  string
		in   func() *observed
		want []string
	}{
		{"a new object", func() *observed { return base(4, "a", "b") },
			[]string{"create CloneSet a 2", "create CloneSet b 2"}},
		{"at rest", func() *observed { return running(4, []string{"a", "b"}, []string{"a", "b"}) }, nil},
		{"scaled: the odd one goes to the greatest name among equals",
			func() *observed { return running(5, []string{"a", "b"}, []string{"a", "b"}) },
			[]string{"change CloneSet web-b-x to 3"}},
		{"a subset removed: the other grows first", func() *observed { return running(4, []string{"a", "b"}, []string{"a"}) },
			[]string{"change CloneSet web-a-x to 4"}},
		{"a subset removed: drained by as many as the other has more", func() *observed {
			o := running(4, []string{"a", "b"}, []string{"a"})
			grown, _ := o.children[0].object.DeepCopyObject().(*kruise.CloneSet)
			grown.Spec.Replicas, grown.Status.AvailableReplicas = new(int32(4)), 3
			o.children[0] = fromCloneSet(grown)
			return o
		}, []string{"drain CloneSet web-b-x to 1"}},
		{"a subset removed that serves nobody", func() *observed {
			o := running(4, []string{"a", "b"}, []string{"a"})
			o.children[1].pods.available = 0
			return o
		}, []string{"change CloneSet web-a-x to 4", "drain CloneSet web-b-x to 0"}},
		{"a subset removed and fewer replicas asked for",
			func() *observed { return running(2, []string{"a", "b"}, []string{"a"}) },
			[]string{"drain CloneSet web-b-x to 0"}},
		{"a removed subset without pods goes", func() *observed {
			o := running(2, []string{"a", "b"}, []string{"a"})
			empty, _ := o.children[1].object.DeepCopyObject().(*kruise.CloneSet)
			empty.Spec.Replicas, empty.Status.Replicas = new(int32(0)), 0
			o.children[1] = fromCloneSet(empty)
			return o
		}, []string{"remove CloneSet web-b-x"}},
		{"a removed subset whose controller has not seen the drain stays", func() *observed {
			o := running(2, []string{"a", "b"}, []string{"a"})
			unseen, _ := o.children[1].object.DeepCopyObject().(*kruise.CloneSet)
			unseen.Spec.Replicas, unseen.Status.Replicas, unseen.Generation = new(int32(0)), 0, 2
			o.children[1] = fromCloneSet(unseen)
			return o
		}, nil},
		{"a second child of a subset with pods is reported and left alone", func() *observed {
			o := running(2, []string{"a"}, []string{"a"})
			twin, _ := o.children[0].object.DeepCopyObject().(*kruise.CloneSet)
			twin.Name, twin.UID, twin.CreationTimestamp = "twin", "uid-twin", metav1.NewTime(time.Unix(1000, 0))
			o.children = append(o.children, fromCloneSet(twin))
			return o
		}, []string{ReasonDuplicateChild}},
		{"all subsets at their maximum", func() *observed { return base(9, "a[,2]", "b[,3]") },
			[]string{"create CloneSet a 2", "create CloneSet b 3", ReasonNotPlaced}},
		{"another image with the revision unseen by the cache of children is a change", func() *observed {
			o := running(2, []string{"a"}, []string{"a"})
			o.revision = "web-2"
			return o
		}, []string{"change CloneSet web-a-x to 2"}},
		{"our own write that the cache has not seen is not repeated", func() *observed {
			o := running(3, []string{"a"}, []string{"a"})
			p, err := makePlan(o)
			if err != nil {
				t.Fatal(err)
			}
			o.known[p.change[0].live.object.GetUID()] = written{p.change[0].content, 2, 3}
			return o
		}, nil},
		{"what the server made of our content is not written again", func() *observed {
			o := running(2, []string{"a"}, []string{"a"})
			p, err := makePlan(&observed{ud: o.ud, revision: o.revision})
			if err != nil {
				t.Fatal(err)
			}
			live, _ := o.children[0].object.DeepCopyObject().(*kruise.CloneSet)
			live.Spec.Template.Spec.PriorityClassName = "set-by-a-webhook"
			o.children[0] = fromCloneSet(live)
			o.known[live.UID] = written{p.create[0].content, live.Generation, 2}
			return o
		}, nil},
		{"drift is repaired", func() *observed {
			o := running(2, []string{"a"}, []string{"a"})
			live, _ := o.children[0].object.DeepCopyObject().(*kruise.CloneSet)
			live.Spec.Template.Spec.PriorityClassName, live.Generation = "by hand", 2
			o.children[0] = fromCloneSet(live)
			return o
		}, []string{"change CloneSet web-a-x to 2"}},
		{"a patch that is no patch", func() *observed {
			o := base(2, "a")
			o.ud.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{"spec":{"containers":"none"}}`)
			return o
		}, []string{"refused " + ReasonInvalidPatch}},
		{"a percentage that is none", func() *observed { return base(2, "a=150%") },
			[]string{"refused " + ReasonInvalidSubsets}},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			p, err := makePlan(tt.in())
			if err != nil {
				t.Fatalf("plan: %v", err)
			}
			if diff := cmp.Diff(tt.want, actions(p)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnotherKind checks that children of a new kind come before those of the old kind go.
func TestAnotherKind(t *testing.T) {
	old := asPlanned(t, &observed{ud: fixture(t, cloneSets, 2, "a"), revision: "web-1"}, "a", 2)
	o := &observed{ud: fixture(t, deployments, 2, "a"), revision: "web-2", children: []child{old}}
	step := func(why string, want ...string) {
		t.Helper()
		p, err := makePlan(o)
		if err != nil {
			t.Fatalf("plan: %v", err)
		}
		if diff := cmp.Diff(want, actions(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	step("the new child comes, the old one stays", "create Deployment a 2")
	fresh := asPlanned(t, o, "a", 2)
	fresh.pods.available = 1
	o.children = append(o.children, fresh)
	step("one pod of the new child is missing")
	o.children[1].pods.available = 2
	step("the new child has all its pods", "drain CloneSet web-a-x to 0")
}

func TestRefuse(t *testing.T) {
	tests := []struct {
		why    string
		change func(*kruise.UnitedDeployment)
		want   string
	}{
		{"fine", func(*kruise.UnitedDeployment) {}, ""},
		{"StatefulSet", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Template = kruise.SubsetTemplate{StatefulSetTemplate: &kruise.StatefulSetTemplateSpec{}}
		}, ""},
		{"advanced StatefulSet", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Template = kruise.SubsetTemplate{AdvancedStatefulSetTemplate: &kruise.AdvancedStatefulSetTemplateSpec{}}
		}, ""},
		{"advanced StatefulSets with reserved pods", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Template = kruise.SubsetTemplate{AdvancedStatefulSetTemplate: &kruise.AdvancedStatefulSetTemplateSpec{}}
			ud.Spec.Topology.ScheduleStrategy.Type = kruise.AdaptiveUnitedDeploymentScheduleStrategyType
			ud.Spec.Topology.ScheduleStrategy.Adaptive = &kruise.AdaptiveUnitedDeploymentStrategy{ReserveUnschedulablePods: true}
		}, ReasonUnsupportedSchedule},
		{"StatefulSets with reserved pods", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Template = kruise.SubsetTemplate{StatefulSetTemplate: &kruise.StatefulSetTemplateSpec{}}
			ud.Spec.Topology.ScheduleStrategy.Type = kruise.AdaptiveUnitedDeploymentScheduleStrategyType
			ud.Spec.Topology.ScheduleStrategy.Adaptive = &kruise.AdaptiveUnitedDeploymentStrategy{ReserveUnschedulablePods: true}
		}, ReasonUnsupportedSchedule},
		{"no template", func(ud *kruise.UnitedDeployment) { ud.Spec.Template = kruise.SubsetTemplate{} },
			ReasonUnsupportedTemplate},
		{"a template that cannot be decoded", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Template.CloneSetTemplate.Spec.Template.Undecoded = []byte(`{"spec":{"containers":"x"}}`)
		}, ReasonInvalidTemplate},
		{"Adaptive", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Topology.ScheduleStrategy.Type = kruise.AdaptiveUnitedDeploymentScheduleStrategyType
		}, ""},
		{"no subsets", func(ud *kruise.UnitedDeployment) { ud.Spec.Topology.Subsets = nil }, ReasonInvalidSubsets},
		{"no selector", func(ud *kruise.UnitedDeployment) { ud.Spec.Selector = nil }, ReasonInvalidSelector},
		{"a selector that cannot be read", func(ud *kruise.UnitedDeployment) {
			ud.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a",
				Operator: "Near"}}}
		}, ReasonInvalidSelector},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			ud := fixture(t, cloneSets, 2, "a")
			tt.change(ud)
			got := ""
			if why := refuse(ud); why != nil {
				got = why.reason
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRender compares rendered children with the files of testdata. FLOTILLA_UPDATE_GOLDEN=1 writes them.
func TestATemplateThatCannotBeDecodedScalesToZeroOnly(t *testing.T) {
	for replicas, want := range map[int32]string{
		2: "refused InvalidTemplate", 0: "drain CloneSet web-a-x to 0, refused InvalidTemplate",
	} {
		ud := fixture(t, cloneSets, replicas, "a")
		o := &observed{ud: ud}
		o.children = append(o.children, asPlanned(t, o, "a", 2))
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Undecoded = []byte(`{"spec":{"containers":"x"}}`)
		p := refusedPlan(o, refuse(ud))
		if got := strings.Join(actions(p), ", "); got != want ||
			!strings.Contains(p.refused.message, `containers: Invalid value: "x"`) {
			t.Errorf("%d replicas: got %q and %v, want %q", replicas, got, p.refused, want)
		}
	}
}

func TestRender(t *testing.T) {
	rich := func(base string) *kruise.UnitedDeployment {
		ud := fixture(t, base, 6)
		ud.Spec.Topology.Subsets = []kruise.Subset{*parse[kruise.Subset](t, `
name: zone-a
nodeSelectorTerm:
  matchExpressions:
  - {key: topology.kubernetes.io/zone, operator: In, values: [a]}
  - {key: topology.flotilla.dev/cluster, operator: In, values: [east]}
  matchFields:
  - {key: metadata.name, operator: NotIn, values: [broken]}
tolerations: [{key: spot, operator: Exists}]
patch: {"metadata":{"labels":{"tier":"hot","apps.kruise.io/subset-name":"forged"}},"spec":{"containers":[{"name":"main","env":[{"name":"ZONE","value":"a"}]}]}}
`)}
		return ud
	}
	tests := []struct {
		file   string
		ud     *kruise.UnitedDeployment
		change func(*observed)
	}{
		{"cloneset", rich(cloneSets), nil},
		{"cloneset-terms", rich(cloneSets), func(o *observed) {
			spec := &o.ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec
			spec.Affinity = parse[kruise.CloneSetSpec](t, `
template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}, {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}, {}]}}}}}
`).Template.Spec.Affinity
			o.ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"zone-a": 99}}
		}},
		{"cloneset-frozen", rich(cloneSets), func(o *observed) {
			o.limits = map[string]topology.SubsetLimit{"zone-a": {}}
		}},
		{"deployment", rich(deployments), func(o *observed) {
			o.limits = map[string]topology.SubsetLimit{"zone-a": {MaxUnavailable: 0, MaxSurge: 2}}
		}},
		{"statefulset", rich(statefulSets), func(o *observed) {
			o.ud.Spec.UpdateStrategy.ManualUpdate = &kruise.ManualUpdate{Partitions: map[string]int32{"zone-a": 2}}
		}},
		{"statefulset-frozen", rich(statefulSets), func(o *observed) {
			o.limits = map[string]topology.SubsetLimit{"zone-a": {}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			o := &observed{ud: tt.ud, revision: "web-1", cluster: "east"}
			if tt.change != nil {
				tt.change(o)
			}
			p, err := makePlan(o)
			if err != nil || p.refused != nil || len(p.create) != 1 {
				t.Fatalf("plan: %v, %+v", err, p.refused)
			}
			got, err := yaml.Marshal(p.create[0].object)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", tt.file+".yaml")
			if os.Getenv("FLOTILLA_UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// TestFrozenDeployment checks that no permission to disrupt never keeps the first pods of a Deployment from coming.
func TestFrozenDeployment(t *testing.T) {
	o := &observed{ud: fixture(t, deployments, 2, "a"), revision: "web-1",
		limits: map[string]topology.SubsetLimit{"a": {Paused: true, MaxUnavailable: 1}}}
	live := asPlanned(t, o, "a", 0)
	d, _ := live.object.(*appsv1.Deployment)
	if d.Spec.Paused {
		t.Errorf("a new Deployment is paused: it would never create its ReplicaSet")
	}
	tests := []struct {
		why           string
		pods, asks    int32
		revision      string
		wantPaused    bool
		observedState bool
	}{
		{why: "asked for pods, none yet, of the newest template", asks: 2, revision: "web-1", observedState: true},
		{why: "pods run", pods: 2, asks: 2, revision: "web-1", observedState: true, wantPaused: true},
		{why: "pods may have come that the cache does not show, and the template changed", asks: 2, revision: "web-0",
			observedState: true, wantPaused: true},
		{why: "scaled to zero, and seen so", revision: "web-0", observedState: true},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got := mayPause(&child{replicas: tt.asks, revision: tt.revision, observed: tt.observedState,
				pods: counters{replicas: tt.pods}}, "web-1")
			if got != tt.wantPaused {
				t.Errorf("paused %v, want %v", got, tt.wantPaused)
			}
		})
	}
}

// TestChildName checks that names are stable, legal, and differ where the children do.
func TestChildName(t *testing.T) {
	ud := fixture(t, cloneSets, 1, "a")
	ud.Name = strings.Repeat("long", 15) // 60
	seen := map[string]bool{}
	for attempt := range maxNames {
		for _, k := range []kind{cloneSetKind, deploymentKind, statefulSetKind} {
			for _, s := range []string{"a", "b"} {
				name := childName(ud, k, s, attempt)
				if name != childName(ud, k, s, attempt) || len(name) > 63 || seen[name] {
					t.Fatalf("name %q of attempt %d is not stable, too long or taken", name, attempt)
				}
				seen[name] = true
			}
		}
	}
}
