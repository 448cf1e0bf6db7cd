package defaults

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// fileMode is the mode of files in volumes that name none.
const fileMode = int32(0o644)

// Volume sets what an API server sets in a volume of a pod by itself.
func Volume(v *corev1.Volume) {
	if reflect.ValueOf(v.VolumeSource).IsZero() {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	set(&v.HostPath, func(s *corev1.HostPathVolumeSource) { value(&s.Type, corev1.HostPathUnset) })
	set(&v.Secret, func(s *corev1.SecretVolumeSource) { value(&s.DefaultMode, fileMode) })
	set(&v.ConfigMap, func(s *corev1.ConfigMapVolumeSource) { value(&s.DefaultMode, fileMode) })
	set(&v.DownwardAPI, func(s *corev1.DownwardAPIVolumeSource) {
		value(&s.DefaultMode, fileMode)
		downward(s.Items)
	})
	set(&v.Projected, func(s *corev1.ProjectedVolumeSource) {
		value(&s.DefaultMode, fileMode)
		for i := range s.Sources {
			set(&s.Sources[i].DownwardAPI, func(p *corev1.DownwardAPIProjection) { downward(p.Items) })
			set(&s.Sources[i].ServiceAccountToken, func(p *corev1.ServiceAccountTokenProjection) {
				value(&p.ExpirationSeconds, 3600)
			})
		}
	})
	set(&v.Image, func(s *corev1.ImageVolumeSource) { text(&s.PullPolicy, pullPolicy(s.Reference)) })
	set(&v.Ephemeral, func(s *corev1.EphemeralVolumeSource) {
		set(&s.VolumeClaimTemplate, func(t *corev1.PersistentVolumeClaimTemplate) {
			value(&t.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
			amounts(t.Spec.Resources.Limits)
			amounts(t.Spec.Resources.Requests)
		})
	})
	legacyVolume(v)
}

// legacyVolume sets defaults of volumes that came before CSI drivers.
func legacyVolume(v *corev1.Volume) {
	set(&v.ISCSI, func(s *corev1.ISCSIVolumeSource) { text(&s.ISCSIInterface, "default") })
	set(&v.RBD, func(s *corev1.RBDVolumeSource) {
		text(&s.RBDPool, "rbd")
		text(&s.RadosUser, "admin")
		text(&s.Keyring, "/etc/ceph/keyring")
	})
	set(&v.AzureDisk, func(s *corev1.AzureDiskVolumeSource) {
		value(&s.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		value(&s.FSType, "ext4")
		value(&s.ReadOnly, false)
		value(&s.Kind, corev1.AzureSharedBlobDisk)
	})
	set(&v.ScaleIO, func(s *corev1.ScaleIOVolumeSource) {
		text(&s.StorageMode, "ThinProvisioned")
		text(&s.FSType, "xfs")
	})
}

func downward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		set(&items[i].FieldRef, fieldRef)
	}
}
