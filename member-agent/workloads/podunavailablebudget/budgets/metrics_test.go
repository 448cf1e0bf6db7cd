package budgets

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

func TestRefusalsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	r, err := newRefusals(registry)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newRefusals(registry)
	if err != nil || second.counter != r.counter {
		t.Fatalf("a second replica: %v", err)
	}
	for range 2 {
		r.count("shop", v1beta1.PubEvictOperation)
	}
	r.count("shop", v1beta1.PubDeleteOperation)
	for i := range 2 * mostNamespaces {
		r.count(fmt.Sprint("team-", i), v1beta1.PubEvictOperation)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	got := map[string]float64{}
	for _, m := range families[0].Metric {
		key := ""
		for _, label := range m.Label {
			key += label.GetValue() + " "
		}
		got[key] = m.Counter.GetValue()
	}
	if len(got) != mostNamespaces+2 || got["shop EVICT "] != 2 || got["shop DELETE "] != 1 || got["team-0 EVICT "] != 1 ||
		got[otherNamespaces+" EVICT "] != mostNamespaces+1 {
		t.Errorf("%d series: %v", len(got), got)
	}
}
