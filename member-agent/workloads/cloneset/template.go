package cloneset

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// instanceIDLength is published: names and labels of others rely on five characters.
const instanceIDLength = 5

// newPod returns a pod of the revision, ready to be created. Its name is "<CloneSet>-<instance id>".
func newPod(cs *v1beta1.CloneSet, revision Revision, now time.Time) *corev1.Pod {
	id := rand.String(instanceIDLength)
	template := revision.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       cs.Namespace,
			Name:            cs.Name + "-" + id,
			GenerateName:    cs.Name + "-",
			Labels:          copied(template.Labels),
			Annotations:     copied(template.Annotations),
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cs, v1beta1.CloneSetKind)},
		},
		Spec: template.Spec,
	}
	pod.Labels[v1beta1.LabelInstanceID] = id
	pod.Labels[podset.LabelRevision] = revisionLabel(revision)
	pod.Labels[v1beta1.LabelPodTemplateHash] = revision.Hash
	lifecycle.Stamp(pod.Labels, pod.Annotations, lifecycle.Initial(), now)
	inplace.InjectGate(&pod.Spec)
	return pod
}

// revisionLabel is the name of the revision, or its hash where the name is too long for a label.
func revisionLabel(revision Revision) string {
	if len(revision.Name) > validation.LabelValueMaxLength {
		return revision.Hash
	}
	return revision.Name
}

func copied(m map[string]string) map[string]string {
	out := make(map[string]string, len(m)+4) // what is stamped on comes on top
	maps.Copy(out, m)
	return out
}
