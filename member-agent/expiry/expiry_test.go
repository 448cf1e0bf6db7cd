package expiry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestGauge holds that two certificates stand beside one another under one name, and that one that there is not yet has
// no series.
func TestGauge(t *testing.T) {
	all := prometheus.NewRegistry()
	var until time.Time
	for name, valid := range map[string]Valid{
		"hub":     func() (time.Time, time.Time, bool) { return time.Unix(600, 0), until, !until.IsZero() },
		"webhook": func() (time.Time, time.Time, bool) { return time.Unix(100, 0), time.Unix(500, 7), true },
	} {
		if err := all.Register(New(all, name, valid)); err != nil {
			t.Fatal(err)
		}
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
				got[family.GetName()+" "+metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	expect(map[string]float64{Begin + " webhook": 100, End + " webhook": 500})
	until = time.Unix(900, 0)
	expect(map[string]float64{Begin + " webhook": 100, End + " webhook": 500, Begin + " hub": 600, End + " hub": 900})
}
