package budget_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

func amount(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }

func TestPartition(t *testing.T) {
	tests := []struct {
		value    string
		replicas int32
		want     int32
		reason   string
	}{
		{"90%", 10, 9, "exact"},
		{"95%", 10, 9, "rounds up to all of them, so one is left to update"},
		{"99%", 3, 2, "rounds up to all of them, so one is left to update"},
		{"99%", 1, 1, "a single pod may be kept"},
		{"50%", 5, 3, "rounds up"},
		{"100%", 4, 4, "all are kept"},
		{"0%", 4, 0, "none is kept"},
		{"7", 4, 4, "a number is at most replicas"},
		{"3", 4, 3, "a number is taken as it is"},
		{"50%", 0, 0, "nothing of nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.value+" "+tt.reason, func(t *testing.T) {
			got, err := budget.Partition(amount(tt.value), tt.replicas)
			if err != nil || got != tt.want {
				t.Errorf("Partition(%s, %d) = %d, %v; want %d", tt.value, tt.replicas, got, err, tt.want)
			}
		})
	}
	if got, err := budget.Partition(nil, 5); got != 0 || err != nil {
		t.Errorf("Partition(nil) = %d, %v", got, err)
	}
}

func TestResolve(t *testing.T) {
	tests := []struct {
		name     string
		strategy budget.Strategy
		replicas int32
		want     budget.Limits
	}{
		{"defaults round up without surge", budget.Strategy{}, 3,
			budget.Limits{Replicas: 3, MaxUnavailable: 1, ScaleMaxUnavailable: budget.Unlimited}},
		{"the default of 9", budget.Strategy{}, 9, budget.Limits{Replicas: 9, MaxUnavailable: 2,
			ScaleMaxUnavailable: budget.Unlimited}},
		{"never 0 and 0", budget.Strategy{MaxUnavailable: amount("0"), MaxSurge: amount("0")}, 3,
			budget.Limits{Replicas: 3, MaxUnavailable: 1, ScaleMaxUnavailable: budget.Unlimited}},
		{"with surge maxUnavailable rounds down", budget.Strategy{MaxUnavailable: amount("25%"), MaxSurge: amount("25%")}, 10,
			budget.Limits{Replicas: 10, MaxUnavailable: 2, MaxSurge: 3, ScaleMaxUnavailable: budget.Unlimited}},
		{"0 unavailable is allowed with surge", budget.Strategy{MaxUnavailable: amount("0"), MaxSurge: amount("1")}, 10,
			budget.Limits{Replicas: 10, MaxSurge: 1, ScaleMaxUnavailable: budget.Unlimited}},
		{"paused takes the surge away", budget.Strategy{MaxUnavailable: amount("1"), MaxSurge: amount("3"), Paused: true}, 10,
			budget.Limits{Replicas: 10, MaxUnavailable: 1, ScaleMaxUnavailable: budget.Unlimited}},
		{"a scale limit of 0 would stop everything", budget.Strategy{MaxUnavailable: amount("1"),
			ScaleMaxUnavailable: amount("0%")}, 10,
			budget.Limits{Replicas: 10, MaxUnavailable: 1, ScaleMaxUnavailable: 1}},
		{"scale limit rounds up", budget.Strategy{MaxUnavailable: amount("1"), ScaleMaxUnavailable: amount("25%")}, 10,
			budget.Limits{Replicas: 10, MaxUnavailable: 1, ScaleMaxUnavailable: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := budget.Resolve(tt.strategy, tt.replicas)
			if err != nil || got != tt.want {
				t.Errorf("Resolve = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestResolveNamesTheField(t *testing.T) {
	for field, s := range map[string]budget.Strategy{
		"partition":                    {Partition: amount("x%")},
		"maxSurge":                     {MaxSurge: amount("-1")},
		"maxUnavailable":               {MaxUnavailable: amount("10")},
		"scaleStrategy.maxUnavailable": {ScaleMaxUnavailable: amount("ten")},
	} {
		if field == "maxUnavailable" {
			s.MaxUnavailable.Type, s.MaxUnavailable.StrVal = intstr.String, "10"
		}
		if _, err := budget.Resolve(s, 10); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestKindsHaveDefaultsOfTheirOwn(t *testing.T) {
	one := intstr.FromInt32(1)
	ordinals := budget.Defaults{MaxUnavailable: &one, RoundDown: true}
	for _, tt := range []struct {
		name     string
		strategy budget.Strategy
		want     int32
	}{
		{"the suite's default rounds up", budget.Strategy{}, 3},
		{"a default of its own", budget.Strategy{Defaults: ordinals}, 1},
		{"it rounds down", budget.Strategy{Defaults: ordinals, MaxUnavailable: new(intstr.FromString("25%"))}, 2},
		{"never to nothing", budget.Strategy{Defaults: ordinals, MaxUnavailable: new(intstr.FromString("1%"))}, 1},
	} {
		if got, err := budget.Resolve(tt.strategy, 11); err != nil || got.MaxUnavailable != tt.want {
			t.Errorf("%s: %d, %v, want %d", tt.name, got.MaxUnavailable, err, tt.want)
		}
	}
}

// TestKindsThatRoundDown checks both limits of a kind whose percentages round down.
func TestKindsThatRoundDown(t *testing.T) {
	one, limit := intstr.FromInt32(1), intstr.FromString("25%")
	s := budget.Strategy{Defaults: budget.Defaults{MaxUnavailable: &one, RoundDown: true},
		MaxUnavailable: &limit, ScaleMaxUnavailable: &limit}
	for replicas, want := range map[int32]int32{3: 1, 7: 1, 8: 2, 11: 2} {
		l, err := budget.Resolve(s, replicas)
		if err != nil || l.MaxUnavailable != want || l.ScaleMaxUnavailable != want {
			t.Errorf("25%% of %d: %d and %d (%v), want %d", replicas, l.MaxUnavailable, l.ScaleMaxUnavailable, err, want)
		}
	}
	s.MaxUnavailable = nil
	if l, err := budget.Resolve(s, 100); err != nil || l.MaxUnavailable != 1 {
		t.Errorf("%d by default (%v), want 1", l.MaxUnavailable, err)
	}
}
