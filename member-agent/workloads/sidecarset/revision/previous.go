package revision

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/sidecars"
)

// Previous returns what new pods get while a hub's update does not reach all pods, nil if the hub gave nothing. The
// error says what is wrong with it.
func Previous(object metav1.Object) (*sidecars.Content, error) {
	text, ok := object.GetAnnotations()[v1alpha1.AnnotationTemplateBefore]
	if !ok {
		return nil, nil
	}
	content, err := sidecars.Read([]byte(text))
	if err == nil && len(content.Containers)+len(content.InitContainers) == 0 && len(content.PatchPodMetadata) == 0 {
		err = fmt.Errorf("it has no containers")
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w; the hub writes it as what new pods get, remove it if no hub owns this "+
			"object", v1alpha1.AnnotationTemplateBefore, err)
	}
	return &content, nil
}
