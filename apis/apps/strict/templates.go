package strict

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pods are the parts of a workload's spec that say what its pods are made from.
type pods struct {
	Template             json.RawMessage `json:"template"`
	VolumeClaimTemplates json.RawMessage `json:"volumeClaimTemplates"`
}

// child is a template of a UnitedDeployment.
type child struct {
	Metadata json.RawMessage `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
}

// jobSpec are the parts of a BroadcastJob's spec that say what its pods, and those of its checks, are made from.
type jobSpec struct {
	pods
	Flotilla struct {
		Batches struct {
			Checks []struct {
				Name string `json:"name"`
				Pod  pods   `json:"pod"`
			} `json:"checks"`
		} `json:"batches"`
	} `json:"flotilla"`
}

// sidecar is a container of a SidecarSet. The definition checks the fields that are not those of a container.
type sidecar struct {
	corev1.Container        `json:",inline"`
	PodInjectPolicy         any `json:"podInjectPolicy"`
	UpgradeStrategy         any `json:"upgradeStrategy"`
	ShareVolumePolicy       any `json:"shareVolumePolicy"`
	ShareVolumeDevicePolicy any `json:"shareVolumeDevicePolicy"`
	TransferEnv             any `json:"transferEnv"`
	ResourcesPolicy         any `json:"resourcesPolicy"`
}

// Templates compares the templates of an AdvancedCronJob, BroadcastJob, CloneSet, DaemonSet, StatefulSet or
// UnitedDeployment of apps.kruise.io, and the containers and volumes of a SidecarSet, in any version of it, with the
// types of Kubernetes. It finds nothing in objects of other kinds. The definition of the kind checks the other fields.
func Templates(kind string, object []byte) Findings {
	var f Findings
	switch kind {
	case "AdvancedCronJob":
		cron := read[struct {
			Spec struct {
				Template struct {
					Job       json.RawMessage `json:"jobTemplate"`
					Broadcast struct {
						Metadata json.RawMessage `json:"metadata"`
						Spec     jobSpec         `json:"spec"`
					} `json:"broadcastJobTemplate"`
				} `json:"template"`
			} `json:"spec"`
		}](object).Spec.Template
		path := field.NewPath("spec", "template")
		add[batchv1.JobTemplateSpec](&f, path.Child("jobTemplate"), cron.Job)
		path = path.Child("broadcastJobTemplate")
		add[metav1.ObjectMeta](&f, path.Child("metadata"), cron.Broadcast.Metadata)
		f.job(path.Child("spec"), cron.Broadcast.Spec)
	case "BroadcastJob":
		job := read[struct {
			Spec jobSpec `json:"spec"`
		}](object)
		f.job(field.NewPath("spec"), job.Spec)
	case "CloneSet", "DaemonSet", "StatefulSet":
		set := read[struct {
			Spec pods `json:"spec"`
		}](object)
		f.pods(field.NewPath("spec"), set.Spec)
	case "SidecarSet":
		spec := read[struct {
			Spec struct {
				Containers     json.RawMessage `json:"containers"`
				InitContainers json.RawMessage `json:"initContainers"`
				Volumes        json.RawMessage `json:"volumes"`
			} `json:"spec"`
		}](object).Spec
		path := field.NewPath("spec")
		add[[]sidecar](&f, path.Child("containers"), spec.Containers)
		add[[]sidecar](&f, path.Child("initContainers"), spec.InitContainers)
		add[[]corev1.Volume](&f, path.Child("volumes"), spec.Volumes)
	case "UnitedDeployment":
		ud := read[struct {
			Spec struct {
				Template map[string]child `json:"template"`
			} `json:"spec"`
		}](object)
		for _, name := range []string{
			"advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate", "statefulSetTemplate",
		} {
			if template, given := ud.Spec.Template[name]; given {
				f.child(field.NewPath("spec", "template", name), name, template)
			}
		}
	}
	return f
}

// child compares the template of children.
func (f *Findings) child(path *field.Path, name string, template child) {
	add[metav1.ObjectMeta](f, path.Child("metadata"), template.Metadata)
	spec := path.Child("spec")
	switch name {
	case "deploymentTemplate":
		add[appsv1.DeploymentSpec](f, spec, template.Spec)
	case "statefulSetTemplate":
		add[appsv1.StatefulSetSpec](f, spec, template.Spec)
	default:
		f.pods(spec, read[pods](template.Spec))
	}
}

func (f *Findings) job(path *field.Path, spec jobSpec) {
	f.pods(path, spec.pods)
	for _, check := range spec.Flotilla.Batches.Checks {
		f.pods(path.Child("flotilla", "batches", "checks").Key(check.Name).Child("pod"), check.Pod)
	}
}

func (f *Findings) pods(path *field.Path, p pods) {
	add[corev1.PodTemplateSpec](f, path.Child("template"), p.Template)
	add[[]corev1.PersistentVolumeClaim](f, path.Child("volumeClaimTemplates"), p.VolumeClaimTemplates)
}

// add compares data with T if there is any.
func add[T any](f *Findings, path *field.Path, data json.RawMessage) {
	if len(data) == 0 {
		return
	}
	more := Check[T](path, data)
	f.Mistakes, f.Unknown = append(f.Mistakes, more.Mistakes...), append(f.Unknown, more.Unknown...)
}

// read returns what can be read of data.
func read[T any](data []byte) T {
	var value T
	_ = json.Unmarshal(data, &value)
	return value
}
