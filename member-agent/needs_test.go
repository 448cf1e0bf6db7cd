package memberagent_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// testNeeds gives an order before what it needs: it stands after that, and at once.
func (b *bed) testNeeds(t *testing.T) {
	w := order(t, 1, configMap("needing", "1"))
	w.Annotations[topology.AnnotationDependsOn] = "shop.needed"
	b.create(t, b.hub, w)
	b.condition(t, w, work.ReasonWaitingForDependencies)
	b.create(t, b.hub, order(t, 1, configMap("needed", "1")))
	needing, needed := b.value(t, "needing", "1"), b.value(t, "needed", "1")
	if needing.CreationTimestamp.Time.Before(needed.CreationTimestamp.Time) {
		t.Errorf("made at %s, what it needs at %s", needing.CreationTimestamp, needed.CreationTimestamp)
	}
	b.carried(t, w, 1)
}

// testClaims has a claim made, changed and withdrawn: it stands as it was made, and loses the hub's mark at last.
func (b *bed) testClaims(t *testing.T) {
	claim := func(size string) tree {
		return tree{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": tree{"namespace": "shop", "name": "data"},
			"spec": tree{"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "",
				"resources": tree{"requests": tree{"storage": size}}},
		}
	}
	w := order(t, 1, claim("1Gi"))
	b.create(t, b.hub, w)
	b.carried(t, w, 1)
	b.reorder(t, w, 2, claim("2Gi"))
	b.condition(t, w, work.ReasonApplied)
	b.gone(t, b.hub, deleted(t, b, w))
	stands := &corev1.PersistentVolumeClaim{}
	eventually(t, "the claim stands without the hub's mark", func(ctx context.Context) string {
		if err := b.member.Get(ctx, shop("data"), stands); err != nil {
			return err.Error()
		}
		if stands.Labels[topology.LabelHub] != "" || stands.DeletionTimestamp != nil {
			return "it is marked, or goes"
		}
		return ""
	})
	if got := stands.Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(resource.MustParse("1Gi")) != 0 {
		t.Errorf("the claim asks for %s now", got.String())
	}
	again := order(t, 3, claim("3Gi"))
	b.create(t, b.hub, again)
	b.condition(t, again, work.ReasonApplied)
	b.gone(t, b.hub, deleted(t, b, again))
}

// deleted deletes the Work and returns it.
func deleted(t *testing.T, b *bed, w *work.Work) *work.Work {
	t.Helper()
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
}
