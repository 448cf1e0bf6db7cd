// Package drain is the verb `flotilla drain`: it sets the taint that moves all workloads away from a member, within
// their limits, and tells how far that is.
package drain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// manager is the field manager of the verb.
	manager = client.FieldOwner("flotilla-drain")
	// every is the time between two looks at the progress.
	every = time.Second
	// attempts is how often the taint is set on what stands then: the member's agent and the hub write its status at any
	// time.
	attempts = 10
)

// verb is one call of the command.
type verb struct {
	hub     console.Hub
	undo    bool
	wait    bool
	timeout time.Duration
}

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	v := &verb{}
	command := &cobra.Command{
		Use:   "drain MEMBER",
		Short: "Move all workloads away from a member, within their limits",
		Long: `Move all workloads away from a member, within their limits.

The member gets the taint ` + topology.TaintDrain + ` with the effect NoExecute: nothing new is placed there, and the others get
what it has, as far as they have room. Workloads with a maxSurge start replacements first; those without one stop pods first, no
more than maxUnavailable. Workloads whose policy tolerates the taint stay.

With --undo the taint is taken away. What has moved stays where it is.`,
		Example: `  flotilla drain west --wait
  flotilla drain west --undo`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: v.hub.CompleteMembers,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	v.hub.AddFlags(command)
	command.Flags().BoolVar(&v.undo, "undo", false, "take the taint away")
	command.Flags().BoolVar(&v.wait, "wait", false,
		"wait until no workload has pods or its schedule in the member, and print the progress")
	command.Flags().DurationVar(&v.timeout, "timeout", 0, "how long to wait; 0 for ever")
	return command
}

func (v *verb) run(ctx context.Context, out io.Writer, name string) error {
	if v.undo && v.wait {
		return console.Usagef("--wait waits for a drain: leave it out with --undo")
	}
	hub, err := v.hub.Client()
	if err != nil {
		return err
	}
	if err := mark(ctx, hub, name, v.undo); err != nil {
		return err
	}
	says := fmt.Sprintf("member %s is being drained; undo it with: flotilla drain %s --undo\n", name, name)
	if v.undo {
		says = fmt.Sprintf("member %s is not drained any more; what has moved stays where it is\n", name)
	}
	if _, err := io.WriteString(out, says); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if !v.wait {
		return nil
	}
	return v.follow(ctx, hub, out, name)
}

// mark sets the taint, or takes it away, also among other writes to the member.
func mark(ctx context.Context, hub client.Client, name string, undo bool) error {
	var err error
	for range attempts {
		if err = markOnce(ctx, hub, name, undo); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// markOnce is an attempt of mark. Its error is a conflict where somebody else wrote the member at the same time.
func markOnce(ctx context.Context, hub client.Client, name string, undo bool) error {
	member := &topology.MemberCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, member); apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is no member of this hub: correct the name", name)
	} else if err != nil {
		return fmt.Errorf("get MemberCluster %s: %w", name, err)
	}
	changed := change(member, undo)
	if changed == nil {
		return nil
	}
	// The taints are written whole: those that somebody else set meanwhile must not get lost.
	if err := hub.Patch(ctx, changed, client.MergeFromWithOptions(member, client.MergeFromWithOptimisticLock{}),
		manager); err != nil {
		return fmt.Errorf("change the taints of MemberCluster %s: %w", name, err)
	}
	return nil
}

// change returns the member with the taint, or without it; nil if it is so already.
func change(member *topology.MemberCluster, undo bool) *topology.MemberCluster {
	drains := func(t corev1.Taint) bool { return t.Key == topology.TaintDrain }
	if slices.ContainsFunc(member.Spec.Taints, drains) != undo {
		return nil
	}
	out := member.DeepCopy()
	if undo {
		out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints, drains)
	} else {
		out.Spec.Taints = append(out.Spec.Taints, corev1.Taint{Key: topology.TaintDrain, Effect: corev1.TaintEffectNoExecute})
	}
	return out
}

// follow prints the progress whenever it changes, until nothing is left.
func (v *verb) follow(ctx context.Context, hub client.Client, out io.Writer, name string) error {
	if v.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, v.timeout)
		defer cancel()
	}
	last := ""
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		works := &work.WorkList{}
		if err := hub.List(ctx, works, client.InNamespace(wire.MemberNamespace(name))); err != nil {
			return false, fmt.Errorf("list Works of MemberCluster %s: %w", name, err)
		}
		lines, done := progress(works.Items)
		text := strings.Join(lines, "\n") + "\n"
		if text == last {
			return done, nil
		}
		last = text
		if _, err := io.WriteString(out, text); err != nil {
			return false, fmt.Errorf("write the progress: %w", err)
		}
		return done, nil
	})
	if err != nil {
		return fmt.Errorf(
			"wait for the drain of member %s: %w; see what holds it up with: flotilla why KIND/NAME --member %s",
			name,
			err,
			name,
		)
	}
	return nil
}

// progress says which workloads have pods or their schedule in a member, by its reports, and whether none has.
func progress(works []work.Work) (lines []string, done bool) {
	left, pods := kinds.Workloads().PodsOf(works)
	schedules := ""
	for _, of := range left {
		what := fmt.Sprintf("%d pods", of.Count)
		if of.Schedule {
			what, schedules = "its schedule", " and schedules"
		}
		lines = append(lines, fmt.Sprintf("  %s: %s", of.Key.Sentence(), what))
	}
	return append(lines, fmt.Sprintf("%d pods%s are left", pods, schedules)), len(left) == 0
}
