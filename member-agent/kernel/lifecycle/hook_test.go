package lifecycle_test

import (
	"testing"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

func TestHoldsAndBlocks(t *testing.T) {
	empty := &v1beta1.LifecycleHook{LabelsHandler: map[string]string{"a": ""}}
	for _, tt := range []struct {
		reason        string
		hook          *v1beta1.LifecycleHook
		labels        map[string]string
		finalizers    []string
		holds, blocks bool
	}{
		{"no hook", nil, map[string]string{"a": "b"}, nil, false, false},
		{"an empty hook", &v1beta1.LifecycleHook{}, nil, nil, false, false},
		{"all parts", hook("x"), map[string]string{"x": "held"}, []string{"other", "example.io/x"}, true, true},
		{"the label only", hook("x"), map[string]string{"x": "held"}, nil, false, true},
		{"the finalizer only", hook("x"), nil, []string{"example.io/x"}, false, true},
		{"another value", hook("x"), map[string]string{"x": "free"}, nil, false, false},
		{"nothing", hook("x"), nil, nil, false, false},
		{"a label with an empty value", empty, map[string]string{"a": ""}, nil, true, true},
		{"a label with an empty value that is not there", empty, nil, nil, false, false},
	} {
		pod := podIn("")
		pod.Labels, pod.Finalizers = tt.labels, tt.finalizers
		if got := lifecycle.Holds(tt.hook, pod); got != tt.holds {
			t.Errorf("%s: Holds = %v", tt.reason, got)
		}
		if got := lifecycle.Blocks(tt.hook, pod); got != tt.blocks {
			t.Errorf("%s: Blocks = %v", tt.reason, got)
		}
	}
}
