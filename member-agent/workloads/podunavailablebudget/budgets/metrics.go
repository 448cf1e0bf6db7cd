package budgets

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

const (
	// mostNamespaces bounds the namespaces that the counter of refusals has. Those in further ones are counted together.
	mostNamespaces = 200
	// otherNamespaces is the label of those. No namespace has this name.
	otherNamespaces = "_other"
)

// refusals counts requests that were refused. It is safe for concurrent use.
type refusals struct {
	counter *prometheus.CounterVec

	mu         sync.Mutex
	namespaces map[string]bool
}

// newRefusals registers the counter. A second replica in the same process, in a test, shares it.
func newRefusals(registry prometheus.Registerer) (*refusals, error) {
	r := &refusals{namespaces: map[string]bool{}, counter: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flotilla_pod_budget_refusals_total",
		Help: "Requests on pods that PodUnavailableBudgets refused, by the namespace of the budget and the operation.",
	}, []string{"namespace", "operation"})}
	err := registry.Register(r.counter)
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) {
		if err != nil {
			return nil, fmt.Errorf("register the counter of refusals: %w", err)
		}
		return r, nil
	}
	existing, ok := already.ExistingCollector.(*prometheus.CounterVec)
	if !ok {
		return nil, fmt.Errorf("register the counter of refusals: the name belongs to a %T", already.ExistingCollector)
	}
	r.counter = existing
	return r, nil
}

// count counts one refusal.
func (r *refusals) count(namespace string, operation v1beta1.PubOperation) {
	r.mu.Lock()
	if !r.namespaces[namespace] && len(r.namespaces) >= mostNamespaces {
		namespace = otherNamespaces
	} else {
		r.namespaces[namespace] = true
	}
	r.mu.Unlock()
	r.counter.WithLabelValues(namespace, string(operation)).Inc()
}
