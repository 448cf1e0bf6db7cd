package podset_test

import (
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

func whole() *corev1.Pod {
	cpu := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}},
		Spec: corev1.PodSpec{
			NodeName: "n", ServiceAccountName: "default", Tolerations: []corev1.Toleration{{Key: "t"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "g"}},
			Volumes: []corev1.Volume{
				{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
			},
			InitContainers: []corev1.Container{{Name: "init", Resources: cpu}},
			Containers: []corev1.Container{{
				Name: "main", Image: "app:1", ImagePullPolicy: corev1.PullAlways, Resources: cpu,
				Command: []string{"run"}, LivenessProbe: &corev1.Probe{},
				Env: []corev1.EnvVar{
					{Name: "PLAIN", Value: "1"}, {Name: "KRUISE_CONTAINER_PRIORITY", Value: "2"},
					{Name: "FED", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "token"}},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 3, HostIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "app:1", ImageID: "i", ContainerID: "c",
				RestartCount: 1}},
		},
	}
}

func TestSlimKeepsWhatIsRead(t *testing.T) {
	before := whole()
	requests := resourcehelper.PodRequests(before, resourcehelper.PodResourcesOptions{})
	got, err := podset.Slim(whole())
	if err != nil {
		t.Fatal(err)
	}
	pod := got.(*corev1.Pod)
	if pod.ManagedFields != nil || pod.Spec.Tolerations != nil || pod.Spec.Containers[0].LivenessProbe != nil ||
		pod.Status.HostIP != "" {
		t.Errorf("what nobody reads is kept: %+v", pod)
	}
	if again := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}); !reflect.DeepEqual(requests,
		again) {
		t.Errorf("requests become %v, were %v", again, requests)
	}
	main := pod.Spec.Containers[0]
	if len(main.Env) != 2 || main.Env[0].Name != "KRUISE_CONTAINER_PRIORITY" || main.Env[1].Name != "FED" ||
		main.Image != "app:1" || main.ImagePullPolicy != corev1.PullAlways {
		t.Errorf("container is %+v", main)
	}
	if len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].Name != "data" {
		t.Errorf("volumes are %+v", pod.Spec.Volumes)
	}
	before.ManagedFields = nil
	if !reflect.DeepEqual(pod.ObjectMeta, before.ObjectMeta) ||
		!reflect.DeepEqual(pod.Status.Conditions, before.Status.Conditions) ||
		!reflect.DeepEqual(pod.Status.ContainerStatuses, before.Status.ContainerStatuses) ||
		pod.Status.ObservedGeneration != 3 ||
		pod.Spec.NodeName != "n" || len(pod.Spec.ReadinessGates) != 1 {
		t.Errorf("pod is %+v", pod)
	}
}

func TestSlimDropsConditionsOfTheStart(t *testing.T) {
	pod := whole()
	pod.Spec.ReadinessGates[0].ConditionType = corev1.PodInitialized
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReadyToStartContainers,
		corev1.PodScheduled, "other"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	if _, err := podset.Slim(pod); err != nil {
		t.Fatal(err)
	}
	var kept []corev1.PodConditionType
	for _, c := range pod.Status.Conditions {
		kept = append(kept, c.Type)
	}
	want := []corev1.PodConditionType{corev1.PodReady, corev1.PodInitialized, corev1.PodScheduled, "other"}
	if !slices.Equal(kept, want) || cap(pod.Status.Conditions) != len(want) {
		t.Errorf("kept %v with room for %d, want %v", kept, cap(pod.Status.Conditions), want)
	}
}

func TestSlimKeepsHowFarEphemeralContainersAre(t *testing.T) {
	pod := whole()
	c := corev1.EphemeralContainer{TargetContainerName: "main"}
	c.Name, c.Image = "look", "busybox:1"
	c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "KRUISE_EJOB_ID", Value: "u"}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{c}
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
	pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "look", Image: "busybox:1", State: state}}
	if _, err := podset.Slim(pod); err != nil {
		t.Fatal(err)
	}
	want := corev1.EphemeralContainer{}
	want.Name, want.Env = "look", []corev1.EnvVar{{Name: "KRUISE_EJOB_ID", Value: "u"}}
	if !reflect.DeepEqual(pod.Spec.EphemeralContainers, []corev1.EphemeralContainer{want}) ||
		!reflect.DeepEqual(pod.Status.EphemeralContainerStatuses, []corev1.ContainerStatus{{Name: "look", State: state}}) {
		t.Errorf("kept %+v, %+v", pod.Spec.EphemeralContainers, pod.Status.EphemeralContainerStatuses)
	}
}

func TestSlimOfOtherObjects(t *testing.T) {
	got, err := podset.Slim(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
		ManagedFields: []metav1.ManagedFieldsEntry{{}}}, Spec: corev1.NodeSpec{Unschedulable: true}})
	if err != nil {
		t.Fatal(err)
	}
	if node := got.(*corev1.Node); node.ManagedFields != nil || !node.Spec.Unschedulable {
		t.Errorf("node is %+v", node)
	}
}

func TestSlimSharesResourcesThatAreAsAskedFor(t *testing.T) {
	pod := whole()
	asked := pod.Spec.Containers[0].Resources
	status := &pod.Status.ContainerStatuses[0]
	status.Resources, status.AllocatedResources = asked.DeepCopy(), asked.DeepCopy().Requests
	before := pod.DeepCopy()
	if _, err := podset.Slim(pod); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(pod.Status.ContainerStatuses, before.Status.ContainerStatuses) {
		t.Errorf("statuses are %+v, were %+v", pod.Status.ContainerStatuses, before.Status.ContainerStatuses)
	}
	same := func(a, b corev1.ResourceList) bool {
		return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	status = &pod.Status.ContainerStatuses[0]
	if requests := pod.Spec.Containers[0].Resources.Requests; !same(status.Resources.Requests, requests) ||
		!same(status.AllocatedResources, requests) {
		t.Error("equal resources are kept more than once")
	}

	// A resize that has not arrived: the status has amounts of its own.
	pod = before.DeepCopy()
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("200m")
	if _, err := podset.Slim(pod); err != nil {
		t.Fatal(err)
	}
	if got := pod.Status.ContainerStatuses[0].Resources.Requests.Cpu().String(); got != "100m" {
		t.Errorf("status says %s of CPU, was 100m", got)
	}
}

// BenchmarkSlim reports how many bytes a pod takes in the cache.
func BenchmarkSlim(b *testing.B) {
	source := whole()
	status := &source.Status.ContainerStatuses[0]
	status.Resources, status.AllocatedResources = source.Spec.Containers[0].Resources.DeepCopy(),
		source.Spec.Containers[0].Resources.DeepCopy().Requests
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady,
		"InPlaceUpdateReady"} {
		source.Status.Conditions = append(source.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	data, err := source.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	const pods = 2000 // enough that the rest of the process is little beside them
	for _, tt := range []struct {
		name string
		slim func(any) (any, error)
	}{{"alone", podset.Slim}, {"replicas", podset.NewSlim()}} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				all := make([]*corev1.Pod, pods)
				before := heap()
				for i := range all {
					pod := &corev1.Pod{}
					if err := pod.Unmarshal(data); err != nil {
						b.Fatal(err)
					}
					if _, err := tt.slim(pod); err != nil {
						b.Fatal(err)
					}
					all[i] = pod
				}
				b.ReportMetric(float64(heap()-before)/pods, "B/pod")
				runtime.KeepAlive(all)
			}
		})
	}
}

// TestNewSlimSharesWhatReplicasHaveInCommon: the pods are as Slim leaves them, and equal parts are there once.
func TestNewSlimSharesWhatReplicasHaveInCommon(t *testing.T) {
	slim := podset.NewSlim()
	var pods []*corev1.Pod
	for i := range 5000 {
		pod, want := whole(), whole()
		for _, p := range []*corev1.Pod{pod, want} {
			p.Labels["index"] = strconv.Itoa(i / 2)
			p.Spec.NodeName = strconv.Itoa(i)
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(i/2),
				resource.BinarySI)
		}
		got, err := slim(pod)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := podset.Slim(want); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("pod %d is %+v, want %+v", i, got, want)
		}
		pods = append(pods, pod)
	}
	same := func(a, b *corev1.Pod) bool {
		return reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer() &&
			reflect.ValueOf(a.Spec.Containers[0].Resources.Requests).Pointer() ==
				reflect.ValueOf(b.Spec.Containers[0].Resources.Requests).Pointer()
	}
	if !same(pods[0], pods[1]) || !same(pods[4998], pods[4999]) || same(pods[1], pods[2]) {
		t.Error("equal pods share nothing, or different ones share")
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestSlimKeepsWhyPodsAreNotReady: how containers that are not ready ended, that there are probes, and that a node has
// not set up the pod. Equal probes are there once, and of a container that is ready its end is not kept.
func TestSlimKeepsWhyPodsAreNotReady(t *testing.T) {
	slim := podset.NewSlim()
	get := func(ready bool) *corev1.Pod {
		pod := whole()
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 1}
		pod.Spec.Containers[0].StartupProbe = &corev1.Probe{InitialDelaySeconds: 5, FailureThreshold: 9}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers,
			Status: corev1.ConditionFalse}}
		status := corev1.ContainerStatus{Name: "main", Ready: ready, RestartCount: 1}
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "m",
			ContainerID: "c", FinishedAt: metav1.Unix(9, 0)}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		status.Name = "init"
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
		if _, err := slim(pod); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	fails, ready := get(false), get(true)
	want := &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", FinishedAt: metav1.Unix(9, 0)}
	for _, s := range []corev1.ContainerStatus{fails.Status.ContainerStatuses[0], fails.Status.InitContainerStatuses[0]} {
		if got := s.LastTerminationState.Terminated; !reflect.DeepEqual(got, want) {
			t.Errorf("%s ended with %+v", s.Name, got)
		}
	}
	for _, s := range []corev1.ContainerStatus{ready.Status.ContainerStatuses[0], ready.Status.InitContainerStatuses[0]} {
		if got := s.LastTerminationState.Terminated; got != nil {
			t.Errorf("%s is ready, and keeps %+v", s.Name, got)
		}
	}
	main := &ready.Spec.Containers[0]
	if probe := main.ReadinessProbe; probe == nil || *probe != (corev1.Probe{InitialDelaySeconds: 5}) ||
		probe != main.StartupProbe || probe != fails.Spec.Containers[0].ReadinessProbe {
		t.Errorf("probes are %p %p %+v", probe, main.StartupProbe, probe)
	}
	if len(fails.Status.Conditions) != 1 {
		t.Errorf("conditions are %v", fails.Status.Conditions)
	}
}

// TestSlimKeepsWhatNativeSidecarsRun: SidecarSets wait for their new images.
func TestSlimKeepsWhatNativeSidecarsRun(t *testing.T) {
	status := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Ready: true, Image: name + ":1", ImageID: "id/" + name}
	}
	slim, err := podset.Slim(&corev1.Pod{
		Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init"},
			{Name: "native", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}},
		Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{status("init"), status("native")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := slim.(*corev1.Pod).Status.InitContainerStatuses
	if len(kept) != 1 || kept[0].Image != "native:1" || kept[0].ImageID != "id/native" {
		t.Errorf("kept %v", kept)
	}
}
