package nodeimage

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
)

const (
	// settleAfter is how long a node is ready before it gets a NodeImage: many nodes that start are gone soon.
	settleAfter = 30 * time.Second
	// serverlessLabel with serverlessValue marks nodes that have no container runtime of their own.
	serverlessLabel, serverlessValue = "type", "virtual-kubelet"
)

// Facts are what a plan is made of.
type Facts struct {
	Node  *corev1.Node       // nil: there is none
	Image *v1beta1.NodeImage // nil: there is none
	// Jobs are all ImagePullJobs by UID.
	Jobs map[types.UID]*v1beta1.ImagePullJob
	// Namespace has the copies of pull secrets.
	Namespace string
	Now       time.Time
}

// Plan is what one pass does with the NodeImage of a node.
type Plan struct {
	Create, Delete bool
	// Edit is the change of the NodeImage, nil for none.
	Edit func(*v1beta1.NodeImage)
	// Next is when to plan again although no object changes; zero: not before one does.
	Next time.Time
}

// Make returns the plan.
func Make(f Facts) Plan {
	wanted := f.Node != nil && f.Node.DeletionTimestamp == nil && f.Node.Labels[serverlessLabel] != serverlessValue
	switch {
	case f.Image == nil && !wanted:
		return Plan{}
	case f.Image == nil:
		ready := readySince(f.Node)
		if ready.IsZero() {
			return Plan{}
		}
		if end := ready.Add(settleAfter); f.Now.Before(end) && !ready.After(f.Now) {
			return Plan{Next: end}
		}
		return Plan{Create: true}
	case f.Image.DeletionTimestamp != nil:
		return Plan{}
	case !wanted && f.Image.Labels[v1beta1.LabelFakeNodeImage] == "":
		return Plan{Delete: true}
	}
	plan := Plan{}
	edit := func(image *v1beta1.NodeImage) { plan.Next = f.tidy(image) }
	want := f.Image.DeepCopy()
	if edit(want); !maps.Equal(want.Labels, f.Image.Labels) || changed(f.Image, want) {
		plan.Edit = edit
	}
	return plan
}

// readySince returns since when the node is ready, zero if it is not.
func readySince(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// changed reports whether tidying took something from the spec. It only takes away.
func changed(have, want *v1beta1.NodeImage) bool {
	if len(have.Spec.Images) != len(want.Spec.Images) {
		return true
	}
	for name, image := range have.Spec.Images {
		wanted := want.Spec.Images[name]
		if len(wanted.Tags) != len(image.Tags) || len(wanted.PullSecrets) != len(image.PullSecrets) {
			return true
		}
		for i := range image.Tags {
			if len(wanted.Tags[i].OwnerReferences) != len(image.Tags[i].OwnerReferences) {
				return true
			}
		}
	}
	return false
}

// tidy gives a NodeImage the labels of its node, and removes what no job needs any more. It returns when the next tag
// leaves although no object changes.
func (f Facts) tidy(image *v1beta1.NodeImage) (next time.Time) {
	if f.Node != nil {
		labels := maps.Clone(f.Node.Labels)
		if fake, has := image.Labels[v1beta1.LabelFakeNodeImage]; has {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[v1beta1.LabelFakeNodeImage] = fake
		}
		if !maps.Equal(labels, image.Labels) {
			image.Labels = labels
		}
	}
	for name, spec := range image.Spec.Images {
		var tags []v1beta1.ImageTagSpec
		for i := range spec.Tags {
			tag, end, keep := f.keep(image, name, spec.Tags[i])
			if keep {
				tags = append(tags, tag)
				if !end.IsZero() && (next.IsZero() || end.Before(next)) {
					next = end
				}
			}
		}
		if len(tags) == 0 {
			delete(image.Spec.Images, name)
			continue
		}
		spec.Tags = tags
		spec.PullSecrets = f.secrets(spec)
		image.Spec.Images[name] = spec
	}
	return next
}

// keep returns a tag without the jobs that do not need it any more, and whether it stays. A tag of no job, which a
// person wrote, stays until its time to live is over, which is at end.
func (f Facts) keep(image *v1beta1.NodeImage, name string, tag v1beta1.ImageTagSpec) (
	out v1beta1.ImageTagSpec, end time.Time, keep bool,
) {
	if len(tag.OwnerReferences) > 0 {
		tag.OwnerReferences = slices.DeleteFunc(slices.Clone(tag.OwnerReferences), func(r v1beta1.JobReference) bool {
			return r.Kind == v1beta1.ImagePullJobKind.Kind && !f.needs(f.Jobs[r.UID], image.Name, name, tag.Tag)
		})
		return tag, time.Time{}, len(tag.OwnerReferences) > 0
	}
	status := nodeimages.StatusOf(image, name, tag.Tag)
	if status == nil || status.Version != tag.Version || status.CompletionTime == nil || tag.PullPolicy == nil ||
		tag.PullPolicy.TTLSecondsAfterFinished == nil {
		return tag, time.Time{}, true
	}
	end = status.CompletionTime.Add(time.Duration(*tag.PullPolicy.TTLSecondsAfterFinished) * time.Second)
	return tag, end, f.Now.Before(end)
}

// needs reports whether a job still needs its entry on a node: its image may have changed. What it needs to know of a
// node that has failed is in its status.
func (f Facts) needs(job *v1beta1.ImagePullJob, node, image, tag string) bool {
	if job == nil || job.DeletionTimestamp != nil || job.Status.CompletionTime != nil {
		return false
	}
	if ownImage, ownTag := nodeimages.SplitImage(job.Spec.Image); ownImage != image || ownTag != tag {
		return false
	}
	_, failed := slices.BinarySearch(job.Status.FailedNodes, node)
	return !failed
}

// secrets returns the pull secrets of an image without copies that none of its jobs uses.
func (f Facts) secrets(spec v1beta1.ImageSpec) []v1beta1.PullSecretReference {
	used := map[string]bool{}
	for i := range spec.Tags {
		for _, owner := range spec.Tags[i].OwnerReferences {
			if job := f.Jobs[owner.UID]; job != nil {
				for _, secret := range job.Spec.PullSecrets {
					used[nodeimages.SecretName(job.Namespace, secret)] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(spec.PullSecrets), func(r v1beta1.PullSecretReference) bool {
		return r.Namespace == f.Namespace && nodeimages.IsSecretName(r.Name) && !used[r.Name]
	})
}
