package link

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestStandingOf(t *testing.T) {
	member := func(pinnedID, reported string) *topology.MemberCluster {
		return &topology.MemberCluster{
			Spec:   topology.MemberClusterSpec{ClusterID: pinnedID},
			Status: topology.MemberClusterStatus{ClusterID: reported},
		}
	}
	cases := []struct {
		name   string
		member *topology.MemberCluster
		id     string
		want   standing
	}{
		{"no MemberCluster, or the hub was not heard", nil, "me", unknown},
		{"we do not know ourselves yet", member("me", ""), "", unknown},
		{"nobody came before", member("", ""), "me", waiting},
		{"we came, the hub has not accepted", member("", "me"), "me", waiting},
		{"another cluster came first", member("", "other"), "me", refused},
		{"the hub means us", member("me", "me"), "me", pinned},
		{"the hub means us, whatever another one wrote", member("me", "other"), "me", pinned},
		{"the hub means another", member("other", "me"), "me", refused},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := standingOf(tc.member, tc.id); got != tc.want {
				t.Errorf("standing is %d, want %d", got, tc.want)
			}
		})
	}
}

func node(name, region, zone string, change ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
				corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
			},
		},
	}
	if region != "" {
		n.Labels[corev1.LabelTopologyRegion] = region
	}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	for _, c := range change {
		c(&n)
	}
	return n
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func broken(n *corev1.Node)   { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func pod(node, cpu string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
				"example.com/gpu": resource.MustParse("1")},
		}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestSurvey(t *testing.T) {
	cases := []struct {
		name  string
		nodes []corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		{"no nodes", nil, nil, "region= zones= nodes=0/0"},
		{
			"zones sorted, sums over usable nodes only",
			[]corev1.Node{node("3", "eu", "b"), node("1", "eu", "a"), node("2", "eu", "a", cordoned),
				node("4", "eu", "b", broken)}, nil,
			"region=eu zones=a,b nodes=2/4 [a nodes=2 ready=1 cpu=4/0 pods=110/0] [b nodes=2 ready=1 cpu=4/0 pods=110/0]",
		},
		{
			"two regions are none", []corev1.Node{node("1", "eu", "a"), node("2", "us", "b")}, nil,
			"region= zones=a,b nodes=2/2 [a nodes=1 ready=1 cpu=4/0 pods=110/0] [b nodes=1 ready=1 cpu=4/0 pods=110/0]",
		},
		{
			"a node without a region leaves it open", []corev1.Node{node("1", "eu", "a"), node("2", "", "a")}, nil,
			"region= zones=a nodes=2/2 [a nodes=2 ready=2 cpu=8/0 pods=220/0]",
		},
		{
			"a node without a zone counts for the zone without a name", []corev1.Node{node("1", "", "")}, nil,
			"region= zones= nodes=1/1 [ nodes=1 ready=1 cpu=4/0 pods=110/0]",
		},
		{
			"pods that ended, that have no node or a node that is not usable hold nothing",
			[]corev1.Node{node("1", "eu", "a"), node("2", "eu", "a", cordoned)},
			[]*corev1.Pod{pod("1", "500m", corev1.PodRunning), pod("1", "250m", corev1.PodPending),
				pod("1", "1", corev1.PodSucceeded), pod("1", "1", corev1.PodFailed), pod("", "1", corev1.PodPending),
				pod("2", "1", corev1.PodRunning)},
			"region=eu zones=a nodes=1/2 [a nodes=2 ready=1 cpu=4/750m pods=110/2]",
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describe(survey(tc.nodes, tc.pods))); diff != "" {
				t.Errorf("survey (-want +got):\n%s", diff)
			}
		})
	}
}

func describe(s topology.MemberClusterStatus) string {
	text := "region=" + s.Region + " zones=" + s.ZoneNames + " nodes=" + s.Nodes
	q := func(list corev1.ResourceList, name corev1.ResourceName) string {
		quantity := list[name]
		return quantity.String()
	}
	for i := range s.Zones {
		z := &s.Zones[i]
		text += " [" + z.Name + " nodes=" + itoa(z.Nodes) + " ready=" + itoa(z.Ready) +
			" cpu=" + q(z.Allocatable, "cpu") + "/" + q(z.Requested, "cpu") + " pods=" + q(z.Allocatable, "pods") + "/" +
			q(z.Requested, "pods") + "]"
		for name := range z.Requested {
			if !counted(name) || name == "example.com/gpu" {
				text += " unexpected " + string(name)
			}
		}
	}
	return text
}

func itoa(n int32) string { return resource.NewQuantity(int64(n), resource.DecimalSI).String() }

func TestSurveyDoesNotChangeWhatItReads(t *testing.T) {
	nodes := []corev1.Node{node("1", "eu", "a"), node("2", "eu", "a")}
	pods := []*corev1.Pod{pod("1", "1", corev1.PodRunning), pod("2", "1", corev1.PodRunning)}
	first := survey(nodes, pods)
	if diff := cmp.Diff(describe(first), describe(survey(nodes, pods))); diff != "" {
		t.Errorf("a second look sees something else:\n%s", diff)
	}
}

func TestSurveyBoundsZones(t *testing.T) {
	var nodes []corev1.Node
	for i := range maxZones + 1 {
		nodes = append(nodes, node(itoa(int32(i)), "eu", itoa(int32(i))))
	}
	if got := len(survey(nodes, nil).Zones); got != maxZones {
		t.Errorf("%d zones, the type takes %d", got, maxZones)
	}
}

// A field that the inventory compares and does not write would be written for ever.
func TestFactsAreWhatTheInventoryWrites(t *testing.T) {
	written := inventoried(topology.MemberClusterStatus{})
	apart := map[string]bool{"surveyedAt": true} // goes along with a write, causes none
	fields := reflect.TypeFor[topology.MemberClusterStatus]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		status := topology.MemberClusterStatus{}
		set := reflect.ValueOf(&status).Elem().Field(i)
		switch set.Kind() {
		case reflect.String:
			set.SetString("x")
		case reflect.Int32, reflect.Int64:
			set.SetInt(1)
		case reflect.Slice:
			set.Set(reflect.MakeSlice(set.Type(), 1, 1))
		case reflect.Pointer:
			set.Set(reflect.New(set.Type().Elem()))
		default:
			t.Fatalf("status.%s is a %s: extend this test", name, set.Kind())
		}
		_, writes := written[name]
		compares := !reflect.DeepEqual(facts(status), facts(topology.MemberClusterStatus{}))
		if compares != (writes && !apart[name]) {
			t.Errorf("status.%s: compared %t, written %t", name, compares, writes)
		}
	}
}

func TestCapacityMoved(t *testing.T) {
	zone := func(allocatable, requested string) []topology.Zone {
		return []topology.Zone{{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(allocatable)},
			Requested:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(requested)},
		}}
	}
	cases := []struct {
		name          string
		before, after []topology.Zone
		want          bool
	}{
		{"the same", zone("100", "10"), zone("100", "10"), false},
		{"4 % requested", zone("100", "10"), zone("100", "14"), false},
		{"5 % requested", zone("100", "10"), zone("100", "15"), true},
		{"5 % given back", zone("100", "15"), zone("100", "10"), true},
		{"4 % allocatable", zone("100", "0"), zone("96", "0"), false},
		{"10 % allocatable", zone("100", "0"), zone("110", "0"), true},
		{"a resource that is new", []topology.Zone{{}}, zone("1", "0"), true},
		{"a resource that went", zone("1", "0"), []topology.Zone{{}}, true},
		{"nothing of nothing", zone("0", "0"), zone("0", "0"), false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := capacityMoved(tc.before, tc.after); got != tc.want {
				t.Errorf("moved is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestNodeMatters(t *testing.T) {
	base := node("1", "eu", "a")
	cases := []struct {
		name  string
		after corev1.Node
		want  bool
	}{
		{"a heartbeat", node("1", "eu", "a", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }), false},
		{"cordoned", node("1", "eu", "a", cordoned), true},
		{"not ready", node("1", "eu", "a", broken), true},
		{"another zone", node("1", "eu", "b"), true},
		{"the zone label is gone", node("1", "eu", ""), true},
		{"another region", node("1", "us", "a"), true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := nodeMatters(&base, &tc.after); got != tc.want {
				t.Errorf("matters is %t, want %t", got, tc.want)
			}
		})
	}
}
