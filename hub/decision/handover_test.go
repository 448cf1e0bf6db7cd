package decision

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/topology/handover"
)

// checkpoints returns values by ordinal.
func checkpoints(of map[int32]string) *topology.HandOverValues {
	var pods []topology.OrdinalValues
	for ordinal, value := range of {
		pods = append(pods, topology.OrdinalValues{Ordinal: ordinal, Values: map[string]string{"checkpoint": value}})
	}
	handover.Sort(pods)
	return handover.Fit(pods)
}

// waiting returns the checkpoints that a decision has for pods.
func waiting(spec *topology.WorkloadPlacementSpec) map[int32]string {
	out := map[int32]string{}
	if spec.Ordinals.HandOver != nil {
		for _, pod := range spec.Ordinals.HandOver.Pods {
			out[pod.Ordinal] = pod.Values["checkpoint"]
		}
	}
	return out
}

func handOverPolicy() topology.Failover {
	return topology.Failover{Mode: topology.FailoverFence, After: "5m",
		HandOver: &topology.HandOver{Annotations: []string{"db.example.com/checkpoint"}}}
}

func TestHandOverStories(t *testing.T) {
	type stage struct {
		reason, members, reports string
		replicas                 int32
		// values are those that members report, of their pods and of all members together.
		values map[string]map[int32]string
		// handedOver are the ordinals whose pods got values.
		handedOver map[string][]int32
		want       map[int32]string
	}
	south := map[string]map[int32]string{"south": {1000: "a", 1001: "b", 2000: "not its own"}}
	for name, stages := range map[string][]stage{
		"the last values go with the ordinals, once": {
			{"placed", "east south west", "", 6, nil, nil, nil},
			{"values change nothing", "east south west", "east:2 south:2 west:2", 6, south, nil, nil},
			{"it is silent", "east south! west", "east:2 south:2 west:2", 6, south, nil, nil},
			{"it is fenced", "east south* west", "east:2 south:2 west:2", 6, south, nil,
				map[int32]string{1000: "a", 1001: "b"}},
			{"what it reports later is not read", "east south west", "east:2/3 south:2 west:2/3", 6,
				map[string]map[int32]string{"south": {1000: "z", 1001: "z"}}, nil, map[int32]string{1000: "a", 1001: "b"}},
			{"a pod was created", "east south west", "east:2/3 south:0 west:2/3", 6, nil,
				map[string][]int32{"east": {1000}}, map[int32]string{1001: "b"}},
			{"its creation is reported no more", "east south west", "east:2/3 south:0 west:2/3", 6, nil, nil,
				map[int32]string{1001: "b"}},
			{"all pods are available", "east south west", "east:3 south:0 west:3", 6, nil, nil, nil},
		},
		"the member that takes over is lost too": {
			{"placed", "east south west", "", 6, nil, nil, nil},
			{"south is fenced", "east south* west", "east:2 south:2 west:2", 6, south, nil,
				map[int32]string{1000: "a", 1001: "b"}},
			{"east, too, before it created a pod", "east* south* west", "east:2 south:2 west:2", 6, nil, nil,
				map[int32]string{1000: "a", 1001: "b"}},
		},
		"the member that takes over has newer values": {
			{"placed", "east south west", "", 6, nil, nil, nil},
			{"south is fenced", "east south* west", "east:2 south:2 west:2", 6, south, nil,
				map[int32]string{1000: "a", 1001: "b"}},
			{"east is lost, and its pod has written one", "east* south* west", "east:2/3 south:2 west:2/3", 6,
				map[string]map[int32]string{"east": {1000: "newer", 0: "own"}}, map[string][]int32{"east": {1000}},
				map[int32]string{0: "own", 1000: "newer", 1001: "b"}},
		},
		"nobody has room": {
			{"placed", "west", "", 2, nil, nil, nil},
			{"it is fenced, and keeps its order", "west*", "west:2", 2, map[string]map[int32]string{"west": {0: "a"}}, nil, nil},
			{"another joins", "south west*", "west:2", 2, map[string]map[int32]string{"west": {0: "a"}}, nil,
				map[int32]string{0: "a"}},
		},
		"an ordinal that nobody runs any more": {
			{"placed", "east south west", "", 6, nil, nil, nil},
			{"south is fenced", "east south* west", "east:2 south:2 west:2", 6, south, nil,
				map[int32]string{1000: "a", 1001: "b"}},
			{"scaled in before the pods were created: west runs 1001", "east south* west", "east:2 south:2 west:2", 2, nil, nil,
				map[int32]string{1001: "b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last *topology.WorkloadPlacementSpec
			for _, s := range stages {
				f := identities(t, statefulSet(s.replicas))
				f.Failover = handOverPolicy()
				f.Last, f.Members, f.Reports = last, flags(s.members), told(last, s.reports)
				for cluster, values := range s.values {
					report := f.Reports[cluster]
					report.HandOver = checkpoints(values)
					f.Reports[cluster] = report
				}
				for cluster, list := range s.handedOver {
					report := f.Reports[cluster]
					report.HandedOver = list
					f.Reports[cluster] = report
				}
				d := planOf(t, f)
				if s.want == nil {
					s.want = map[int32]string{}
				}
				if diff := cmp.Diff(s.want, waiting(&d.Spec)); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", s.reason, diff)
				}
				if d.Spec.HandOver == nil {
					t.Fatalf("%s: members are not asked for values", s.reason)
				}
				if again := planAgain(t, f, &d); s.handedOver == nil && !cmp.Equal(again.Spec, d.Spec) {
					t.Fatalf("%s: a decision from its own result changes:\n%s", s.reason, cmp.Diff(d.Spec, again.Spec))
				}
				last = &d.Spec
			}
		})
	}
}

// planAgain plans from the result of a decision.
func planAgain(t *testing.T, f Facts, d *Decision) Decision {
	t.Helper()
	f.Last = &d.Spec
	return planOf(t, f)
}

func TestStatusIsHandedOverToEachPod(t *testing.T) {
	f := identities(t, statefulSet(6))
	f.Failover = handOverPolicy()
	f.Failover.HandOver.Status = []topology.HandOverStatus{{Name: "backup", JSONPath: "{.status.backup}"}}
	f.Members = flags("east south west")
	placed := planOf(t, f)
	f.Last, f.Members, f.Reports = &placed.Spec, flags("east south* west"), told(&placed.Spec, "east:2 south:2 west:2")
	f.StatusValues = map[string]map[string]string{"south": {"backup": "b7"}}
	report := f.Reports["south"]
	report.HandOver = checkpoints(map[int32]string{1001: "c"})
	report.HandOver.Pods[0].Values["unasked"] = "x"
	f.Reports["south"] = report
	d := planOf(t, f)
	want := []topology.OrdinalValues{{Ordinal: 1000, Values: map[string]string{"backup": "b7"}},
		{Ordinal: 1001, Values: map[string]string{"backup": "b7", "checkpoint": "c"}}}
	if diff := cmp.Diff(want, d.Spec.Ordinals.HandOver.Pods); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCutValuesAreNoted(t *testing.T) {
	f := identities(t, statefulSet(4))
	f.Failover, f.Members = handOverPolicy(), flags("east west")
	f.Reports = map[string]capacity.Report{"west": {HandOver: &topology.HandOverValues{Cut: "3, 1000-1004"}}}
	d := planOf(t, f)
	if len(d.Notes) != 1 || d.Notes[0].Reason != HandOverCut || d.Notes[0].Stalled ||
		!strings.Contains(d.Notes[0].Message, "ordinals 3, 1000-1004 of StatefulSet ns/db in member west") {
		t.Errorf("%+v", d.Notes)
	}
	f.Failover.HandOver = nil
	if d := planOf(t, f); len(d.Notes) != 0 || d.Spec.HandOver != nil {
		t.Errorf("without hand-over: %+v", d.Notes)
	}
}
