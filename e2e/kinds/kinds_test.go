package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// TestNewObjectsAreRead holds that each kind makes objects that its type has all fields of, and that their limits can
// be read.
func TestNewObjectsAreRead(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apps.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range All() {
		t.Run(kind.Kind, func(t *testing.T) {
			containers := []any{map[string]any{"name": "main", "image": "web:1"}}
			inner := map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}
			merge(inner, map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": 2}}})
			object, err := kind.Object("run", "web", 8, inner)
			if err != nil {
				t.Fatal(err)
			}
			typed, err := scheme.New(kind.GroupVersionKind)
			if err != nil {
				t.Fatal(err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed,
				true); err != nil {
				t.Fatal(err)
			}
			desired := kind.Desired(typed.(client.Object))
			if desired.Workload != "web" || desired.Replicas != 8 || desired.Amounts("", 8).Unavailable != 2 {
				t.Errorf("read %+v with %+v", desired, desired.Amounts("", 8))
			}
		})
	}
}

func TestOf(t *testing.T) {
	for _, kind := range All() {
		found, ok := Of(kind.GroupKind())
		if diff := cmp.Diff(kind.GroupVersionKind, found.GroupVersionKind); !ok || diff != "" {
			t.Errorf("%s: %t, -want +got:\n%s", kind.Kind, ok, diff)
		}
	}
	if _, ok := Of(apps.GroupVersion.WithKind("Unknown").GroupKind()); ok {
		t.Error("a kind that is not in the table was found")
	}
}
