package lifecycle

import (
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Initial returns the state of a pod that is created now by a workload without hooks.
func Initial() v1beta1.LifecycleState { return v1beta1.LifecycleNormal }

// Stamp sets the state and the time since when it holds on a pod's labels and annotations, which must not be nil.
func Stamp(labels, annotations map[string]string, state v1beta1.LifecycleState, now time.Time) {
	labels[v1beta1.LabelLifecycleState] = string(state)
	annotations[v1beta1.AnnotationLifecycleTimestamp] = now.UTC().Format(time.RFC3339)
}

// HasHooks tells whether any hook is set, which the controllers here do not carry out yet.
func HasHooks(l *v1beta1.Lifecycle) bool {
	if l == nil {
		return false
	}
	for _, hook := range []*v1beta1.LifecycleHook{l.PreDelete, l.InPlaceUpdate, l.PreNormal} {
		if hook != nil && (len(hook.LabelsHandler) > 0 || len(hook.FinalizersHandler) > 0) {
			return true
		}
	}
	return false
}
