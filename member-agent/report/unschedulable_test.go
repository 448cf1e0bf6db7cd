package report

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
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
)

// waitingPods reads "web-0 web-1? web-2?!": pods by name, "?" for one without a node that is 60 s old, "?!" for one
// that is 10 s old, "=" before a revision, "@" before a zone.
func waitingPods(owner, subset, text string, now time.Time) []*corev1.Pod {
	kind, name, _ := strings.Cut(owner, "/")
	var pods []*corev1.Pod
	for _, part := range strings.Fields(text) {
		part, zone, _ := strings.Cut(part, "@")
		part, hash, _ := strings.Cut(part, "=")
		part, young := strings.CutSuffix(part, "!")
		part, waits := strings.CutSuffix(part, "?")
		age := time.Minute
		if young {
			age = 10 * time.Second
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: part, CreationTimestamp: metav1.NewTime(now.Add(-age)),
			Labels:          map[string]string{"controller-revision-hash": name + "-" + hash},
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}},
		}}
		if subset != "" {
			pod.Labels[apps.LabelSubset] = subset
		}
		if zone != "" {
			pod.Annotations = map[string]string{topology.AnnotationZone: zone}
		}
		if waits {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable}}
		} else {
			pod.Spec.NodeName = "node"
		}
		pods = append(pods, pod)
	}
	return pods
}

func TestUnschedulablePodsAreCounted(t *testing.T) {
	now := time.Unix(10_000, 0)
	const critical = 30 * time.Second
	cases := []struct {
		name, owner, subset, pods string
		desired                   int32
		newest                    string
		want                      string // "zone:pods"
		next                      time.Duration
	}{
		{"none waits", "CloneSet/web", "", "a b c", 3, "web-", "", 0},
		{"two wait for long, one not yet", "CloneSet/web", "", "a b? c? d?!", 4, "web-", ":2", 20 * time.Second},
		{"those that are too many are no loss", "CloneSet/web", "", "a b? c? d?", 2, "web-", ":1", 0},
		{"all are too many", "CloneSet/web", "", "a b?", 1, "web-", "", 0},
		{"by zone", "CloneSet/web", "", "a@x b?@x c?@y d?@y", 4, "web-", "x:1 y:2", 0},
		{"in a rollout: those of the new revision", "CloneSet/web", "", "a=1 b?=1 c?=2 d=2", 4, "web-2", ":1", 0},
		{"in a rollout whose new revision nobody knows", "CloneSet/web", "", "a=1 b?=1 c?=2", 3, "", "", 0},
		{"a Deployment in a rollout takes from all", "ReplicaSet/web", "s", "a=1 b?=2", 2, "", "", 0},
		{"a Deployment at rest", "ReplicaSet/web", "s", "a=1 b?=1", 2, "", ":1", 0},
		{"a StatefulSet gives up its last pods", "StatefulSet/web", "s", "web-0 web-1? web-2 web-3? web-4? web-10?", 6, "",
			":3", 0},
		{"a StatefulSet whose last pod runs", "StatefulSet/web", "s", "web-0? web-1? web-2", 3, "", "", 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			groups := map[string][]*corev1.Pod{tc.owner: waitingPods(tc.owner, tc.subset, tc.pods, now)}
			found, next := count(groups, map[string]int32{tc.subset: tc.desired},
				func(*metav1.OwnerReference) maker { return maker{workload.Maker{Update: tc.newest}} }, critical, now)
			var want []work.UnschedulablePods
			for _, part := range strings.Fields(tc.want) {
				zone, n, _ := strings.Cut(part, ":")
				want = append(want, work.UnschedulablePods{Subset: tc.subset, Zone: zone, Pods: int32(n[0] - '0')})
			}
			if diff := cmp.Diff(want, found); diff != "" || next != tc.next {
				t.Errorf("again in %s, want %s; (-want +got):\n%s", next, tc.next, diff)
			}
		})
	}
}

// TestPodsOfSeveralOwners: the subsets of a UnitedDeployment are counted apart, and what one has too many is no loss of
// another.
func TestPodsOfSeveralOwners(t *testing.T) {
	now := time.Unix(10_000, 0)
	groups := map[string][]*corev1.Pod{
		"CloneSet/x": waitingPods("CloneSet/x", "x", "a b? c?", now),
		"CloneSet/y": waitingPods("CloneSet/y", "y", "d e? f?", now),
	}
	found, _ := count(groups, map[string]int32{"x": 2, "y": 3}, func(*metav1.OwnerReference) maker { return maker{} },
		30*time.Second, now)
	want := []work.UnschedulablePods{{Subset: "x", Pods: 1}, {Subset: "y", Pods: 2}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPodsThatAreNotMade: what an owner does not make because pods wait finds no node either.
func TestPodsThatAreNotMade(t *testing.T) {
	now := time.Unix(10_000, 0)
	zones := map[string]int32{"x": 3, "y": 4}
	cases := []struct {
		name, owner, pods string
		desired           int32
		maker             maker
		want              string // "zone:pods"
	}{
		{"a StatefulSet waits for its last pod", "StatefulSet/web", "web-0 web-1?", 5, maker{workload.Maker{AtOnce: 1}},
			":4"},
		{"one that is Parallel does not", "StatefulSet/web", "web-0 web-1?", 5, maker{}, ":1"},
		{"its last pod has a node", "StatefulSet/web", "web-0 web-1", 5, maker{workload.Maker{AtOnce: 1}}, ""},
		{"its last pod does not wait for long", "StatefulSet/web", "web-0 web-1?!", 5, maker{workload.Maker{AtOnce: 1}}, ""},
		{"one is being made below", "StatefulSet/web", "web-0 web-2?", 4, maker{workload.Maker{AtOnce: 1}}, ":1"},
		{"its ordinals begin at 1000", "StatefulSet/web", "web-1000 web-1001?", 4, maker{workload.Maker{AtOnce: 1}}, ":3"},
		{"a CloneSet makes two at once", "CloneSet/web", "a b? c?", 6, maker{workload.Maker{AtOnce: 2}}, ":5"},
		{"of the two one starts", "CloneSet/web", "a b? c?!", 6, maker{workload.Maker{AtOnce: 2}}, ":1"},
		{"a CloneSet without a limit", "CloneSet/web", "a b?", 6, maker{}, ":1"},
		{"in zones: those of other zones are made when these are gone", "CloneSet/web", "a@x b?@x", 7,
			maker{workload.Maker{AtOnce: 1, Zones: zones}}, "x:2"},
		{"in a zone that the hub gave no number", "CloneSet/web", "a@x b?@z", 7,
			maker{workload.Maker{AtOnce: 1, Zones: zones}}, "z:1"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			groups := map[string][]*corev1.Pod{tc.owner: waitingPods(tc.owner, "", tc.pods, now)}
			found, _ := count(groups, map[string]int32{"": tc.desired}, func(*metav1.OwnerReference) maker { return tc.maker },
				30*time.Second, now)
			var got []string
			for _, u := range found {
				got = append(got, fmt.Sprintf("%s:%d", u.Zone, u.Pods))
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%v, want %s", got, tc.want)
			}
		})
	}
}

// TestPodsOfAHubsSpread: pods without a node are told by the subset that they were made for.
func TestPodsOfAHubsSpread(t *testing.T) {
	now := time.Unix(10_000, 0)
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Status.UpdateRevision = "web-"
	set.Annotations = map[string]string{topology.AnnotationSpread: `{"name":"ws","subsets":[{"name":"x","maxReplicas":3},{"name":"y","maxReplicas":4}]}`}
	pods := func(name, text string) []*corev1.Pod {
		pods := waitingPods("CloneSet/web", "", text, now)
		for _, pod := range pods {
			subset := pod.Annotations[topology.AnnotationZone]
			pod.Annotations = nil
			if subset != "" {
				pod.Annotations = map[string]string{apps.AnnotationMatchedWorkloadSpread: fmt.Sprintf(`{"name":%q,"subset":%q}`,
					name, subset)}
			}
		}
		return pods
	}
	for _, tc := range []struct {
		name, spread, pods string
		desired            int32
		atOnce             string // of scaleStrategy.maxUnavailable
		want               string // "subset:pods"
	}{
		{"by subset", "ws", "a@x b?@x c?@y d?@y e?@y", 5, "", "x:1 y:3"},
		{"one waits for no long", "ws", "a@x b?@x c?!@y", 3, "", "x:1"},
		{"in no subset", "ws", "a b?", 2, "", ":1"},
		{"of a WorkloadSpread that was", "old", "a@x b?@x", 2, "", ":1"},
		{"those that are too many are no loss", "ws", "a@x b?@x c?@x", 2, "", "x:1"},
		{"those that are not made", "ws", "a@x b?@x", 7, "1", "x:2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := set.DeepCopy()
			set.Spec.Replicas = &tc.desired
			if tc.atOnce != "" {
				set.Spec.ScaleStrategy.MaxUnavailable = new(intstr.Parse(tc.atOnce))
			}
			groups := map[string][]*corev1.Pod{"CloneSet/web": pods(tc.spread, tc.pods)}
			found, _ := count(groups, map[string]int32{"": tc.desired},
				func(*metav1.OwnerReference) maker { return maker{cloneset.Reporting().Maker(set)} }, 30*time.Second, now)
			var got []string
			for _, u := range found {
				if u.Zone != "" {
					t.Errorf("zone %q is told", u.Zone)
				}
				got = append(got, fmt.Sprintf("%s:%d", u.Subset, u.Pods))
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%v, want %s", got, tc.want)
			}
		})
	}
}

func TestMakerOfCloneSet(t *testing.T) {
	set := &apps.CloneSet{}
	set.Spec.Replicas = new(int32(5))
	set.Status.UpdateRevision = "web-1"
	if diff := cmp.Diff(workload.Maker{Update: "web-1"}, cloneset.Reporting().Maker(set)); diff != "" {
		t.Error(diff)
	}
	set.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromString("30%"))
	set.Annotations = map[string]string{topology.AnnotationZones: `{"x":3}`}
	if diff := cmp.Diff(workload.Maker{Update: "web-1", AtOnce: 2, Zones: map[string]int32{"x": 3}},
		cloneset.Reporting().Maker(set)); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsCountedUnasked(t *testing.T) {
	w := &work.Work{}
	for text, want := range map[string]time.Duration{"": 0, "1m0s": time.Minute, "soon": 0, "-5s": 0} {
		w.Annotations = map[string]string{topology.AnnotationRescheduleAfter: text}
		if got := criticalOf(w); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
