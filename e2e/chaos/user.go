package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/kinds"
)

// scene is one workload of the script.
type scene struct {
	name string
	kind kinds.Kind
	// fewest and most replicas that the user asks for.
	fewest, most int
	// minReady is minReadySeconds: a pod that was taken down is missing for that long at least.
	minReady int
	policy   apps.CloneSetUpdateStrategyType
	// strategies are what the user sets maxUnavailable and maxSurge to; the first one at the beginning. A single one is
	// never changed.
	strategies [][2]any
	// numbers are what the user sets the replicas of the first subset to; the second one takes the rest. The first one is
	// there at the beginning, nil for none. Empty for what has no subsets.
	numbers []any
	// evictable is how many pods a budget lets be unavailable, 0 for no budget. It is no less than the strategies allow.
	evictable int32
	// restarts is in how many of a hundred changes the user restarts the containers of its pods.
	restarts int
}

func scenes() []scene {
	return []scene{
		{"slow", kinds.CloneSet(), 21, 30, 8, inPlace, [][2]any{{3, 0}, {"20%", 0}, {4, 0}}, nil, 6, 20},
		{"quick", kinds.CloneSet(), 6, 18, 3, reCreate, [][2]any{{0, 2}, {1, 1}, {"25%", "10%"}, {1, 0}}, nil, 0, 20},
		{"web", kinds.UnitedDeployment(), 8, 20, 3, inPlace, [][2]any{{"25%", 0}, {1, 0}, {2, 1}},
			[]any{nil, "25%", "75%", 2}, 5, 0},
		{"db", kinds.StatefulSet(), 6, 15, 3, inPlace, [][2]any{{2, 0}, {"25%", 0}, {1, 0}}, nil, 0, 20},
		{"log", inOrder(kinds.StatefulSet()), 3, 7, 1, reCreate, [][2]any{{1, 0}}, nil, 0, 20},
		{"again", kinds.CloneSet(), 15, 21, 3, inPlace, [][2]any{{2, 0}, {1, 0}}, nil, 0, mostly},
		{injectedScene, kinds.CloneSet(), 9, 15, 1, inPlace, [][2]any{{"100%", 0}}, nil, 0, 0},
	}
}

// mostly is of the workload that is seldom updated, so that its restarts go on during the storm.
const mostly = 90

// inOrder returns a kind whose new objects create and delete pods one by one.
func inOrder(k kinds.Kind) kinds.Kind {
	k.Spec = func(app string) map[string]any { return map[string]any{"serviceName": app} }
	return k
}

const (
	inPlace  apps.CloneSetUpdateStrategyType = "InPlaceIfPossible"
	reCreate apps.CloneSetUpdateStrategyType = "ReCreate"
	// repository of the images; one that holds brokenImage cannot be pulled by the simulated nodes.
	repository  = "registry.example/app:v"
	brokenImage = "registry.example/does-not-exist:v"
)

// user changes one workload on the hub.
type user struct {
	scene
	client    client.Client
	namespace string
	draw      *rand.Rand
	replicas  int
	// version is the number of the newest image, images all that were asked for.
	version int
	images  []string
	changes int
	// long runs have a member that is cut off for longer than its lease. What would go on there without a lease is the
	// first rollout, if it has work left by then: the workload begins as large as it gets, and nothing is changed before
	// the cut.
	long bool
	// sidecars is the SidecarSet of the workload's pods, nil for none. The user changes only
	// the images of the SidecarSet then.
	sidecars *sidecars
}

func (u *user) workload() harness.Workload {
	return harness.Workload{GroupVersionKind: u.kind.GroupVersionKind, Namespace: u.namespace, Name: u.name}
}

// between two changes of one workload pass these times: some batches of a rollout.
const (
	leastPause = 3 * time.Second
	mostPause  = 10 * time.Second
	// so that a restart goes through many pods before the next one, and begins when the workload is at rest.
	leastRestartPause = 13 * time.Second
	mostRestartPause  = 20 * time.Second
	beforeRestarts    = 8 * time.Second
)

// create makes the workload.
func (u *user) create(ctx context.Context) error {
	u.replicas = u.fewest + u.draw.IntN(u.most-u.fewest+1)
	if u.long {
		u.replicas = u.most
	}
	u.images = []string{repository + "0"}
	rolling := u.limits(u.strategies[0][0], u.strategies[0][1])
	rolling["podUpdatePolicy"] = u.scene.policy
	object, err := u.kind.Object(u.namespace, u.name, u.replicas, map[string]any{
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": u.name}},
			"spec":     map[string]any{"containers": containers(u.images[0])},
		},
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling},
	}, u.kind.MinReady(u.minReady))
	if err != nil {
		return err
	}
	if err := u.client.Create(ctx, object); err != nil {
		return fmt.Errorf("create %s: %w", u.workload().Sentence(), err)
	}
	return nil
}

// limits are the fields of the rolling update for these limits.
func (u *user) limits(unavailable, surge any) map[string]any {
	limits := map[string]any{"maxUnavailable": unavailable}
	if u.kind.Surges {
		limits["maxSurge"] = surge
	}
	return limits
}

func containers(image string) []any { return []any{map[string]any{"name": "main", "image": image}} }

// play changes the workload until ctx ends. The hub may be away: then the change is dropped.
func (u *user) play(ctx context.Context) {
	if u.sidecars != nil {
		u.sidecars.play(ctx)
		u.changes = u.sidecars.changes
		return
	}
	least, most := leastPause, mostPause
	if u.restarts == mostly {
		least, most = leastRestartPause, mostRestartPause
		if !pause(ctx, beforeRestarts) {
			return
		}
		_ = u.restart(ctx) // no rollout holds it up
	} else {
		_ = u.roll(ctx, repository) // the run begins with a rollout
	}
	if u.long && !pause(ctx, beforeLongCut) {
		return
	}
	for pause(ctx, least+time.Duration(u.draw.Int64N(int64(most-least)))) {
		if u.act(ctx) == nil {
			u.changes++
		}
	}
}

// act does one thing.
func (u *user) act(ctx context.Context) error {
	if u.restarts > 0 && u.draw.IntN(100) < u.restarts {
		return u.restart(ctx)
	}
	switch n := u.draw.IntN(100); {
	case n < 33:
		return u.roll(ctx, repository)
	case n < 43:
		return u.roll(ctx, brokenImage)
	case n < 53:
		return u.undo(ctx)
	case n < 68:
		replicas := u.fewest + u.draw.IntN(u.most-u.fewest+1)
		err := u.patch(ctx, map[string]any{"replicas": replicas})
		if err == nil {
			u.replicas = replicas
		}
		return err
	case n < 78:
		return u.partition(ctx, u.draw.IntN(4))
	case n < 88 && len(u.numbers) > 0:
		return u.patch(ctx, u.kind.Subsets(u.numbers[u.draw.IntN(len(u.numbers))]))
	case n < 93:
		s := u.strategies[u.draw.IntN(len(u.strategies))]
		return u.rolling(ctx, u.limits(s[0], s[1]))
	default:
		return u.rolling(ctx, map[string]any{"paused": u.draw.IntN(3) == 0})
	}
}

// finish asks for what can come to rest, and soon: a good image everywhere. It tries until ctx ends.
func (u *user) finish(ctx context.Context) error {
	if u.sidecars != nil {
		return u.sidecars.finish(ctx)
	}
	for {
		limits := map[string]any{"paused": false}
		if len(u.strategies) > 1 { // else the kind permits no other limit
			maps.Copy(limits, u.limits("100%", 0))
		}
		err := u.rolling(ctx, limits)
		if err == nil {
			err = u.partition(ctx, 0)
		}
		if err == nil {
			err = u.roll(ctx, repository)
		}
		if err == nil {
			err = u.patch(ctx, map[string]any{"replicas": u.replicas})
		}
		if err == nil {
			return nil
		}
		if !pause(ctx, time.Second) {
			return fmt.Errorf("the last change of %s: %w", u.workload().Sentence(), err)
		}
	}
}

// roll asks for a new image.
func (u *user) roll(ctx context.Context, repository string) error {
	u.version++
	return u.image(ctx, fmt.Sprint(repository, u.version))
}

// undo asks for the image before the last one.
func (u *user) undo(ctx context.Context) error {
	if len(u.images) < 2 {
		return nil
	}
	return u.image(ctx, u.images[len(u.images)-2])
}

func (u *user) image(ctx context.Context, image string) error {
	template := map[string]any{"spec": map[string]any{"containers": containers(image)}}
	err := u.patch(ctx, u.kind.Inner(map[string]any{"template": template}))
	if err == nil {
		u.images = append(u.images, image)
	}
	return err
}

// restart asks for a restart of all containers, as flotilla restart does.
func (u *user) restart(ctx context.Context) error {
	order, err := json.Marshal(apps.RestartOrder{At: time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	return u.change(ctx, map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{apps.AnnotationRestart: string(order)}}})
}

// partition lets so many quarters of the pods keep the previous revision.
func (u *user) partition(ctx context.Context, quarters int) error {
	return u.patch(ctx, u.kind.Partition(quarters))
}

func (u *user) rolling(ctx context.Context, fields map[string]any) error {
	return u.patch(ctx, u.kind.Rolling(fields))
}

func (u *user) patch(ctx context.Context, spec map[string]any) error {
	return u.change(ctx, map[string]any{"spec": spec})
}

// change patches the object.
func (u *user) change(ctx context.Context, fields map[string]any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(u.kind.GroupVersionKind)
	object.SetNamespace(u.namespace)
	object.SetName(u.name)
	return u.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data))
}

// pause waits, and returns false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
