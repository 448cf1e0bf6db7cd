package rollout

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/plan"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// newUndo returns the verb that brings an earlier pod template back.
func newUndo() *cobra.Command {
	var number int64
	var dry bool
	command := newVerb(
		"undo",
		"Give a workload an earlier pod template again, in all clusters",
		func(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
			w, err := read(ctx, c, key)
			if err != nil {
				return err
			}
			to, err := w.target(ctx, c, number)
			if err != nil {
				return err
			}
			if dry {
				return preview(ctx, c, out, w, to)
			}
			if err := apply(ctx, c, out, key, "taken back to "+to.label(),
				func(o client.Object) error { return undo(o, to) }); err != nil {
				return err
			}
			_, err = io.WriteString(out, heldBack(key, w.object))
			return err
		},
	)
	command.Flags().
		Int64Var(&number, "to-revision", 0, "the revision to go back to; 0 for the one that waves under way leave, or else "+
			"the one before the current")
	command.Flags().BoolVar(&dry, "dry-run", false,
		"say what would change in which member, and in which waves, and change nothing")
	return command
}

// preview writes what the undo of a workload would do. In a cluster that is no hub, that is the change of the template.
func preview(ctx context.Context, c client.Client, out io.Writer, w *workload, to *Revision) error {
	if err := podtemplate.Undecodable(w.object); err != nil {
		return fmt.Errorf("%s cannot be taken back: %w", w.key.Sentence(), err)
	}
	if _, err := fmt.Fprintf(out, "%s would be taken back to %s\n%s", w.key.Sentence(), to.label(),
		heldBack(w.key, w.object)); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	fleet, err := snapshot.Record(ctx, c, c.Scheme(), w.key.Namespace)
	if meta.IsNoMatchError(err) {
		text, err := diff(&w.revisions[len(w.revisions)-1], to)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	}
	if err != nil {
		return err
	}
	object, _ := w.object.DeepCopyObject().(client.Object) // it is one
	if err := undo(object, to); err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(kinds.Workloads()[w.key.GroupKind()].GVK)
	workloads, _, err := plan.Preview(ctx, fleet, object)
	if err != nil {
		return err
	}
	return plan.Write(out, workloads)
}

// heldBack says, as a line, that the partition of a workload holds for the way back too; "" where there is none.
func heldBack(key wire.Key, object client.Object) string {
	partition := partitionOf(object)
	if partition == "" {
		return ""
	}
	return fmt.Sprintf("its %s holds for the way back too: the pods that it keeps stay at the revision that they have; "+
		"let all go with flotilla rollout promote %s/%s -n %s\n", partition, strings.ToLower(key.Kind), key.Name,
		key.Namespace)
}

// partitionOf names the partition of a workload, "" where none keeps pods.
func partitionOf(object client.Object) string {
	var partition *intstr.IntOrString
	switch o := object.(type) {
	case *apps.CloneSet:
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
			partition = rolling.Partition
		}
	case *apps.DaemonSet:
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
			partition = rolling.Partition
		}
	case *apps.StatefulSet:
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
			partition = new(intstr.FromInt32(*rolling.Partition))
		}
	case *apps.UnitedDeployment:
		if manual := o.Spec.UpdateStrategy.ManualUpdate; manual != nil {
			for _, subset := range slices.Sorted(maps.Keys(manual.Partitions)) {
				if n := manual.Partitions[subset]; n > 0 {
					return fmt.Sprintf("partition of %d in subset %s", n, subset)
				}
			}
		}
	}
	if partition == nil || partition.String() == "0" || partition.String() == "0%" {
		return ""
	}
	return "partition of " + partition.String()
}
