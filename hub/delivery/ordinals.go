package delivery

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/intstr"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

// takeOver reports which Works of want give a member ordinals that the existing Work of another member has. old[i] is
// the existing one of want[i], nil for none. They are written after all others, and only if those could be written: a
// member that is back would otherwise read an order with ordinals that another one runs already.
func takeOver(old, want []*work.Work) []bool {
	out := make([]bool, len(want))
	var changed bool
	for i := range want {
		changed = changed || old[i] == nil || !sameManifest(old[i], want[i])
	}
	if !changed {
		return out
	}
	has := map[int32]int{}
	for i, w := range old {
		for _, ordinal := range ordinalsOf(w).All() {
			has[ordinal] = i
		}
	}
	for i, w := range want {
		for _, ordinal := range ordinalsOf(w).All() {
			if owner, ok := has[ordinal]; ok && owner != i {
				out[i] = true
				break
			}
		}
	}
	return out
}

// ordinalsOf returns the ordinals of the StatefulSet in a Work, none without one.
func ordinalsOf(w *work.Work) ordinals.Set {
	var set struct {
		Spec struct {
			Replicas        int32                 `json:"replicas"`
			Ordinals        struct{ Start int32 } `json:"ordinals"`
			ReserveOrdinals []intstr.IntOrString  `json:"reserveOrdinals"`
		} `json:"spec"`
	}
	if w == nil || len(w.Spec.Workload.Manifests) != 1 ||
		json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &set) != nil {
		return ordinals.Set{}
	}
	out, _ := ordinals.NewSet(set.Spec.Ordinals.Start, set.Spec.Replicas, set.Spec.ReserveOrdinals) // as rendered
	return out
}
