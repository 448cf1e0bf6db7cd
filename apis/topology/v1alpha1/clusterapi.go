package v1alpha1

// What Flotilla and Cluster API say to each other.
const (
	// LabelJoin with value "true" on a Cluster of Cluster API makes that cluster a member. Without it the member is
	// drained, and leaves.
	LabelJoin = "topology.flotilla.dev/join"
	// AnnotationMemberName is on such a Cluster: the name of its MemberCluster, where that is not to be the Cluster's own.
	// It counts when the cluster joins; to rename a member take LabelJoin away, wait until it has left, and set both.
	AnnotationMemberName = "topology.flotilla.dev/member-name"
	// AnnotationDrainTimeout is on such a Cluster: how long its deletion, and its leave, wait until its workloads run
	// elsewhere, such as 45m; 0s for not at all. Default: what the program's --drain-timeout says.
	AnnotationDrainTimeout = "topology.flotilla.dev/drain-timeout"
	// AnnotationJoinedAs is on such a Cluster as long as ClusterFinalizer is: the name that it joined under.
	AnnotationJoinedAs = "topology.flotilla.dev/joined-as"

	// AnnotationClusterAPI is on a MemberCluster that was made for a Cluster of Cluster API: "<namespace>/<name>" of that
	// Cluster.
	AnnotationClusterAPI = "topology.flotilla.dev/cluster-api"
	// AnnotationMachinesSeen with value "true" is on such a MemberCluster once a Machine of the Cluster had a node: since
	// then no Machine means that nothing runs there.
	AnnotationMachinesSeen = "topology.flotilla.dev/machines-seen"
	// AnnotationLeavingSince is on such a MemberCluster: the RFC 3339 time at which draining began, because the Cluster is
	// deleted or its join label was removed.
	AnnotationLeavingSince = "topology.flotilla.dev/leaving-since"

	// ClusterFinalizer holds a Cluster of Cluster API until its member has left.
	ClusterFinalizer = "topology.flotilla.dev/member"
	// MachineHook is the annotation by which Cluster API keeps the machine of a deleted Machine running: until the member
	// has left.
	MachineHook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/flotilla"

	// ClusterJoined is a condition of a Cluster of Cluster API: True while it is a member that is Ready.
	ClusterJoined = "topology.flotilla.dev/Joined"
)

// Reasons of ClusterJoined.
const (
	// ReasonMemberJoined: the cluster is a member, and Ready.
	ReasonMemberJoined = "MemberJoined"
	// ReasonAgentStarting: everything is in the cluster, and the hub has not heard of its agent.
	ReasonAgentStarting = "AgentStarting"
	// ReasonMemberDismissed: spec.accepted of the MemberCluster was set to false.
	ReasonMemberDismissed = "MemberDismissed"
	// ReasonKubeconfigMissing: the Secret with the kubeconfig of the cluster is not there.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigInvalid: the Secret holds no kubeconfig that can be used.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonClusterUnreachable: the cluster does not answer, or refuses, what is asked with its kubeconfig.
	ReasonClusterUnreachable = "ClusterUnreachable"
	// ReasonNameTaken: a MemberCluster of the name was made by somebody else.
	ReasonNameTaken = "NameTaken"
	// ReasonNameInvalid: the name is none that a MemberCluster can have.
	ReasonNameInvalid = "NameInvalid"
	// ReasonClusterRefused: the cluster is the hub, or another member, or not the one that the name is pinned to.
	ReasonClusterRefused = "ClusterRefused"
	// ReasonMemberDraining: the cluster goes, or leaves, and its workloads move to other members.
	ReasonMemberDraining = "MemberDraining"
	// ReasonMemberLeft: the cluster is no member any more.
	ReasonMemberLeft = "MemberLeft"
)
