package cloneset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

// annotationClaimsHash is on every revision, as published: the hash of the claim templates, empty without any.
const annotationClaimsHash = "kruise.io/cloneset-volumeclaimtemplate-hash"

// Revision is one template of a CloneSet, by its published name and short hash.
type Revision struct {
	inplace.Revision
	Template *corev1.PodTemplateSpec
}

func revisionOf(r *appsv1.ControllerRevision) (Revision, error) {
	template, err := history.Decode[corev1.PodTemplateSpec](r.Data.Raw)
	if err != nil {
		return Revision{}, err
	}
	return Revision{Revision: inplace.Revision{Name: r.Name, Hash: history.ShortHash(r)}, Template: &template}, nil
}

func owner(cs *v1beta1.CloneSet) history.Owner {
	annotations := map[string]string{annotationClaimsHash: ""}
	if patch, ok := cs.Annotations[v1beta1.AnnotationSubsetPatch]; ok {
		annotations[v1beta1.AnnotationSubsetPatch] = patch
	}
	return history.Owner{Object: cs, Kind: v1beta1.CloneSetKind, Labels: cs.Spec.Template.Labels, Annotations: annotations}
}
