package capi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// longestName is that of a MemberCluster, as its type says.
const longestName = 52

// verdict is what is told of a Cluster: the condition Joined.
type verdict struct {
	joined          bool
	reason, message string
}

// told returns a verdict that is not True.
func told(reason, format string, args ...any) *verdict {
	return &verdict{reason: reason, message: fmt.Sprintf(format, args...)}
}

// nameObstacle says why the Cluster cannot have its name, before anything is written; nil if it can.
func (f *facts) nameObstacle() *verdict {
	name := f.name()
	if len(name) > longestName || len(validation.IsDNS1123Label(name)) > 0 {
		return told(
			topology.ReasonNameInvalid,
			"%q is not a DNS label of at most %d characters (a-z, 0-9, -), which the name of a member has to be: choose one "+
				"by the annotation %s",
			name,
			longestName,
			topology.AnnotationMemberName,
		)
	}
	member, ours := f.named()
	switch {
	case member == nil:
		return nil
	case !ours && member.Annotations[topology.AnnotationClusterAPI] != "":
		return told(
			topology.ReasonNameTaken,
			"the member %s is the Cluster %s: choose another name by the annotation %s",
			name,
			member.Annotations[topology.AnnotationClusterAPI],
			topology.AnnotationMemberName,
		)
	case !ours:
		return told(
			topology.ReasonNameTaken,
			"the member %s was made by somebody else, and is left as it is: choose another name by the annotation %s, or give "+
				"that one up with flotilla leave %s",
			name,
			topology.AnnotationMemberName,
			name,
		)
	case member.DeletionTimestamp != nil:
		return told(topology.ReasonNameTaken, "MemberCluster %s is being deleted: it is made again when it is gone", name)
	}
	return nil
}

// idObstacle says why the cluster with this id cannot be the member; nil if it can.
func (f *facts) idObstacle(clusterID string) *verdict {
	name := f.name()
	if clusterID == f.hubID {
		return told(
			topology.ReasonClusterRefused,
			"the cluster %s is the hub's own, which cannot be its own member: take the label %s away",
			clusterID,
			topology.LabelJoin,
		)
	}
	for i := range f.members {
		m := &f.members[i]
		has := wire.ClusterID(m)
		switch {
		case m.Name == name && m.Spec.ClusterID != "" && m.Spec.ClusterID != clusterID:
			return told(
				topology.ReasonClusterRefused,
				"the member %s is the cluster %s, and the kubeconfig leads to the cluster %s: if it was built anew, give the "+
					"name up with flotilla leave %s, and it joins again",
				name,
				m.Spec.ClusterID,
				clusterID,
				name,
			)
		case m.Name != name && has == clusterID:
			return told(
				topology.ReasonClusterRefused,
				"the cluster %s is the member %s already: take it out with flotilla leave %s, or take the label %s away",
				clusterID,
				m.Name,
				m.Name,
				topology.LabelJoin,
			)
		}
	}
	return nil
}

// carried returns the labels of a Cluster that its member has, too: all but those by which Cluster API, Flotilla and
// Kubernetes work.
func carried(c *clusterv1.Cluster) map[string]string {
	labels := map[string]string{}
	for key, value := range c.Labels {
		domain, _, qualified := strings.Cut(key, "/")
		own := slices.ContainsFunc(
			[]string{"cluster.x-k8s.io", "flotilla.dev", "k8s.io", "kubernetes.io"},
			func(of string) bool {
				return domain == of || strings.HasSuffix(domain, "."+of)
			},
		)
		if !qualified || !own || key == regionLabel {
			labels[key] = value
		}
	}
	return labels
}

// needsJoin tells whether an agent can do nothing with what it joined with: it is not there, or for another member or
// hub, or it is over before the agent came.
func (f *facts) needsJoin(sight *Sight, member *topology.MemberCluster, server, ca string) bool {
	j := sight.Join
	if j == nil || sight.Fingerprint == "" || j.UID != member.UID || j.Server != server || j.CA != ca {
		return true
	}
	// One more token for each hour that the agent is not heard of: its certificate may have run out.
	return !meta.IsStatusConditionTrue(member.Status.Conditions, topology.MemberReady) && !f.now.Before(j.Expires)
}

// mayPin tells whether the MemberCluster is to be accepted with the key and the id that were found in the cluster. What
// a person took back stays so.
func mayPin(member *topology.MemberCluster, fingerprint string) bool {
	first := member.Spec.ClusterID == ""
	return first || member.Spec.Accepted && member.Spec.KeyFingerprint != fingerprint
}

// standing tells how the member of a Cluster is, in which everything was written.
func (f *facts) standing(member *topology.MemberCluster) *verdict {
	ready := meta.FindStatusCondition(member.Status.Conditions, topology.MemberReady)
	switch {
	case !member.Spec.Accepted:
		return told(
			topology.ReasonMemberDismissed,
			"the member %s is accepted no longer: set spec.accepted of its MemberCluster, or take the label %s away",
			member.Name,
			topology.LabelJoin,
		)
	case ready == nil || ready.Status != metav1.ConditionTrue:
		return told(
			topology.ReasonAgentStarting,
			"the agent is installed, and the hub does not hear of it: look at the pods and logs of the Deployment "+
				"flotilla-agent in the namespace %s of the cluster",
			topology.SystemNamespace,
		)
	}
	message := fmt.Sprintf("it is the member %s, which is Ready", member.Name)
	if wish := f.cluster.Annotations[topology.AnnotationMemberName]; wish != "" && wish != member.Name {
		message += fmt.Sprintf(
			"; to name it %s, take the label %s away, and set it again when it has left",
			wish,
			topology.LabelJoin,
		)
	}
	var without []string
	for _, domain := range f.cluster.Status.FailureDomains {
		if !slices.ContainsFunc(
			member.Status.Zones,
			func(z topology.Zone) bool { return z.Name == domain.Name && z.Nodes > 0 },
		) {
			without = append(without, domain.Name)
		}
	}
	if len(without) > 0 {
		slices.Sort(without)
		message += fmt.Sprintf(
			"; no node is in the failure domains %s, so they are no zones of it",
			strings.Join(without, ", "),
		)
	}
	return &verdict{joined: true, reason: topology.ReasonMemberJoined, message: message}
}
