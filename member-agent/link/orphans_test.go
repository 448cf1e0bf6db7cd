package link

import (
	"slices"
	"testing"

	"github.com/go-logr/logr/testr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

func TestOrphansAreReportedOnceEachAndOnlyAfterALook(t *testing.T) {
	l := &Link{
		config: Config{Log: testr.New(t)}, surveyed: make(chan struct{}, 1),
		orphans: orphans{vanished: map[types.NamespacedName]orphan{}},
	}
	member := &topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topology.AnnotationHubID: "hub"}},
		Status:     topology.MemberClusterStatus{Orphaned: 1, Orphans: []string{"ConfigMap shop/earlier"}},
	}
	reports := func(when string, count int32, want ...string) {
		t.Helper()
		status := topology.MemberClusterStatus{}
		l.orphaned(&status, member)
		if status.Orphaned != count || !slices.Equal(status.Orphans, want) {
			t.Errorf("%s: %d, %v; want %d, %v", when, status.Orphaned, status.Orphans, count, want)
		}
	}
	l.Orphaned(types.NamespacedName{Name: "a"}, "ConfigMap shop/a", "hub")
	reports("before the agent looked", 1, "ConfigMap shop/earlier")
	found := []string{"ConfigMap shop/a", "ConfigMap shop/b"}
	if !l.ReportOrphans(found) || l.ReportOrphans(found) {
		t.Error("only the first report is a change")
	}
	reports("found, and its Work vanished", 2, "ConfigMap shop/a", "ConfigMap shop/b")
	l.Orphaned(types.NamespacedName{Name: "c"}, "CloneSet.apps.kruise.io shop/c", "former")
	reports("of an earlier hub", 3, "CloneSet.apps.kruise.io shop/c (hub former)", "ConfigMap shop/a", "ConfigMap shop/b")
	delete(member.Annotations, topology.AnnotationHubID)
	reports("the hub does not say its id", 3, "CloneSet.apps.kruise.io shop/c", "ConfigMap shop/a", "ConfigMap shop/b")
	l.Orphaned(types.NamespacedName{Name: "c"}, "", "")
	l.Orphaned(types.NamespacedName{Name: "a"}, "", "")
	l.ReportOrphans(nil)
	reports("all are gone", 0)

	var many []string
	for i := range 40 {
		many = append(many, "ConfigMap shop/"+string(rune('A'+i)))
	}
	l.ReportOrphans(many)
	reports("more than are named", 40, many[:maxOrphans]...)
}
