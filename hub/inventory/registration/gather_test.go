package registration

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestATokenThatIsMadeMeanwhileStays: a name is reserved again while the approver looks at what an earlier member of it
// left.
func TestATokenThatIsMadeMeanwhileStays(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	made, now := false, time.Unix(1000, 0)
	server := fake.NewClientBuilder().WithScheme(scheme).Build()
	token := func(ctx context.Context) {
		if made {
			return
		}
		made = true
		member, err := reserve(ctx, server, "east")
		if err != nil {
			t.Fatal(err)
		}
		account, err := ensureAccount(ctx, server, member)
		if err != nil {
			t.Fatal(err)
		}
		account.Annotations = map[string]string{topology.AnnotationExpires: now.Add(time.Hour).UTC().Format(time.RFC3339)}
		if err := server.Update(ctx, account); err != nil {
			t.Fatal(err)
		}
	}
	cached := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			opts ...client.GetOption) error {
			token(ctx)
			return c.Get(ctx, key, object, opts...)
		},
	})
	r := &Reconciler{client: cached, live: server, clock: clocktesting.NewFakePassiveClock(now)}
	f, err := r.gather(t.Context(), "east")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.apply(t.Context(), plan(f)); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: topology.SystemNamespace, Name: topology.JoinObject("east")}
	if err := server.Get(t.Context(), key, &corev1.ServiceAccount{}); err != nil {
		t.Errorf("the ServiceAccount of the token: %v", err)
	}
}
