package try

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

func hubClient(f *fleet.Fleet) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("connect to the hub: %w", err)
		}
	}
	c, err := client.New(f.Hub().RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return c, nil
}

// readTree reads the hub's objects and makes the tree of them. Workloads come first: what their status sums is in the
// reports that are read after it, so that a workload that is at rest has the numbers of its members.
func readTree(ctx context.Context, f *fleet.Fleet) (*Tree, error) {
	c, err := hubClient(f)
	if err != nil {
		return nil, err
	}
	var (
		members           topology.MemberClusterList
		placements        topology.WorkloadPlacementList
		works             work.WorkList
		unitedDeployments apps.UnitedDeploymentList
		cloneSets         apps.CloneSetList
	)
	for _, lists := range []map[string]client.ObjectList{
		{"UnitedDeployments": &unitedDeployments, "CloneSets": &cloneSets},
		{"MemberClusters": &members, "WorkloadPlacements": &placements, "Works": &works},
	} {
		group, ctx := errgroup.WithContext(ctx)
		for name, list := range lists {
			group.Go(func() error {
				if err := c.List(ctx, list); err != nil {
					return fmt.Errorf("list %s of the hub: %w", name, err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
	}
	return buildTree(&facts{
		Members: members.Items, Placements: placements.Items, Works: works.Items,
		UnitedDeployments: unitedDeployments.Items, CloneSets: cloneSets.Items,
	}), nil
}

// applySamples creates what is not there yet on the hub. What is there stays: it may be as the user wants it by now.
func applySamples(ctx context.Context, f *fleet.Fleet, all []sample, t *talk) error {
	c, err := hubClient(f)
	if err != nil {
		return err
	}
	for _, s := range all {
		done := "applied"
		if err := create(ctx, c, s.object); apierrors.IsAlreadyExists(err) {
			done = "kept as it is:"
		} else if err != nil {
			return fmt.Errorf("apply sample %s: create %s %s: %w", s.file, s.object.GetKind(), s.object.GetName(), err)
		}
		t.say("%s %s %s", done, s.object.GetKind(), s.object.GetName())
	}
	return nil
}

// create creates the object; a kind that the API server has only just learned may take a moment to be found.
func create(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(
		ctx,
		200*time.Millisecond,
		10*time.Second,
		true,
		func(ctx context.Context) (bool, error) {
			last = c.Create(ctx, object.DeepCopy(), client.FieldOwner("flotilla-try"), client.FieldValidation("Strict"))
			return !apierrors.IsNotFound(last), nil
		},
	)
	if last != nil {
		return last
	}
	return err
}
