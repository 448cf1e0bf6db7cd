//go:build !flotilla_clocks

package clocks

import "k8s.io/utils/clock"

// New returns the clock of the machine.
func New() clock.WithTickerAndDelayedExecution { return clock.RealClock{} }
