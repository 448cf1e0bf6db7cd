package cloneset

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// newInstanceID returns a random instance id.
func newInstanceID() string { return rand.String(volumes.InstanceIDLength) }

// newPod returns a pod of the revision, ready to be created. Its name is "<CloneSet>-<id>"; form says how its label
// names the revision, and claims what claims it gets.
func newPod(cs *v1beta1.CloneSet, revision workload.Revision, id string, form history.Form, claims volumes.Provision,
	now time.Time) *corev1.Pod {
	template := revision.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       cs.Namespace,
			Name:            podName(cs, id),
			GenerateName:    cs.Name + "-",
			Labels:          copied(template.Labels),
			Annotations:     copied(template.Annotations),
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cs, v1beta1.CloneSetKind)},
		},
		Spec: template.Spec,
	}
	pod.Labels[v1beta1.LabelInstanceID] = id
	pod.Labels[podset.LabelRevision] = form.Label(revision.Name, revision.Hash)
	pod.Labels[v1beta1.LabelPodTemplateHash] = revision.Hash
	lifecycle.Stamp(pod.Labels, pod.Annotations, lifecycle.Initial(cs.Spec.Lifecycle), now)
	inplace.InjectGate(&pod.Spec)
	lifecycle.InjectGate(&pod.Spec)
	claims.Attach(pod, id)
	return pod
}

func podName(cs *v1beta1.CloneSet, id string) string { return cs.Name + "-" + id }

func copied(m map[string]string) map[string]string {
	out := make(map[string]string, len(m)+4) // what is stamped on comes on top
	maps.Copy(out, m)
	return out
}
