package set

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/plan"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// manager is the field manager of what the verbs write.
const manager = client.FieldOwner("flotilla-set")

// attempts is how often a change is made again when another writer changed the workload at the same time.
const attempts = 10

// NewCommand returns the verb with its own verbs.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "set",
		Short: "Change images, resources or environment variables of a workload, over all clusters together",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(newImage(), newResources(), newEnv())
	return command
}

func newImage() *cobra.Command {
	command := &cobra.Command{
		Use:   "image KIND/NAME CONTAINER=IMAGE...",
		Short: "Change images of containers",
		Example: `  flotilla set image clone/api main=nginx:1.27 -n shop
  flotilla set image ud/web '*=nginx:1.27' --change-cause "nginx 1.27" --dry-run`,
	}
	return verb(command, cobra.MinimumNArgs(2), images)
}

func newResources() *cobra.Command {
	var containers []string
	var requests, limits string
	command := &cobra.Command{
		Use:   "resources KIND/NAME",
		Short: "Change what containers request, and their limits",
		Long: `Change what containers request, and their limits. Resources that are not named stay as they are; a quantity of
0 removes one.`,
		Example: "  flotilla set resources clone/api -c main --requests cpu=200m,memory=256Mi --limits memory=256Mi",
	}
	command.Flags().StringSliceVarP(&containers, "container", "c", nil, "containers to change; without it all")
	command.Flags().StringVar(&requests, "requests", "", "what the containers request, as cpu=200m,memory=256Mi")
	command.Flags().StringVar(&limits, "limits", "", "the limits of the containers, as cpu=1,memory=256Mi")
	return verb(command, cobra.ExactArgs(1),
		func([]string) (change, error) { return resources(containers, requests, limits) })
}

func newEnv() *cobra.Command {
	var containers []string
	command := &cobra.Command{
		Use:   "env KIND/NAME NAME=VALUE... NAME-...",
		Short: "Change environment variables of containers; NAME- removes one",
		Example: `  flotilla set env clone/api LOG_LEVEL=debug -n shop
  flotilla set env clone/api -c main LOG_LEVEL- -n shop`,
	}
	command.Flags().StringSliceVarP(&containers, "container", "c", nil, "containers to change; without it all")
	return verb(command, cobra.MinimumNArgs(2),
		func(args []string) (change, error) { return environment(containers, args) })
}

// change changes containers of an object. It fails where the object lacks what it names.
type change func(*target) error

// verb completes a command that changes one workload. read reads the change from the arguments after the workload.
func verb(
	command *cobra.Command, count cobra.PositionalArgs, read func([]string) (change, error),
) *cobra.Command {
	var hub console.Hub
	r := request{}
	command.Args = count
	command.ValidArgsFunction = hub.CompleteWorkloads
	command.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, err := hub.Namespace()
		if err != nil {
			return err
		}
		if r.key, err = console.Workload(args[0], namespace); err != nil {
			return err
		}
		if r.change, err = read(args[1:]); err != nil {
			return err
		}
		if err := changeable(r.key); err != nil {
			return err
		}
		c, err := hub.Client()
		if err != nil {
			return err
		}
		r.talk = cmd.ErrOrStderr()
		return r.run(cmd.Context(), c, cmd.OutOrStdout())
	}
	hub.AddFlags(command)
	command.Flags().StringVar(&r.cause, "change-cause", "",
		"why, for flotilla rollout history: the annotation "+topology.AnnotationChangeCause)
	command.Flags().BoolVar(&r.dry, "dry-run", false,
		"say what would change in which member, as flotilla plan does, and change nothing")
	return command
}

// changeable refuses a kind whose containers cannot change.
func changeable(key wire.Key) error {
	switch key.GroupKind() {
	case apps.CloneSetKind.GroupKind(), apps.DaemonSetKind.GroupKind(), apps.SidecarSetKind.GroupKind(),
		apps.StatefulSetKind.GroupKind(), apps.UnitedDeploymentKind.GroupKind():
		return nil
	case apps.BroadcastJobKind.GroupKind(), apps.AdvancedCronJobKind.GroupKind():
		return fmt.Errorf("the template of %s cannot change: apply another %s, with another name", key.Sentence(), key.Kind)
	}
	return fmt.Errorf("%s has no containers to set: change its manifest, and apply it", key.Sentence())
}

// request is a change of one workload.
type request struct {
	key    wire.Key
	change change
	cause  string
	dry    bool
	// talk is where notes go.
	talk io.Writer
}

func (r *request) run(ctx context.Context, c client.Client, out io.Writer) error {
	var err error
	for range attempts {
		if err = r.once(ctx, c, out); !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("%w; other writers change it all the time: try again", err)
}

// once reads the workload, changes it and writes it. Its error is a conflict if another writer was first.
func (r *request) once(ctx context.Context, c client.Client, out io.Writer) error {
	kind := kinds.Workloads()[r.key.GroupKind()]
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.GVK)
	switch err := c.Get(ctx, r.key.Workload(), object); {
	case apierrors.IsNotFound(err):
		return console.NotFound(ctx, c, r.key)
	case err != nil:
		return fmt.Errorf("get %s: %w", r.key.Sentence(), console.NotAHub(err))
	case object.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s cannot be changed: %s", r.key.Sentence(), conditions.Waiting(object))
	}
	if err := console.PlacedByAHub(object, r.key); err != nil {
		return err
	}
	base := object.DeepCopy()
	changed, err := r.apply(kind, object)
	if err != nil {
		return fmt.Errorf("%s: %w", r.key.Sentence(), err)
	}
	data, err := client.MergeFrom(base).Data(object)
	if err != nil {
		return fmt.Errorf("compare %s: %w", r.key.Sentence(), err)
	}
	if string(data) == "{}" {
		_, err = fmt.Fprintf(out, "%s has that already\n", r.key.Sentence())
		return err
	}
	if r.dry {
		return preview(ctx, c, out, r.key, changed)
	}
	if owner := appliedBy(base); owner != "" {
		fmt.Fprintf(r.talk, "note: %s applies the containers of %s, and sets them back when it applies again: change its "+
			"source too\n", owner, r.key.Sentence())
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, object, patch, manager); err != nil {
		return r.refused(err)
	}
	_, err = fmt.Fprintf(out, "%s is changed; follow it with: flotilla rollout status %s/%s -w%s\n", r.key.Sentence(),
		strings.ToLower(r.key.Kind)+"."+r.key.Group, r.key.Name, namespaceFlag(r.key))
	return err
}

// appliedBy returns the managers that apply the template or the containers of an object by server-side apply, "" for
// none.
func appliedBy(object client.Object) string {
	var owners []string
	for _, entry := range object.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if fields.Spec["f:template"] != nil || fields.Spec["f:containers"] != nil || fields.Spec["f:initContainers"] != nil {
			owners = append(owners, entry.Manager)
		}
	}
	slices.Sort(owners)
	return strings.Join(slices.Compact(owners), ", ")
}

func namespaceFlag(key wire.Key) string {
	if key.Namespace == "" {
		return ""
	}
	return " -n " + key.Namespace
}

// apply changes the object. It works on the tree: a patch has whole lists, and the definition keeps fields of
// containers that this program does not know. The result is the changed object as the hub reads it.
func (r *request) apply(kind kinds.Kind, object *unstructured.Unstructured) (client.Object, error) {
	before, err := typed(kind, object)
	if err != nil {
		return nil, err
	}
	if err := podtemplate.Undecodable(before); err != nil {
		return nil, fmt.Errorf("its template cannot be read: %w", err)
	}
	t := target{}
	if t.containers, t.initial, err = podtemplate.Containers(object.Object); err != nil {
		return nil, fmt.Errorf("its template cannot be read: %w", err)
	}
	unchanged := object.DeepCopy()
	if err := r.change(&t); err != nil {
		return nil, err
	}
	r.setCause(object, unchanged)
	return typed(kind, object)
}

// setCause writes why the object changes. Without a reason the one of an earlier change goes, since it would be taken
// for that of this one; where nothing changes it stays.
func (r *request) setCause(object, unchanged *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	switch {
	case r.cause == "" && equality.Semantic.DeepEqual(object.Object, unchanged.Object):
		return
	case r.cause == "":
		delete(annotations, topology.AnnotationChangeCause)
	case annotations == nil:
		annotations = map[string]string{topology.AnnotationChangeCause: r.cause}
	default:
		annotations[topology.AnnotationChangeCause] = r.cause
	}
	object.SetAnnotations(annotations)
}

// typed returns an object as the hub reads it.
func typed(kind kinds.Kind, object *unstructured.Unstructured) (client.Object, error) {
	data, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	out := kind.New()
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	out.GetObjectKind().SetGroupVersionKind(kind.GVK)
	return out, nil
}

// refused says what the API server refused, and what to do where another tool owns the fields.
func (r *request) refused(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("change %s: %w; ask for the right to patch it, or for its protection to be lifted",
			r.key.Sentence(), err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("the API server refuses the change of %s: %w", r.key.Sentence(), err)
	}
	return fmt.Errorf("change %s: %w", r.key.Sentence(), err)
}

// preview writes what the change would do.
func preview(ctx context.Context, c client.Client, out io.Writer, key wire.Key, object client.Object) error {
	fleet, err := snapshot.Record(ctx, c, c.Scheme(), key.Namespace)
	if err != nil {
		return console.NotAHub(err)
	}
	workloads, _, err := plan.Preview(ctx, fleet, object)
	if err != nil {
		return err
	}
	return plan.Write(out, workloads)
}
