package statefulset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/statefulset"
	"github.com/flotilla-dev/flotilla/topology/handover"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// limit is how long anything may take on a busy machine.
const limit = 90 * time.Second

// world is one cluster with the controller running in it.
type world struct {
	*testing.T
	client.Client
	gate *testGate
	// lacks reports whether the definition of StatefulSets lacks a field of spec.
	lacks map[string]func(context.Context) (bool, error)
}

// TestOnAServer runs every story on one cluster, in parallel.
func TestOnAServer(t *testing.T) {
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: fleet.Nodes("solo", "eu", []string{"a", "b"}, 2)},
		false, "statefulsets.apps.kruise.io")
	config := c.RESTConfig()
	config.QPS = -1
	own := rest.CopyConfig(config)
	own.UserAgent = "statefulset-under-test"
	gate, lacks := &testGate{}, map[string]func(context.Context) (bool, error){}
	apiserver.Run(t, own, func(ctx context.Context, mgr ctrl.Manager) error {
		env := &workload.Env{Manager: mgr, Gate: gate}
		err := statefulset.Add(ctx, env)
		for _, field := range []string{"flotilla", "ofTheNextVersion"} {
			if err == nil {
				lacks[field], err = workload.LacksSpecField(env, v1beta1.StatefulSetKind, field)
			}
		}
		return err
	})
	api, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("stories", func(t *testing.T) {
		for name, story := range stories() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(&world{t, api, gate, lacks})
			})
		}
	})
}

func stories() map[string]func(*world) {
	return map[string]func(*world){
		"creates pods one by one with their identities":         createsInOrder,
		"creates pods in parallel":                              createsInParallel,
		"updates the highest ordinal first":                     updatesInOrder,
		"updates pods in place":                                 updatesInPlace,
		"keeps claims and deletes them as the policy says":      keepsClaims,
		"resizes claims before it updates their pods":           resizesClaims,
		"updates nothing with OnDelete":                         updatesOnDelete,
		"keeps its pods when the template is refused":           keepsPodsOfARefusedTemplate,
		"takes over pods and revisions of a native StatefulSet": takesOver,
		"shows failures and clears them":                        showsFailures,
		"holds pods back whose ordinals may have moved":         holdsUnconfirmedOrdinals,
		"hands values over to pods of their ordinals":           handsOver,
		"stops at steps until they are promoted":                stopsAtSteps,
		"knows whether the definition has a field":              knowsFields,
	}
}

// eventually polls until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func newSet(name string, replicas int32, change ...func(*v1beta1.StatefulSet)) *v1beta1.StatefulSet {
	app := map[string]string{"app": name}
	set := &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1beta1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app}, ServiceName: name + "-headless",
			Template: v1beta1.NewPodTemplate(corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{
					ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1beta1.InPlaceUpdateReady}},
					Containers:     []corev1.Container{{Name: "main", Image: "nginx:1"}}},
			}),
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func parallel(set *v1beta1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func rolling(strategy v1beta1.RollingUpdateStatefulSetStrategy) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate = &strategy }
}

func (w *world) create(set *v1beta1.StatefulSet) { w.Helper(); w.must(w.Create(w.Context(), set)) }

func (w *world) get(name string) *v1beta1.StatefulSet {
	w.Helper()
	set := &v1beta1.StatefulSet{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, set))
	return set
}

// change updates the StatefulSet by a patch.
func (w *world) change(name string, f func(*v1beta1.StatefulSet)) {
	w.Helper()
	set := w.get(name)
	before := set.DeepCopy()
	f(set)
	w.must(w.Patch(w.Context(), set, client.MergeFrom(before)))
}

func image(name string) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = name }
}

func replicas(n int32) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) { set.Spec.Replicas = &n }
}

// pods returns the pods of a StatefulSet that are not being deleted, by name.
func (w *world) pods(name string) []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": name}))
	out := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	slices.SortFunc(out, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func condition(set *v1beta1.StatefulSet, name string) v1beta1.StatefulSetCondition {
	for _, c := range set.Status.Conditions {
		if string(c.Type) == name {
			return c
		}
	}
	return v1beta1.StatefulSetCondition{}
}

// settle waits until the StatefulSet is at rest and its status says so.
func (w *world) settle(name string) []corev1.Pod {
	w.Helper()
	var pods []corev1.Pod
	w.eventually(name+" comes to rest", func() string {
		set := w.get(name)
		pods = w.pods(name)
		s := set.Status
		all := *set.Spec.Replicas
		switch {
		case s.ObservedGeneration != set.Generation:
			return fmt.Sprintf("generation %d is not observed", set.Generation)
		case s.Replicas != all || int(s.Replicas) != len(pods) || s.AvailableReplicas != all || s.ReadyReplicas != all:
			return fmt.Sprintf("%d pods, status %+v", len(pods), s)
		case condition(set, v1beta1.ConditionReconciling).Status != corev1.ConditionFalse:
			return "reconciling: " + condition(set, v1beta1.ConditionReconciling).Message
		}
		return ""
	})
	return pods
}

func names(pods []corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return strings.Join(out, " ")
}

func images(pods []corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Spec.Containers[0].Image)
	}
	return strings.Join(out, " ")
}

func createsInOrder(w *world) {
	w.create(newSet("order", 3, func(set *v1beta1.StatefulSet) {
		set.Spec.Ordinals = &v1beta1.StatefulSetOrdinals{Start: 2}
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(3), intstr.FromString("90-99")}
	}))
	pods := w.settle("order")
	if names(pods) != "order-2 order-4 order-5" {
		w.Fatalf("pods %s", names(pods))
	}
	set := w.get("order")
	for i, pod := range pods {
		index := strings.TrimPrefix(pod.Name, "order-")
		if pod.Spec.Hostname != pod.Name || pod.Spec.Subdomain != "order-headless" ||
			pod.Labels[appsv1.StatefulSetPodNameLabel] != pod.Name || pod.Labels[appsv1.PodIndexLabel] != index ||
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision {
			w.Errorf("%s has hostname %s.%s and labels %v", pod.Name, pod.Spec.Hostname, pod.Spec.Subdomain, pod.Labels)
		}
		if i > 0 && pod.CreationTimestamp.Before(&pods[i-1].CreationTimestamp) {
			w.Errorf("%s is older than %s", pod.Name, pods[i-1].Name)
		}
	}
	if s := set.Status; s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 ||
		s.UpdatedAvailableReplicas != 3 || s.LabelSelector != "app=order" ||
		condition(set, v1beta1.ConditionReady).Status != corev1.ConditionTrue {
		w.Errorf("status %+v", s)
	}
	w.change("order", replicas(1))
	if pods := w.settle("order"); names(pods) != "order-2" {
		w.Errorf("pods %s after the scale-in", names(pods))
	}
}

func createsInParallel(w *world) {
	w.create(newSet("wide", 12, parallel))
	w.settle("wide")
	w.change("wide", replicas(20))
	w.settle("wide")
	w.change("wide", replicas(0))
	w.settle("wide")
}

func updatesInOrder(w *world) {
	w.create(newSet("roll", 3, rolling(v1beta1.RollingUpdateStatefulSetStrategy{Partition: new(int32(1))})))
	w.settle("roll")
	w.change("roll", image("nginx:2"))
	w.eventually("two pods are updated", func() string {
		if got := images(w.settle("roll")); got != "nginx:1 nginx:2 nginx:2" {
			return got
		}
		return ""
	})
	set := w.get("roll")
	if s := set.Status; s.UpdatedReplicas != 2 || s.CurrentReplicas != 1 || s.CurrentRevision == s.UpdateRevision {
		w.Errorf("status %+v", s)
	}
	// A pod that the partition keeps comes back as it was.
	w.must(w.Delete(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "roll-0"}}))
	if got := images(w.settle("roll")); got != "nginx:1 nginx:2 nginx:2" {
		w.Errorf("images %s", got)
	}
	w.change("roll", func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(0)) })
	w.eventually("all pods are updated", func() string {
		set := w.get("roll")
		if s := set.Status; images(w.pods("roll")) != "nginx:2 nginx:2 nginx:2" || s.CurrentRevision != s.UpdateRevision {
			return fmt.Sprintf("%s, %+v", images(w.pods("roll")), s)
		}
		return ""
	})
	var list appsv1.ControllerRevisionList
	w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": "roll"}))
	if len(list.Items) != 2 {
		w.Errorf("%d revisions", len(list.Items))
	}
}

func stopsAtSteps(w *world) {
	w.create(newSet("steps", 4, parallel, rolling(v1beta1.RollingUpdateStatefulSetStrategy{
		MaxUnavailable: new(intstr.FromInt32(4))}), func(set *v1beta1.StatefulSet) {
		set.Spec.Flotilla = &v1beta1.FlotillaSpec{Steps: []v1beta1.UpdateStep{
			{Partition: intstr.FromString("75%")}, {Partition: intstr.FromInt32(2), Soak: "2s"},
			{Partition: intstr.FromInt32(1)}}}
	}))
	w.settle("steps")
	w.change("steps", image("nginx:2"))
	stops := func(want, waits string) {
		w.Helper()
		w.eventually("the update stops with "+want, func() string {
			ready := condition(w.get("steps"), v1beta1.ConditionReady)
			if got := images(w.pods("steps")); got != want || !strings.Contains(ready.Message, waits) {
				return fmt.Sprintf("%s, %+v", got, ready)
			}
			return ""
		})
	}
	promote := func() {
		w.Helper()
		w.change("steps", func(set *v1beta1.StatefulSet) {
			p, sequence := waves.ReadProgress(set.Status.UpdateProgress)
			set.Annotations = map[string]string{
				topology.AnnotationWave: waves.ApproveWord(set.Status.UpdateProgress.Revision, sequence, p)}
		})
	}
	stops("nginx:1 nginx:1 nginx:1 nginx:2", "step 1 of 3 (partition 75%)")
	stops("nginx:1 nginx:1 nginx:1 nginx:2", "waits until it is promoted")
	promote()
	stops("nginx:1 nginx:2 nginx:2 nginx:2", "step 3 of 3 (partition 1)")
	stops("nginx:1 nginx:2 nginx:2 nginx:2", "waits until it is promoted")
	promote()
	w.eventually("all pods are updated", func() string {
		s := w.get("steps").Status
		if s.UpdatedAvailableReplicas != 4 || s.UpdateProgress == nil || s.UpdateProgress.Number != 4 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.settle("steps")
}

// knowsFields waits, because an API server describes a definition some time after it serves it.
func knowsFields(w *world) {
	for field, want := range map[string]bool{"flotilla": false, "ofTheNextVersion": true} {
		w.eventually("the API server describes StatefulSets", func() string {
			if got, err := w.lacks[field](w.Context()); err != nil || got != want {
				return fmt.Sprintf("spec.%s is lacking: %v, %v", field, got, err)
			}
			return ""
		})
	}
}

func updatesInPlace(w *world) {
	w.create(newSet("place", 3, parallel, rolling(v1beta1.RollingUpdateStatefulSetStrategy{
		PodUpdatePolicy: v1beta1.InPlaceIfPossiblePodUpdatePolicy, MaxUnavailable: new(intstr.FromInt32(2)),
		InPlaceUpdateStrategy: &v1beta1.InPlaceUpdateStrategy{GracePeriodSeconds: 1},
	})))
	before := w.settle("place")
	w.change("place", image("nginx:2"))
	var after []corev1.Pod
	w.eventually("all pods are updated", func() string {
		after = w.settle("place")
		if images(after) != "nginx:2 nginx:2 nginx:2" || w.get("place").Status.UpdatedAvailableReplicas != 3 {
			return images(after)
		}
		return ""
	})
	revision := w.get("place").Status.UpdateRevision
	for i := range after {
		_, hash := after[i].Labels[v1beta1.LabelPodTemplateHash]
		if after[i].UID != before[i].UID || after[i].Labels[appsv1.ControllerRevisionHashLabelKey] != revision || hash {
			w.Errorf("%s was recreated, or has labels %v", after[i].Name, after[i].Labels)
		}
	}
	// What cannot be changed in place recreates pods.
	w.change("place", func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	})
	w.eventually("all pods are recreated", func() string {
		for i, pod := range w.settle("place") {
			if pod.UID == before[i].UID {
				return pod.Name + " is the same"
			}
		}
		return ""
	})
}

// disks makes volumes that claims of the storage class are bound to.
func (w *world) disks(class string, n int) {
	w.Helper()
	for i := range n {
		w.must(w.Create(w.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class, i)},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			},
		}))
	}
}

// data is a claim template of this storage class.
func data(class, size string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "disk"}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
	}
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return claim
}

func keepsClaims(w *world) {
	w.disks("store", 4)
	w.create(newSet("store", 2, func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{data("store", "1Gi")}
		set.Spec.PersistentVolumeClaimRetentionPolicy = &v1beta1.PersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	}))
	w.settle("store")
	first, second := w.claim("data-store-0"), w.claim("data-store-1")
	if first == nil || second == nil || first.Labels["app"] != "store" || first.Labels["tier"] != "disk" ||
		len(first.OwnerReferences) != 1 || metav1.GetControllerOf(first) != nil {
		w.Fatalf("claims %v, %v", first, second)
	}
	w.eventually("status counts claims", func() string {
		if s := w.get("store").Status.VolumeClaims; len(s) != 1 || s[0].CompatibleReplicas != 2 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	// Out and in again: the pod gets the claim that it had.
	w.change("store", replicas(1))
	w.settle("store")
	w.change("store", replicas(2))
	w.settle("store")
	if again := w.claim("data-store-1"); again == nil || again.UID != second.UID {
		w.Error("the claim of a scaled-in ordinal is not kept")
	}
	// With whenScaled Delete it goes with its pod, and the pod waits for the new one.
	w.change("store", func(set *v1beta1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		set.Spec.Replicas = new(int32(1))
	})
	w.settle("store")
	w.eventually("the claim is deleted", func() string {
		if w.claim("data-store-1") != nil {
			return "it exists"
		}
		return ""
	})
	if w.claim("data-store-0") == nil {
		w.Error("the claim of a pod in range is deleted")
	}
	w.must(w.Delete(w.Context(), w.get("store")))
	w.eventually("the claims are deleted with the set", func() string {
		if w.claim("data-store-0") != nil {
			return "it exists"
		}
		return ""
	})
}

func resizesClaims(w *world) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "grow"}, Provisioner: "none.example"}
	w.must(w.Create(w.Context(), class))
	w.disks("grow", 2)
	w.create(newSet("grow", 2, func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{data("grow", "1Gi")}
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
	}))
	before := w.settle("grow")
	w.change("grow", func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{data("grow", "2Gi")}
		image("nginx:2")(set)
	})
	w.eventually("a storage class that does not expand is named", func() string {
		c := condition(w.get("grow"), string(v1beta1.StatefulSetConditionFailedUpdatePod))
		if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "data-grow-1") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	if pods := w.pods("grow"); images(pods) != "nginx:1 nginx:1" || pods[1].UID != before[1].UID {
		w.Errorf("pods have images %s", images(pods))
	}
	class.AllowVolumeExpansion = new(true)
	w.must(w.Update(w.Context(), class))
	w.eventually("claims and pods are updated", func() string {
		s := w.get("grow").Status
		if images(w.pods("grow")) != "nginx:2 nginx:2" || s.UpdatedAvailableReplicas != 2 ||
			s.VolumeClaims[0].CompatibleReadyReplicas != 2 {
			return fmt.Sprintf("%s %+v", images(w.pods("grow")), s)
		}
		return ""
	})
	if claim := w.claim("data-grow-0"); claim.Spec.Resources.Requests.Storage().String() != "2Gi" ||
		claim.Annotations[v1beta1.AnnotationOwnedByStatefulSet] != "grow" {
		w.Errorf("claim %v", claim)
	}
}

func updatesOnDelete(w *world) {
	w.create(newSet("manual", 2, func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	}))
	w.settle("manual")
	w.change("manual", image("nginx:2"))
	if got := images(w.settle("manual")); got != "nginx:1 nginx:1" {
		w.Fatalf("images %s", got)
	}
	w.must(w.Delete(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "manual-0"}}))
	w.eventually("the deleted pod is updated", func() string {
		if got := images(w.settle("manual")); got != "nginx:2 nginx:1" {
			return got
		}
		return ""
	})
}

func keepsPodsOfARefusedTemplate(w *world) {
	w.create(newSet("refused", 2))
	before := w.settle("refused")
	w.change("refused", func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: "SMOKE"}}
	})
	w.eventually("it stands still", func() string {
		stalled := condition(w.get("refused"), v1beta1.ConditionStalled)
		if stalled.Status != corev1.ConditionTrue || stalled.Reason != workload.ReasonInvalidTemplate {
			return fmt.Sprintf("%+v", stalled)
		}
		return ""
	})
	if pods := w.pods("refused"); len(pods) == 0 || pods[0].UID != before[0].UID {
		w.Errorf("pods %s", names(pods))
	}
	w.change("refused", func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Ports = nil })
	w.settle("refused")

	// A template that is no pod at all: nothing is known of it but that the pods run.
	raw := []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/ports","value":[{"containerPort":"eighty"}]}]`)
	w.must(w.Patch(w.Context(), w.get("refused"), client.RawPatch("application/json-patch+json", raw)))
	w.eventually("it names the field", func() string {
		stalled := condition(w.get("refused"), v1beta1.ConditionStalled)
		if stalled.Status != corev1.ConditionTrue || !strings.Contains(stalled.Message, "spec.template.spec.containers") {
			return fmt.Sprintf("%+v", stalled)
		}
		return ""
	})
	if pods := w.pods("refused"); names(pods) != "refused-0 refused-1" {
		w.Errorf("pods %s", names(pods))
	}
	w.must(w.Patch(w.Context(), w.get("refused"),
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))))
	w.eventually("it still scales to zero", func() string { return names(w.pods("refused")) })
}

func takesOver(w *world) {
	w.disks("native", 2)
	// A native StatefulSet that was deleted alone left its pods, its revision and its claims. What the API server's
	// defaults add to its template means the same.
	template := newSet("native", 2).Spec.Template.PodTemplateSpec
	template.Spec.ReadinessGates = nil
	native := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "native"},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), ServiceName: "native-headless",
			Selector:             &metav1.LabelSelector{MatchLabels: template.Labels},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{data("native", "1Gi")}, Template: template}}
	w.must(w.Create(w.Context(), native))
	w.eventually("the native StatefulSet is ready", func() string {
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(native), native))
		if native.Status.ReadyReplicas != 2 {
			return fmt.Sprintf("%+v", native.Status)
		}
		return ""
	})
	before, claim := w.pods("native"), w.claim("data-native-1")
	w.must(w.Delete(w.Context(), native, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.eventually("it is gone", func() string {
		err := w.Get(w.Context(), client.ObjectKeyFromObject(native), native)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("exists (%v)", err)
	})
	w.create(newSet("native", 2, func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = native.Spec.VolumeClaimTemplates
		set.Spec.Template = v1beta1.NewPodTemplate(template)
	}))
	after := w.settle("native")
	if len(after) != 2 || after[0].UID != before[0].UID || after[1].UID != before[1].UID {
		w.Fatalf("pods %s were recreated", names(after))
	}
	if now := w.claim("data-native-1"); now == nil || now.UID != claim.UID {
		w.Error("a claim was replaced")
	}
	have := after[0].Labels[appsv1.ControllerRevisionHashLabelKey]
	if revision := w.get("native").Status.UpdateRevision; have != revision {
		w.Errorf("revision %s, pods have %s", revision, have)
	}
}

func showsFailures(w *world) {
	// Another object has the name of the second pod.
	w.must(w.Create(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fails-1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}}}))
	w.create(newSet("fails", 2))
	failed := string(v1beta1.StatefulSetConditionFailedCreatePod)
	w.eventually("the failure is shown", func() string {
		c := condition(w.get("fails"), failed)
		const want = "fails-1: a pod of this name exists and has no controller"
		if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, want) || c.Reason == "" {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	w.must(w.Delete(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fails-1"}}))
	w.settle("fails")
	w.eventually("the failure is kept, and cleared", func() string {
		if c := condition(w.get("fails"), failed); c.Status != corev1.ConditionFalse {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
}

// testGate is the gate of a hub that grants the StatefulSet "held" everything, and of which the agent is out of contact
// while lost is set.
type testGate struct{ lost atomic.Bool }

func (*testGate) Federated(context.Context, client.Object) (bool, error) { return false, nil }
func (*testGate) Foreign(client.Object) bool                             { return false }
func (*testGate) Ordered(schema.GroupVersionKind) source.Source          { return nil }

func (g *testGate) Budget(_ context.Context, object client.Object) (workload.Budget, error) {
	switch {
	case object.GetName() != "held":
		return workload.Budget{}, nil
	case g.lost.Load():
		return workload.Budget{Granted: true, Expired: true, UnconfirmedSince: time.Now()}, nil
	}
	return workload.Budget{Granted: true}, nil
}

// holdsUnconfirmedOrdinals lets a pod go while the hub may have moved its ordinal: it is not created before the agent
// is in contact, and the running pods stay.
func holdsUnconfirmedOrdinals(w *world) {
	w.create(newSet("held", 3, parallel))
	before := w.settle("held")
	w.gate.lost.Store(true)
	w.must(w.Delete(w.Context(), &before[2]))
	w.eventually("the condition says why no pod is created", func() string {
		ready := condition(w.get("held"), v1beta1.ConditionReady)
		if pods := names(w.pods("held")); ready.Reason != "OrdinalsUnconfirmed" || pods != "held-0 held-1" {
			return fmt.Sprintf("pods %s, %+v", pods, ready)
		}
		return ""
	})
	w.gate.lost.Store(false)
	after := w.settle("held")
	if after[0].UID != before[0].UID || after[1].UID != before[1].UID {
		w.Error("a running pod was replaced")
	}
}

// handsOver creates the pods of some ordinals with values, as annotations and variables. They change neither the
// revision nor updates in place. Without the annotation, and while it cannot be read, no pod gets any.
func handsOver(w *world) {
	given := func(text string) func(*v1beta1.StatefulSet) {
		return func(set *v1beta1.StatefulSet) {
			set.Annotations = map[string]string{topology.AnnotationHandedOver: text}
		}
	}
	inPlace := rolling(v1beta1.RollingUpdateStatefulSetStrategy{PodUpdatePolicy: v1beta1.InPlaceIfPossiblePodUpdatePolicy})
	w.create(newSet("heir", 2, parallel, inPlace, func(set *v1beta1.StatefulSet) {
		spec := &set.Spec.Template.Spec
		spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox:1"}}
		spec.Containers[0].Env = []corev1.EnvVar{{Name: "FLOTILLA_HANDOVER_CHECKPOINT", Value: "none"},
			{Name: "FROM", Value: "$(FLOTILLA_HANDOVER_CHECKPOINT)"}}
	}, given(`[{"ordinal":1,"values":{"checkpoint":"7","last-id":"$(FROM)"}},{"ordinal":9,"values":{"checkpoint":"x"}}]`)))
	pods := w.settle("heir")
	env := func(e []corev1.EnvVar) (out []string) {
		for _, v := range e {
			out = append(out, v.Name+"="+v.Value)
		}
		return out
	}
	const first, second, own = "FLOTILLA_HANDOVER_CHECKPOINT=7", "FLOTILLA_HANDOVER_LAST_ID=$$(FROM)",
		"FROM=$(FLOTILLA_HANDOVER_CHECKPOINT)"
	expectHeir := func(pod *corev1.Pod) {
		w.Helper()
		main, init := env(pod.Spec.Containers[0].Env), env(pod.Spec.InitContainers[0].Env)
		if !slices.Equal(main, []string{first, second, own}) || !slices.Equal(init, []string{first, second}) ||
			pod.Annotations["handover.flotilla.dev/checkpoint"] != "7" ||
			pod.Annotations["handover.flotilla.dev/last-id"] != "$(FROM)" {
			w.Errorf("%s has %v, %v and %v", pod.Name, main, init, pod.Annotations)
		}
	}
	expectNone := func(pod *corev1.Pod) {
		w.Helper()
		if main := env(pod.Spec.Containers[0].Env); main[0] != "FLOTILLA_HANDOVER_CHECKPOINT=none" || handover.Received(pod) {
			w.Errorf("%s has %v and %v", pod.Name, main, pod.Annotations)
		}
	}
	expectNone(&pods[0])
	expectHeir(&pods[1])
	if a, b := pods[0].Labels, pods[1].Labels; a[appsv1.ControllerRevisionHashLabelKey] !=
		b[appsv1.ControllerRevisionHashLabelKey] {
		w.Errorf("two revisions: %v and %v", a, b)
	}

	w.change("heir", image("nginx:2"))
	updated := w.settle("heir")
	if images(updated) != "nginx:2 nginx:2" || updated[1].UID != pods[1].UID {
		w.Errorf("images %s; the pod of ordinal 1 has the uid %s, before %s", images(updated), updated[1].UID, pods[1].UID)
	}
	expectHeir(&updated[1])

	w.change("heir", given("{"))
	w.must(w.Delete(w.Context(), &updated[1]))
	w.eventually("the condition says why no pod is created", func() string {
		failed := condition(w.get("heir"), string(v1beta1.StatefulSetConditionFailedCreatePod))
		if failed.Status != corev1.ConditionTrue || !strings.Contains(failed.Message, topology.AnnotationHandedOver) {
			return fmt.Sprintf("%+v", failed)
		}
		return ""
	})
	w.change("heir", func(set *v1beta1.StatefulSet) { set.Annotations = nil })
	pods = w.settle("heir")
	expectNone(&pods[1])
}
