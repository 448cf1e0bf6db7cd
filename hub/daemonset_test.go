package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// daemons is the kind with its group, which another kind of this name lacks.
const daemons = "DaemonSet.apps.kruise.io"

// daemonSetIs waits until the DaemonSet is Ready with so many nodes that should run a pod, and so many updated ones.
func (f *fleet) daemonSetIs(set *apps.DaemonSet, what string, desired, updated int32) {
	f.t.Helper()
	f.eventually(what, func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		s := &set.Status
		for _, c := range s.Conditions {
			if string(c.Type) == apps.ConditionReady && c.Status == corev1.ConditionTrue &&
				s.ObservedGeneration == set.Generation && s.DesiredNumberScheduled == desired &&
				s.NumberAvailable == desired && s.UpdatedNumberScheduled == updated {
				return nil
			}
		}
		return fmt.Errorf("status %+v", s)
	})
}

// TestDaemonSets places a DaemonSet in all members: the partition holds over the nodes of all of them, members that
// join get it with the template that most nodes have, and one that is no longer selected loses it.
func TestDaemonSets(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	nodes := map[string]int32{"east": 4, "south": 3, "west": 2}
	for name, n := range nodes {
		f.agents[name].has(n)
	}
	kind := func(spec *topology.FederationPolicySpec) {
		spec.Workloads = []topology.WorkloadSelector{{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet"}}
		spec.Clusters = topology.ClusterSelector{Names: []string{"east", "south", "west", "north"}}
	}
	policy := f.policy("all", kind)
	f.ledger()
	set := &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "log"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template = apps.NewPodTemplate(podTemplate("log:1"))
	set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1))}
	must(t, f.client.Create(f.ctx, set))
	f.placed(daemons, "log", nodes)
	f.daemonSetIs(set, "a pod on each node", 9, 9)
	if first := set.Status.UpdateRevision; first == "" || first != set.Status.CurrentRevision {
		t.Errorf("revisions %q and %q", first, set.Status.CurrentRevision)
	}

	f.patch(set, `{"updateStrategy":{"rollingUpdate":{"partition":5}},
		"template":{"spec":{"containers":[{"name":"main","image":"log:2"}]}}}`)
	f.daemonSetIs(set, "4 of 9 nodes are updated", 9, 4)
	if set.Status.UpdateRevision == set.Status.CurrentRevision {
		t.Errorf("5 nodes have another revision than %q", set.Status.UpdateRevision)
	}

	f.agents["west"].has(4)
	f.daemonSetIs(set, "two nodes join, and count for the partition", 11, 6)
	joined := f.join("north", "d")
	f.placed(daemons, "log", map[string]int32{"east": 4, "south": 3, "west": 4, "north": 0})
	f.eventually("north has the template that most nodes have", func() error {
		w := &work.Work{}
		if err := f.client.Get(f.ctx, keyOf(daemons, f.namespace, "log").Work("north"), w); err != nil {
			return err
		}
		if have := string(w.Spec.Workload.Manifests[0].Raw); !strings.Contains(have, topology.AnnotationTemplateBefore) {
			return fmt.Errorf("its manifest is %s", have)
		}
		return nil
	})
	joined.has(2)
	f.daemonSetIs(set, "the nodes of north count", 13, 8)
	f.patch(set, `{"updateStrategy":{"rollingUpdate":{"partition":0}}}`)
	f.daemonSetIs(set, "all nodes are updated", 13, 13)
	if set.Status.UpdateRevision != set.Status.CurrentRevision {
		t.Errorf("revisions %q and %q", set.Status.UpdateRevision, set.Status.CurrentRevision)
	}
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}

	base := policy.DeepCopy()
	policy.Spec.Clusters.Names = []string{"east", "south", "west"}
	must(t, f.client.Patch(f.ctx, policy, client.MergeFrom(base)))
	f.daemonSetIs(set, "the nodes of north count no more", 11, 11)
	f.eventually("north loses its DaemonSet", func() error {
		err := f.client.Get(f.ctx, keyOf(daemons, f.namespace, "log").Work("north"), &work.Work{})
		if err == nil {
			return errors.New("it has its Work")
		}
		return client.IgnoreNotFound(err)
	})
}
