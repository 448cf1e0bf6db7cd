package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rounding says what becomes of the fraction of a percentage.
type Rounding bool

// The roundings.
const (
	Down Rounding = false
	Up   Rounding = true
)

// Scaled returns the amount that value means of total: the number itself, or that percentage of total. The error says
// what is wrong with the value: it is negative, or a text that is no percentage.
func Scaled(value intstr.IntOrString, total int32, rounding Rounding) (int32, error) {
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return 0, fmt.Errorf("%d is negative; give 0 or more", value.IntVal)
		}
		return value.IntVal, nil
	}
	percent, err := percentage(value.StrVal)
	if err != nil {
		return 0, err
	}
	product := int64(percent) * int64(total)
	amount := product / 100
	if rounding == Up && product%100 > 0 {
		amount++
	}
	return int32(min(amount, math.MaxInt32)), nil
}

func percentage(text string) (int32, error) {
	number, isPercent := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseInt(number, 10, 32)
	if !isPercent || err != nil || percent < 0 {
		return 0, fmt.Errorf("%q is neither a number nor a percentage; give for example 2 or \"20%%\"", text)
	}
	return int32(percent), nil
}

// Partition returns how many of replicas pods are kept on the old revision. Nil keeps none. The answer is between 0 and
// replicas. A percentage below 100 % that rounds up to all of more than one pod is lowered by one, so that a canary of
// one always exists.
func Partition(value *intstr.IntOrString, replicas int32) (int32, error) {
	if value == nil {
		return 0, nil
	}
	kept, err := Scaled(*value, replicas, Up)
	if err != nil {
		return 0, err
	}
	if value.Type == intstr.String && value.StrVal != "100%" && kept == replicas && replicas > 1 {
		return replicas - 1, nil
	}
	return min(kept, replicas), nil
}
