package mutator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/allow"
)

// reviewOf returns the request of an API server about the pod.
func reviewOf(b *testing.B, pod *corev1.Pod) []byte {
	b.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "uid", Operation: admissionv1.Create, Namespace: pod.Namespace, Name: pod.Name,
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// usualPod returns a pod as large as pods usually are.
func usualPod(app string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: map[string]string{"app": app},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: "Update",
			FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:spec":{"f:x":{%s"f:y":{}}}}`,
				strings.Repeat(`"f:terminationMessagePath":{},`, 50)))}}}}
	for _, name := range []string{"main", "proxy"} {
		container := corev1.Container{Name: name, Image: "registry.example/team/" + name + ":1.2.3",
			Args: []string{"--listen=:8080", "--verbose"}}
		for i := range 12 {
			container.Env = append(container.Env,
				corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: "some value of usual length"})
		}
		container.VolumeMounts = []corev1.VolumeMount{
			{Name: "data", MountPath: "/data"}, {Name: "token", MountPath: "/var/run/secrets", ReadOnly: true},
		}
		container.ReadinessProbe = &corev1.Probe{PeriodSeconds: 5,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "token"}}
	return pod
}

// BenchmarkHandler measures the time between a request's body and the answer's, with 100 SidecarSets.
func BenchmarkHandler(b *testing.B) {
	const sets = 100
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for i := range sets {
		set := setOf(fmt.Sprint("set-", i), func(set *v1beta1.SidecarSet) {
			set.Spec.Selector.MatchLabels["app"] = fmt.Sprint("app-", i)
			set.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "side", MountPath: "/side"}}
			set.Spec.Volumes = []v1beta1.SidecarVolume{{Volume: corev1.Volume{Name: "side"}}}
			set.UID = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
		})
		if err := store.Add(set); err != nil {
			b.Fatal(err)
		}
	}
	m := &mutator{memo: memo{sets: map[string]*prepared{}}, allowed: &allow.Source{},
		log: logr.Discard(), clock: clock.RealClock{}, caches: &caches{store: store}}
	m.caches.listed.Store(true)
	server := admission.NewHandler(logr.Discard(), time.Second, admission.Mutator{Name: "test", Mutate: m.mutate})
	for _, tt := range []struct {
		name, app string
		changed   bool
	}{{"injected", "app-50", true}, {"not selected", "other", false}} {
		b.Run(tt.name, func(b *testing.B) {
			body := reviewOf(b, usualPod(tt.app))
			b.ReportAllocs()
			for b.Loop() {
				request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, admission.Path,
					bytes.NewReader(body))
				answer := httptest.NewRecorder()
				server.ServeHTTP(answer, request)
				if changed := bytes.Contains(answer.Body.Bytes(), []byte("JSONPatch")); answer.Code != http.StatusOK ||
					changed != tt.changed {
					b.Fatal(answer.Body.String())
				}
			}
		})
	}
}
