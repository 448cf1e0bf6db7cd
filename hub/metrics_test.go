package hub_test

import (
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metric returns a metric of the running hub with a label of this value: a number, or how many times a time was
// measured; false where there is none.
func (f *fleet) metric(name, label string) (float64, bool) {
	f.t.Helper()
	families, err := metrics.Registry.Gather()
	must(f.t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				if pair.GetValue() != label {
					continue
				}
				switch family.GetType() {
				case dto.MetricType_HISTOGRAM:
					return float64(m.GetHistogram().GetSampleCount()), true
				case dto.MetricType_COUNTER:
					return m.GetCounter().GetValue(), true
				default:
					return m.GetGauge().GetValue(), true
				}
			}
		}
	}
	return 0, false
}

// measured waits until the running hub tells these metrics, each by a label, with at least these values.
func (f *fleet) measured(want map[[2]string]float64) {
	f.t.Helper()
	for metric, least := range want {
		f.eventually(fmt.Sprint(metric, " is measured"), func() error {
			if got, ok := f.metric(metric[0], metric[1]); !ok || got < least {
				return fmt.Errorf("it is %v (%t), want %v", got, ok, least)
			}
			return nil
		})
	}
}
