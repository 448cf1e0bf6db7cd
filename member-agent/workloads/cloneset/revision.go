package cloneset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// Revision is one template of a CloneSet, by its published name and short hash.
type Revision struct {
	inplace.Revision
	Template *corev1.PodTemplateSpec
	// Claims is the hash of the claim templates that the revision was made with; "" for none.
	Claims string
}

func revisionOf(r *appsv1.ControllerRevision) (Revision, error) {
	template, err := history.Decode[corev1.PodTemplateSpec](r.Data.Raw)
	if err != nil {
		return Revision{}, err
	}
	return Revision{Revision: inplace.Revision{Name: r.Name, Hash: history.ShortHash(r)}, Template: &template, Claims: r.Annotations[volumes.AnnotationHash]}, nil
}

func owner(cs *v1beta1.CloneSet) history.Owner {
	annotations := map[string]string{volumes.AnnotationHash: volumes.Hash(cs.Spec.VolumeClaimTemplates)}
	if patch, ok := cs.Annotations[v1beta1.AnnotationSubsetPatch]; ok {
		annotations[v1beta1.AnnotationSubsetPatch] = patch
	}
	return history.Owner{Object: cs, Kind: v1beta1.CloneSetKind, Labels: cs.Spec.Template.Labels, Annotations: annotations}
}

// claimSet names the CloneSet to package volumes.
func claimSet(cs *v1beta1.CloneSet) volumes.Set {
	set := volumes.Set{Object: cs, Kind: v1beta1.CloneSetKind, Templates: cs.Spec.VolumeClaimTemplates}
	if cs.Spec.Selector != nil {
		set.Labels = cs.Spec.Selector.MatchLabels
	}
	return set
}
