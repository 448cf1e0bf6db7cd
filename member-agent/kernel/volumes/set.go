package volumes

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podname"
)

// Identity is how a set tells its pods and their claims apart.
type Identity int

const (
	// ByInstanceID means that pods and claims have a random id in a label. Claims are the set's own, or their pod's.
	ByInstanceID Identity = iota
	// ByOrdinal means that the id is the number at the end of the names of pods and claims. A claim has no controller. It
	// outlives its pod and the set, unless Retention says otherwise.
	ByOrdinal
)

// Set is the workload that claims are made for.
type Set struct {
	Identity Identity
	Object   metav1.Object
	Kind     schema.GroupVersionKind
	// Labels are the match labels of the workload's selector; its claims carry them.
	Labels map[string]string
	// Templates are the claim templates that the workload has now.
	Templates []corev1.PersistentVolumeClaim
	// Retention is for sets ByOrdinal.
	Retention Retention
}

// Name returns the name of an instance's claim: "<claim template>-<set>-<id>".
func Name(template, set, id string) string { return template + "-" + set + "-" + id }

// templateOf returns the claim template that a claim of this set and id is named after, or "" if the name is another.
func templateOf(claim, set, id string) string {
	rest, ok := strings.CutSuffix(claim, id)
	if !ok || id == "" {
		return ""
	}
	if rest, ok = strings.CutSuffix(rest, "-"+set+"-"); !ok {
		return ""
	}
	return rest
}

// ID returns the id of a pod or a claim of the set, "" if it has none.
func (s Set) ID(object metav1.Object) string {
	if s.Identity == ByInstanceID {
		return object.GetLabels()[v1beta1.LabelInstanceID]
	}
	parent, ordinal, ok := podname.Split(object.GetName())
	if !ok || parent != s.Object.GetName() && !strings.HasSuffix(parent, "-"+s.Object.GetName()) {
		return ""
	}
	return strconv.Itoa(int(ordinal))
}

// New returns the claim of the template for the instance id, ready to be created. It keeps the template's labels and
// annotations, under those of the set.
func (s Set) New(template *corev1.PersistentVolumeClaim, id string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   s.Object.GetNamespace(),
			Name:        Name(template.Name, s.Object.GetName(), id),
			Labels:      map[string]string{},
			Annotations: maps.Clone(template.Annotations),
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(claim.Labels, template.Labels)
	maps.Copy(claim.Labels, s.Labels)
	if s.Identity == ByInstanceID {
		claim.Labels[v1beta1.LabelInstanceID] = id
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.Object, s.Kind)}
	} else if s.Retention.WhenDeleted {
		claim.OwnerReferences = []metav1.OwnerReference{s.reference()}
	}
	return claim
}

// Provision is what new pods of one revision get.
type Provision struct {
	set Set
	// Templates are the claim templates: those of the set, then the ones that only an old revision needs.
	Templates []corev1.PersistentVolumeClaim
	// Recovered names the templates that are gone and are made again after a claim that is left.
	Recovered []string
	// Emptied names the volumes that are empty directories because nothing is left to make their claim after.
	Emptied []string
}

// For returns what new pods of this template get. madeWith is the hash of the claim templates that the template's
// revision was made with, as its annotation says; give Hash of the set's own templates for the newest revision, whose
// mistakes are for the API server to refuse. claims are the set's, as a Source returns them.
//
// Every claim template of the set is provided. If madeWith names other templates, a volume that a container mounts and
// that neither the template nor the set has any more is provided too, after the youngest claim of that name; where
// there is none, a mount gets an empty directory. A block device cannot be replaced and is left to the API server.
func (s Set) For(template *corev1.PodTemplateSpec, madeWith string, claims []*corev1.PersistentVolumeClaim) Provision {
	out := Provision{set: s, Templates: s.Templates}
	if madeWith == "" || len(template.Spec.Containers) == 0 || madeWith == Hash(s.Templates) {
		return out
	}
	for _, mount := range s.missing(&template.Spec) {
		if claim := s.youngest(claims, mount.name); claim != nil {
			out.Templates = append(slices.Clip(out.Templates), s.after(claim, mount.name))
			out.Recovered = append(out.Recovered, mount.name)
		} else if !mount.device {
			out.Emptied = append(out.Emptied, mount.name)
		}
	}
	return out
}

// mount is a volume that a container uses.
type mount struct {
	name   string
	device bool
}

// missing returns the volumes that containers use and that nothing provides, each once, in the order of their use.
func (s Set) missing(spec *corev1.PodSpec) []mount {
	known := map[string]bool{}
	for i := range spec.Volumes {
		known[spec.Volumes[i].Name] = true
	}
	for i := range s.Templates {
		known[s.Templates[i].Name] = true
	}
	var out []mount
	add := func(name string, device bool) {
		if !known[name] {
			known[name] = true
			out = append(out, mount{name, device})
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, device := range containers[i].VolumeDevices {
				add(device.Name, true)
			}
			for _, m := range containers[i].VolumeMounts {
				add(m.Name, false)
			}
		}
	}
	return out
}

// youngest returns the set's youngest claim of a template, or nil.
func (s Set) youngest(claims []*corev1.PersistentVolumeClaim, template string) *corev1.PersistentVolumeClaim {
	var found *corev1.PersistentVolumeClaim
	for _, claim := range claims {
		if templateOf(claim.Name, s.Object.GetName(), s.ID(claim)) != template {
			continue
		}
		if found == nil || oldest(claim, found) > 0 {
			found = claim
		}
	}
	return found
}

// after returns a claim template that makes claims like this one. What binds the claim to its volume is left out.
func (s Set) after(claim *corev1.PersistentVolumeClaim, name string) corev1.PersistentVolumeClaim {
	out := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *claim.Spec.DeepCopy()}
	out.Spec.VolumeName = ""
	return out
}

// Attach gives the pod the volumes of the provision for the instance id. A volume of the same name is replaced.
func (p Provision) Attach(pod *corev1.Pod, id string) {
	for i := range p.Templates {
		name := p.Templates[i].Name
		attach(pod, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: Name(name, p.set.Object.GetName(), id)},
		}})
	}
	for _, name := range p.Emptied {
		attach(pod, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
}

func attach(pod *corev1.Pod, volume corev1.Volume) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name })
	if i < 0 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
		return
	}
	pod.Spec.Volumes[i] = volume
}

// Missing returns the claims of the instance id that are still to be created: all but those that named returns, which
// tells what the cache has under a name of the set's namespace, or nil.
func (p Provision) Missing(
	id string, named func(name string) *corev1.PersistentVolumeClaim,
) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range p.Templates {
		if named(Name(p.Templates[i].Name, p.set.Object.GetName(), id)) == nil {
			out = append(out, p.set.New(&p.Templates[i], id))
		}
	}
	return out
}

// Message says what new pods get instead of claims whose template is gone, or "".
func (p Provision) Message() string {
	var parts []string
	if len(p.Recovered) > 0 {
		parts = append(parts, "the old revision mounts "+strings.Join(p.Recovered, ", ")+
			", which volumeClaimTemplates lack: its new pods get claims like those that are left")
	}
	if len(p.Emptied) > 0 {
		parts = append(parts, "the old revision mounts "+strings.Join(p.Emptied, ", ")+
			", which volumeClaimTemplates lack and no claim is left of: its new pods get empty directories; lower partition, "+
			"or add the templates again")
	}
	return strings.Join(parts, "; ")
}
