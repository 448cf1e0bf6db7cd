package spread

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// OfHub returns the member's part of a WorkloadSpread that a hub gave a workload in an annotation, nil if it gave none.
// It has no status: all its subsets are open. It errs if the annotation cannot be used.
func OfHub(workload metav1.Object, kind schema.GroupVersionKind) (*v1beta1.WorkloadSpread, error) {
	text, ok := workload.GetAnnotations()[topology.AnnotationSpread]
	if !ok {
		return nil, nil
	}
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: workload.GetNamespace(),
		UID: workload.GetUID()}}
	ws.Spec.TargetReference = &v1beta1.TargetReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: workload.GetName(),
	}
	var part topology.MemberSpread
	err := json.Unmarshal([]byte(text), &part)
	if err == nil {
		err = json.Unmarshal(part.Subsets, &ws.Spec.Subsets)
	}
	if ws.Name = part.Name; err == nil {
		err = Validate(ws)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s cannot be used: %w; "+
			"the hub writes it from WorkloadSpread %q, correct that, or remove the annotation if no hub owns this object",
			topology.AnnotationSpread, err, part.Name)
	}
	return ws, nil
}
