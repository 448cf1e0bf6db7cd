package delivery

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func setOrder(cluster, spec string) *work.Work {
	w := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: wire.MemberNamespace(cluster), Name: "shop.db"}}
	w.Spec.Workload.Manifests = []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"spec":` + spec + `}`)}}}
	return w
}

func TestTakeOver(t *testing.T) {
	east, west := `{"replicas":3}`, `{"replicas":2,"ordinals":{"start":1000}}`
	for _, tc := range []struct {
		name      string
		old, want []string
		later     []bool
	}{
		{"nothing changes", []string{east, west}, []string{east, west}, []bool{false, false}},
		{"a member grows in its own ordinals", []string{east, west},
			[]string{`{"replicas":9}`, west}, []bool{false, false}},
		{"a member takes over the ordinals of another one", []string{east, west},
			[]string{`{"replicas":5,"reserveOrdinals":["3-999"]}`, `{"replicas":0,"ordinals":{"start":2000}}`},
			[]bool{true, false}},
		{"a new member does", []string{"", west},
			[]string{`{"replicas":1,"ordinals":{"start":1001}}`, west}, []bool{true, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var old, want []*work.Work
			for i, cluster := range []string{"east", "west"} {
				old, want = append(old, nil), append(want, setOrder(cluster, tc.want[i]))
				if tc.old[i] != "" {
					old[i] = setOrder(cluster, tc.old[i])
				}
			}
			if got := takeOver(old, want); !slices.Equal(got, tc.later) {
				t.Errorf("written later: %v, want %v", got, tc.later)
			}
		})
	}
}

// TestMovedOrdinalsAreTakenAwayFirst holds that no member gets ordinals before the order of the member that had them is
// written.
func TestMovedOrdinalsAreTakenAwayFirst(t *testing.T) {
	east, west := setOrder("east", `{"replicas":3}`), setOrder("west", `{"replicas":2,"ordinals":{"start":1000}}`)
	var wrote []string
	refused := errors.New("no")
	c := interceptor.NewClient(hubClient(t, east, west), interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if o.GetNamespace() == west.Namespace && refused != nil {
				return refused
			}
			wrote = append(wrote, o.GetNamespace())
			return c.Patch(ctx, o, p, opts...)
		},
	})
	clk := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	r := NewReconciler(c, c, kinds.Workloads(), clk, "hub", placement.NewOutcomes())
	p := &topology.WorkloadPlacement{}
	p.Spec.Ordinals = &topology.Ordinals{}
	s := &state{
		key:       wire.Key{Group: "apps.kruise.io", Kind: "StatefulSet", Namespace: "shop", Name: "db"},
		placement: p, works: []work.Work{*east, *west},
	}
	apply := func() error {
		want := []*work.Work{
			setOrder("east", `{"replicas":5,"reserveOrdinals":["3-999"]}`),
			setOrder("west", `{"replicas":0,"ordinals":{"start":2000}}`),
		}
		_, err := r.apply(t.Context(), s, want)
		return err
	}
	if err := apply(); !errors.Is(err, refused) || len(wrote) > 0 {
		t.Errorf("%v, wrote %v: the order of west could not be written", err, wrote)
	}
	refused = nil
	if err := apply(); err != nil || !slices.Equal(wrote, []string{west.Namespace, east.Namespace}) {
		t.Errorf("%v, wrote %v, want west first", err, wrote)
	}
}
