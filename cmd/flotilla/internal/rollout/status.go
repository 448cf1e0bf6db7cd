package rollout

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// Phase is how far a rollout is.
type Phase string

// The phases.
const (
	// Done: the pods are what the spec asks for, as far as its partition goes.
	Done Phase = "Done"
	// Progressing: not yet; also while the update is paused, or a wave waits for a person.
	Progressing Phase = "Progressing"
	// Failed: it is stalled, or nothing has moved for longer than the user's deadline.
	Failed Phase = "Failed"
	// Deleting: the workload was deleted and still exists; the rollout does not go on.
	Deleting Phase = "Deleting"
)

// Status is what a rollout says of itself, in a form that other programs can read.
type Status struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     Phase  `json:"phase"`
	// Reason and Message are those of the condition that settles the phase.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Replicas exist; Updated of them run the new template, Ready are ready. Of a BroadcastJob they are the nodes that it
	// runs on, those on which its pod has ended, and those on which it succeeded.
	Replicas int32 `json:"replicas"`
	// Desired is how many there are to be.
	Desired int32 `json:"desired"`
	Updated int32 `json:"updated"`
	Ready   int32 `json:"ready"`
	// PodsNotReady says why pods are not Ready, as members of a hub report it.
	PodsNotReady string `json:"podsNotReady,omitempty"`

	// unseen: no controller has looked at the object since it was made.
	unseen bool
}

type condition struct {
	status          corev1.ConditionStatus
	reason, message string
}

// conditionsOf returns conditions of the common type by their types.
func conditionsOf(list []metav1.Condition) map[string]condition {
	out := make(map[string]condition, len(list))
	for _, c := range list {
		out[c.Type] = condition{corev1.ConditionStatus(c.Status), c.Reason, c.Message}
	}
	return out
}

// byType returns conditions by their types.
func byType[C conditions.Own[C]](list []C) map[string]condition {
	out := make(map[string]condition, len(list))
	for _, c := range list {
		common, _ := c.Common()
		out[common.Type] = condition{corev1.ConditionStatus(common.Status), common.Reason, common.Message}
	}
	return out
}

// Follows reports whether an object is of a kind that has a rollout.
func Follows(object client.Object) bool {
	switch object.(type) {
	case *apps.BroadcastJob, *apps.CloneSet, *apps.DaemonSet, *apps.SidecarSet, *apps.StatefulSet, *apps.UnitedDeployment:
		return true
	}
	return false
}

// StatusOf reads the status of an object that has a rollout. It is pure.
func StatusOf(object client.Object) Status {
	s := Status{Namespace: object.GetNamespace(), Name: object.GetName()}
	var found map[string]condition
	var observed int64
	switch o := object.(type) {
	case *apps.BroadcastJob:
		s.Kind, observed, s.Desired = apps.BroadcastJobKind.Kind, o.Status.ObservedGeneration, o.Status.Desired
		s.Replicas, s.Updated, s.Ready = o.Status.Desired, o.Status.Succeeded+o.Status.Failed, o.Status.Succeeded
		found = byType(o.Status.Conditions)
	case *apps.CloneSet:
		s.Kind, observed, s.Desired = apps.CloneSetKind.Kind, o.Status.ObservedGeneration, ptr.Deref(o.Spec.Replicas, 1)
		s.Replicas, s.Updated, s.Ready = o.Status.Replicas, o.Status.UpdatedReplicas, o.Status.ReadyReplicas
		found = byType(o.Status.Conditions)
	case *apps.DaemonSet:
		s.Kind, observed, s.Desired = apps.DaemonSetKind.Kind, o.Status.ObservedGeneration, o.Status.DesiredNumberScheduled
		s.Replicas, s.Updated = o.Status.CurrentNumberScheduled, o.Status.UpdatedNumberScheduled
		s.Ready = o.Status.NumberReady
		found = byType(o.Status.Conditions)
	case *apps.SidecarSet:
		s.Kind, observed, s.Desired = apps.SidecarSetKind.Kind, o.Status.ObservedGeneration, o.Status.MatchedPods
		s.Replicas, s.Updated, s.Ready = o.Status.MatchedPods, o.Status.UpdatedPods, o.Status.ReadyPods
		found = conditionsOf(o.Status.Conditions)
	case *apps.StatefulSet:
		s.Kind, observed, s.Desired = apps.StatefulSetKind.Kind, o.Status.ObservedGeneration, ptr.Deref(o.Spec.Replicas, 1)
		s.Replicas, s.Updated, s.Ready = o.Status.Replicas, o.Status.UpdatedReplicas, o.Status.ReadyReplicas
		found = byType(o.Status.Conditions)
	case *apps.UnitedDeployment:
		s.Kind, observed = apps.UnitedDeploymentKind.Kind, o.Status.ObservedGeneration
		s.Desired = ptr.Deref(o.Spec.Replicas, 1)
		s.Replicas, s.Updated, s.Ready = o.Status.Replicas, o.Status.UpdatedReplicas, o.Status.ReadyReplicas
		found = byType(o.Status.Conditions)
	}
	s.unseen = observed == 0
	s.PodsNotReady = found[apps.ConditionPodsNotReady].message
	ready, stalled, progressing := found[apps.ConditionReady], found[apps.ConditionStalled],
		found[apps.ConditionProgressing]
	settle := func(p Phase, c condition) Status {
		s.Phase, s.Reason, s.Message = p, c.reason, c.message
		return s
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		s.unseen = false // nobody is expected to look at it
		return settle(Deleting, deletion(object, ready))
	case observed < object.GetGeneration():
		return settle(Progressing, condition{message: "the hub has not looked at the last change yet"})
	case stalled.status == corev1.ConditionTrue:
		return settle(Failed, stalled)
	case progressing.status == corev1.ConditionFalse && progressing.reason == conditions.NamesOf(s.Kind).DeadlineExceeded:
		return settle(Failed, progressing)
	case ready.status == corev1.ConditionTrue:
		return settle(Done, ready)
	}
	return settle(Progressing, ready)
}

// deletion is what a deleted object waits for: what its controller says, or what its metadata says until it does.
func deletion(object client.Object, ready condition) condition {
	if ready.reason == conditions.ReasonDeleting || ready.reason == conditions.ReasonNamespaceTerminating {
		return ready
	}
	return condition{reason: conditions.ReasonDeleting, message: conditions.Waiting(object)}
}

// unseenFor is how long after it was made a workload is looked at at the latest, by the hub or by a controller of the
// cluster.
const unseenFor = 30 * time.Second

// inNamespace says of a workload that nobody has looked at that its namespace is not the hub's; in a cluster that runs
// workloads itself somebody looks at it all the same, soon.
func (s Status) inNamespace(age time.Duration) Status {
	s.Message = fmt.Sprintf(
		"namespace %s is not federated, so that the hub does not place it, and no controller of this cluster has looked at "+
			"it: set the label %s=true on the namespace",
		s.Namespace,
		topology.LabelFederated,
	)
	reason := decision.NamespaceNotFederated
	if s.Namespace == "" {
		reason = decision.NotLabelled
		s.Message = fmt.Sprintf("%s %s has no label %s=true, so that the hub does not place it, and no controller of this "+
			"cluster has looked at it: set the label", s.Kind, s.Name, topology.LabelFederated)
	}
	if age >= unseenFor {
		s.Phase, s.Reason = Failed, reason
	}
	return s
}

func (s *Status) text() string {
	text := fmt.Sprintf(
		"%s: %s; %d of %d pods are updated, %d are ready",
		wire.Key{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}.Sentence(),
		s.Phase,
		s.Updated,
		s.Desired,
		s.Ready,
	)
	if s.Replicas != s.Desired {
		text += fmt.Sprintf(", %d exist", s.Replicas)
	}
	if s.Kind == apps.BroadcastJobKind.Kind {
		text = fmt.Sprintf("%s %s/%s: %s; on %d of %d nodes the pod has ended, on %d it succeeded", s.Kind, s.Namespace, s.Name,
			s.Phase, s.Updated, s.Replicas, s.Ready)
	}
	switch {
	case s.Reason != "":
		text += fmt.Sprintf(" (%s: %s)", s.Reason, s.Message)
	case s.Message != "":
		text += " (" + s.Message + ")"
	}
	if s.PodsNotReady != "" && !strings.Contains(s.Message, s.PodsNotReady) {
		text += "; pods are not Ready or not gone: " + s.PodsNotReady
	}
	if s.Reason == conditions.ReasonPaused {
		text += "; go on with flotilla rollout resume"
	}
	return text + "\n"
}
