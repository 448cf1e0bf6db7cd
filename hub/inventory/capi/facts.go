package capi

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// facts are what decisions are made from.
type facts struct {
	cluster  *clusterv1.Cluster
	machines []clusterv1.Machine
	// pools are the MachinePools, whose nodes need not be Machines.
	pools []clusterv1.MachinePool
	// members are all MemberClusters of the hub.
	members []topology.MemberCluster
	hubID   string
	now     time.Time
}

// id names a Cluster as AnnotationClusterAPI does.
func id(c *clusterv1.Cluster) string { return c.Namespace + "/" + c.Name }

// wants tells whether a Cluster is to be a member.
func wants(c *clusterv1.Cluster) bool {
	return c.DeletionTimestamp == nil && c.Labels[topology.LabelJoin] == "true"
}

// holds tells whether a Cluster joined, and did not leave since.
func holds(c *clusterv1.Cluster) bool { return c.Annotations[topology.AnnotationJoinedAs] != "" }

// paused tells whether the user told controllers to leave a Cluster alone, as clusterctl move does.
func paused(c *clusterv1.Cluster) bool {
	_, annotated := c.Annotations[clusterv1.PausedAnnotation]
	return annotated || c.Spec.Paused != nil && *c.Spec.Paused
}

// name is that of the Cluster's MemberCluster: the one that it joined under, unless somebody else made a member of that
// name before it could.
func (f *facts) name() string {
	a := f.cluster.Annotations
	as := a[topology.AnnotationJoinedAs]
	if member := f.called(as); wants(f.cluster) && member != nil &&
		member.Annotations[topology.AnnotationClusterAPI] != id(f.cluster) {
		as = ""
	}
	return cmp.Or(as, a[topology.AnnotationMemberName], f.cluster.Name)
}

// called returns the MemberCluster of a name, nil if there is none.
func (f *facts) called(name string) *topology.MemberCluster {
	for i := range f.members {
		if f.members[i].Name == name {
			return &f.members[i]
		}
	}
	return nil
}

// named returns the MemberCluster of the Cluster's name, nil if there is none; ours tells whether it was made for this
// Cluster.
func (f *facts) named() (member *topology.MemberCluster, ours bool) {
	member = f.called(f.name())
	return member, member != nil && member.Annotations[topology.AnnotationClusterAPI] == id(f.cluster)
}

// seen tells whether a Machine or a MachinePool has a node.
func (f *facts) seen() bool {
	return slices.ContainsFunc(f.machines, func(m clusterv1.Machine) bool { return m.Status.NodeRef.IsDefined() }) ||
		slices.ContainsFunc(f.pools, func(p clusterv1.MachinePool) bool { return len(p.Status.NodeRefs) > 0 })
}

// zones returns the zone of each node that a Machine with a failure domain has.
func (f *facts) zones() map[string]string {
	zones := map[string]string{}
	for i := range f.machines {
		m := &f.machines[i]
		// What the provider chose goes before what was asked for.
		if zone := cmp.Or(m.Status.FailureDomain, m.Spec.FailureDomain); zone != "" && m.Status.NodeRef.IsDefined() {
			zones[m.Status.NodeRef.Name] = zone
		}
	}
	return zones
}

// drains tells whether a taint is the one of a drain.
func drains(t corev1.Taint) bool {
	return t.Key == topology.TaintDrain && t.Effect == corev1.TaintEffectNoExecute
}
