package cloneset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// newInstanceID returns a random instance id.
func newInstanceID() string { return rand.String(volumes.InstanceIDLength) }

// newPod returns a pod of the revision, ready to be created. Its name is "<CloneSet>-<id>"; form says how its label
// names the revision, and claims what claims it gets.
func newPod(cs *v1beta1.CloneSet, revision workload.Revision, id string, form history.Form, claims volumes.Provision,
	now time.Time) *corev1.Pod {
	pod := workload.WithGates(
		workload.NewPod(cs, v1beta1.CloneSetKind, podName(cs, id), revision, form, cs.Spec.Lifecycle, now))
	pod.Labels[v1beta1.LabelInstanceID] = id
	pod.Labels[v1beta1.LabelPodTemplateHash] = revision.Hash
	claims.Attach(pod, id)
	return pod
}

func podName(cs *v1beta1.CloneSet, id string) string { return cs.Name + "-" + id }
