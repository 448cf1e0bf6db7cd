package memberagent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// marked returns the object with the label of a hub.
func marked(hub string, object tree) tree {
	metadata := object["metadata"].(tree)
	metadata["labels"] = tree{topology.LabelHub: hub}
	metadata["annotations"] = tree{topology.AnnotationSequence: "7"}
	return object
}

// testOrphans: objects that carry the hub's label without a Work or a copy of one, as an earlier membership under
// another name, a restored backup or a copy by hand leaves them.
func (b *bed) testOrphans(t *testing.T) {
	makes := func(object tree) *unstructured.Unstructured {
		t.Helper()
		made := &unstructured.Unstructured{Object: object}
		b.create(t, b.member, made)
		return made
	}
	w := order(t, 1, configMap("original", "1"))
	b.create(t, b.hub, w)
	b.condition(t, w, work.ReasonApplied)
	original := b.value(t, "original", "1")
	b.orphans(t)

	// No event tells of a kind that no Work names, so it comes first.
	labels := tree{"app": "former"}
	containers := []any{tree{"name": "main", "image": "web:1"}}
	pod := tree{"metadata": tree{"labels": labels}, "spec": tree{"containers": containers}}
	child := tree{"metadata": tree{"labels": labels}, "spec": tree{"template": pod}}
	set := makes(marked(hubID, tree{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment",
		"metadata": tree{"namespace": "shop", "name": "former"},
		"spec": tree{
			"replicas": int64(0), "selector": tree{"matchLabels": labels}, "template": tree{"cloneSetTemplate": child},
			"topology": tree{"subsets": []any{tree{"name": "a"}}},
		},
	}))
	copied := original.DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{
		Namespace: "shop", Name: "copied", Labels: original.Labels, Annotations: original.Annotations,
	}
	b.create(t, b.member, copied)
	restored := makes(marked(hubID, configMap("restored", "1")))
	makes(marked(hubID, configMap("stays", "1"))) // for the tests after this one
	others := makes(marked("hub-2", configMap("others", "1")))
	dependent := marked(hubID, configMap("child", "1"))
	dependent["metadata"].(tree)["ownerReferences"] = []any{tree{
		"apiVersion": "v1", "kind": "ConfigMap", "name": original.Name, "uid": string(original.UID), "controller": true,
	}}
	owned := makes(dependent)
	makes(marked(hubID, configMap("late", "before")))
	seen := b.watchOrphans(t)
	b.rounds(t, 4*time.Second)
	b.create(t, b.hub, order(t, 8, configMap("late", "after")))
	b.value(t, "late", "after")

	all := []string{
		"ConfigMap shop/copied", "ConfigMap shop/restored", "ConfigMap shop/stays",
		"UnitedDeployment.apps.kruise.io shop/former",
	}
	b.orphans(t, all...)
	for _, reported := range seen() {
		if slices.ContainsFunc(reported, func(name string) bool { return !slices.Contains(all, name) }) {
			t.Errorf("the agent reported %v on the way to %v", reported, all)
		}
	}

	// Each way to end it.
	if err := b.member.Delete(t.Context(), restored); err != nil {
		t.Fatal(err)
	}
	b.orphans(t, "ConfigMap shop/copied", "ConfigMap shop/stays", "UnitedDeployment.apps.kruise.io shop/former")
	unlabel := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, topology.LabelHub)
	if err := b.member.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, unlabel)); err != nil {
		t.Fatal(err)
	}
	b.create(t, b.hub, order(t, 2, configMap("copied", "taken over")))
	if got := b.value(t, "copied", "taken over"); got.UID != copied.UID {
		t.Error("the object was made anew")
	}
	b.orphans(t, "ConfigMap shop/stays")

	for _, object := range []client.Object{others, owned, set} {
		err := b.member.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if err != nil || object.GetDeletionTimestamp() != nil {
			t.Errorf("%s was touched: %v", object.GetName(), err)
		}
		if err := b.member.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// rounds lets the agent look for a while: what it must not report would be reported then.
func (b *bed) rounds(t *testing.T, long time.Duration) {
	t.Helper()
	never := func(context.Context) (bool, error) { return false, nil }
	_ = wait.PollUntilContextTimeout(t.Context(), time.Second, long, false, never)
}

// watchOrphans collects what the MemberCluster names from now on. The returned function ends that.
func (b *bed) watchOrphans(t *testing.T) (end func() [][]string) {
	t.Helper()
	c, err := client.NewWithWatch(b.fleet.Hub().RESTConfig(), client.Options{Scheme: b.hub.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Watch(t.Context(), &topology.MemberClusterList{})
	if err != nil {
		t.Fatal(err)
	}
	reported, ended := [][]string{}, make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			if m, ok := event.Object.(*topology.MemberCluster); ok {
				reported = append(reported, m.Status.Orphans)
			}
		}
	}()
	return func() [][]string {
		events.Stop()
		<-ended
		return reported
	}
}

// testOrphansAfterRestart restarts the agent while an orphan exists: it is reported throughout.
func (b *bed) testOrphansAfterRestart(t *testing.T, restart func()) {
	seen := b.watchOrphans(t)
	restart()
	for i, reported := range seen() {
		if !slices.Equal(reported, []string{"ConfigMap shop/stays"}) {
			t.Errorf("version %d of the MemberCluster names %v", i, reported)
		}
	}
	stays := &unstructured.Unstructured{Object: configMap("stays", "1")}
	if err := b.member.Delete(t.Context(), stays); err != nil {
		t.Fatal(err)
	}
	b.orphans(t)
}
