package v1alpha1

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
)

// MemberSpread is the value of AnnotationSpread: a member's part of a WorkloadSpread of the hub.
// +kubebuilder:object:generate=false
type MemberSpread struct {
	// Name of the WorkloadSpread.
	Name string `json:"name"`
	// Subsets are its subsets that have pods in the member, as in apps.kruise.io, in their order. Each maxReplicas is the
	// number of pods that the member has of the subset.
	Subsets json.RawMessage `json:"subsets"`
}

// SpreadSeen returns what a CloneSet's controller writes into status.observedSpread for these annotations of the
// CloneSet: a short text that is another one for other orders of the hub about where its pods run, "" where there is
// none.
func SpreadSeen(annotations map[string]string) string {
	zones, zoned := annotations[AnnotationZones]
	spread, spreads := annotations[AnnotationSpread]
	if !zoned && !spreads {
		return ""
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q", zones, spread) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}
