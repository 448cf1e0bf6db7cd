// Package fence is the verb `flotilla fence`: a person's word that nothing runs in a member any more that is not heard
// of.
package fence

import (
	"context"
	"fmt"
	"io"
	"os/user"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// manager is the field manager of the verb.
const manager = client.FieldOwner("flotilla-fence")

// verb is one call of the command.
type verb struct {
	hub     console.Hub
	confirm bool
	clock   clock.PassiveClock
}

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	v := &verb{clock: clock.RealClock{}}
	command := &cobra.Command{
		Use:   "fence MEMBER --confirm",
		Short: "Confirm that nothing runs any more in an unreachable member",
		Long: `Confirm that nothing runs in a member any more that is not heard of.

The hub cannot know whether a member that it does not hear of still runs pods. Make sure yourself: switch its machines off, or
cut them off from the network. With your word the hub runs the member's replicas elsewhere at once, for all workloads whose policy
has failover.mode Replace or Fence, whatever failover.after says, and also where many members failed together.

If something still runs there after all, two pods may have one name, and the job of a scheduled time may be started twice.

The word holds until the member is heard of again, and for no later loss.`,
		Example:           `  flotilla fence west --confirm`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: v.hub.CompleteMembers,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	v.hub.AddFlags(command)
	command.Flags().BoolVar(&v.confirm, "confirm", false, "yes, nothing runs there any more")
	return command
}

func (v *verb) run(ctx context.Context, out io.Writer, name string) error {
	hub, err := v.hub.Client()
	if err != nil {
		return err
	}
	member := &topology.MemberCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, member); apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is no member of this hub: correct the name", name)
	} else if err != nil {
		return fmt.Errorf("get MemberCluster %s: %w", name, err)
	}
	ready := meta.FindStatusCondition(member.Status.Conditions, topology.MemberReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return fmt.Errorf("member %s is reachable, so its pods run: to move them elsewhere, use flotilla drain %s", name, name)
	}
	if !v.confirm {
		return console.Usagef(
			"make sure that nothing runs in %s any more, and say so with --confirm: the hub then runs its replicas elsewhere; "+
				"if something runs there after all, scheduled jobs may be started twice",
			name,
		)
	}
	base := member.DeepCopy()
	member.Spec.Fence = &topology.Fence{LostSince: ready.LastTransitionTime, By: who(), At: metav1.NewTime(v.clock.Now())}
	if err := hub.Patch(ctx, member, client.MergeFrom(base), manager); err != nil {
		return fmt.Errorf("confirm the loss of MemberCluster %s: %w", name, err)
	}
	if _, err := fmt.Fprintf(out, "member %s is confirmed as lost; workloads with a failover are placed elsewhere\n",
		name); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// who is the name of the person at this terminal, for the record.
func who() string {
	person, err := user.Current()
	if err != nil {
		return ""
	}
	return person.Username
}
