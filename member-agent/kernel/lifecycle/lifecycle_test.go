package lifecycle_test

import (
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

func TestStamp(t *testing.T) {
	labels, annotations := map[string]string{}, map[string]string{}
	lifecycle.Stamp(labels, annotations, lifecycle.Initial(), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	if labels[v1beta1.LabelLifecycleState] != "Normal" || annotations[v1beta1.AnnotationLifecycleTimestamp] != "2026-01-02T03:04:05Z" {
		t.Errorf("stamped %v %v", labels, annotations)
	}
}

func TestHasHooks(t *testing.T) {
	for _, tt := range []struct {
		reason string
		in     *v1beta1.Lifecycle
		want   bool
	}{
		{"none", nil, false},
		{"an empty hook holds nothing", &v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{}}, false},
		{"a label", &v1beta1.Lifecycle{InPlaceUpdate: &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"a": "b"}}}, true},
		{"a finalizer", &v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{FinalizersHandler: []string{"a/b"}}}, true},
	} {
		if got := lifecycle.HasHooks(tt.in); got != tt.want {
			t.Errorf("%s: HasHooks = %v", tt.reason, got)
		}
	}
}
