package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

const (
	// manager is the field manager of what the verbs write.
	manager = client.FieldOwner("flotilla-rollout")
	// lookEvery is how often status --wait asks.
	lookEvery = time.Second
	// settles is how long status --wait takes a rollout that has failed as it looks first for one that may go on: what
	// was corrected, such as a policy or a label, the hub may not have seen yet, and nothing in the status tells.
	settles = 5 * time.Second
)

// NewCommand returns the verb with its own verbs.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "rollout",
		Short: "Follow, stop and go on with the rollout of a workload, over all clusters together",
		Args:  cobra.NoArgs,
	}
	now := clock.RealClock{}
	command.AddCommand(
		newStatus(now),
		newHistory(),
		newDiff(),
		newUndo(),
		newChange(
			"pause",
			"Stop updating pods; healing and scaling go on",
			"paused",
			func(o client.Object) error { return pause(o, true) },
		),
		newChange(
			"resume",
			"Go on with a rollout that was paused",
			"resumed",
			func(o client.Object) error { return pause(o, false) },
		),
		newPromote(),
		newChange(
			"restart",
			"Restart every pod, within the limits of the rollout",
			"restarted",
			func(o client.Object) error { return restart(o, now.Now()) },
		),
		newWord(
			"approve",
			"Go on after the wave under way, whatever it waits for but its pods; and after one that has failed",
			"approved",
			approval,
		),
		newWord("retry", "Have a wave that failed tried again", "to be tried again", retry),
	)
	return command
}

// newChange returns a verb that changes the spec of a workload.
func newChange(name, short, done string, change func(client.Object) error) *cobra.Command {
	return newVerb(name, short, func(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
		return apply(ctx, c, out, key, done, change)
	})
}

// newVerb returns a verb about one workload, which is read from the command line.
func newVerb(name, short string, run func(context.Context, client.Client, io.Writer, wire.Key) error) *cobra.Command {
	hub := console.Hub{AnyCluster: true}
	command := &cobra.Command{
		Use:               name + " KIND/NAME",
		Short:             short,
		Example:           "  flotilla rollout " + name + " clone/api -n shop",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, c, err := open(&hub, args[0])
			if err != nil {
				return err
			}
			if isJob(key) && !slices.Contains(jobVerbs(), name) {
				return noVerb(name)
			}
			if key.GroupKind() == apps.SidecarSetKind.GroupKind() && slices.Contains(templateVerbs(), name) {
				return fmt.Errorf("rollout %s is for workloads with a pod template, which %s lacks: change its images, or restart "+
					"the workloads that have its sidecars", name, key.Sentence())
			}
			return run(cmd.Context(), c, cmd.OutOrStdout(), key)
		},
	}
	hub.AddFlags(command)
	return command
}

// templateVerbs are the verbs that read or change a pod template.
func templateVerbs() []string { return []string{"diff", "history", "restart", "undo"} }

// open reads which workload is meant, and connects.
func open(hub *console.Hub, name string) (wire.Key, client.Client, error) {
	key, err := keyOf(hub, name)
	if err != nil {
		return wire.Key{}, nil, err
	}
	if key.GroupKind() == apps.AdvancedCronJobKind.GroupKind() {
		return wire.Key{}, nil, fmt.Errorf("%s has no rollout: set spec.paused to start no jobs; see its status with "+
			"kubectl describe acj %s -n %s", key.Sentence(), key.Name, key.Namespace)
	}
	if key.GroupKind() == apps.ResourceDistributionKind.GroupKind() {
		return wire.Key{}, nil, fmt.Errorf("%s has no rollout: its status says which namespaces have the copy", key.Sentence())
	}
	c, err := hub.Client()
	return key, c, err
}

// keyOf reads which workload is meant.
func keyOf(hub *console.Hub, name string) (wire.Key, error) {
	namespace, err := hub.Namespace()
	if err != nil {
		return wire.Key{}, err
	}
	return console.Workload(name, namespace)
}

// get reads a workload. It refuses the copy that a hub wrote into a member: the agent takes back what is changed there.
func get(ctx context.Context, c client.Client, key wire.Key) (client.Object, error) {
	object, err := fetch(ctx, c, key)
	if err != nil {
		return nil, err
	}
	return object, console.PlacedByAHub(object, key)
}

func fetch(ctx context.Context, c client.Client, key wire.Key) (client.Object, error) {
	if isJob(key) {
		return getJob(ctx, c, key)
	}
	object := kinds.Workloads()[key.GroupKind()].New()
	if err := c.Get(ctx, key.Workload(), object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, console.NotFound(ctx, c, key)
		}
		return nil, fmt.Errorf("get %s: %w", key.Sentence(), err)
	}
	return object, nil
}

// attempts is how often a change is made of what stands then. The hub and the members' reports write a workload's
// status several times a second while a rollout goes on, and each such write between reading and writing costs an
// attempt.
const attempts = 10

// apply writes what change makes of the workload; nothing where that is what stands.
func apply(
	ctx context.Context,
	c client.Client,
	out io.Writer,
	key wire.Key,
	done string,
	change func(client.Object) error,
) error {
	var err error
	for range attempts {
		if err = applyOnce(ctx, c, out, key, done, change); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// applyOnce is an attempt of apply. Its error is a conflict where somebody else wrote the workload at the same time.
func applyOnce(
	ctx context.Context,
	c client.Client,
	out io.Writer,
	key wire.Key,
	done string,
	change func(client.Object) error,
) error {
	object, err := get(ctx, c, key)
	if err != nil {
		return err
	}
	if object.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s cannot be %s: %s", key.Sentence(), done, conditions.Waiting(object))
	}
	if err := podtemplate.Undecodable(object); err != nil {
		return fmt.Errorf("%s cannot be %s: %w", key.Sentence(), done, err)
	}
	base, _ := object.DeepCopyObject().(client.Object) // it is one
	if err := change(object); err != nil {
		return err
	}
	data, err := client.MergeFrom(base).Data(object)
	if err != nil {
		return fmt.Errorf("compare %s: %w", key.Sentence(), err)
	}
	if string(data) == "{}" {
		_, err = fmt.Fprintf(out, "%s is %s already\n", key.Sentence(), done)
		return err
	}
	patch, err := patchOf(ctx, c, base, object)
	if err != nil {
		return fmt.Errorf("change %s: %w", key.Sentence(), err)
	}
	if err := c.Patch(ctx, object, patch, manager); err != nil {
		return fmt.Errorf("change %s: %w", key.Sentence(), err)
	}
	_, err = fmt.Fprintf(out, "%s is %s\n", key.Sentence(), done)
	return err
}

func newStatus(now clock.PassiveClock) *cobra.Command {
	var (
		hub     = console.Hub{AnyCluster: true}
		output  console.Output
		waits   bool
		timeout time.Duration
	)
	command := &cobra.Command{
		Use:   "status KIND/NAME",
		Short: "Say how far a rollout is, or wait for its end",
		Long: `Say how far a rollout is, or wait for its end.

Exit codes: 0 it is done, as far as its partition goes, or still going on without --watch; 1 it failed: it is stalled, nothing has
moved for longer than progressDeadlineSeconds, nobody places it, since its namespace is not federated, or it is being deleted;
124 --timeout is over. An update that you paused, and a wave that waits for
you, say so and are waited for.`,
		Example: `  flotilla rollout status clone/api
  flotilla rollout status ud/web -n shop --watch --timeout 10m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			key, c, err := open(&hub, args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return follow(ctx, c, now, cmd.OutOrStdout(), output, key, waits)
		},
	}
	hub.AddFlags(command)
	output.AddFlag(command)
	command.Flags().BoolVarP(&waits, "watch", "w", false,
		"say what is new until the rollout is done or has failed; --wait is the same")
	command.Flags().BoolVar(&waits, "wait", false, "the same as --watch")
	_ = command.Flags().MarkHidden("wait") // the flag was added above
	command.Flags().DurationVar(&timeout, "timeout", 15*time.Minute, "how long to wait, with --watch, and for answers")
	return command
}

// notFederated tells whether a cluster is a hub and a namespace of it is not federated; false where the user may not
// ask.
func notFederated(ctx context.Context, c client.Client, name string) bool {
	namespace, members := &corev1.Namespace{}, &topology.MemberClusterList{}
	return c.List(ctx, members, client.Limit(1)) == nil && len(members.Items) > 0 &&
		c.Get(ctx, client.ObjectKey{Name: name}, namespace) == nil && !wire.Federated(namespace)
}

// follow prints the status, and with waits each that says something new, until the rollout is over. It fails if that
// failed.
func follow(
	ctx context.Context,
	c client.Client,
	now clock.PassiveClock,
	out io.Writer,
	output console.Output,
	key wire.Key,
	waits bool,
) error {
	var first, last Status
	begun := now.Now()
	err := wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		object, err := get(ctx, c, key)
		if err != nil {
			return false, err
		}
		s := StatusOf(object)
		if s.unseen && notFederated(ctx, c, key.Namespace) {
			s = s.inNamespace(now.Since(object.GetCreationTimestamp().Time))
		}
		if waits && settling(&s, &last, now.Since(begun)) {
			first = s // of what stood before the last change, perhaps
			return false, nil
		}
		over := s.Phase != Progressing || !waits
		// A program reads one value, a person each step.
		if s != last && (over || output == "text") {
			if err := output.Print(out, s, func(out io.Writer) error {
				_,
					err := io.WriteString(out, s.text())
				return err
			}); err != nil {
				return false, err
			}
		}
		last = s
		return over, nil
	})
	if last.Phase == "" {
		last = first
	}
	return ended(ctx, err, key, &last)
}

// ended returns how a rollout that was followed ended. err is that of following; last is what was seen last, or first
// where that had failed and the time ended before it was certain.
func ended(ctx context.Context, err error, key wire.Key, last *Status) error {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && last.Phase != Failed:
		return fmt.Errorf("the rollout of %s is not over within --timeout: %w", key.Sentence(), context.DeadlineExceeded)
	case err != nil && ctx.Err() == nil, err != nil && last.Phase != Failed:
		return fmt.Errorf("follow the rollout of %s: %w", key.Sentence(), err)
	case last.Phase == Deleting:
		return fmt.Errorf("%s is being deleted: its rollout does not go on", key.Sentence())
	case last.Phase == Failed:
		return fmt.Errorf("the rollout of %s failed (%s)", key.Sentence(), last.Reason)
	}
	return nil
}

// settling reports whether a status that is seen first is of what stood before the last change, perhaps.
func settling(s, last *Status, age time.Duration) bool {
	return s.Phase == Failed && !s.unseen && last.Phase == "" && age < settles
}
