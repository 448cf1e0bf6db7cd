package registration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestAcceptRefuses holds that nobody accepts a second cluster under a taken name, a cluster that is a member under
// another name, or the hub itself: each is refused with a sentence, and nothing is written.
func TestAcceptRefuses(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	k := newKeys(t)
	const hubID = "0e1f0000-0000-4000-8000-0000000000b0"
	other := func(change func(*topology.MemberCluster)) *topology.MemberCluster {
		m := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "west", UID: "w"}}
		change(m)
		return m
	}
	for _, tc := range []struct {
		name   string
		change func(*world)
		west   *topology.MemberCluster
		says   []string // nothing where it is accepted
	}{
		{"the name is reserved", func(*world) {}, nil, nil},
		{"another member is another cluster", func(*world) {},
			other(func(m *topology.MemberCluster) { m.Spec.ClusterID = "id-of-west" }), nil},
		{"the name is another cluster's", func(w *world) { w.member.Spec.ClusterID = "id-of-another" }, nil,
			[]string{"the name east is pinned to the cluster id-of-another", eastID, "flotilla leave east"}},
		{"the cluster is a member", func(*world) {}, other(func(m *topology.MemberCluster) { m.Spec.ClusterID = eastID }),
			[]string{"the cluster " + eastID + " is the member west already", "flotilla leave west"}},
		{"the cluster says that it is a member that nobody accepted yet", func(*world) {},
			other(func(m *topology.MemberCluster) { m.Status.ClusterID = eastID }),
			[]string{"is the member west already"}},
		{"the cluster is the hub", func(w *world) { w.csr.Annotations[topology.AnnotationClusterID] = hubID }, nil,
			[]string{"the hub's own, which cannot be its own member"}},
		{"the request names no cluster", func(w *world) { delete(w.csr.Annotations, topology.AnnotationClusterID) }, nil,
			[]string{"is no id of a cluster"}},
		{"the member goes", func(w *world) {
			w.member.DeletionTimestamp, w.member.Finalizers = new(metav1.Now()), []string{"example.org/held"}
		}, nil, []string{"is being deleted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := firstRequest(t, k)
			w.member.Spec = topology.MemberClusterSpec{}
			tc.change(w)
			system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: hubID}}
			objects := []client.Object{system, w.member, w.csr}
			if tc.west != nil {
				objects = append(objects, tc.west)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			before := w.member.Spec.DeepCopy()
			_, err := Accept(t.Context(), c, "east", "")
			if (err == nil) != (tc.says == nil) {
				t.Fatalf("it says %v", err)
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			after := &topology.MemberCluster{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(w.member), after); err != nil {
				t.Fatal(err)
			}
			if accepted := after.Spec.Accepted || after.Spec.ClusterID != before.ClusterID; accepted == (tc.says != nil) {
				t.Errorf("the MemberCluster is %+v, and was %+v", after.Spec, *before)
			}
		})
	}
}
