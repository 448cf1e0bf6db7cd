package volumes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Kind of difference between a claim template and what a running pod has.
type Kind string

// The kinds of difference.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Size    Kind = "size"
	Other   Kind = "changed"
)

// Change says how running pods differ from the claim templates.
type Change struct {
	// Pods is how many of them do.
	Pods int
	// Templates are the claim templates that differ. Where pods differ in several ways it is the kind that comes last in
	// the alphabet, so that the order of pods does not matter.
	Templates map[string]Kind
}

// Changed compares the set's claim templates with the claims that pods, the active ones, have. Fields that a template
// leaves open are not compared. A claim that somebody has resized to the template's size does not differ.
func (s Set) Changed(pods []*corev1.Pod, claims []*corev1.PersistentVolumeClaim) Change {
	var out Change
	if len(claims) == 0 && len(s.Templates) == 0 {
		return out
	}
	byName := make(map[string]*corev1.PersistentVolumeClaim, len(claims))
	for _, claim := range claims {
		byName[claim.Name] = claim
	}
	for _, pod := range pods {
		if s.differs(pod, byName, &out) {
			out.Pods++
		}
	}
	return out
}

// differs adds the differences of one pod, and reports whether there are any.
func (s Set) differs(pod *corev1.Pod, claims map[string]*corev1.PersistentVolumeClaim, out *Change) bool {
	id := s.ID(pod)
	if id == "" {
		return false // a pod that was adopted: it never got claims
	}
	found := false
	note := func(template string, kind Kind) {
		found = true
		if out.Templates == nil {
			out.Templates = map[string]Kind{}
		}
		if have, ok := out.Templates[template]; !ok || kind > have {
			out.Templates[template] = kind
		}
	}
	for i := range s.Templates {
		template := &s.Templates[i]
		name := Name(template.Name, s.Object.GetName(), id)
		if !mounts(pod, name) {
			note(template.Name, Added)
		} else if claim := claims[name]; claim != nil {
			if kind := compare(&template.Spec, &claim.Spec); kind != "" {
				note(template.Name, kind)
			}
		}
	}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		if name := templateOf(source.ClaimName, s.Object.GetName(), id); name != "" && !s.has(name) {
			note(name, Removed)
		}
	}
	return found
}

func (s Set) has(template string) bool {
	return slices.ContainsFunc(s.Templates, func(t corev1.PersistentVolumeClaim) bool { return t.Name == template })
}

func mounts(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// compare returns how a claim differs from what its template asks for, or "".
func compare(want, have *corev1.PersistentVolumeClaimSpec) Kind {
	size, is := want.Resources.Requests[corev1.ResourceStorage], have.Resources.Requests[corev1.ResourceStorage]
	switch {
	case size.Cmp(is) != 0:
		return Size
	case !sameModes(want.AccessModes, have.AccessModes),
		want.StorageClassName != nil && *want.StorageClassName != ptr.Deref(have.StorageClassName, ""),
		want.VolumeAttributesClassName != nil &&
			*want.VolumeAttributesClassName != ptr.Deref(have.VolumeAttributesClassName, ""),
		// The API server fills in Filesystem.
		ptr.Deref(want.VolumeMode, corev1.PersistentVolumeFilesystem) != ptr.Deref(have.VolumeMode,
			corev1.PersistentVolumeFilesystem),
		want.Selector != nil && !equality.Semantic.DeepEqual(want.Selector, have.Selector),
		want.VolumeName != "" && want.VolumeName != have.VolumeName,
		want.DataSource != nil && !equality.Semantic.DeepEqual(want.DataSource, have.DataSource),
		want.DataSourceRef != nil && !equality.Semantic.DeepEqual(want.DataSourceRef, have.DataSourceRef):
		return Other
	}
	return ""
}

func sameModes(a, b []corev1.PersistentVolumeAccessMode) bool {
	if len(a) != len(b) {
		return false
	}
	for _, mode := range a {
		if !slices.Contains(b, mode) {
			return false
		}
	}
	return true
}

// Message says in a sentence what differs, what happens and what to do, or "" if nothing differs. reuse is whether
// claims are kept for the next pod: then deleting a pod does not replace its claims.
func (c Change) Message(reuse bool) string {
	if c.Pods == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(c.Templates))
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s: %s", name, c.Templates[name])
	}
	pods, remedy := "1 pod keeps the claims it was made with", "delete a pod to give it new claims"
	if c.Pods > 1 {
		pods = fmt.Sprintf("%d pods keep the claims they were made with", c.Pods)
	}
	if reuse {
		remedy = "label a pod " + v1beta1.LabelSpecifiedDelete + " to replace it together with its claims"
	}
	return fmt.Sprintf("volumeClaimTemplates changed (%s): %s; the templates are used for new pods; %s",
		strings.Join(parts, ", "), pods, remedy)
}
