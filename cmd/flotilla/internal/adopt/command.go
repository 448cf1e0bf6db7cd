package adopt

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// verb is one call of the command.
type verb struct {
	hub      console.Hub
	from     []string
	dryRun   bool
	restarts bool
}

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	v := &verb{}
	command := &cobra.Command{
		Use:   "adopt KIND/NAME --from MEMBER[=CONTEXT],...",
		Short: "Bring a workload that runs in members already under the hub, without a restart",
		Long: `Bring a workload that runs in members already under the hub, without a restart.

The members are read with contexts of your kubeconfig, which have the members' names unless you write MEMBER=CONTEXT.
What would change in each member is asked of its API server and printed; pods that would restart stop the command. Where
the hub has no object of that name yet, one is made of what runs: with the replicas of all members together, if its
kind has replicas.

A StatefulSet of apps/v1 that runs in a member becomes one of apps.kruise.io there: it is deleted without its pods, and
the new one takes over pods, claims and revisions.

The hub then asks the agents what runs, and starts from that: nothing moves.`,
		Example: `  flotilla adopt clone/api -n shop --from east,west --dry-run
  flotilla adopt ud/web -n shop --from east=admin@east`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: v.hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	v.hub.AddFlags(command)
	command.Flags().StringSliceVar(&v.from, "from", nil,
		"members that the workload runs in, with the context of each where it has another name")
	command.Flags().BoolVar(&v.dryRun, "dry-run", false, "print what would change, and write nothing")
	command.Flags().BoolVar(&v.restarts, "allow-restarts", false, "go on though pods would restart")
	// The flag was added above.
	_ = command.RegisterFlagCompletionFunc("from", v.hub.CompleteMembers)
	return command
}

func (v *verb) run(ctx context.Context, out io.Writer, name string) error {
	if len(v.from) == 0 {
		return console.Usagef("give the members that the workload runs in, as in --from east,west")
	}
	hub, key, err := v.target(name)
	if err != nil {
		return err
	}
	members, err := v.gather(ctx, hub, key)
	if err != nil {
		return err
	}
	object, exists, err := hubObject(ctx, hub, key, members)
	if err != nil {
		return err
	}
	if !exists {
		if err := printLent(out, key, &members[0], object); err != nil {
			return err
		}
	}
	blocker, err := checkPolicy(ctx, hub, key, object, members)
	if err != nil {
		return err
	}
	restarts, err := printChanges(ctx, out, key, object, members)
	if err != nil {
		return err
	}
	switch {
	case blocker != "":
		return fmt.Errorf("%s; nothing was written", blocker)
	case restarts && !v.restarts:
		return fmt.Errorf("pods would restart: make the templates in the members and on the hub agree, " +
			"or pass --allow-restarts; nothing was written")
	case v.dryRun:
		_, err = fmt.Fprintln(out, "nothing was written (--dry-run)")
	default:
		if err = exchangeAll(ctx, out, members); err == nil {
			err = write(ctx, hub, object, exists)
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "%s is the hub's to adopt; watch it with: flotilla tree %s/%s -n %s\n", key.Sentence(),
				strings.ToLower(key.Kind), key.Name, key.Namespace)
		}
	}
	return err
}

func printLent(out io.Writer, key wire.Key, first *member, object *unstructured.Unstructured) error {
	note, err := lentNote(key, first, object)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, note); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// target returns a client of the hub, and the key of the workload that the user named.
func (v *verb) target(name string) (client.Client, wire.Key, error) {
	namespace, err := v.hub.Namespace()
	if err != nil {
		return nil, wire.Key{}, err
	}
	key, err := console.Workload(name, namespace)
	if err != nil {
		return nil, wire.Key{}, err
	}
	hub, err := v.hub.Client()
	return hub, key, err
}

// printChanges prints what would change in each member, and reports whether pods would restart.
func printChanges(
	ctx context.Context, out io.Writer, key wire.Key, object *unstructured.Unstructured, members []member,
) (restarts bool, err error) {
	for i := range members {
		m := &members[i]
		change, err := forecast(ctx, m, object)
		if err != nil {
			return false, err
		}
		restarts = restarts || change.Restarts
		if _, err := io.WriteString(out, change.text(m.name, key)); err != nil {
			return false, fmt.Errorf("write the result: %w", err)
		}
	}
	return restarts, nil
}

// member is a member and what runs there.
type member struct {
	name   string
	client client.Client
	live   *unstructured.Unstructured
	// native is the apps/v1 StatefulSet that live is to replace, nil for none.
	native *unstructured.Unstructured
}

// gather reads the workload from each member that was named, and refuses what cannot be adopted.
func (v *verb) gather(ctx context.Context, hub client.Client, key wire.Key) ([]member, error) {
	var members []member
	for _, from := range v.from {
		name, kubecontext, given := strings.Cut(from, "=")
		if !given {
			kubecontext = name
		}
		if slices.ContainsFunc(members, func(m member) bool { return m.name == name }) {
			return nil, console.Usagef("--from names %s twice", name)
		}
		cluster := &topology.MemberCluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: name}, cluster); apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s is no member of this hub: join it first, or correct --from", name)
		} else if err != nil {
			return nil, fmt.Errorf("get MemberCluster %s: %w", name, err)
		}
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, topology.MemberReady) {
			return nil, fmt.Errorf("member %s is not Ready: its agent has to answer before anything is adopted there", name)
		}
		c, err := v.hub.Member(kubecontext)
		if err != nil {
			return nil, fmt.Errorf("%w; write MEMBER=CONTEXT where it has another name than the member", err)
		}
		live, native, err := find(ctx, c, key, name)
		if err != nil {
			return nil, err
		}
		if err := checkOwner(ctx, hub, key, name, apply.Owner(live)); err != nil {
			return nil, err
		}
		members = append(members, member{name, c, live, native})
	}
	return members, nil
}

// checkOwner refuses an object that has an order already. An object with the label of this
// hub and without an order is an orphan.
func checkOwner(ctx context.Context, hub client.Client, key wire.Key, member, owner string) error {
	if owner == "" {
		return nil
	}
	hubID, err := store.HubID(ctx, hub)
	if err != nil {
		return err
	}
	if owner != hubID {
		return fmt.Errorf("%s in %s belongs to another hub (label %s=%s): withdraw it there first, with the annotation %s=%s",
			key.Sentence(), member, topology.LabelHub, owner, topology.AnnotationWithdraw, topology.WithdrawOrphan)
	}
	err = hub.Get(ctx, key.Work(member), &work.Work{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get the order of %s for %s: %w", key.Sentence(), member, err)
	}
	return fmt.Errorf("%s in %s has an order of this hub already: there is nothing to adopt; "+
		"leave that member out of --from",
		key.Sentence(), member)
}

// hubObject returns the object as it is to stand on the hub, and whether it does already.
func hubObject(
	ctx context.Context, hub client.Client, key wire.Key, members []member,
) (*unstructured.Unstructured, bool, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kinds.Workloads()[key.GroupKind()].GVK)
	err := hub.Get(ctx, key.Workload(), object)
	if err == nil {
		return object, true, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, false, fmt.Errorf("get %s from the hub: %w", key.Sentence(), err)
	}
	object, err = merged(members)
	return object, false, err
}

// write puts the object on the hub, with the annotation that lets the hub adopt.
func write(ctx context.Context, hub client.Client, object *unstructured.Unstructured, exists bool) error {
	base := object.DeepCopy()
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[topology.AnnotationAdopt] = "true"
	object.SetAnnotations(annotations)
	const manager = client.FieldOwner("flotilla-adopt")
	if exists {
		if err := hub.Patch(ctx, object, client.MergeFrom(base), manager); err != nil {
			return fmt.Errorf("annotate %s %s/%s on the hub: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
		return nil
	}
	if err := hub.Create(ctx, object, manager); err != nil {
		return fmt.Errorf("create %s %s/%s on the hub: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
