package delivery

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// kindFor returns what the hub knows of a workload's kind.
func kindFor(o client.Object) kinds.Kind {
	if _, ok := o.(*apps.CloneSet); ok {
		return kinds.Workloads()[apps.CloneSetKind.GroupKind()]
	}
	return kinds.Workloads()[apps.UnitedDeploymentKind.GroupKind()]
}

func planOf(key wire.Key, hubID string, o client.Object, p *topology.WorkloadPlacement, add additions) ([]*work.Work,
	*kinds.Rejection, error) {
	return plan(kindFor(o), key, hubID, o, p, add)
}

func renderForOf(key wire.Key, o client.Object, p *topology.WorkloadPlacement, cells []topology.Cell,
	add additions) ([]byte, *kinds.Rejection, error) {
	return renderFor(kindFor(o), key, o, p, cells, add)
}

func renderOf(o client.Object, cells []topology.Cell, divider *apps.WorkloadSpread) ([]byte, error) {
	if divider == nil {
		return Render(kindFor(o), o, cells, nil)
	}
	return Render(kindFor(o), o, cells, divider)
}
