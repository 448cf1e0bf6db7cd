package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// withSidecar returns the kind with the sidecar in the template, for pods like those that get it at their creation.
func withSidecar(k kind) kind {
	build := k.build
	k.build = func(namespace, name string, replicas int32, image string) client.Object {
		object := build(namespace, name, replicas, image)
		if set, ok := object.(*appsv1beta1.CloneSet); ok {
			spec := sidecarSetFor("", "", false).Spec
			t := template(name, image)
			t.Spec.Containers = append([]corev1.Container{spec.Containers[0].Container}, t.Spec.Containers...)
			t.Spec.Volumes = append(t.Spec.Volumes, spec.Volumes[0].Volume)
			set.Spec.Template = appsv1beta1.NewPodTemplate(t)
		}
		return object
	}
	return k
}

// sidecarScaleOut scales a CloneSet out whose pods get a sidecar, beside one whose pods get none, and one that has the
// sidecar in its template.
func sidecarScaleOut(ctx context.Context, b *bench) error {
	b.pods = b.sizes[0]
	return inOneCluster(ctx, b, nodesFor(b.pods), func(ctx context.Context, r *rollout) error {
		if err := r.agent(ctx); err != nil {
			return err
		}
		const with, without = "with-sidecar", "without-sidecar"
		if err := r.Create(ctx, sidecarSetFor("side", with, false)); err != nil {
			return fmt.Errorf("create SidecarSet side: %w", err)
		}
		a := &admissions{bench: b, connection: r.connection, fleet: r.fleet}
		if err := a.eventually(ctx, "pods get a sidecar", func(ctx context.Context) string {
			pod, err := r.core.CoreV1().Pods(namespace).Create(ctx, podFor("probe", with),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && len(pod.Spec.Containers) < 2 {
				err = errors.New("it has none")
			}
			if err != nil {
				return err.Error()
			}
			return ""
		}); err != nil {
			return err
		}
		const templated = "sidecar-in-template"
		took := map[string]float64{}
		// The first one is for warming up.
		for _, name := range []string{"warm-up", without, templated, with} {
			k := cloneSetKind()
			if name == templated {
				k = withSidecar(k)
			}
			if err := r.start(ctx, k, name); err != nil {
				return err
			}
			out, err := r.phase(ctx, k, name, phaseOut, replicasPatch(r.pods), r.pods)
			if err != nil {
				return err
			}
			if _, err := r.phase(ctx, k, name, phaseIn, replicasPatch(0), 0); err != nil {
				return err
			}
			took[name] = out.seconds
		}
		r.report.addWithFloor(admissionSectionName, fmt.Sprintf("CloneSet with a sidecar, scale-out to %d (aim: × 1.2)",
			r.pods), "s", took[with], "without sidecar", took[without])
		r.report.addWithFloor(admissionSectionName, fmt.Sprintf("CloneSet with a sidecar, scale-out to %d", r.pods), "s",
			took[with], "the same in its template", took[templated])
		return nil
	})
}
