package rollout

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestCopyInAMemberIsRefused: the agent would take back what a verb changes there.
func TestCopyInAMemberIsRefused(t *testing.T) {
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, labels := range []map[string]string{nil, {topology.LabelHub: "id-hub"}} {
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&apps.CloneSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: labels}}).Build()
		_, err := get(t.Context(), c, wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"})
		refused := err != nil && strings.Contains(err.Error(), "name the hub with --context")
		if refused != (labels != nil) {
			t.Errorf("labels %v: %v", labels, err)
		}
	}
}
