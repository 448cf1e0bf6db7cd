package link

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestARestoredHubIsListedAnew holds that the agent ends when its Lease on the hub is an older one than it wrote last,
// or gone, also where the hub has come farther since; and that a lost answer, or another hub process, is no such thing.
func TestARestoredHubIsListedAnew(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "karmada-es-east", Name: "east"}
	for _, tc := range []struct {
		name string
		// happens to the Lease between two renewals; lost: the answer of the first one does not come.
		happens func(t *testing.T, c client.Client)
		lost    bool
		ends    bool
	}{
		{"nothing", func(*testing.T, client.Client) {}, false, false},
		{"an answer is lost", func(*testing.T, client.Client) {}, true, false},
		{"a restored hub has an older one", func(t *testing.T, c client.Client) {
			replace(t, c, key, "1") // and whatever else is written there has higher numbers
		}, false, true},
		{"a hub that was restored from before has none", func(t *testing.T, c client.Client) { replace(t, c, key, "") },
			false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lose := false
			c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
					opts ...client.PatchOption) error {
					err := c.Patch(ctx, o, patch, opts...)
					if lose && err == nil {
						err = errors.New("connection reset by peer")
					}
					return err
				},
			})
			clock := testclock.NewFakeClock(time.Unix(1000, 0))
			ctx, end := context.WithCancelCause(t.Context())
			l := &Link{end: end, client: c, config: Config{ClusterName: "east", Clock: clock}}
			renew := func() error {
				clock.Step(10 * time.Second)
				return l.renew(t.Context(), "id-east")
			}
			for range 3 {
				if err := renew(); err != nil {
					t.Fatal(err)
				}
			}
			if lose = tc.lost; lose {
				if err := renew(); err == nil {
					t.Fatal("the answer came")
				}
				lose = false
			}
			tc.happens(t, c)
			err := renew()
			if ended := errors.Is(context.Cause(ctx), errRestored); ended != tc.ends || !tc.ends && err != nil {
				t.Fatalf("ended: %t, %v", ended, err)
			}
			if !tc.ends {
				lease := &coordinationv1.Lease{}
				if err := c.Get(t.Context(), key, lease); err != nil || !lease.Spec.RenewTime.Time.Equal(clock.Now()) {
					t.Errorf("the Lease is not renewed: %v, %v", lease.Spec.RenewTime, err)
				}
			}
		})
	}
}

// replace puts a Lease of a resource version in the place of the one that stands, or nothing where the version is
// empty.
func replace(t *testing.T, c client.Client, key client.ObjectKey, version string) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := c.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if version == "" {
		return
	}
	lease.ResourceVersion = ""
	if err := c.Create(t.Context(), lease); err != nil { // the fake begins with version 1
		t.Fatal(err)
	}
	if lease.ResourceVersion != version {
		t.Fatalf("it has version %s", lease.ResourceVersion)
	}
}
