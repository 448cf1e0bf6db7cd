package karmada

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
)

// judge sets the conditions. One that says the same keeps its time. They name no generation, as those of other
// inventories.
func (f *facts) judge(hubID string, now time.Time) {
	conditions := []metav1.Condition{f.accepted(hubID), f.ready()}
	if held, ok := f.held(); ok {
		conditions = append(conditions, held)
	}
	for _, c := range conditions {
		c.LastTransitionTime = metav1.NewTime(now)
		have := meta.FindStatusCondition(f.member.Status.Conditions, c.Type)
		if have != nil && have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
			continue
		}
		meta.SetStatusCondition(&f.member.Status.Conditions, c)
	}
}

func (f *facts) accepted(hubID string) metav1.Condition {
	m, c := f.member, metav1.Condition{Type: topology.MemberAccepted, Status: metav1.ConditionFalse}
	switch {
	case f.cluster == nil:
		c.Reason = topology.ReasonNotInKarmada
		c.Message = fmt.Sprintf(
			"this hub takes its members from Karmada (--inventory=karmada), and Karmada has no Cluster %s; join the cluster "+
				"to Karmada under this name, or delete this MemberCluster",
			m.Name,
		)
	case !m.Spec.Accepted:
		c.Reason = topology.ReasonNotAccepted
		c.Message = fmt.Sprintf("MemberCluster %s takes no part; set spec.accepted to true to let it take part", m.Name)
	case f.cluster.Spec.ID == "":
		c.Reason = topology.ReasonNeverConnected
		c.Message = fmt.Sprintf(
			"Karmada has not written the id of Cluster %s yet (spec.id); look at the agent of Karmada there",
			m.Name,
		)
	case f.cluster.Spec.ID == hubID:
		c.Reason = topology.ReasonHubIsMember
		c.Message = fmt.Sprintf(
			"Cluster %s of Karmada is the hub's own cluster (id %s), which cannot be its member; take it out of Karmada",
			m.Name,
			hubID,
		)
	case wire.ClusterID(m) != f.cluster.Spec.ID:
		c.Reason = topology.ReasonClusterIDMismatch
		c.Message = fmt.Sprintf(
			"Cluster %s of Karmada has the id %s, and MemberCluster %s is pinned to %s; give the new cluster a name of its "+
				"own in Karmada, or delete this MemberCluster, which is then made for the new one",
			m.Name,
			f.cluster.Spec.ID,
			m.Name,
			wire.ClusterID(m),
		)
	case !f.namespace:
		c.Reason = topology.ReasonNeverConnected
		c.Message = fmt.Sprintf(
			"Karmada has not made the namespace %s for the Works of Cluster %s yet; look at the cluster controller of Karmada",
			wire.MemberNamespace(m.Name),
			m.Name,
		)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonAccepted
		c.Message = "the member takes part"
	}
	return c
}

// ready is what Karmada says. Unknown, which Karmada says of a cluster whose agent is silent, is not Ready.
func (f *facts) ready() metav1.Condition {
	c := metav1.Condition{Type: topology.MemberReady, Status: metav1.ConditionFalse}
	var told *metav1.Condition
	if f.cluster != nil {
		told = meta.FindStatusCondition(f.cluster.Status.Conditions, karmada.ConditionReady)
	}
	switch {
	case told == nil:
		c.Reason = topology.ReasonNeverConnected
		c.Message = fmt.Sprintf(
			"Karmada has not written yet whether Cluster %s is Ready; look at the agent of Karmada there",
			f.name,
		)
	case told.Status == metav1.ConditionTrue:
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonReadyInKarmada
		c.Message = "Karmada says that the cluster is Ready"
	default:
		c.Reason = topology.ReasonNotReadyInKarmada
		c.Message = fmt.Sprintf(
			"Karmada says of Cluster %s that Ready is %s (%s); it gets nothing new until that ends; look at the agent of "+
				"Karmada there, and at its way to the hub",
			f.name,
			told.Status,
			told.Reason,
		)
	}
	return c
}

// held tells of a failure of so many members that none of them is given up. It is written only from the first one on.
func (f *facts) held() (metav1.Condition, bool) {
	c := metav1.Condition{Type: topology.MemberFailoverHeld}
	switch {
	case f.together > 0:
		c.Status, c.Reason = metav1.ConditionTrue, topology.ReasonMassFailure
		c.Message = fmt.Sprintf(
			"MemberCluster %s became NotReady together with others, a third or more of all members, so the hub suspects "+
				"itself and gives none of them up; look at the hub's network, and if nothing runs in the member any more, confirm "+
				"it with: flotilla fence %s --confirm",
			f.name,
			f.name,
		)
	case meta.FindStatusCondition(f.member.Status.Conditions, topology.MemberFailoverHeld) == nil:
		return c, false
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, topology.ReasonNoMassFailure,
			"the member does not fail together with many others"
	}
	return c, true
}
