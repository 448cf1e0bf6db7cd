package rollout

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// wording puts what a person says of the wave under way into a word; it fails where that cannot be said.
type wording func(revision string, sequence int64, p *topology.WaveProgress) (string, error)

// newWord returns a verb by which a person says something of the wave under way.
func newWord(name, short, done string, word wording) *cobra.Command {
	return newVerb(name, short, func(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
		return say(ctx, c, out, key, done, word)
	})
}

// approval is the word that lets the rollout go on after the wave under way. It fails where nothing of it is left to go
// on.
func approval(revision string, sequence int64, p *topology.WaveProgress) (string, error) {
	if p.RolledBack != "" {
		return "", fmt.Errorf(
			"%s failed and was rolled back: give the workload another template, or have this one tried again with flotilla rollout retry",
			place(p),
		)
	}
	return waves.ApproveWord(revision, sequence, p), nil
}

// retry is the word that has a failed wave tried again. It fails where none has failed.
func retry(revision string, sequence int64, p *topology.WaveProgress) (string, error) {
	if word := waves.RetryWord(revision, sequence, p); word != "" {
		return word, nil
	}
	return "", fmt.Errorf(
		"%s has not failed: there is nothing to try again; see how far it is with flotilla rollout status",
		place(p),
	)
}

// place names the wave or step under way.
func place(p *topology.WaveProgress) string {
	if p.Steps {
		return fmt.Sprintf("step %d of %d, partition %s", p.Number, p.Of, p.Name)
	}
	return fmt.Sprintf("wave %d of %d, %s", p.Number, p.Of, p.Name)
}

// say writes the word for the wave under way on the workload.
func say(ctx context.Context, c client.Client, out io.Writer, key wire.Key, done string, word wording) error {
	placement, name, err := store.FindPlacement(ctx, c, key)
	if err != nil {
		return err
	}
	if placement == nil {
		return fmt.Errorf(
			"%s has no WorkloadPlacement %s: waves need a hub that has placed the workload; name the hub with --context or --kubeconfig",
			key.Sentence(),
			name.Name,
		)
	}
	p := placement.Spec.Wave
	if p == nil || p.Number > p.Of {
		return fmt.Errorf(
			"no wave of %s is under way: waves begin with a new template, where the policy has rollout.strategy Waves or rollout.steps",
			key.Sentence(),
		)
	}
	text, err := word(placement.Spec.Revision, placement.Spec.RevisionSequence, p)
	if err != nil {
		return fmt.Errorf("%s: %w", key.Sentence(), err)
	}
	return apply(
		ctx,
		c,
		out,
		key,
		fmt.Sprintf("%s (%s)", done, place(p)),
		func(o client.Object) error {
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[topology.AnnotationWave] = text
			o.SetAnnotations(annotations)
			return nil
		},
	)
}

// newPromote returns the verb that lets all pods be updated.
func newPromote() *cobra.Command {
	return newVerb("promote", "Let all pods be updated: no partition, no pause; in steps of the policy, go on after this one",
		promoteAll)
}

// promoteAll takes partition and pause away. Where waves are under way it says that they go on as they are: they are
// the policy's.
func promoteAll(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
	p, err := underWay(ctx, c, key)
	if err != nil {
		return err
	}
	switch {
	case p == nil:
		return apply(ctx, c, out, key, "promoted", promote)
	case p.Steps:
		return say(ctx, c, out, key, "promoted", approval)
	}
	if err := apply(ctx, c, out, key, "free of a partition and of a pause", promote); err != nil {
		return err
	}
	_, err = fmt.Fprintf(
		out,
		"its update goes on in waves, at wave %d of %d, %s: promote ends no wave; go on after it with flotilla rollout approve\n",
		p.Number,
		p.Of,
		p.Name,
	)
	return err
}

// underWay returns the wave under way of a workload, nil for none: there may be none, no hub, or no right to look.
func underWay(ctx context.Context, c client.Client, key wire.Key) (*topology.WaveProgress, error) {
	placement, _, err := store.FindPlacement(ctx, c, key)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsForbidden(err), err == nil && placement == nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	if p := placement.Spec.Wave; p != nil && p.Number <= p.Of {
		return p, nil
	}
	return nil, nil
}
