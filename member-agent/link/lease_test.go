package link

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestAfterRenewal holds that no renewal comes later than the hub allows for, and that the first one after an outage is
// no later either.
func TestAfterRenewal(t *testing.T) {
	cases := []struct {
		name   string
		inRow  bool
		random float64
		want   time.Duration
	}{
		{"the first in a row, earliest", false, 0, leaseRetry},
		{"the first in a row, latest", false, 1, leaseEvery},
		{"one of many, earliest", true, 0, 9500 * time.Millisecond},
		{"one of many, latest", true, 1, 10450 * time.Millisecond},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := afterRenewal(tc.inRow, tc.random); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestRenewalsPartAfterAnOutage lets 1000 agents renew at one moment, as after an outage of the hub, and holds that a
// minute later no second has more than three times its share of their renewals.
func TestRenewalsPartAfterAnOutage(t *testing.T) {
	const agents, seconds = 1000, 10
	random := rand.New(rand.NewPCG(1, 2))
	perSecond := make([]int, seconds)
	for range agents {
		at := afterRenewal(false, random.Float64())
		for at < time.Minute {
			at += afterRenewal(true, random.Float64())
		}
		perSecond[min(int((at-time.Minute)/time.Second), seconds-1)]++
	}
	if most := slices.Max(perSecond); most > 3*agents/seconds {
		t.Errorf("%v renewals in the seconds after the first minute, want no more than %d in one", perSecond,
			3*agents/seconds)
	}
}
