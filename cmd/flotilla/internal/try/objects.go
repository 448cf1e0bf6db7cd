package try

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub"
)

func hubClient(f *fleet.Fleet) (client.Client, error) {
	scheme, err := hub.Scheme()
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	c, err := client.New(f.Hub().RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return c, nil
}

// readTree reads the hub's objects and makes the tree of them.
func readTree(ctx context.Context, f *fleet.Fleet) (*Tree, error) {
	c, err := hubClient(f)
	if err != nil {
		return nil, err
	}
	workloads, members, err := tree.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	return buildTree(members, workloads), nil
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
