package spread

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// OfHub returns the member's part of a WorkloadSpread that a hub gave a CloneSet in an annotation, nil if it gave none. It has no
// status: all its subsets are open. It errs if the annotation cannot be used.
func OfHub(cs *v1beta1.CloneSet) (*v1beta1.WorkloadSpread, error) {
	text, ok := cs.Annotations[topology.AnnotationSpread]
	if !ok {
		return nil, nil
	}
	ws := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: cs.Namespace, UID: cs.UID}}
	ws.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: v1beta1.CloneSetKind.GroupVersion().String(), Kind: v1beta1.CloneSetKind.Kind, Name: cs.Name}
	var part topology.MemberSpread
	err := json.Unmarshal([]byte(text), &part)
	if err == nil {
		err = json.Unmarshal(part.Subsets, &ws.Spec.Subsets)
	}
	if ws.Name = part.Name; err == nil {
		err = Validate(ws)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s cannot be used: %w; the hub writes it from WorkloadSpread %q, correct that, or remove the annotation if no hub owns this object",
			topology.AnnotationSpread, err, part.Name)
	}
	return ws, nil
}
