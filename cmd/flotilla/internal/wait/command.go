package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/rollout"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// lookEvery is how often the hub is asked.
	lookEvery = time.Second
	// forever is how long a negative timeout waits, as with kubectl.
	forever = 7 * 24 * time.Hour
)

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	var hub console.Hub
	var condition string
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "wait KIND/NAME...",
		Short: "Wait for a state of workloads, over all clusters together",
		Long: `Wait for a state of workloads, over all clusters together.

--for is one of:
  rollout                the rollout is done, as far as its partition goes; a rollout that failed ends the wait
  ready                  the condition Ready is True
  condition=TYPE[=STATUS]  a condition has a status, True where none is given
  delete                 the workload does not exist

A condition counts only if it is about the last change of the workload. The exit codes are those of kubectl wait: 0 when
every workload has the state, 1 when the time is over, when a rollout failed, or when there is no such workload.`,
		Example: `  flotilla wait clone/api -n shop --for=rollout --timeout=10m
  flotilla wait ud/web clone/api --for=condition=Stalled=False`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := parse(condition)
			if err != nil {
				return err
			}
			namespace, err := hub.Namespace()
			if err != nil {
				return err
			}
			var keys []wire.Key
			for _, arg := range args {
				key, err := console.Workload(arg, namespace)
				if err != nil {
					return err
				}
				keys = append(keys, key)
			}
			c, err := hub.Client()
			if err != nil {
				return err
			}
			if timeout < 0 {
				timeout = forever
			}
			return waiter{c, state, timeout}.all(cmd.Context(), cmd.OutOrStdout(), keys)
		},
	}
	hub.AddFlags(command)
	command.Flags().StringVar(&condition, "for", "rollout", "rollout, ready, condition=TYPE[=STATUS] or delete")
	command.Flags().DurationVar(&timeout, "timeout", 30*time.Second,
		"how long to wait for all of them; 0 looks once, a negative time waits for a week")
	_ = command.RegisterFlagCompletionFunc("for", cobra.FixedCompletions( // the flag was added above
		[]string{"rollout", "ready", "condition=", "delete"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// target is the state to wait for.
type target struct {
	rollout, deleted bool
	condition        string
	status           metav1.ConditionStatus
}

// parse reads --for.
func parse(text string) (target, error) {
	kind, rest, _ := strings.Cut(text, "=")
	switch {
	case text == "rollout":
		return target{rollout: true}, nil
	case text == "ready":
		return target{condition: apps.ConditionReady, status: metav1.ConditionTrue}, nil
	case text == "delete":
		return target{deleted: true}, nil
	case kind == "condition":
		name, status, given := strings.Cut(rest, "=")
		if !given {
			status = string(metav1.ConditionTrue)
		}
		for _, known := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			if name != "" && strings.EqualFold(status, string(known)) {
				return target{condition: name, status: known}, nil
			}
		}
	}
	return target{}, console.Usagef("--for %q: it can be rollout, ready, delete, or condition=TYPE=STATUS with a status "+
		"of True, False or Unknown", text)
}

// text names the state in a sentence.
func (t target) text() string {
	switch {
	case t.rollout:
		return "its rollout is done"
	case t.deleted:
		return "it is deleted"
	}
	return fmt.Sprintf("condition %s is %s", t.condition, t.status)
}

// waiter waits for a state of workloads.
type waiter struct {
	client  client.Reader
	target  target
	timeout time.Duration
}

// all waits for the workloads, one after the other, within one time.
func (w waiter) all(ctx context.Context, out io.Writer, keys []wire.Key) error {
	within, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var missed []error
	for _, key := range keys {
		if err := w.one(ctx, within, key); err != nil {
			missed = append(missed, err)
			continue
		}
		_, err := fmt.Fprintf(out, "%s.%s/%s condition met\n", strings.ToLower(key.Kind), key.Group, key.Name)
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return errors.Join(missed...)
}

// one waits for a workload. It looks at least once, also when the time is over. The error of a time that is over is no
// [context.DeadlineExceeded], for which other verbs end with another exit code than kubectl wait.
func (w waiter) one(ctx, within context.Context, key wire.Key) error {
	met, last, err := w.look(ctx, key)
	if met || err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(within, lookEvery, false, func(ctx context.Context) (bool, error) {
		now, text, err := w.look(ctx, key)
		if err == nil {
			met, last = now, text
		}
		return now, err
	})
	switch {
	case met:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("wait for %s: %w", key.Sentence(), context.Cause(ctx))
	case within.Err() != nil:
		return fmt.Errorf("timed out waiting for %s until %s: %s", key.Sentence(), w.target.text(), last)
	}
	return err
}

// look reports whether a workload has the state, and what it says now. It fails where the state cannot come.
func (w waiter) look(ctx context.Context, key wire.Key) (met bool, now string, err error) {
	object := kinds.Workloads()[key.GroupKind()].New()
	switch err := w.client.Get(ctx, key.Workload(), object); {
	case apierrors.IsNotFound(err) && w.target.deleted:
		return true, "", nil
	case apierrors.IsNotFound(err):
		return false, "", console.NotFound(ctx, w.client, key)
	case err != nil:
		return false, "", fmt.Errorf("get %s: %w", key.Sentence(), console.NotAHub(err))
	}
	if err := console.PlacedByAHub(object, key); err != nil {
		return false, "", err
	}
	switch {
	case w.target.deleted:
		return false, "it exists", nil
	case w.target.rollout && rollout.Follows(object):
		return rolledOut(object, key)
	}
	state, err := console.StateOf(object)
	if err != nil {
		return false, "", err
	}
	condition, status := w.target.condition, w.target.status
	if w.target.rollout {
		condition, status = apps.ConditionReady, metav1.ConditionTrue // of a kind without rollout
	}
	c := state.Conditions[condition]
	switch {
	case !state.Observed:
		now = "the hub has not looked at the last change yet"
	case c.Status == "":
		now = "it has no condition " + condition
	default:
		now = fmt.Sprintf("%s is %s (%s: %s)", condition, c.Status, c.Reason, c.Message)
	}
	return state.Is(condition, status), now, nil
}

// rolledOut reports whether the rollout is done, and fails where it failed.
func rolledOut(object client.Object, key wire.Key) (bool, string, error) {
	s := rollout.StatusOf(object)
	switch s.Phase {
	case rollout.Done:
		return true, "", nil
	case rollout.Failed:
		return false, "", fmt.Errorf("the rollout of %s failed (%s): %s", key.Sentence(), s.Reason, s.Message)
	case rollout.Deleting:
		return false, "", fmt.Errorf("%s is being deleted: its rollout does not go on", key.Sentence())
	}
	return false, fmt.Sprintf("%d of %d pods are updated, %d are ready (%s)", s.Updated, s.Desired, s.Ready,
		s.Message), nil
}
