package kinds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// never returns the kinds of mode [Never]. They are no part of a hub's table: no controller of a hub watches them, since
// a hub does not serve most of them, and their statuses have no conditions. What names such a kind on a hub, as a policy
// or a manifest that is planned, is answered with the sentence of [NeverPlaced].
func never() []Kind {
	version := apps.GroupVersion.Group + "/v1alpha1"
	var rows []Kind
	for _, kind := range []string{"ContainerRecreateRequest", "EphemeralJob", "NodeImage", "NodePodProbe"} {
		rows = append(rows, Kind{GVK: schema.FromAPIVersionAndKind(version, kind), Mode: Never})
	}
	return rows
}

// NeverPlaced returns why a hub never places a kind and what to do, and false for any other kind.
func NeverPlaced(kind schema.GroupKind) (string, bool) {
	row, ok := tableOf(never()...)[kind]
	if !ok {
		return "", false
	}
	switch row.GVK.Kind {
	case "NodeImage", "NodePodProbe":
		return fmt.Sprintf("%[1]s, which names a node of one cluster: apply the %[1]s in the member that has it", kind.Kind), true
	default:
		return fmt.Sprintf("%[1]s, which names pods of one cluster: apply the %[1]s in the member that runs them", kind.Kind), true
	}
}
