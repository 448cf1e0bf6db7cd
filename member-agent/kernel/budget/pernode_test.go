package budget_test

import (
	"testing"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

func TestPerNode(t *testing.T) {
	limits := func(partition, unavailable, surge int32) budget.Limits {
		return budget.Limits{Replicas: 10, Partition: partition, MaxUnavailable: unavailable, MaxSurge: surge,
			ScaleMaxUnavailable: budget.Unlimited}
	}
	for name, tt := range map[string]struct {
		strategy budget.PerNode
		want     budget.Limits
	}{
		"defaults":                 {budget.PerNode{}, limits(0, 1, 0)},
		"surge alone":              {budget.PerNode{MaxSurge: amount("15%")}, limits(0, 0, 2)},
		"a surge of none":          {budget.PerNode{MaxSurge: amount("0%")}, limits(0, 1, 0)},
		"maxUnavailable rounds up": {budget.PerNode{MaxUnavailable: amount("11%")}, limits(0, 2, 0)},
		"a partition rounds down":  {budget.PerNode{Partition: amount("59%")}, limits(5, 1, 0)},
		"a partition of all":       {budget.PerNode{Partition: amount("99")}, limits(10, 1, 0)},
	} {
		if got, err := tt.strategy.Resolve(10); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
	for _, strategy := range []budget.PerNode{
		{Partition: amount("x")}, {MaxUnavailable: amount("x")}, {MaxSurge: amount("-1")},
	} {
		if got, err := strategy.Resolve(10); err == nil {
			t.Errorf("%+v means %+v", strategy, got)
		}
	}
}
