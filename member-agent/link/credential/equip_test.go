package credential

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flotilla-dev/flotilla/member-agent/rights"
)

// TestEquipLeavesChart holds that a role of the agent that the chart made stays as it is, and that any other is made
// right.
func TestEquipLeavesChart(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		rules  int
	}{
		"made by the chart":   {map[string]string{"app.kubernetes.io/managed-by": "Helm"}, 0},
		"made by an old join": {nil, len(rights.Rules())},
	} {
		t.Run(name, func(t *testing.T) {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-agent", Labels: test.labels}}
			c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(role).Build()
			join := &Join{Name: "east", UID: "uid", Server: "https://hub.example.org", Token: "token", Expires: time.Now()}
			for range 2 { // it can be run again
				if _, err := Equip(t.Context(), c, join); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
				t.Fatal(err)
			}
			if len(role.Rules) != test.rules {
				t.Errorf("the role has %d rules, want %d", len(role.Rules), test.rules)
			}
		})
	}
}
