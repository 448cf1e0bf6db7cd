package write_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/write"
)

var claimKey = types.NamespacedName{Namespace: "shop", Name: "data-web-abcde"}

func controlledBy(kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps.kruise.io/v1beta1", Kind: kind, Name: name, UID: uid,
		Controller: new(true)}
}

func claimOf(owners ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claimKey.Namespace, Name: claimKey.Name,
		OwnerReferences: owners}}
}

// claimWriter returns a writer over an API server that has these claims, and the claims as they are there.
func claimWriter(t *testing.T, intercept interceptor.Funcs, claims ...*corev1.PersistentVolumeClaim) (*write.Writer,
	*corev1.PersistentVolumeClaim) {
	t.Helper()
	builder := fake.NewClientBuilder().WithInterceptorFuncs(intercept)
	for _, claim := range claims {
		builder.WithObjects(claim)
	}
	w := &write.Writer{Client: builder.Build(), Claims: freshness.NewStore(clocktesting.NewFakePassiveClock(time.Unix(0,
		0)))}
	have := &corev1.PersistentVolumeClaim{}
	if len(claims) > 0 {
		if err := w.Client.Get(t.Context(), claimKey, have); err != nil {
			t.Fatal(err)
		}
	}
	return w, have
}

// waits tells whether the cache, showing this, lacks a write of owner u.
func waits(w *write.Writer, seen freshness.Seen) bool {
	fresh, _ := w.Claims.Fresh("u", func(types.NamespacedName) freshness.Seen { return seen })
	return !fresh
}

func TestCreateClaim(t *testing.T) {
	ours, theirs := controlledBy("CloneSet", "web", "u"), controlledBy("StatefulSet", "db", "v")
	leaving := claimOf(ours)
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.NewTime(time.Unix(1, 0))),
		[]string{"kubernetes.io/pvc-protection"}
	refused := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object,
			...client.CreateOption) error {
			return err
		}}
	}
	resource := schema.GroupResource{Resource: "persistentvolumeclaims"}
	tests := []struct {
		name                   string
		intercept              interceptor.Funcs
		have                   []*corev1.PersistentVolumeClaim
		fails, conflict, waits bool
	}{
		{name: "a new one", waits: true},
		{name: "ours exists", have: []*corev1.PersistentVolumeClaim{claimOf(ours)}},
		{name: "another's exists", have: []*corev1.PersistentVolumeClaim{claimOf(theirs)}, fails: true, conflict: true},
		{name: "nobody's exists", have: []*corev1.PersistentVolumeClaim{claimOf()}, fails: true, conflict: true},
		{name: "ours is being deleted", have: []*corev1.PersistentVolumeClaim{leaving}, fails: true},
		{name: "one exists that the cache lacks", intercept: refused(apierrors.NewAlreadyExists(resource, claimKey.Name)),
			fails: true, waits: true},
		{name: "a quota refuses", intercept: refused(apierrors.NewForbidden(resource, claimKey.Name, errors.New("quota"))),
			fails: true},
		{name: "the answer is lost", intercept: refused(errors.New("connection reset")), fails: true, waits: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, before := claimWriter(t, tt.intercept, tt.have...)
			err := w.CreateClaim(t.Context(), "u", claimOf(ours))
			var conflict *volumes.Conflict
			if (err != nil) != tt.fails || errors.As(err, &conflict) != tt.conflict {
				t.Errorf("error %v", err)
			}
			if got := waits(w, freshness.Seen{}); got != tt.waits {
				t.Errorf("waits for the cache: %v", got)
			}
			if len(tt.have) > 0 {
				after := &corev1.PersistentVolumeClaim{}
				if err := w.Client.Get(t.Context(), claimKey, after); err != nil ||
					after.ResourceVersion != before.ResourceVersion {
					t.Errorf("the claim was touched: %v, %v", after, err)
				}
			}
		})
	}
}

func TestDeleteClaim(t *testing.T) {
	seen := freshness.Seen{Present: true, ResourceVersion: "999"}
	var asked *client.DeleteOptions
	w, have := claimWriter(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object,
		opts ...client.DeleteOption) error {
		asked = (&client.DeleteOptions{}).ApplyOptions(opts)
		return c.Delete(ctx, obj, opts...)
	}}, claimOf())
	if err := w.DeleteClaim(t.Context(), "u", have); err != nil || !waits(w, seen) {
		t.Errorf("error %v, or the deletion is not waited for", err)
	}
	if p := asked.Preconditions; p == nil || *p.UID != have.UID || *p.ResourceVersion != have.ResourceVersion {
		t.Errorf("asked with %+v", asked)
	}
	if err := w.DeleteClaim(t.Context(), "u", have); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "persistentvolumeclaims"}, claimKey.Name,
		errors.New("changed"))
	w, have = claimWriter(t, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object,
		...client.DeleteOption) error {
		return conflict
	}}, claimOf())
	if err := w.DeleteClaim(t.Context(), "u", have); !apierrors.IsConflict(err) || waits(w, seen) {
		t.Errorf("one that has changed: %v", err)
	}
}

func TestOwnClaim(t *testing.T) {
	pod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web-abcde", UID: "p"}
	w, have := claimWriter(t, interceptor.Funcs{}, claimOf(controlledBy("CloneSet", "web", "u")))
	if err := w.OwnClaim(t.Context(), "u", have, []metav1.OwnerReference{pod}); err != nil {
		t.Fatal(err)
	}
	after := &corev1.PersistentVolumeClaim{}
	if err := w.Client.Get(t.Context(), claimKey, after); err != nil || len(after.OwnerReferences) != 1 ||
		after.OwnerReferences[0] != pod {
		t.Errorf("owners %v, %v", after.OwnerReferences, err)
	}
	if !waits(w, freshness.Seen{Present: true, ResourceVersion: have.ResourceVersion}) || len(have.OwnerReferences) != 1 ||
		have.OwnerReferences[0].UID != "u" {
		t.Error("the write is not waited for, or the cache's own claim has changed")
	}
	if err := w.OwnClaim(t.Context(), "u", have, nil); !apierrors.IsConflict(err) {
		t.Errorf("one that has changed since: %v", err)
	}
	if err := w.Client.Delete(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if err := w.OwnClaim(t.Context(), "u", after, nil); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// TestCreateClaimWithoutAController: such a claim belongs to its owner by its name alone.
func TestCreateClaimWithoutAController(t *testing.T) {
	owned := claimOf(metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "p"})
	for name, tt := range map[string]struct {
		have     *corev1.PersistentVolumeClaim
		conflict bool
	}{
		"one without owners exists": {claimOf(), false},
		"one of a pod exists":       {owned, false},
		"another's exists":          {claimOf(controlledBy("CloneSet", "web", "v")), true},
	} {
		w, _ := claimWriter(t, interceptor.Funcs{}, tt.have)
		err := w.CreateClaim(t.Context(), "u", claimOf())
		if conflict := (*volumes.Conflict)(nil); errors.As(err, &conflict) != tt.conflict || (err != nil) != tt.conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGrowClaim(t *testing.T) {
	w, have := claimWriter(t, interceptor.Funcs{}, claimOf())
	growth := volumes.Growth{Claim: have, Storage: resource.MustParse("2Gi")}
	if err := w.GrowClaim(t.Context(), "u", growth, "example/owner", "web"); err != nil {
		t.Fatal(err)
	}
	after := &corev1.PersistentVolumeClaim{}
	if err := w.Client.Get(t.Context(), claimKey, after); err != nil {
		t.Fatal(err)
	}
	if after.Spec.Resources.Requests.Storage().String() != "2Gi" || after.Annotations["example/owner"] != "web" {
		t.Errorf("storage %s, annotations %v", after.Spec.Resources.Requests.Storage(), after.Annotations)
	}
	if !waits(w, freshness.Seen{Present: true, ResourceVersion: have.ResourceVersion}) {
		t.Error("the write is not waited for")
	}
}
