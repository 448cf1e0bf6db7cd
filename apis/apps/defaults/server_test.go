package defaults_test

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/defaults"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestOnAPIServer compares with what a real API server makes of a pod in a dry run.
func TestOnAPIServer(t *testing.T) {
	hub := fleet.ForTest(t, fleet.Config{}).Hub()
	c, err := client.New(hub.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, container := range containers() {
		t.Run(fmt.Sprint("container ", i, " ", container.Image), func(t *testing.T) {
			want := container.DeepCopy()
			defaults.Container(want)
			for name, limit := range want.Resources.Limits { // what the API server does to pods alone
				if _, has := want.Resources.Requests[name]; !has {
					want.Resources.Requests[name] = limit
				}
			}
			pod := create(t, c, corev1.PodSpec{Containers: []corev1.Container{container}, Volumes: volumes()})
			same(t, pod.Spec.Containers[0], *want)
		})
	}
	for _, volume := range volumes() {
		t.Run("volume "+volume.Name, func(t *testing.T) {
			want := volume.DeepCopy()
			defaults.Volume(want)
			pod := create(t, c, corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}},
				Volumes: []corev1.Volume{volume}})
			same(t, pod.Spec.Volumes[0], *want)
		})
	}
}

func create(t *testing.T, c client.Client, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	spec.AutomountServiceAccountToken = new(false)
	spec.ServiceAccountName = "default"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"}, Spec: spec}
	if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	return pod
}

func same(t *testing.T, got, want any) {
	t.Helper()
	a, errA := yaml.Marshal(got)
	b, errB := yaml.Marshal(want)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("the API server makes of it\n%s\nwe\n%s", a, b)
	}
}

// TestEveryField keeps the first container of the comparison complete: a new field of Kubernetes may have a default.
func TestEveryField(t *testing.T) {
	full := reflect.ValueOf(containers()[0])
	for i := range full.NumField() {
		name := full.Type().Field(i).Name
		switch name {
		case "RestartPolicy", "RestartPolicyRules": // without defaults, and not for every pod
		default:
			if full.Field(i).IsZero() && name != "ImagePullPolicy" && name != "TerminationMessagePath" &&
				name != "TerminationMessagePolicy" {
				t.Errorf("the container of the test has no %s", name)
			}
		}
	}
}

// containers are one with every field, and images of every form.
func containers() []corev1.Container {
	http := func() *corev1.HTTPGetAction { return &corev1.HTTPGetAction{Port: intstr.FromInt32(80)} }
	field := &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}
	all := []corev1.Container{{
		Name: "full", Image: "full:1", Command: []string{"a"}, Args: []string{"b"}, WorkingDir: "/", Stdin: true,
		StdinOnce: true, TTY: true,
		Ports:   []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, Protocol: corev1.ProtocolUDP}},
		EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("a")}}},
		Env: []corev1.EnvVar{
			{Name: "A", Value: "b"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: field}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
				Resource: "limits.cpu"}}},
			{Name: "D", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: named("a"), Key: "b"}}},
		},
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("1.00001"), "memory": resource.MustParse("1Gi")},
			Requests: corev1.ResourceList{"cpu": resource.MustParse("0.5")},
		},
		ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: "NotRequired"},
			{ResourceName: "memory", RestartPolicy: "NotRequired"}},
		VolumeMounts:  []corev1.VolumeMount{{Name: "empty", MountPath: "/a"}},
		VolumeDevices: []corev1.VolumeDevice{{Name: "claim", DevicePath: "/b"}},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: http()}},
		ReadinessProbe: &corev1.Probe{FailureThreshold: 7,
			ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}},
		StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: http()}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: http()},
			PostStart: &corev1.LifecycleHandler{HTTPGet: http()}},
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(1))},
	}}
	for _, image := range []string{
		"a", "a:latest", "a:1", "a/b", "a.b/c", "a.b:5000/c", "a.b:5000/c:2", "a.b:5000/c:latest", "localhost/a:1", "A/b",
		"UPPER", "a:b:c", "a__b", "a___b", "a--b", "-a", "docker.io/library/a",
		"a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "a@sha256:e3", "a:latest@sha256:" +
			"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "a/B:latest", "a:", "a b", "[::1]:5000/a",
	} {
		all = append(all, corev1.Container{Name: "image", Image: image,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}})
	}
	return all
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// volumes are one of each source that has defaults.
func volumes() []corev1.Volume {
	field := corev1.DownwardAPIVolumeFile{Path: "a", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	sources := map[string]corev1.VolumeSource{
		"empty":  {},
		"host":   {HostPath: &corev1.HostPathVolumeSource{Path: "/a"}},
		"secret": {Secret: &corev1.SecretVolumeSource{SecretName: "a"}},
		"config": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("a")}},
		"down":   {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{field}}},
		"projected": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{field}}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "b"}},
		}}},
		"image": {Image: &corev1.ImageVolumeSource{Reference: "a"}},
		"claim": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}},
		"ephemeral": {Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
		}}},
		"iscsi": {ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "1.2.3.4", IQN: "iqn.2026-01.a:b"}},
		"rbd":   {RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"a"}, RBDImage: "b"}},
		"azure": {AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "a", DataDiskURI: "https://a.blob.core/a"}},
		"scale": {ScaleIO: &corev1.ScaleIOVolumeSource{Gateway: "a", System: "b", SecretRef: new(named("c")),
			VolumeName: "d"}},
	}
	var all []corev1.Volume
	for _, name := range []string{"empty", "host", "secret", "config", "down", "projected", "image", "claim", "ephemeral",
		"iscsi", "rbd", "azure", "scale"} {
		all = append(all, corev1.Volume{Name: name, VolumeSource: sources[name]})
	}
	return all
}
