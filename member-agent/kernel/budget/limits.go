package budget

import (
	"cmp"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Unlimited stands for a limit that was not given.
const Unlimited int32 = math.MaxInt32

// Defaults are what a kind publishes about maxUnavailable. The zero value is 20 %, rounded up where there is no surge.
type Defaults struct {
	// MaxUnavailable is for users who give none.
	MaxUnavailable *intstr.IntOrString
	// RoundDown: percentages of both maxUnavailable round down also where there is no surge.
	RoundDown bool
}

// Strategy is what the user wrote. A nil value is the published default.
type Strategy struct {
	// Defaults are those of the kind.
	Defaults Defaults
	// Partition is how many pods are kept on the old revision; default 0.
	Partition *intstr.IntOrString
	// MaxUnavailable is how many pods may be unavailable; default: see Defaults.
	MaxUnavailable *intstr.IntOrString
	// MaxSurge is how many pods may exist beyond replicas during an update; default 0.
	MaxSurge *intstr.IntOrString
	// ScaleMaxUnavailable is how many pods may be unavailable while pods are created; default: no limit.
	ScaleMaxUnavailable *intstr.IntOrString
	// Paused stops updates, and with them the surge.
	Paused bool
}

// Limits are the resolved numbers for a number of replicas.
type Limits struct {
	Replicas            int32
	Partition           int32
	MaxUnavailable      int32
	MaxSurge            int32
	ScaleMaxUnavailable int32
}

// Resolve returns the limits for replicas. maxSurge rounds up; maxUnavailable rounds up if there is no surge and the
// kind does not round down, else down, and is raised to 1 where both come out as 0: nothing could ever be updated then.
// The error names the field.
func Resolve(s Strategy, replicas int32) (Limits, error) {
	l := Limits{Replicas: replicas, ScaleMaxUnavailable: Unlimited}
	var err error
	if l.Partition, err = Partition(s.Partition, replicas); err != nil {
		return Limits{}, fmt.Errorf("partition %w", err)
	}
	if s.MaxSurge != nil {
		if l.MaxSurge, err = Scaled(*s.MaxSurge, replicas, Up); err != nil {
			return Limits{}, fmt.Errorf("maxSurge %w", err)
		}
	}
	if l.MaxUnavailable, err = maxUnavailable(s, replicas, l.MaxSurge); err != nil {
		return Limits{}, fmt.Errorf("maxUnavailable %w", err)
	}
	if s.ScaleMaxUnavailable != nil {
		rounding := Rounding(!s.Defaults.RoundDown)
		if l.ScaleMaxUnavailable, err = Scaled(*s.ScaleMaxUnavailable, replicas, rounding); err != nil {
			return Limits{}, fmt.Errorf("scaleStrategy.maxUnavailable %w", err)
		}
		// With 0 no pod could ever be created.
		l.ScaleMaxUnavailable = max(1, l.ScaleMaxUnavailable)
	}
	if s.Paused {
		l.MaxSurge = 0
	}
	return l, nil
}

// KeepsAll returns whether a strategy lets no available pod go, since its maxUnavailable comes out as 0 for replicas.
func KeepsAll(s Strategy, replicas int32) bool {
	l, err := Resolve(s, replicas)
	return err == nil && l.MaxUnavailable == 0
}

func maxUnavailable(s Strategy, replicas, surge int32) (int32, error) {
	value, rounding := intstr.FromString("20%"), Rounding(surge == 0 && !s.Defaults.RoundDown)
	if given := cmp.Or(s.MaxUnavailable, s.Defaults.MaxUnavailable); given != nil {
		value = *given
	}
	amount, err := Scaled(value, replicas, rounding)
	if err != nil {
		return 0, err
	}
	if amount == 0 && surge == 0 {
		amount = 1
	}
	return amount, nil
}
