package disruption_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
)

// granted is a budget of 4 over all clusters, of which the hub granted so many to this one with five pods.
func granted(n int32, members []*corev1.Pod) (*v1beta1.PodUnavailableBudget, disruption.Grant) {
	grant := disruption.Grant{Hub: true, Unavailable: n, Sequence: 7}
	pub := budget(intstr.FromInt32(4), members)
	pub.Status = disruption.Observe(pub, grant, members, int32(len(members)), start).Status
	return pub, grant
}

func TestWhatAHubGrants(t *testing.T) {
	for _, row := range []struct {
		name     string
		granted  int32
		edit     func(pub *v1beta1.PodUnavailableBudget, grant *disruption.Grant)
		ask      int
		recorded int
		why      disruption.Why
		waiting  []string
	}{
		{name: "within it", granted: 2, ask: 2, recorded: 2},
		{name: "beyond it", granted: 1, ask: 3, recorded: 1, why: disruption.WhyExhausted,
			waiting: []string{"web-1", "web-2"}},
		{name: "nothing", ask: 1, why: disruption.WhyExhausted, waiting: []string{"web-0"}},
		{name: "all of them: each is recorded", granted: 5, ask: 3, recorded: 3},
		{name: "an order that is not counted yet", granted: 2, ask: 1, why: disruption.WhyNotObserved,
			edit: func(_ *v1beta1.PodUnavailableBudget, grant *disruption.Grant) { grant.Sequence = 8 }},
		{name: "the hub is silent", granted: 2, ask: 1, why: disruption.WhyHubSilent,
			edit: func(_ *v1beta1.PodUnavailableBudget, grant *disruption.Grant) { grant.Silent = true }},
		{name: "the hub is silent, and one was recorded before", granted: 2, ask: 1, recorded: 1,
			edit: func(pub *v1beta1.PodUnavailableBudget, grant *disruption.Grant) {
				grant.Silent = true
				pub.Status.DisruptedPods = map[string]metav1.Time{"web-0": metav1.NewTime(start)}
			}},
		{name: "the hub is silent, and a person allows it", granted: 2, ask: 1, recorded: 1,
			edit: func(pub *v1beta1.PodUnavailableBudget, grant *disruption.Grant) {
				grant.Silent = true
				pub.Annotations = map[string]string{v1beta1.AnnotationDisruptWithoutHub: "true"}
			}},
		{name: "one waited before", granted: 1, ask: 1, recorded: 1,
			edit: func(pub *v1beta1.PodUnavailableBudget, _ *disruption.Grant) {
				pub.Status.WaitingPods = map[string]metav1.Time{"web-0": metav1.NewTime(start)}
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			members := pods(5)
			pub, grant := granted(row.granted, members)
			if row.edit != nil {
				row.edit(pub, &grant)
			}
			status, refusals := disruption.Decide(pub, grant, members, members[:row.ask], v1beta1.PubEvictOperation, start)
			recorded := len(pub.Status.DisruptedPods)
			var waiting []string
			if status != nil {
				recorded, waiting = len(status.DisruptedPods), slices.Sorted(maps.Keys(status.WaitingPods))
			}
			if recorded != row.recorded || len(refusals) != row.ask-row.recorded || !slices.Equal(waiting, row.waiting) {
				t.Errorf("%d recorded, %v wait, refused %v", recorded, waiting, refusals)
			}
			for _, refusal := range refusals {
				if refusal.Why != row.why || !refusal.Hub {
					t.Errorf("%+v, want %s", refusal, row.why)
				}
			}
		})
	}
}

// TestPodsThatWait: a pod waits until it may go, is not available, or has not asked for a minute; asking again within
// 20 s writes nothing.
func TestPodsThatWait(t *testing.T) {
	members := pods(5)
	pub, grant := granted(0, members)
	for i, at := range []time.Duration{0, 5 * time.Second, 21 * time.Second} {
		status, _ := disruption.Decide(pub, grant, members, members[:1], v1beta1.PubEvictOperation, start.Add(at))
		if (status == nil) != (i == 1) {
			t.Errorf("after %s: %+v", at, status)
		}
		if status != nil {
			pub.Status = *status
		}
	}
	members[1].Status.Conditions = nil
	pub.Status.WaitingPods = map[string]metav1.Time{"web-0": metav1.NewTime(start.Add(-10 * time.Second)),
		"web-1": metav1.NewTime(start), "web-2": metav1.NewTime(start.Add(-time.Minute)), "gone": metav1.NewTime(start)}
	got := disruption.Observe(pub, grant, members, 5, start)
	if waiting := slices.Collect(maps.Keys(got.Status.WaitingPods)); !slices.Equal(waiting, []string{"web-0"}) ||
		got.Wake != 50*time.Second || got.Status.ObservedSequence != 7 {
		t.Errorf("%v wait, look again in %s: %+v", waiting, got.Wake, got.Status)
	}
	if alone := disruption.Observe(pub, disruption.Grant{}, members, 5, start); alone.Status.WaitingPods != nil ||
		alone.Status.ObservedSequence != 0 || alone.Status.DesiredAvailable != 1 {
		t.Errorf("without a hub: %+v", alone.Status)
	}
}
