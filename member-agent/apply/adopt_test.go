package apply

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestLetGoNote: what is let go says what it was lent and what of it was the user's, and nothing where that is not
// known.
func TestLetGoNote(t *testing.T) {
	for why, tc := range map[string]struct {
		users string
		want  any
	}{
		"the user's strategy": {`{"rollingUpdate":{"maxUnavailable":"20%"}}`,
			`{"users":{"rollingUpdate":{"maxUnavailable":"20%"}},"lent":{"rollingUpdate":{"maxUnavailable":1,"paused":true}}}`},
		"the user wrote none":        {`{}`, `{"users":{},"lent":{"rollingUpdate":{"maxUnavailable":1,"paused":true}}}`},
		"a hub that does not tell":   {"", nil},
		"something that is not JSON": {"{", nil},
	} {
		w := order("7", manifest)
		if tc.users != "" {
			w.Annotations[topology.AnnotationStrategy] = tc.users
		}
		live := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{
			"rollingUpdate": map[string]any{"paused": true, "maxUnavailable": int64(1)},
		}}}}
		got, err := orphanAnnotation(w, live)
		if err != nil || got != tc.want {
			t.Errorf("%s: %v, %v, want %v", why, got, err, tc.want)
		}
	}
}
