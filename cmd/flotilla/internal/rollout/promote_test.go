package rollout

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// TestPromoteEndsNoWave: promote says that it does not end the waves of the policy, also where it has nothing to
// change, and does not call promoted what waits at a wave.
func TestPromoteEndsNoWave(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, topology.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		text     string
		progress *topology.WaveProgress
		want     string
	}{
		"waves under way, and held back": {held, &topology.WaveProgress{Number: 1, Of: 2, Name: "canary"},
			"CloneSet shop/web is free of a partition and of a pause\nits update goes on in waves, at wave 1 of 2, canary: " +
				"promote ends no wave; go on after it with flotilla rollout approve\n"},
		"waves under way alone": {web, &topology.WaveProgress{Number: 2, Of: 2, Name: "rest"},
			"CloneSet shop/web is free of a partition and of a pause already\nits update goes on in waves, at wave 2 of 2, " +
				"rest: promote ends no wave; go on after it with flotilla rollout approve\n"},
		"steps under way": {held, &topology.WaveProgress{Number: 1, Of: 2, Name: "80%", Steps: true},
			"CloneSet shop/web is promoted (step 1 of 2, partition 80%)\n"},
		"they are over": {web, &topology.WaveProgress{Number: 3, Of: 2}, "CloneSet shop/web is promoted already\n"},
		"none":          {held, nil, "CloneSet shop/web is promoted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			placement := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: key.Placement().Namespace,
				Name: key.Placement().Name}}
			placement.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: key.Kind,
				Name: "web"}
			placement.Spec.Wave = tc.progress
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(parse(t, "CloneSet", tc.text), placement).Build()
			var out bytes.Buffer
			if err := promoteAll(t.Context(), c, &out, key); err != nil || out.String() != tc.want {
				t.Errorf("%v, it says %q, want %q", err, out.String(), tc.want)
			}
		})
	}
	var out bytes.Buffer
	if err := promoteAll(t.Context(), clientWith(t, parse(t, "CloneSet", held)), &out, key); err == nil ||
		!strings.Contains(err.Error(), "placement") {
		t.Errorf("a client that cannot read placements: %v, %q", err, out.String())
	}
}

// TestPromoteInOneCluster: without a hub the step in progress is in the status of the workload.
func TestPromoteInOneCluster(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, topology.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	progress := &apps.UpdateProgress{Revision: "db-2", Began: metav1.Unix(100, 0), Number: 1, Of: 2, Partition: "80%"}
	failed := progress.DeepCopy()
	failed.FailedAt, failed.Failure = &metav1.Time{Time: time.Unix(200, 0)}, "too late"
	over := progress.DeepCopy()
	over.Number = 3
	for name, tt := range map[string]struct {
		progress   *apps.UpdateProgress
		run        func(context.Context, client.Client, io.Writer, wire.Key) error
		says, word string
	}{
		"a step": {progress, promoteAll, "StatefulSet shop/db is promoted (step 1 of 2, partition 80%)\n",
			"approve/db-2/100/80%"},
		"a step that failed": {failed, promoteAll, "StatefulSet shop/db is promoted (step 1 of 2, partition 80%)\n",
			"approve/db-2/100/80%/200"},
		"all are over": {over, promoteAll, "StatefulSet shop/db is promoted\n", ""},
		"none":         {nil, promoteAll, "StatefulSet shop/db is promoted\n", ""},
		"tried again": {failed, func(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
			return say(ctx, c, out, key, "to be tried again", retry)
		}, "StatefulSet shop/db is to be tried again (step 1 of 2, partition 80%)\n", "retry/db-2/100/80%/200"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
			set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
			set.Status.UpdateProgress = tt.progress
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).Build()
			var out bytes.Buffer
			if err := tt.run(t.Context(), c, &out, key); err != nil || out.String() != tt.says {
				t.Errorf("%v, it says %q, want %q", err, out.String(), tt.says)
			}
			if err := c.Get(t.Context(), key.Workload(), set); err != nil {
				t.Fatal(err)
			}
			if got := set.Annotations[topology.AnnotationWave]; got != tt.word {
				t.Errorf("the word is %q, want %q", got, tt.word)
			}
			if partition := *set.Spec.UpdateStrategy.RollingUpdate.Partition; (partition == 2) != (tt.word != "") {
				t.Errorf("partition %d", partition)
			}
		})
	}
}
