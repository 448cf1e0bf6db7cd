package images

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
)

// DefaultWorkers is how many images are pulled at the same time without a flag.
const DefaultWorkers = 5

// Part returns the part of the daemon that pulls images, with at most that many pulls at the same time, at least 1. Its
// metrics are shown in the registry.
func Part(workers int, registry prometheus.Registerer) nodedaemon.Part {
	return nodedaemon.Part{
		Name: "images",
		Add: func(mgr manager.Manager, env nodedaemon.Env) error {
			meter := newMeter()
			if err := meter.show(registry); err != nil {
				return err
			}
			if err := mgr.Add(newWorker(env, workers, meter)); err != nil {
				return fmt.Errorf("add the pulls of images: %w", err)
			}
			return nil
		},
	}
}
