package cloneset_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// size is the number of pods that speed is measured with.
const size = 500

// BenchmarkScale measures a CloneSet against the native Deployment in the same cluster. Run it with
// -bench Scale -benchtime 1x; each metric is the seconds of one phase.
func BenchmarkScale(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		native(b, w)
		kruise(b, w)
	}
}

// phase measures the time from a change until done returns "".
func phase(b *testing.B, w *world, name string, change func(), done func() string) {
	b.Helper()
	begun := time.Now()
	change()
	w.eventually(name, done)
	b.ReportMetric(time.Since(begun).Seconds(), name+"-s")
}

func native(b *testing.B, w *world) {
	app := map[string]string{"app": "native"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "native"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: app},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromString("100%")), MaxSurge: new(intstr.FromInt32(0))}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}}},
		},
	}
	w.must(w.Create(w.Context(), d))
	change := func(f func()) func() {
		return func() {
			before := d.DeepCopy()
			f()
			w.must(w.Patch(w.Context(), d, client.MergeFrom(before)))
		}
	}
	done := func(n, updated int32) func() string {
		return func() string {
			var have appsv1.Deployment
			w.must(w.Get(w.Context(), client.ObjectKeyFromObject(d), &have))
			s := have.Status
			if s.ObservedGeneration < have.Generation || s.Replicas != n || s.ReadyReplicas != n ||
				s.UpdatedReplicas != updated {
				return "not yet"
			}
			return ""
		}
	}
	phase(b, w, "native-out", change(func() { d.Spec.Replicas = new(int32(size)) }), done(size, size))
	phase(b, w, "native-replaced", change(func() { d.Spec.Template.Spec.Containers[0].Image = "nginx:2" }),
		done(size, size))
	phase(b, w, "native-in", change(func() { d.Spec.Replicas = new(int32(0)) }), done(0, 0))
	w.must(w.Delete(w.Context(), d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.eventually("native pods are gone", func() string { return none(len(w.pods("native"))) })
}

func none(n int) string {
	if n > 0 {
		return "some are left"
	}
	return ""
}

func kruise(b *testing.B, w *world) {
	const name = "bench"
	w.must(w.Create(w.Context(), newCloneSet(name, 0, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.MaxUnavailable = new(intstr.FromString("100%"))
	}))))
	done := func(n int32) func() string {
		return func() string {
			cs := w.get(name)
			s := cs.Status
			if s.ObservedGeneration < cs.Generation || s.Replicas != n || s.ReadyReplicas != n || s.UpdatedReadyReplicas != n {
				return "not yet"
			}
			return ""
		}
	}
	phase(b, w, "cloneset-out", func() { w.change(name, replicas(size)) }, done(size))
	phase(b, w, "cloneset-in-place", func() { w.change(name, image("nginx:2")) }, done(size))
	phase(b, w, "cloneset-recreate", func() {
		w.change(name, func(cs *v1beta1.CloneSet) { policy(v1beta1.ReCreatePodUpdatePolicy)(cs); image("nginx:3")(cs) })
	}, done(size))
	phase(b, w, "cloneset-in", func() { w.change(name, replicas(0)) }, done(0))
	w.must(w.Delete(w.Context(), w.get(name)))
	w.eventually("pods are gone", func() string { return none(len(w.pods(name))) })
}
