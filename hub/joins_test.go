package hub_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// manifestOf is what a member is told of a CloneSet.
func (f *fleet) manifestOf(name, cluster string) (*apps.CloneSet, error) {
	w := &work.Work{}
	if err := f.client.Get(f.ctx, wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: f.namespace,
		Name: name}.Work(cluster), w); err != nil {
		return nil, err
	}
	cs := &apps.CloneSet{}
	return cs, json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, cs)
}

// imageBefore is the image that a member is told for pods which are not to be updated, "" for none.
func imageBefore(t *testing.T, cs *apps.CloneSet) string {
	t.Helper()
	text, ok := cs.Annotations[topology.AnnotationTemplateBefore]
	if !ok {
		return ""
	}
	template := corev1.PodTemplateSpec{}
	must(t, json.Unmarshal([]byte(text), &template))
	return template.Spec.Containers[0].Image
}

// orders prints what members are told: replicas, how many of them are not to be updated, and the images.
func (f *fleet) orders(name string, clusters ...string) (string, error) {
	all := ""
	for _, cluster := range clusters {
		cs, err := f.manifestOf(name, cluster)
		if err != nil {
			return "", err
		}
		all += fmt.Sprintf("%s %d-%d %s %s; ", cluster, *cs.Spec.Replicas,
			cs.Spec.UpdateStrategy.RollingUpdate.Partition.IntVal, cs.Spec.Template.Spec.Containers[0].Image,
			imageBefore(f.t, cs))
	}
	return all, nil
}

// TestMemberJoinsDuringWaves: a member that joins in the middle of an update, and whose wave has not come, is told the
// template that its pods are to have until then; when its wave has come it is told of no other than the newest.
func TestMemberJoinsDuringWaves(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, map[string][]string{"east": {"a"}, "west": {"b"}})
	policy := f.policy("waves", func(p *topology.FederationPolicySpec) {
		p.Rollout = topology.Rollout{Strategy: topology.RolloutWaves, Waves: []topology.Wave{
			{Name: "canary", Clusters: topology.WaveClusters{Names: []string{"east"}}, Approval: topology.ApprovalRequired},
		}}
	})
	cs := f.cloneSet("web", 6)
	f.cloneSetIs("web", "Ready", ready)
	f.patch(cs, `{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}`)
	f.ordered("web", "east 3-0 web:2 ; west 3-3 web:2 web:1; ")
	f.join("south", "c")
	f.patch(cs, `{"replicas":9}`)
	f.ordered("web", "east 3-0 web:2 ; south 3-3 web:2 web:1; west 3-3 web:2 web:1; ")
	f.cloneSetIs("web", "3 of 9 are updated", func(cs *apps.CloneSet) bool {
		return cs.Status.Replicas == 9 && cs.Status.AvailableReplicas == 9 && cs.Status.UpdatedReplicas == 3
	})
	must(t, f.client.Delete(f.ctx, policy))
	f.policy("all")
	f.ordered("web", "east 3-0 web:2 ; south 3-0 web:2 ; west 3-0 web:2 ; ")
	f.cloneSetIs("web", "all are updated", func(cs *apps.CloneSet) bool {
		return ready(cs) && cs.Status.UpdatedReplicas == 9
	})
	p, err := f.placement("CloneSet", "web")
	must(t, err)
	if p.Spec.PreviousTemplate != nil {
		t.Errorf("all may be updated, and the template of before is still kept: %s", p.Spec.PreviousTemplate.Revision)
	}
}

// TestMemberJoinsAPartition: with a partition, a member that joins never brings more updated pods than the partition
// leaves over all.
func TestMemberJoinsAPartition(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, map[string][]string{"east": {"a"}, "west": {"b"}})
	f.policy("all")
	f.ledger()
	cs := f.cloneSet("web", 6)
	f.cloneSetIs("web", "Ready", ready)
	f.patch(cs, `{"updateStrategy":{"rollingUpdate":{"partition":4}},"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}`)
	updated := func(of, n int32) {
		t.Helper()
		f.cloneSetIs("web", fmt.Sprintf("%d of %d are updated", n, of), func(cs *apps.CloneSet) bool {
			return ready(cs) && cs.Status.Replicas == of && cs.Status.UpdatedReplicas == n
		})
	}
	updated(6, 2)
	f.join("south", "c")
	f.patch(cs, `{"replicas":9,"updateStrategy":{"rollingUpdate":{"partition":7}}}`)
	updated(9, 2)
	f.ordered("web", "east 3-2 web:2 web:1; south 3-3 web:2 web:1; west 3-2 web:2 web:1; ")
	f.patch(cs, `{"updateStrategy":{"rollingUpdate":{"partition":3}}}`)
	updated(9, 6)
	f.ordered("web", "east 3-1 web:2 web:1; south 3-1 web:2 web:1; west 3-1 web:2 web:1; ")
	f.patch(cs, `{"updateStrategy":{"rollingUpdate":{"partition":0}}}`)
	updated(9, 9)
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}
}

// ordered waits until all members of the test are told this.
func (f *fleet) ordered(name, want string) {
	f.t.Helper()
	f.eventually("orders are "+want, func() error {
		got, err := f.orders(name, slices.Sorted(maps.Keys(f.agents))...)
		if err == nil && got != want {
			err = fmt.Errorf("they are %s", got)
		}
		return err
	})
}

// subsetOrders prints what members are told of a UnitedDeployment: each subset's replicas, how many of them are not to
// be updated, and the image for those, "" where none is told.
func (f *fleet) subsetOrders(name string) (string, error) {
	all := ""
	for _, cluster := range slices.Sorted(maps.Keys(f.agents)) {
		w := &work.Work{}
		err := f.client.Get(f.ctx, wire.Key{Group: "apps.kruise.io", Kind: "UnitedDeployment", Namespace: f.namespace,
			Name: name}.Work(cluster), w)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		ud := &apps.UnitedDeployment{}
		if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, ud); err != nil {
			return "", err
		}
		all += cluster
		for _, s := range ud.Spec.Topology.Subsets {
			stays := int32(0)
			if manual := ud.Spec.UpdateStrategy.ManualUpdate; manual != nil {
				stays = manual.Partitions[s.Name]
			}
			all += fmt.Sprintf(" %s %s-%d", s.Name, s.Replicas, stays)
		}
		if text := ud.Annotations[topology.AnnotationTemplateBefore]; text != "" {
			before := apps.SubsetTemplate{}
			if err := json.Unmarshal([]byte(text), &before); err != nil {
				return "", err
			}
			all += " " + before.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image
		}
		all += "; "
	}
	return all, nil
}

func (f *fleet) subsetsOrdered(name, want string) {
	f.t.Helper()
	f.eventually("orders are "+want, func() error {
		got, err := f.subsetOrders(name)
		if err == nil && got != want {
			err = fmt.Errorf("they are %s", got)
		}
		return err
	})
}

// unitedDeploymentIs waits until all pods are there and available, and so many updated.
func (f *fleet) unitedDeploymentIs(ud *apps.UnitedDeployment, replicas, updated int32) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d of %d are updated", updated, replicas), func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
			return err
		}
		for _, c := range ud.Status.Conditions {
			if string(c.Type) == "Ready" && c.Status == corev1.ConditionTrue && ud.Status.ObservedGeneration == ud.Generation &&
				ud.Status.Replicas == replicas && ud.Status.UpdatedReplicas == updated {
				return nil
			}
		}
		return fmt.Errorf("status %+v", ud.Status)
	})
}

// TestMemberJoinsAPartitionOfASubset: with a partition of a subset, a member that joins is told the template that the
// update leaves, and brings no more updated pods than the partition leaves over all members together.
func TestMemberJoinsAPartitionOfASubset(t *testing.T) {
	f := newFleet(t, map[string][]string{"east": {"a"}, "west": {"a"}})
	f.policy("all")
	f.ledger()
	ud := f.unitedDeployment("web", 6, "a")
	f.unitedDeploymentIs(ud, 6, 6)
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"a":4}}},
		"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}}}`)
	f.unitedDeploymentIs(ud, 6, 2)
	f.join("south", "a")
	f.patch(ud, `{"replicas":9,"updateStrategy":{"manualUpdate":{"partitions":{"a":7}}}}`)
	f.unitedDeploymentIs(ud, 9, 2)
	f.subsetsOrdered("web", "east a 3-2 web:1; south a 3-3 web:1; west a 3-2 web:1; ")
	f.patch(ud, `{"updateStrategy":{"manualUpdate":{"partitions":{"a":0}}}}`)
	f.unitedDeploymentIs(ud, 9, 9)
	f.subsetsOrdered("web", "east a 3-0; south a 3-0; west a 3-0; ")
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}
}
