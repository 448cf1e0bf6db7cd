package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// sidecarSetIs waits until the SidecarSet has this Ready condition, with so many pods, and so many updated ones.
func (f *fleet) sidecarSetIs(set *apps.SidecarSet, what string, ready metav1.ConditionStatus, matched, updated int32) {
	f.t.Helper()
	f.eventually(what, func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		s := &set.Status
		c := meta.FindStatusCondition(s.Conditions, apps.ConditionReady)
		if c == nil || c.Status != ready || s.ObservedGeneration != set.Generation || s.MatchedPods != matched ||
			s.ReadyPods != matched || s.UpdatedPods != updated || s.UpdatedReadyPods != updated {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
}

// sidecarsOf returns the images of the sidecars that running and new pods of a member get.
func (f *fleet) sidecarsOf(key wire.Key, member string) (running, created string, err error) {
	w := &work.Work{}
	if err := f.client.Get(f.ctx, key.Work(member), w); err != nil {
		return "", "", err
	}
	var set apps.SidecarSet
	if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &set); err != nil {
		return "", "", err
	}
	running = set.Spec.Containers[0].Image
	text, ok := set.Annotations[topology.AnnotationTemplateBefore]
	if !ok {
		return running, running, nil
	}
	var before apps.SidecarSetSpec
	if err := json.Unmarshal([]byte(text), &before); err != nil {
		return "", "", err
	}
	return running, before.Containers[0].Image, nil
}

// TestSidecarSets places a SidecarSet in all members once it has the label: the partition holds over the pods of all of
// them, and members whose pods are not to be updated give new pods the earlier image.
func TestSidecarSets(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	for name, n := range map[string]int32{"east": 4, "south": 3, "west": 2} {
		f.agents[name].has(n)
	}
	set := &apps.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	key := wire.KeyFor(apps.SidecarSetKind.GroupKind(), set)
	policy := &topology.ClusterFederationPolicy{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	policy.Spec.Workloads = []topology.WorkloadSelector{{APIVersion: "apps.kruise.io/v1beta1", Kind: "SidecarSet",
		Name: set.Name}}
	policy.Spec.Clusters.Names = []string{"east", "south", "west"}
	policy.Spec.Rollout = topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
		{Name: "first", Clusters: topology.WaveClusters{Names: []string{"south"}}}, {Name: "rest"}}}
	must(t, f.client.Create(f.ctx, policy))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	must(t, json.Unmarshal([]byte(`[{"name":"log","image":"log:1"}]`), &set.Spec.Containers))
	must(t, f.client.Create(f.ctx, set))

	f.eventually("without the label it says that it is not placed", func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, apps.ConditionFederated)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NotLabelled" {
			return fmt.Errorf("conditions %+v", set.Status.Conditions)
		}
		return nil
	})
	f.patchObject(set, `{"metadata":{"labels":{"topology.flotilla.dev/federated":"true"}}}`)
	f.sidecarSetIs(set, "all pods have the sidecar", metav1.ConditionTrue, 9, 9)
	first := set.Status.LatestRevision

	f.patchObject(set, `{"spec":{"updateStrategy":{"partition":7},"containers":[{"name":"log","image":"log:2"}]}}`)
	f.sidecarSetIs(set, "2 of 9 pods are updated, in the first wave", metav1.ConditionTrue, 9, 2)
	if set.Status.LatestRevision == first {
		t.Errorf("the revision is still %s", first)
	}
	f.eventually("new pods of all members get the earlier image", func() error {
		for _, member := range []string{"east", "south", "west"} {
			running, created, err := f.sidecarsOf(key, member)
			if err != nil || running != "log:2" || created != "log:1" {
				return fmt.Errorf("%s: %s, new pods %s, %w", member, running, created, err)
			}
		}
		return nil
	})
	f.patchObject(set, `{"spec":{"updateStrategy":{"partition":6}}}`)
	f.sidecarSetIs(set, "the first wave is whole", metav1.ConditionTrue, 9, 3)
	f.eventually("new pods of the first wave get the new image", func() error {
		_, south, errSouth := f.sidecarsOf(key, "south")
		_, east, errEast := f.sidecarsOf(key, "east")
		if errSouth != nil || errEast != nil || south != "log:2" || east != "log:1" {
			return fmt.Errorf("south %s, %w; east %s, %w", south, errSouth, east, errEast)
		}
		return nil
	})

	f.patchObject(set, `{"spec":{"updateStrategy":{"partition":0}}}`)
	f.sidecarSetIs(set, "all pods are updated", metav1.ConditionTrue, 9, 9)
	f.eventually("no member keeps the earlier image", func() error {
		_, created, err := f.sidecarsOf(key, "west")
		if err != nil || created != "log:2" {
			return fmt.Errorf("new pods get %s, %w", created, err)
		}
		return nil
	})
	if raw := fmt.Sprint(set.Annotations, set.Labels); strings.Contains(raw, "sidecarset-hash") {
		t.Errorf("the hub wrote %s", raw)
	}
	must(t, f.client.Delete(f.ctx, set))
	f.eventually("members lose it", func() error {
		_, _, err := f.sidecarsOf(key, "east")
		if err == nil {
			return fmt.Errorf("east has its Work")
		}
		return client.IgnoreNotFound(err)
	})
	must(t, f.client.Delete(f.ctx, policy))
}
