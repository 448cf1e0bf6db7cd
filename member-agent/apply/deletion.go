package apply

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// propagationOf is how the object of a Work is deleted.
func propagationOf(w *work.Work) client.PropagationPolicy {
	if w.Annotations[topology.AnnotationPropagation] == string(metav1.DeletePropagationForeground) {
		return client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	return client.PropagationPolicy(metav1.DeletePropagationBackground)
}
