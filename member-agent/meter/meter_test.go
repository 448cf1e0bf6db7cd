package meter

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMeter(t *testing.T) {
	ago, heard, open := 90*time.Second, true, true
	orders := map[string]int{"AppliedSuccessful": 4, "Held": 1}
	all := prometheus.NewRegistry()
	m := New(all, Sources{
		Contact: func() (time.Duration, bool) { return ago, heard }, MayExecuteNew: func(context.Context) bool {
			return open
		},
		Orders: func() map[string]int { return orders }, Orphans: func() int { return 2 },
		Corrections: func() map[string]int64 { return map[string]int64{"CloneSet": 3} },
	})
	if err := all.Register(m.Collector(t.Context())); err != nil {
		t.Fatal(err)
	}
	expect := func(want map[string]float64) {
		t.Helper()
		families, err := all.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				name := family.GetName()
				for _, label := range metric.GetLabel() {
					name += " " + label.GetValue()
				}
				got[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	expect(map[string]float64{
		"flotilla_hub_contact_seconds": 90, "flotilla_hub_session_open": 1, "flotilla_orphans": 2,
		"flotilla_orders AppliedSuccessful": 4, "flotilla_orders Held": 1, "flotilla_corrections_total CloneSet": 3,
	})
	heard, open, orders = false, false, nil
	expect(map[string]float64{"flotilla_hub_session_open": 0, "flotilla_orphans": 2,
		"flotilla_corrections_total CloneSet": 3})
}
