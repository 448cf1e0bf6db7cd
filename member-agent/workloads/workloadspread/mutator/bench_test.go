package mutator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// cached answers reads like the manager's cache: a Get copies, a List of WorkloadSpreads does not.
type cached struct {
	client.Reader
	spreads []v1beta1.WorkloadSpread
	objects []client.Object
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1beta1.WorkloadSpreadList).Items = c.spreads
	return nil
}

func (c *cached) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, object := range c.objects {
		if reflect.TypeOf(object) == reflect.TypeOf(into) && client.ObjectKeyFromObject(object) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// reviewOf returns the request of an API server about the pod.
func reviewOf(b *testing.B, pod *corev1.Pod, uid types.UID) []byte {
	b.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uid, Operation: admissionv1.Create, Namespace: pod.Namespace, Name: pod.Name,
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// usualPod is a pod of the Deployment "web" as large as pods usually are.
func usualPod(owner string) *corev1.Pod {
	pod := ownedPod(kindReplicaSet, owner)
	for _, name := range []string{"main", "proxy"} {
		container := corev1.Container{
			Name:  name,
			Image: "registry.example/team/" + name + ":1.2.3",
			Args:  []string{"--listen=:8080", "--verbose"},
		}
		for i := range 12 {
			container.Env = append(
				container.Env,
				corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: "some value of usual length"},
			)
		}
		container.VolumeMounts = []corev1.VolumeMount{
			{Name: "data", MountPath: "/data"},
			{Name: "token", MountPath: "/var/run/secrets", ReadOnly: true},
		}
		container.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
			PeriodSeconds: 5,
		}
		pod.Spec.Containers = append(pod.Spec.Containers[:min(len(pod.Spec.Containers), 1)], container)
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "token"}}
	pod.Spec.Tolerations = []corev1.Toleration{
		{Key: "a", Operator: corev1.TolerationOpExists},
		{Key: "b", Operator: corev1.TolerationOpExists},
	}
	return pod
}

// BenchmarkHandler measures the time between a request's body and the answer's.
func BenchmarkHandler(b *testing.B) {
	rs := replicaSet()
	for _, tt := range []struct {
		name, owner string
		changed     bool
	}{{"spread", "web-" + hash, true}, {"not selected", "other-" + hash, false}} {
		b.Run(tt.name, func(b *testing.B) {
			admissions, err := newAdmissions(prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			reader := &cached{
				spreads: []v1beta1.WorkloadSpread{*zones(spreadOf("apps/v1", "Deployment", "web"), "30%", "")},
				objects: []client.Object{deployment(1_000_000), rs},
			}
			m := &mutator{
				reader: reader, workloads: workloads{reader}, placements: newPlacements(), synced: func() bool { return true },
				clock: clock.RealClock{}, admissions: admissions, log: logr.Discard(),
			}
			server := admission.NewHandler(logr.Discard(), time.Second, admission.Mutator{Name: "test", Mutate: m.mutate})
			var bodies [][]byte
			for i := range 1000 {
				bodies = append(bodies, reviewOf(b, usualPod(tt.owner), types.UID(fmt.Sprint("uid-", i))))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				request := httptest.NewRequestWithContext(
					b.Context(),
					http.MethodPost,
					admission.Path,
					bytes.NewReader(bodies[i%len(bodies)]),
				)
				request.Header.Set("Content-Type", "application/json")
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
