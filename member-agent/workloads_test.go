package memberagent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func podTemplate(name, image string) tree {
	return tree{
		"metadata": tree{"labels": tree{"app": name}},
		"spec":     tree{"containers": []any{tree{"name": "main", "image": image}}},
	}
}

func cloneSet(namespace, name string, replicas int, image string) tree {
	return tree{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": tree{"namespace": namespace, "name": name},
		"spec": tree{
			"replicas": replicas, "selector": tree{"matchLabels": tree{"app": name}},
			"template": podTemplate(name, image),
		},
	}
}

// uses waits until the Work is healthy and its report answers the sequence with these amounts.
func (b *bed) uses(t *testing.T, w *work.Work, sequence int64, want ...work.SubsetUse) {
	t.Helper()
	got := &work.Work{}
	eventually(t, fmt.Sprintf("Work %s reports order %d at rest", w.Name, sequence), func(ctx context.Context) string {
		if err := b.hub.Get(ctx, client.ObjectKeyFromObject(w), got); err != nil {
			return err.Error()
		}
		s := got.Status
		if s.Report == nil || s.Report.Sequence != sequence || len(s.ManifestStatuses) != 1 ||
			s.ManifestStatuses[0].Health != work.ResourceHealthy {
			return fmt.Sprintf("report %+v, objects %+v", s.Report, s.ManifestStatuses)
		}
		return cmp.Diff(want, s.Report.InUse)
	})
}

func use(subset string, pods int32) work.SubsetUse {
	return work.SubsetUse{Subset: subset, Desired: pods, Total: pods, Ready: pods, Available: pods, Updated: pods,
		UpdatedReady: pods, UpdatedAvailable: pods}
}

func (b *bed) testCloneSet(t *testing.T) {
	w := order(t, 1, cloneSet("shop", "clones", 3, "registry.example/web:1"))
	b.create(t, b.hub, w)
	b.uses(t, w, 1, use("", 3))
	b.reorder(t, w, 2, cloneSet("shop", "clones", 2, "registry.example/web:2"))
	b.uses(t, w, 2, use("", 2))
	if err := b.hub.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.gone(t, b.hub, w)
	eventually(t, "the pods go", func(ctx context.Context) string {
		pods := &corev1.PodList{}
		if err := b.member.List(ctx, pods, client.InNamespace("shop"), client.MatchingLabels{"app": "clones"}); err != nil {
			return err.Error()
		}
		return missing(len(pods.Items) == 0, len(pods.Items))
	})
}

func (b *bed) testUnitedDeployment(t *testing.T) {
	subset := func(zone string, replicas int) tree {
		return tree{"name": "zone-" + zone, "replicas": replicas, "nodeSelectorTerm": tree{"matchExpressions": []any{
			tree{"key": corev1.LabelTopologyZone, "operator": "In", "values": []any{zone}},
		}}}
	}
	w := order(t, 1, tree{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment",
		"metadata": tree{"namespace": "shop", "name": "united"},
		"spec": tree{
			"replicas": 3, "selector": tree{"matchLabels": tree{"app": "united"}},
			"template": tree{"cloneSetTemplate": tree{
				"metadata": tree{"labels": tree{"app": "united"}},
				"spec": tree{"selector": tree{"matchLabels": tree{"app": "united"}},
					"template": podTemplate("united", "registry.example/web:1")},
			}},
			"topology": tree{"subsets": []any{subset("a", 2), subset("b", 1)}},
		},
	})
	b.create(t, b.hub, w)
	b.uses(t, w, 1, use("zone-a", 2), use("zone-b", 1))
}

// testStartAlone starts an agent while the hub is away: it repairs what it was ordered before, and runs workloads.
func (b *bed) testStartAlone(t *testing.T, start func()) {
	if err := b.fleet.Hub().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What the agent before carried out is known from the member's own copies.
	drifted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "away"}}
	if err := b.member.Patch(t.Context(), drifted, client.RawPatch(types.MergePatchType,
		[]byte(`{"data":{"key":"changed"}}`))); err != nil {
		t.Fatal(err)
	}
	if err := b.member.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
		Name: "vanish-witness"}}); err != nil {
		t.Fatal(err)
	}
	start()
	b.value(t, "away", "next")
	b.value(t, "vanish-witness", "1")
	b.create(t, b.member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hubs",
		Labels: map[string]string{topology.LabelFederated: "true"}}})
	b.create(t, b.member, &unstructured.Unstructured{Object: cloneSet("hubs", "federated", 1, "registry.example/web:1")})
	b.create(t, b.member, &unstructured.Unstructured{Object: cloneSet("shop", "local", 1, "registry.example/web:1")})
	set := &apps.CloneSet{}
	eventually(t, "the local CloneSet has its pod", func(ctx context.Context) string {
		if err := b.member.Get(ctx, shop("local"), set); err != nil {
			return err.Error()
		}
		return missing(set.Status.ReadyReplicas == 1, set.Status)
	})
	if err := b.member.Get(t.Context(), types.NamespacedName{Namespace: "hubs", Name: "federated"}, set); err != nil {
		t.Fatal(err)
	}
	if set.Status.ObservedGeneration != 0 {
		t.Errorf("the agent acted on a CloneSet that a hub owns: %+v", set.Status)
	}
	if err := b.fleet.Hub().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := order(t, 1, configMap("found", "1"))
	b.create(t, b.hub, w)
	b.value(t, "found", "1")
	b.carried(t, w, 1)
}

// testRefused gives the agent's name to another cluster, and back.
func (b *bed) testRefused(t *testing.T) {
	b.quiet(t) // what it tells of itself while it does not know yet that the name is another's is not meant
	member := &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	if err := b.hub.Delete(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	b.gone(t, b.hub, member)
	b.join(t, "another-cluster")
	eventually(t, "the refused agent tells the hub", func(ctx context.Context) string {
		if err := b.hub.Get(ctx, types.NamespacedName{Name: cluster}, member); err != nil {
			return err.Error()
		}
		return missing(member.Status.RefusedClusterID == b.clusterID, member.Status)
	})
	if member.Status.ClusterID != "" || member.Status.Nodes != "" {
		t.Errorf("the refused agent reported as if the name were its own: %+v", member.Status)
	}
	w := order(t, 1, configMap("refused", "1"))
	b.create(t, b.hub, w)
	b.quiet(t)
	if err := b.member.Get(t.Context(), shop("refused"), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the refused agent carried out an order (%v)", err)
	}
	if err := b.hub.Delete(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	b.gone(t, b.hub, member)
	b.join(t, b.clusterID)
	b.value(t, "refused", "1")
}
