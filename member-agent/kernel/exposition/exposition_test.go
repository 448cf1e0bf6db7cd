package exposition

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// signalling is a registry that tells when somebody has asked it to register.
type signalling struct {
	*prometheus.Registry
	asked chan error
}

func (s signalling) Register(c prometheus.Collector) error {
	err := s.Registry.Register(c)
	s.asked <- err
	return err
}

func number(value float64) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "flotilla_number", Help: "A number."})
	g.Set(value)
	return g
}

// shown returns the number that the registry tells, -1 for none.
func (s signalling) shown(t *testing.T) float64 {
	t.Helper()
	families, err := s.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) == 0 {
		return -1
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

// TestShow: metrics are shown until the program leads no more, and a second program of the process changes nothing about the first.
func TestShow(t *testing.T) {
	registry := signalling{prometheus.NewRegistry(), make(chan error, 1)}
	start := func(value float64) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Show(ctx, registry, "hub", number(value)) }()
		<-registry.asked
		return func() {
			t.Helper()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	stopFirst := start(1)
	stopSecond := start(2)
	if got := registry.shown(t); got != 1 {
		t.Errorf("%v is shown beside a second program, want the first one's 1", got)
	}
	stopSecond()
	if got := registry.shown(t); got != 1 {
		t.Errorf("%v is shown after the second program ended, want 1", got)
	}
	stopFirst()
	if got := registry.shown(t); got != -1 {
		t.Errorf("%v is shown after the end", got)
	}
}

// TestShowRefuses: a metric that the registry does not take ends the program with the reason.
func TestShowRefuses(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "flotilla_number", Help: "A number."}, []string{"member"}))
	err := Show(t.Context(), registry, "agent", number(1))
	if err == nil || !strings.HasPrefix(err.Error(), "register the metrics of the agent: ") {
		t.Errorf("the error is %v", err)
	}
}
