package member

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

// leaveOptions are the flags of leave.
type leaveOptions struct {
	hub            console.Hub
	orphan, remove bool
	patience       time.Duration
}

// NewLeaveCommand returns the verb leave.
func NewLeaveCommand() *cobra.Command {
	o := &leaveOptions{}
	command := &cobra.Command{
		Use:   "leave NAME",
		Short: "Take a member out; its credentials are void at once when it is",
		Long: `Take a member out; its credentials are void at once when it is.

With --remove the member is taken out of the division first: its workloads go to the other members as far as those can take them, and are
removed from it. It ends once nothing is placed there any more. With --orphan the membership ends at once, whether the member
answers or not, and what runs in it runs on, without orders.`,
		Example:           "  flotilla leave east --remove\n  flotilla leave east --orphan",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.hub.CompleteMembers,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	const enough = 10 * time.Minute
	o.hub.AddFlags(command)
	command.Flags().BoolVar(&o.remove, "remove", false, "remove its workloads from it first")
	command.Flags().BoolVar(&o.orphan, "orphan", false, "leave its workloads running there")
	command.Flags().DurationVar(&o.patience, "timeout", enough, "how long --remove waits for its agent")
	return command
}

func (o *leaveOptions) run(cmd *cobra.Command, name string) error {
	c, err := clientOf(&o.hub)
	if err != nil {
		return err
	}
	ctx, cancel := within(cmd.Context(), true, o.patience)
	defer cancel()
	err = c.Get(ctx, types.NamespacedName{Name: name}, &topology.MemberCluster{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read MemberCluster %s: %w", name, err)
	}
	known := err == nil
	works, _, err := registration.Orders(ctx, c, name)
	if err != nil {
		return err
	}
	if err := o.refuse(name, known, works); err != nil {
		return err
	}
	if !known && works == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "There is no member %s.\n", name)
		return registration.Revoke(ctx, c, name) // a namespace of that name may be another system's
	}
	if works > 0 && o.remove {
		err = empty(ctx, cmd.ErrOrStderr(), c, name)
	} else if o.orphan {
		err = registration.Preserve(ctx, c, name)
	}
	if err != nil {
		return err
	}
	if err := registration.Revoke(ctx, c, name); err != nil {
		return err
	}
	if err := forget(ctx, c, name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `%s is no member any more; its credentials are void.
Next, in the cluster: end flotilla-agent, and
  kubectl -n %s delete secret %s %s
`, name, topology.SystemNamespace, topology.JoinSecret, topology.CredentialSecret)
	return err
}

// refuse returns why a member is not taken out as the flags say. It is pure.
func (o *leaveOptions) refuse(name string, known bool, works int) error {
	switch {
	case o.orphan && o.remove:
		return console.Usagef("--orphan and --remove exclude each other: choose what happens to the workloads of %s", name)
	case o.remove && !known && works > 0:
		return console.Usagef(
			"MemberCluster %s is gone, and %d orders are left: no agent removes their objects any more; use --orphan, and "+
				"remove them in the cluster",
			name,
			works,
		)
	case works > 0 && !o.orphan && !o.remove:
		return console.Usagef(
			"%s has orders for %d objects: say with --remove that they are to go from it, or with --orphan that they run on "+
				"there",
			name,
			works,
		)
	}
	return nil
}

// holds says what is left in a member, and which workloads keep replicas there.
func holds(name string, works int, workloads []string) string {
	const shown = 5 // more are no help in one line
	said := fmt.Sprintf("%s still has %d objects", name, works)
	switch left := len(workloads); {
	case left == 0:
		return said + ", and no workload has replicas there"
	case left > shown:
		return fmt.Sprintf("%s; replicas there have %s and %d more", said, strings.Join(workloads[:shown], ", "), left-shown)
	}
	return said + "; replicas there have " + strings.Join(workloads, ", ")
}

// empty waits until nothing of the hub is in the member.
func empty(ctx context.Context, talk io.Writer, c client.Client, name string) error {
	if err := registration.Dismiss(ctx, c, name); err != nil {
		return err
	}
	last := ""
	for {
		works, workloads, err := registration.Orders(ctx, c, name)
		if err != nil {
			return err
		}
		if works == 0 && len(workloads) == 0 {
			return nil
		}
		if now := holds(name, works, workloads); now != last {
			last = now
			fmt.Fprintln(talk, "waiting:", now)
		}
		if !pause(ctx) {
			return fmt.Errorf(
				"%w: %s; if its agent does not answer, or no other member can take them, use --orphan",
				context.Cause(ctx),
				last,
			)
		}
	}
}

// forget waits until no order is left.
func forget(ctx context.Context, c client.Client, name string) error {
	for {
		left, err := registration.Forget(ctx, c, name)
		if err != nil || left == 0 {
			return err
		}
		if !pause(ctx) {
			return fmt.Errorf("%w: %d Works of %s are left", context.Cause(ctx), left, name)
		}
	}
}
