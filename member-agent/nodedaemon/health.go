package nodedaemon

import (
	"errors"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
)

// The reasons of a State.
const (
	// ReasonConnecting: the daemon has just started.
	ReasonConnecting = "Connecting"
	// ReasonConnected: the runtime answers.
	ReasonConnected = "Connected"
	// ReasonNotAnswering: the runtime has a socket, but does not answer there, or refuses.
	ReasonNotAnswering = "RuntimeNotAnswering"
)

// State is what the daemon knows of the container runtime.
type State struct {
	// Ready reports whether it answers.
	Ready bool
	// Reason is one of the constants above or of those of package cri.
	Reason, Message string
	// Runtime is what last answered; empty before that.
	Runtime cri.Runtime
}

// Health holds the latest State.
type Health struct {
	mu      sync.Mutex
	state   State
	changed chan struct{}
}

// NewHealth returns the health of a daemon that has just started.
func NewHealth() *Health {
	return &Health{changed: make(chan struct{}), state: State{Reason: ReasonConnecting,
		Message: "the daemon has not connected to the container runtime yet"}}
}

// State returns the latest state.
func (h *Health) State() State {
	state, _ := h.Watch()
	return state
}

// Watch returns the latest state, and a channel that is closed when there is another.
func (h *Health) Watch() (State, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.changed
}

// set reports whether the state is another one.
func (h *Health) set(state State) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == state {
		return false
	}
	h.state = state
	close(h.changed)
	h.changed = make(chan struct{})
	return true
}

// Metric returns the metric that is 1 while the runtime answers.
func (h *Health) Metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flotilla_node_runtime_ready", Help: "1 while the node's container runtime answers the daemon, else 0.",
	}, func() float64 {
		if h.State().Ready {
			return 1
		}
		return 0
	})
}

// Ready is a readiness check: it errs with the reason while the runtime does not answer.
func (h *Health) Ready(*http.Request) error {
	if state := h.State(); !state.Ready {
		return errors.New(state.Reason + ": " + state.Message)
	}
	return nil
}
