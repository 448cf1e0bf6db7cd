package registration

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// TestForget holds that the Works of other systems, and the namespace that has some, stay as they are, and that the
// member's Lease goes from there all the same.
func TestForget(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		shared bool
	}{{"a namespace of its own", false}, {"a namespace with a Work of another system", true}} {
		t.Run(tc.name, func(t *testing.T) {
			own := &work.Work{ObjectMeta: metav1.ObjectMeta{
				Namespace: "karmada-es-east", Name: "own", Annotations: map[string]string{topology.AnnotationHubID: "hub"},
				Finalizers: []string{work.ExecutionFinalizer},
			}}
			other := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "other",
				Finalizers: []string{work.ExecutionFinalizer}}}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "east"}}
			objects := []client.Object{memberNamespaceOf("east"), own, lease}
			if tc.shared {
				objects = append(objects, other)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			if works, _, err := Orders(t.Context(), c, "east"); err != nil || works != 1 {
				t.Errorf("%d orders, %v", works, err)
			}
			if err := Preserve(t.Context(), c, "east"); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil ||
				own.Spec.PreserveResourcesOnDeletion == nil || !*own.Spec.PreserveResourcesOnDeletion {
				t.Errorf("what it made does not stay: %+v, %v", own.Spec, err)
			}
			for want := 1; want >= 0; want-- {
				if left, err := Forget(t.Context(), c, "east"); err != nil || left != want {
					t.Errorf("%d left, want %d, %v", left, want, err)
				}
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(memberNamespaceOf("east")), &corev1.Namespace{})
			if tc.shared && err != nil || !tc.shared && !apierrors.IsNotFound(err) {
				t.Errorf("its namespace: %v", err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); !apierrors.IsNotFound(err) {
				t.Errorf("its Lease: %v", err)
			}
			if !tc.shared {
				return
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || len(other.Finalizers) != 1 ||
				other.Spec.PreserveResourcesOnDeletion != nil {
				t.Errorf("the other system's Work: %+v, %v", other, err)
			}
		})
	}
}

// TestInspectRefused holds that nobody accepts a request that can never have a certificate.
func TestInspectRefused(t *testing.T) {
	w := firstRequest(t, newKeys(t))
	if _, err := inspect(w.csr, w.member); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []certificatesv1.RequestConditionType{certificatesv1.CertificateDenied,
		certificatesv1.CertificateFailed} {
		w.csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}, {Type: kind}}
		if _, err := inspect(w.csr, w.member); err == nil {
			t.Errorf("a request that is %s is accepted", kind)
		}
	}
}
