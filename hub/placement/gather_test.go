package placement

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// indexer gives the hub's indexes to a fake client.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(o, field, extract)
	return nil
}

// hubWith returns a client of a hub with these objects in the federated namespace "ns".
func hubWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, apps.AddToScheme,
		topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns",
			Labels: map[string]string{topology.LabelFederated: "true"}}},
	).WithInterceptorFuncs(funcs)
	if err := store.Index(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	return builder.Build()
}

// TestOrdersAreReadBeforeMembers holds the order of reading: what a silent member holds is reclaimed when its lower
// order stood while it was silent. Members that are read first may have come back before that order was written.
func TestOrdersAreReadBeforeMembers(t *testing.T) {
	var read []string
	c := hubWith(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			read = append(read, fmt.Sprintf("%T", list))
			return c.List(ctx, list, opts...)
		},
	}, cloneSet())
	g := &Gatherer{reader: c, rules: kinds.Workloads(), hubID: "hub",
		clock: clocktesting.NewFakePassiveClock(time.Unix(100, 0))}
	if _, err := g.Gather(t.Context(), wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "ns",
		Name: "web"}); err != nil {
		t.Fatal(err)
	}
	works, members := slices.Index(read, "*v1alpha1.WorkList"), slices.Index(read, "*v1alpha1.MemberClusterList")
	if works < 0 || members < works {
		t.Errorf("read %v", read)
	}
}
