// Package podname owns the question "which pod has which ordinal". It is pure.
//
// Pod "<workload>-<ordinal>" has the ordinal. A number with leading zeros is no ordinal, since no workload makes it.
package podname

import (
	"strconv"
	"strings"
)

// New returns the name of the workload's pod with the ordinal.
func New(workload string, ordinal int32) string { return workload + "-" + strconv.Itoa(int(ordinal)) }

// Split returns what precedes the ordinal in the name of a pod or a claim, and the ordinal. ok is false for a name that
// does not end with one.
func Split(name string) (parent string, ordinal int32, ok bool) {
	at := strings.LastIndexByte(name, '-')
	if at <= 0 {
		return "", 0, false
	}
	digits := name[at+1:]
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		return "", 0, false
	}
	return name[:at], int32(n), true
}

// Ordinal returns the ordinal that the pod of this name has in the workload; ok is false if it has none.
func Ordinal(workload, pod string) (ordinal int32, ok bool) {
	parent, ordinal, ok := Split(pod)
	return ordinal, ok && parent == workload
}
