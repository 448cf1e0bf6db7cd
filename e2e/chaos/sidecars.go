package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// injectedScene is the workload whose pods get the sidecar. Nothing else changes its images.
const injectedScene = "side"

// The limits of the SidecarSet, over all members.
const (
	sidecarPartition   = 2
	sidecarUnavailable = 3
)

// sidecars is the SidecarSet of a run, which has the name of its namespace.
type sidecars struct {
	client  client.Client
	name    string
	draw    *rand.Rand
	version int
	images  []string
	changes int
}

// inject makes the SidecarSet of a run with its policy, and waits until new pods of all members get the sidecar.
func (s *stage) inject(ctx context.Context, namespace string, draw *rand.Rand) (*sidecars, error) {
	out := &sidecars{client: s.h.Hub.Client, name: namespace, draw: draw, images: []string{repository + "0"}}
	federate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": topology.GroupVersion.String(), "kind": "ClusterFederationPolicy",
		"metadata": map[string]any{"name": namespace},
		"spec": map[string]any{"workloads": []any{map[string]any{"apiVersion": apps.GroupVersion.String(),
			"kind": apps.SidecarSetKind.Kind, "name": namespace}}},
	}}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apps.GroupVersion.String(), "kind": apps.SidecarSetKind.Kind,
		"metadata": map[string]any{"name": namespace, "labels": map[string]any{topology.LabelFederated: "true"}},
		"spec": map[string]any{
			"selector":   map[string]any{"matchLabels": map[string]any{"app": injectedScene}},
			"containers": out.containers(out.images[0]),
			"updateStrategy": map[string]any{"partition": int64(sidecarPartition),
				"maxUnavailable": int64(sidecarUnavailable)},
		},
	}}
	for _, object := range []*unstructured.Unstructured{federate, set} {
		if err := s.h.Hub.Client.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	for name, member := range s.h.Members {
		err := s.patiently(ctx, polling, func(ctx context.Context) (bool, error) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "injected-",
				Labels: map[string]string{"app": injectedScene}}}
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: repository + "0"}}
			err := member.Client.Create(ctx, pod, client.DryRunAll)
			return err == nil && len(pod.Spec.Containers) > 1, nil
		})
		if err != nil {
			return nil, fmt.Errorf("wait until pods of %s get the sidecar: %w", name, err)
		}
	}
	return out, nil
}

// containers are those of the SidecarSet. They come behind the pod's own, which the checks of workloads look at.
func (s *sidecars) containers(image string) []any {
	return []any{map[string]any{"name": judge.SidecarName, "image": image, "podInjectPolicy": "AfterAppContainer"}}
}

// play changes the image until ctx ends. Some cannot be pulled, and some are previous ones.
func (s *sidecars) play(ctx context.Context) {
	for pause(ctx, leastPause+time.Duration(s.draw.Int64N(int64(mostPause-leastPause)))) {
		var err error
		switch n := s.draw.IntN(100); {
		case n < 60:
			err = s.roll(ctx, repository)
		case n < 80:
			err = s.roll(ctx, brokenImage)
		case len(s.images) > 1:
			err = s.image(ctx, s.images[len(s.images)-2])
		}
		if err == nil {
			s.changes++
		}
	}
}

// finish gives all pods an image that can be pulled. It tries until ctx ends.
func (s *sidecars) finish(ctx context.Context) error {
	for {
		err := s.patch(ctx, map[string]any{"updateStrategy": map[string]any{"partition": 0}})
		if err == nil {
			err = s.roll(ctx, repository)
		}
		if err == nil {
			return nil
		}
		if !pause(ctx, time.Second) {
			return fmt.Errorf("the last change of SidecarSet %s: %w", s.name, err)
		}
	}
}

func (s *sidecars) roll(ctx context.Context, repository string) error {
	s.version++
	return s.image(ctx, fmt.Sprint(repository, s.version))
}

func (s *sidecars) image(ctx context.Context, image string) error {
	err := s.patch(ctx, map[string]any{"containers": s.containers(image)})
	if err == nil {
		s.images = append(s.images, image)
	}
	return err
}

func (s *sidecars) patch(ctx context.Context, spec map[string]any) error {
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	set := &apps.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	return s.client.Patch(ctx, set, client.RawPatch(types.MergePatchType, data))
}

// unrest says in what the SidecarSet is not at rest, "" if it is.
func (s *sidecars) unrest(ctx context.Context) (string, error) {
	set := &apps.SidecarSet{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: s.name}, set); err != nil {
		return "", err
	}
	status := &set.Status
	if status.ObservedGeneration != set.Generation ||
		!meta.IsStatusConditionTrue(status.Conditions, apps.ConditionReady) ||
		status.UpdatedReadyPods != status.MatchedPods-min(status.MatchedPods, sidecarsKept(set)) {
		return fmt.Sprintf("SidecarSet %s: %+v", s.name, status), nil
	}
	return "", nil
}

// sidecarsKept returns how many pods keep the previous image, none for a SidecarSet whose first image all have.
func sidecarsKept(set *apps.SidecarSet) int32 {
	if set.Generation == 1 || set.Spec.UpdateStrategy.Partition == nil {
		return 0
	}
	return int32(set.Spec.UpdateStrategy.Partition.IntValue())
}

// withdraw deletes the SidecarSet and its policy.
func (s *stage) withdraw(ctx context.Context, name string) error {
	set := &apps.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy := &topology.ClusterFederationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, object := range []client.Object{set, policy} {
		if err := s.h.Hub.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %T %s: %w", object, name, err)
		}
	}
	return nil
}
