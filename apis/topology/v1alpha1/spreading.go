package v1alpha1

import (
	"fmt"
	"hash/fnv"
)

// SpreadSeen returns what a CloneSet's controller writes into status.observedSpread for these annotations of the CloneSet: a short
// text that is another one for other orders of the hub about where its pods run, "" where there is none.
func SpreadSeen(annotations map[string]string) string {
	zones, ok := annotations[AnnotationZones]
	if !ok {
		return ""
	}
	h := fnv.New64a()
	h.Write([]byte(zones)) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}
