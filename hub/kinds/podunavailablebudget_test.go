package kinds

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

func budgetOfPods(change func(*policy.PodUnavailableBudgetSpec)) *policy.PodUnavailableBudget {
	pub := &policy.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	change(&pub.Spec)
	return pub
}

func TestLimitsOfPodUnavailableBudgets(t *testing.T) {
	type spec = policy.PodUnavailableBudgetSpec
	amount := func(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }
	for name, tt := range map[string]struct {
		change func(*spec)
		want   int32
	}{
		"a number":                      {func(s *spec) { s.MaxUnavailable = amount("3") }, 3},
		"more than there are":           {func(s *spec) { s.MaxUnavailable = amount("30") }, 10},
		"a percentage rounds up":        {func(s *spec) { s.MaxUnavailable = amount("11%") }, 2},
		"at least":                      {func(s *spec) { s.MinAvailable = amount("8") }, 2},
		"at least more than there are":  {func(s *spec) { s.MinAvailable = amount("12") }, 0},
		"at least a part rounds up too": {func(s *spec) { s.MinAvailable = amount("71%") }, 2},
		"of a total that is named": {func(s *spec) {
			s.MaxUnavailable, s.ProtectTotalReplicas = amount("20%"), new(int32(50))
		}, 0},
		"of a total that is named, and nearly there": {func(s *spec) {
			s.MaxUnavailable, s.ProtectTotalReplicas = amount("5"), new(int32(12))
		}, 3},
		"at least of a total that is named": {func(s *spec) {
			s.MinAvailable, s.ProtectTotalReplicas = amount("50%"), new(int32(12))
		}, 4},
	} {
		w, rejection := readPodUnavailableBudget(budgetOfPods(tt.change))
		if rejection != nil {
			t.Errorf("%s: %+v", name, rejection)
			continue
		}
		want := lending.Amounts{Updated: 10, Unavailable: tt.want}
		if got := w.Subsets[0].Amounts(10); got != want || !w.CountsFailures || w.NoWaves == "" {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	wrong := budgetOfPods(func(s *spec) { s.MaxUnavailable = amount("many") })
	if _, rejection := readPodUnavailableBudget(wrong); rejection == nil ||
		!strings.Contains(rejection.Message, "spec.maxUnavailable of PodUnavailableBudget shop/web") {
		t.Errorf("%+v", rejection)
	}
}

func TestMembersGetNoTotalOfAllClusters(t *testing.T) {
	pub := budgetOfPods(func(s *policy.PodUnavailableBudgetSpec) {
		s.MinAvailable, s.ProtectTotalReplicas = new(intstr.Parse("8")), new(int32(10))
	})
	manifest, err := renderPodUnavailableBudget(pub, &Order{})
	spec := manifest.Spec.(*policy.PodUnavailableBudgetSpec)
	if err != nil || spec.ProtectTotalReplicas != nil || spec.MinAvailable != nil || spec.MaxUnavailable.IntValue() != 0 {
		t.Errorf("%+v, %v", spec, err)
	}
	pub.Annotations = map[string]string{policy.AnnotationProtectTotalReplicas: "10"}
	manifest, err = renderPodUnavailableBudget(pub, &Order{})
	if total, has := manifest.Annotations[policy.AnnotationProtectTotalReplicas]; err != nil || !has || total != "" {
		t.Errorf("%+v, %v", manifest.Annotations, err)
	}
	pub.Spec = budgetOfPods(func(s *policy.PodUnavailableBudgetSpec) { s.MaxUnavailable = new(intstr.Parse("50%")) }).Spec
	w, rejection := readPodUnavailableBudget(pub)
	if rejection != nil || w.Subsets[0].Amounts(9).Unavailable != 4 {
		t.Errorf("half of the annotation's total: %+v, %+v", w.Subsets[0].Amounts(9), rejection)
	}
}

// TestStatusOfPodUnavailableBudgets: the counters are sums, and a budget holds also while pods are unavailable.
func TestStatusOfPodUnavailableBudgets(t *testing.T) {
	member := func(total, available int32) []byte {
		data, err := json.Marshal(policy.PodUnavailableBudgetStatus{TotalReplicas: total, CurrentAvailable: available})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	ready := func(status corev1.ConditionStatus, reason string) []conditions.Condition {
		return []conditions.Condition{{Type: apps.ConditionFederated, Status: corev1.ConditionTrue, Reason: "Placed"},
			{Type: apps.ConditionReady, Status: status, Reason: reason}, {Type: apps.ConditionProgressing}}
	}
	for name, tt := range map[string]struct {
		sum              Sum
		desired, allowed int32
		status           metav1.ConditionStatus
		reason, says     string
	}{
		"pods are down": {
			sum: Sum{Statuses: [][]byte{member(6, 6), member(4, 3), []byte(`[]`)}, Provisioned: true,
				Conditions: ready(corev1.ConditionFalse, conditions.ReasonPodsNotAvailable)},
			desired: 8, allowed: 1, status: metav1.ConditionTrue, reason: "Protected", says: "9 of 10 pods in 3 members"},
		"more are down than may be": {
			sum: Sum{Statuses: [][]byte{member(6, 2), member(4, 4)}, Provisioned: true,
				Conditions: ready(corev1.ConditionFalse, conditions.ReasonPodsNotAvailable)},
			desired: 8, status: metav1.ConditionTrue, reason: "Protected", says: "at least 8 must stay so"},
		"no pods": {
			sum: Sum{Statuses: [][]byte{member(0, 0)}, Provisioned: true,
				Conditions: ready(corev1.ConditionTrue, conditions.ReasonAllAvailable)},
			status: metav1.ConditionTrue, reason: "NoPods", says: "no pod of 1 members"},
		"a member does not have it yet": {
			sum: Sum{Statuses: [][]byte{member(10, 10)},
				Conditions: ready(corev1.ConditionFalse, conditions.ReasonScaling)},
			desired: 8, allowed: 2, status: metav1.ConditionFalse, reason: conditions.ReasonScaling},
	} {
		pub := budgetOfPods(func(s *policy.PodUnavailableBudgetSpec) { s.MaxUnavailable = new(intstr.Parse("20%")) })
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if !podUnavailableBudgetStatus(pub, &tt.sum, now) || podUnavailableBudgetStatus(pub, &tt.sum, now.Add(time.Hour)) {
			t.Errorf("%s: the status changes without a reason, or does not change", name)
		}
		if pub.Status.DesiredAvailable != tt.desired || pub.Status.UnavailableAllowed != tt.allowed {
			t.Errorf("%s: %+v", name, pub.Status)
		}
		c := meta.FindStatusCondition(pub.Status.Conditions, apps.ConditionReady)
		if c == nil || c.Status != tt.status || c.Reason != tt.reason || !strings.Contains(c.Message, tt.says) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
