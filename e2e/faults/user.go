package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

const (
	namespace = "faults"
	labelApp  = "app"
)

// fewest pods that a workload has.
const fewest = 10

// scene is one workload of the script.
type scene struct {
	kind     kinds.Kind
	strategy kinds.Strategy
	name     string
}

// scenes returns one for each strategy of each kind.
func scenes() (all []scene) {
	for _, kind := range kinds.WithControllers() {
		for _, strategy := range kind.Controller.Strategies {
			all = append(all, scene{kind, strategy, strings.ToLower(kind.Kind) + "-" + strategy.Name})
		}
	}
	return all
}

// create makes the workload.
func (s scene) create(ctx context.Context, c client.Client, replicas int) error {
	object, err := s.kind.Object(namespace, s.name, replicas, map[string]any{
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{labelApp: s.name}},
			"spec":     map[string]any{"containers": containers(1)},
		},
		"updateStrategy": map[string]any{"rollingUpdate": s.strategy.Rolling},
	})
	if err != nil {
		return err
	}
	if err := c.Create(ctx, object); err != nil {
		return fmt.Errorf("create %s %s: %w", s.kind.Kind, s.name, err)
	}
	return nil
}

func containers(version int) []any {
	return []any{map[string]any{"name": "app", "image": fmt.Sprintf("registry.example/app:v%d", version)}}
}

// user changes one workload all the time, speaking to the API server itself.
type user struct {
	client   client.Client
	recorder *recorder
	scene    scene
	draw     *rand.Rand
	most     int // replicas
	changes  int
}

// between two changes of one workload passes up to this time: some batches of a rollout.
const between = 1500 * time.Millisecond

// play changes the workload until ctx ends, then takes back what would keep it from coming to rest.
func (u *user) play(ctx, life context.Context) error {
	for pause(ctx, time.Duration(u.draw.Int64N(int64(between)))) {
		if err := u.act(life); err != nil {
			return fmt.Errorf("user of %s: %w", u.scene.name, err)
		}
		u.changes++
	}
	return u.patch(life,
		map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"paused": false}}})
}

// act does one thing.
func (u *user) act(ctx context.Context) error {
	rolling := func(key string, value any) map[string]any {
		return u.scene.kind.Rolling(map[string]any{key: value})
	}
	switch n := u.draw.IntN(100); {
	case n < 30:
		return u.patch(ctx,
			map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers(1 + u.draw.IntN(9))}}})
	case n < 48:
		return u.patch(ctx, map[string]any{"replicas": fewest + u.draw.IntN(u.most-fewest+1)})
	case n < 60:
		return u.patch(ctx, rolling("partition", u.partition()))
	case n < 68:
		return u.patch(ctx, rolling("paused", u.draw.IntN(3) == 0))
	case n < 82:
		return u.eachOf(ctx, 1+u.draw.IntN(3), u.doom)
	case n < 92:
		return u.eachOf(ctx, 1+u.draw.IntN(3), u.remove)
	default:
		return u.eachOf(ctx, 1+u.draw.IntN(2), u.evict)
	}
}

func (u *user) partition() any {
	if i := u.draw.IntN(len(u.scene.strategy.Partitions) + 1); i > 0 {
		return u.scene.strategy.Partitions[i-1]
	}
	return nil
}

func (u *user) patch(ctx context.Context, spec map[string]any) error {
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(u.scene.kind.GroupVersionKind)
	object.SetNamespace(namespace)
	object.SetName(u.scene.name)
	return u.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data))
}

// eachOf does something to n pods drawn from those that are active.
func (u *user) eachOf(ctx context.Context, n int, do func(context.Context, *corev1.Pod) error) error {
	var list corev1.PodList
	if err := u.client.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{labelApp: u.scene.name}); err != nil {
		return err
	}
	u.draw.Shuffle(len(list.Items), func(i, j int) { list.Items[i], list.Items[j] = list.Items[j], list.Items[i] })
	for i := range list.Items {
		if n == 0 {
			return nil
		}
		if !podstate.Active(&list.Items[i]) {
			continue
		}
		n--
		if err := do(ctx, &list.Items[i]); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// doom asks the controller to delete a pod.
func (u *user) doom(ctx context.Context, pod *corev1.Pod) error {
	return u.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, v1beta1.LabelSpecifiedDelete)))
}

// remove deletes a pod by hand.
func (u *user) remove(ctx context.Context, pod *corev1.Pod) error {
	u.recorder.deletes(pod.Name)
	return u.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
}

// evict ends a pod as a kubelet does that runs out of memory.
func (u *user) evict(ctx context.Context, pod *corev1.Pod) error {
	return u.client.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`)))
}
