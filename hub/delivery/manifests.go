package delivery

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Manifests returns what each member gets of a workload by a placement, by the member's name, and writes nothing.
// previous are the manifests that members have now: subsets that the workload no longer has are read from them. The
// result is nil if the placement was decided with another policy, member or WorkloadSpread than the reader has; the
// Rejection says why nothing can be delivered.
func Manifests(
	ctx context.Context,
	reader client.Reader,
	kind kinds.Kind,
	object client.Object,
	p *topology.WorkloadPlacement,
	previous map[string][]byte,
) (map[string][]byte, *kinds.Rejection, error) {
	add, same, err := inputs{reader}.additions(ctx, kind, p)
	if err != nil || !same {
		return nil, nil, err
	}
	if kind.Former != nil && kind.Former.In(object, p.Spec.Cells) {
		add.subsets = map[string]map[string]map[string]any{}
		for member, manifest := range previous {
			subsets, err := kind.Former.Read(manifest)
			if err != nil {
				return nil, nil, fmt.Errorf("read the manifest of member %s: %w", member, err)
			}
			add.subsets[wire.MemberNamespace(member)] = subsets
		}
	}
	key := wire.KeyFor(kind.GVK.GroupKind(), object)
	works, rejection, err := plan(kind, key, "", placement.InForce(kind, object, p), p, add)
	if rejection != nil || err != nil {
		return nil, rejection, err
	}
	manifests := map[string][]byte{}
	for _, w := range works {
		member, _ := wire.MemberOf(w.Namespace) // key.Work made it
		manifests[member] = w.Spec.Workload.Manifests[0].Raw
	}
	return manifests, nil, nil
}
