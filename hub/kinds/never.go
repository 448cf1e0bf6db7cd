package kinds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// NeverPlaced returns why a hub never places a kind and what to do, and false for any other kind. These kinds name pods or nodes
// of one cluster.
func NeverPlaced(kind schema.GroupKind) (string, bool) {
	if kind.Group != apps.GroupVersion.Group {
		return "", false
	}
	switch kind.Kind {
	case "ContainerRecreateRequest", "EphemeralJob":
		return fmt.Sprintf("%[1]s, which names pods of one cluster: apply the %[1]s in the member that runs them", kind.Kind), true
	case "NodeImage", "NodePodProbe":
		return fmt.Sprintf("%[1]s, which names a node of one cluster: apply the %[1]s in the member that has it", kind.Kind), true
	}
	return "", false
}
