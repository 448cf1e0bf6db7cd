package sidecarset

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// newMissing registers the gauge of pods without their sidecars. A second controller in the same process, in a test,
// shares it.
func newMissing(registry prometheus.Registerer) (*prometheus.GaugeVec, error) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "flotilla_sidecarset_missing_pods",
		Help: "Pods that were created without the sidecars of a SidecarSet that selects them.",
	}, []string{"sidecarset"})
	err := registry.Register(gauge)
	if err == nil {
		return gauge, nil
	}
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) {
		return nil, fmt.Errorf("register the gauge of pods without their sidecars: %w", err)
	}
	existing, ok := already.ExistingCollector.(*prometheus.GaugeVec)
	if !ok {
		return nil, fmt.Errorf("register the gauge of pods without their sidecars: the name belongs to a %T",
			already.ExistingCollector)
	}
	return existing, nil
}
