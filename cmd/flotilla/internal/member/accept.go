package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/inventory/registration"
)

// polling is the time between two looks of --wait.
const polling = 300 * time.Millisecond

// NewAcceptCommand returns the verb accept.
func NewAcceptCommand() *cobra.Command {
	hub, output, fingerprint, patience, waits := &console.Hub{}, console.Output(""), "", time.Duration(0), false
	command := &cobra.Command{
		Use:   "accept NAME",
		Short: "Let a cluster that asked to join take part",
		Long: `Let a cluster that asked to join take part.

What it asked with is pinned: the key of its agent and the id of the cluster. No certificate is signed for another key, and no other
cluster comes under the name. With --fingerprint, which flotilla join prints, only a request for that key is accepted.`,
		Example:           "  flotilla accept east\n  flotilla accept east --fingerprint sha256:… --wait",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: hub.CompleteMembers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, err := clientOf(hub)
			if err != nil {
				return err
			}
			ctx, cancel := within(cmd.Context(), waits, patience)
			defer cancel()
			done, err := accept(ctx, c, args[0], fingerprint, waits)
			if err != nil {
				return err
			}
			if err := output.Print(cmd.OutOrStdout(), done,
				func(out io.Writer) error { return sayAccepted(out, done) }); err != nil ||
				!waits {
				return err
			}
			return waitReady(ctx, cmd.ErrOrStderr(), c, args[0])
		},
	}
	hub.AddFlags(command)
	output.AddFlag(command)
	command.Flags().StringVar(&fingerprint, "fingerprint", "", "accept only a request for the key with this fingerprint")
	addWait(command, &waits, &patience, "wait for the request, and then until the member is Ready")
	return command
}

// addWait adds --wait and --timeout to a verb.
func addWait(command *cobra.Command, waits *bool, patience *time.Duration, what string) {
	const enough = 5 * time.Minute
	command.Flags().BoolVar(waits, "wait", false, what)
	command.Flags().DurationVar(patience, "timeout", enough, "how long --wait waits")
}

// within returns a context that ends after the patience of a verb that waits.
func within(ctx context.Context, waits bool, patience time.Duration) (context.Context, context.CancelFunc) {
	if !waits {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(
		ctx,
		patience,
		fmt.Errorf("not done within --timeout %s: %w", patience, context.DeadlineExceeded),
	)
}

// accept accepts the request of a name; where it waits, also one that is not there yet.
func accept(
	ctx context.Context,
	c client.Client,
	name, fingerprint string,
	waits bool,
) (*registration.Acceptance, error) {
	for {
		done, err := registration.Accept(ctx, c, name, fingerprint)
		if !waits || !errors.Is(err, registration.ErrNoRequest) {
			return done, err
		}
		if !pause(ctx) {
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

// pause waits for the next look, and returns false when the context ended first.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(polling)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func sayAccepted(out io.Writer, done *registration.Acceptance) error {
	sentence := "Accepted %s: cluster %s, key %s.\n"
	if done.Before {
		sentence = "%s was accepted before: cluster %s, key %s.\n"
	}
	if _, err := fmt.Fprintf(out, sentence, done.Member, done.ClusterID, done.Fingerprint); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	_, err := fmt.Fprintf(out, "Next: flotilla get clusters %s\n", done.Member)
	return err
}

// waitReady returns when the member is Ready.
func waitReady(ctx context.Context, talk io.Writer, c client.Reader, name string) error {
	member, told := &topology.MemberCluster{}, ""
	err := wait.PollUntilContextCancel(ctx, polling, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, types.NamespacedName{Name: name}, member); err != nil {
			told = err.Error()
			return false, client.IgnoreNotFound(err)
		}
		for _, condition := range []string{topology.MemberAccepted, topology.MemberReady} {
			if found := meta.FindStatusCondition(member.Status.Conditions, condition); found == nil ||
				found.Status != metav1.ConditionTrue {
				// What was said before the member was accepted is no news.
				if found != nil && told != found.Message && found.Reason != topology.ReasonNotAccepted {
					told = found.Message
					fmt.Fprintf(talk, "waiting: %s\n", told)
				}
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until member %s is Ready: %w; last: %s", name, context.Cause(ctx), told)
	}
	fmt.Fprintf(talk, "%s is Ready.\n", name)
	return nil
}
