package newkind

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/hub/kinds"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// beaconKind is the entry of the hub's table.
func beaconKind() kinds.Kind {
	return kinds.Kind{
		GVK: beaconGVK, Mode: kinds.PerMember, ClusterScoped: true,
		New:     func() kinds.Object { return &Beacon{} },
		NewList: func() kinds.ObjectList { return &BeaconList{} },
		Read: func(o kinds.Object) (kinds.Workload, *kinds.Rejection) {
			spec := &o.(*Beacon).Spec
			w := kinds.NewWorkload(o, beaconGVK, nil)
			w.Revision, w.Paused = spec.Revision, spec.Paused
			w.Subsets = []kinds.Subset{{Amounts: spec.amounts}}
			return w, nil
		},
		Render: func(o kinds.Object, order *kinds.Order) (kinds.Manifest, error) {
			spec, _ := o.(*Beacon).Spec.granted(order.Cells)
			return kinds.Manifest{Spec: spec}, nil
		},
		Observe:  func(o kinds.Object) kinds.Observed { return o.(*Beacon).Status.observed(0) },
		Status:   func(o kinds.Object, s *kinds.Sum, now time.Time) bool { return o.(*Beacon).Status.sum(s, now) },
		StatusOf: func(o kinds.Object) any { return &o.(*Beacon).Status },
	}
}

// beaconMember is the agent's entry of the kind. A Beacon has a pod on each node.
func beaconMember() memberagent.Kind {
	return memberagent.Kind{
		GVK: beaconGVK,
		Add: func(_ context.Context, env *workload.Env) error {
			r := &controller[*Beacon]{parts: beaconParts}
			r.desired = func(ctx context.Context, _ *Beacon) (int32, error) {
				nodes := &corev1.NodeList{}
				err := r.Client.List(ctx, nodes)
				return int32(len(nodes.Items)), err
			}
			b := workload.For(env, r.kind(beaconGVK, func() *Beacon { return &Beacon{} },
				func() client.ObjectList { return &BeaconList{} }))
			r.Controller = b.Controller
			every := func(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
				beacons := &BeaconList{}
				_ = r.Client.List(ctx, beacons) // a cache that runs does not fail
				for i := range beacons.Items {
					name := types.NamespacedName{Name: beacons.Items[i].Name}
					requests = append(requests, reconcile.Request{NamespacedName: name})
				}
				return requests
			}
			b.Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(every))
			return b.Complete()
		},
		Reporting: func() workload.Reporting { return reporting(&Beacon{}, beaconParts) },
	}
}

func beaconParts(b *Beacon) (*Spec, *Status) { return &b.Spec, &b.Status }
