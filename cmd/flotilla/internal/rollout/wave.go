package rollout

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
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
			"%s failed and was rolled back: give the workload another template, or have this one tried again with "+
				"flotilla rollout retry",
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
	u, err := underWay(ctx, c, key)
	if err != nil {
		return err
	}
	if u == nil {
		return fmt.Errorf("no wave of %s is in progress: waves begin with a new template, if the policy has "+
			"rollout.strategy Waves or rollout.steps, or a StatefulSet spec.flotilla.steps; "+
			"name the cluster with --context or --kubeconfig", key.Sentence())
	}
	p := u.WaveProgress
	text, err := word(u.revision, u.sequence, p)
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
	return newVerb("promote",
		"Let all pods be updated: no partition, no pause; of an update in steps, go on after this one", promoteAll)
}

// promoteAll takes partition and pause away. Where waves are under way it says that they go on as they are: they are
// the policy's.
func promoteAll(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
	if isJob(key) {
		return apply(ctx, c, out, key, "promoted", promote) // its status has the batch, on a hub too
	}
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
		"its update goes on in waves, at wave %d of %d, %s: promote ends no wave; go on after it with "+
			"flotilla rollout approve\n",
		p.Number,
		p.Of,
		p.Name,
	)
	return err
}

// progress is the wave or step in progress of an update, with what tells that apart from other updates.
type progress struct {
	*topology.WaveProgress
	revision string
	sequence int64
}

// underWay returns the wave or step in progress of a workload, nil for none. In a cluster that is no hub, or without
// the right to read placements, the workload itself has it.
func underWay(ctx context.Context, c client.Client, key wire.Key) (*progress, error) {
	placement, _, err := store.FindPlacement(ctx, c, key)
	var found progress
	switch {
	case meta.IsNoMatchError(err), apierrors.IsForbidden(err), err == nil && placement == nil:
		object, err := get(ctx, c, key)
		if err != nil {
			return nil, err
		}
		if set, ok := object.(*apps.StatefulSet); ok && set.Status.UpdateProgress != nil {
			found.WaveProgress, found.sequence = waves.ReadProgress(set.Status.UpdateProgress)
			found.revision = set.Status.UpdateProgress.Revision
		}
	case err != nil:
		return nil, err
	default:
		found = progress{placement.Spec.Wave, placement.Spec.Revision, placement.Spec.RevisionSequence}
	}
	if found.WaveProgress == nil || found.Number > found.Of {
		return nil, nil
	}
	return &found, nil
}
