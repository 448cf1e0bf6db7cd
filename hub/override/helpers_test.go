package override

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// guardedIn returns what no override may change in a manifest of a kind of the suite.
func guardedIn(manifest []byte) []string {
	var read struct{ Kind string }
	_ = json.Unmarshal(manifest, &read) // what is no object has no kind
	return kinds.Workloads()[schema.GroupKind{Group: "apps.kruise.io", Kind: read.Kind}].Guarded
}

func applyGuarded(manifest []byte, entries []Entry) ([]byte, *Misfit, error) {
	return Apply(manifest, entries, guardedIn(manifest))
}
