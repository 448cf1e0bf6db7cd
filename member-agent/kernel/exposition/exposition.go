// Package exposition shows what a program measures, while it leads: the hub and the agents do it alike. It knows no metric.
package exposition

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Show shows what a collector measures in the registry until ctx ends. whose is the program, for messages. Where the same metrics are
// shown already, as by a second hub in the process of a test, the first one's stay.
func Show(ctx context.Context, registry prometheus.Registerer, whose string, shown prometheus.Collector) error {
	err := registry.Register(shown)
	var already prometheus.AlreadyRegisteredError
	switch {
	case errors.As(err, &already):
		log.FromContext(ctx).Info("Another " + whose + " in this process shows its metrics already; those of this one are not shown")
	case err != nil:
		return fmt.Errorf("register the metrics of the %s: %w", whose, err)
	default:
		defer registry.Unregister(shown)
	}
	<-ctx.Done()
	return nil
}
