package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	fleethub "github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// verb is what the flags say.
type verb struct {
	hub     console.Hub
	output  console.Output
	files   []string
	members []string
	deep    bool
	runs    bool
}

// NewCommand returns the verb plan.
func NewCommand() *cobra.Command {
	v := &verb{}
	command := &cobra.Command{
		Use:     "plan -f FILE",
		Aliases: []string{"diff"},
		Short:   "Say what the hub would do about workloads, without doing it",
		Long: `Say what the hub would do about workloads, without doing it: what goes where, which fields change in
which member, which pods restart or are replaced, and in which waves.

The decision is made by the hub's own code, here. Members, policies and present placements are those of the hub, or,
with --members, those of files alone: then no cluster is asked. What files of -f hold goes over that, as if it were
applied. Policies are held to the rules of their definition; those of workloads only a server checks:
kubectl apply --dry-run=server.

Of a folder the .yaml, .yml and .json files are read. Files of other tools in it (kustomize, Helm, patches, templates)
are left out, each with a note. A file that -f names itself has to hold objects.

All mistakes of all files are reported at once. If they are in workloads of a folder, the rest is planned nevertheless.

The exit code is 0 if every replica has a place, and 1 if not, or if a file has a mistake: also for a policy that would
not be Ready, or that names a member, zone or region that does not exist.`,
		Example: `  flotilla plan -f web.yaml
  flotilla plan -f web.yaml --members fleet.yaml -o json
  kubectl kustomize overlays/production | flotilla plan -f -
  helm template web ./chart | flotilla plan -f -
  flotilla snapshot > fleet.yaml; flotilla plan --members fleet.yaml -f policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd) },
	}
	v.hub.AddFlags(command)
	v.output.AddFlag(command)
	command.Flags().StringArrayVarP(&v.files, "filename", "f", nil,
		"file with workloads, policies, members; a folder; or - for standard input")
	command.Flags().BoolVarP(&v.deep, "recursive", "R", false, "read the folders in a folder, too")
	command.Flags().StringArrayVar(&v.members, "members", nil,
		"file with the fleet (MemberClusters, policies, a snapshot), in place of the hub")
	command.Flags().BoolVar(&v.runs, "hub-runs-workloads", true,
		"what flotilla-hub was started with: false on a hub without controllers for workloads of apps/v1 and batch/v1")
	return command
}

func (v *verb) run(cmd *cobra.Command) error {
	if err := v.output.Check(); err != nil {
		return err
	}
	if len(v.files)+len(v.members) == 0 {
		return console.Usagef("nothing to plan: name a file with -f, or a fleet with --members")
	}
	planned, err := v.plan(cmd.Context(), cmd.InOrStdin())
	for _, note := range planned.notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
	}
	if err != nil {
		return err
	}
	results := planned.workloads
	if len(results) > 0 || len(planned.mistakes) == 0 {
		print := func(out io.Writer) error { return Write(out, results) }
		if err := v.output.Print(cmd.OutOrStdout(), &Result{Workloads: results}, print); err != nil {
			return err
		}
	}
	failed := planned.mistakes
	if n := len(slices.DeleteFunc(slices.Clone(results), func(w Workload) bool { return w.Complete })); n > 0 {
		failed = append(failed, fmt.Errorf("%d of %d workloads would not be placed as they ask", n, len(results)))
	}
	return errors.Join(failed...)
}

// Result is what plan prints.
type Result struct {
	Workloads []Workload `json:"workloads"`
}

// outcome is the plan, and what there is to say about the files.
type outcome struct {
	workloads []Workload
	notes     []string
	// mistakes are those of files that do not keep the rest from being planned.
	mistakes []error
}

// plan returns the plan of what the files hold. Its notes count with an error, too.
func (v *verb) plan(ctx context.Context, in io.Reader) (out outcome, err error) {
	scheme, err := fleethub.Scheme()
	if err != nil {
		return out, err
	}
	reader, err := v.reader(scheme)
	if err != nil {
		return out, err
	}
	asked := &files{reader: reader, in: in, recursive: v.deep}
	asked.read(v.files)
	base, err := v.base(ctx, snapshot.New(scheme), asked)
	out.notes = asked.notes
	if asked.blocked || err != nil {
		return out, errors.Join(append(asked.mistakes, err)...)
	}
	out.mistakes = asked.mistakes
	var workloads []Workload
	if len(asked.objects) > 0 || len(v.files) == 0 { // without objects it would be about all workloads
		var completed []string
		workloads, completed, err = Preview(ctx, base, asked.objects...)
		out.notes = append(out.notes, completed...)
		if err != nil {
			return out, err
		}
	}
	mistakes, err := policyMistakes(ctx, base, kinds.All(reader.BuiltIns), asked.objects)
	out.mistakes = append(out.mistakes, mistakes...)
	if err != nil {
		return out, err
	}
	out.workloads = workloads
	switch {
	case len(out.workloads) > 0 || len(out.mistakes) > 0:
	case slices.ContainsFunc(base.Objects(), func(o client.Object) bool { _, ok := keyOf(o); return ok }):
		out.notes = append(out.notes, "no workload of the fleet changes")
	default:
		err = errors.New("no workload is in the files, nor in the fleet; " +
			"name a file with a workload with -f")
	}
	return out, err
}

// reader returns a reader of manifests. Files can be planned without a kubeconfig too.
func (v *verb) reader(scheme *runtime.Scheme) (*snapshot.Reader, error) {
	namespace, err := v.hub.Namespace()
	if err != nil {
		namespace = "default"
	}
	reader, err := snapshot.NewReader(scheme, namespace)
	if err != nil {
		return nil, err
	}
	reader.BuiltIns = kinds.BuiltIns(!v.runs)
	return reader, nil
}

// base returns the fleet: that of files, or that of the hub.
func (v *verb) base(ctx context.Context, empty *snapshot.Snapshot, asked *files) (*snapshot.Snapshot, error) {
	if len(v.members) > 0 {
		fleet := &files{reader: asked.reader, in: asked.in, recursive: asked.recursive}
		fleet.read(v.members)
		asked.notes = append(asked.notes, fleet.notes...)
		return empty, errors.Join(append(fleet.mistakes, empty.Put(fleet.objects...))...)
	}
	if asked.blocked {
		return empty, nil
	}
	namespaces := map[string]bool{}
	only := ""
	for _, object := range asked.objects {
		if object.GetNamespace() != "" {
			namespaces[object.GetNamespace()] = true
			only = object.GetNamespace()
		}
	}
	if len(namespaces) != 1 {
		only = ""
	}
	recorded, _, err := v.hub.Record(ctx, only)
	return recorded, err
}

// policyMistakes says of each policy of the files what would keep it from holding, and what it names that is not there.
func policyMistakes(
	ctx context.Context, base *snapshot.Snapshot, rules kinds.Table, objects []client.Object,
) ([]error, error) {
	var mistakes []error
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		key := policy.Key{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		switch object.(type) {
		case *topology.FederationPolicy, *topology.ClusterFederationPolicy:
		default:
			continue
		}
		ready, err := policy.Condition(ctx, base, rules, key)
		switch {
		case err != nil:
			return mistakes, err
		case ready.Status == metav1.ConditionFalse:
			mistakes = append(mistakes, fmt.Errorf("%s %s would not be Ready (%s): %s",
				key.Kind, key.Name, ready.Reason, ready.Message))
		case ready.Message != policy.Holds:
			mistakes = append(mistakes, fmt.Errorf("%s %s: %s", key.Kind, key.Name, ready.Message))
		}
	}
	return mistakes, nil
}

// keyOf returns the name of a workload; false for other objects.
func keyOf(object client.Object) (wire.Key, bool) {
	gvk := object.GetObjectKind().GroupVersionKind()
	rule, ok := kinds.Workloads()[gvk.GroupKind()]
	return wire.KeyFor(gvk.GroupKind(), object), ok && rule.GVK == gvk
}
