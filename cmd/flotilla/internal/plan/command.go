// Package plan is the verb `flotilla plan`: what the hub would do, by the hub's own code, without doing it; and
// `flotilla snapshot`, which records what decisions depend on.
package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	fleethub "github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// verb is what the flags say.
type verb struct {
	hub     console.Hub
	output  console.Output
	files   []string
	members []string
	runs    bool
}

// NewCommand returns the verb plan.
func NewCommand() *cobra.Command {
	v := &verb{}
	command := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Say what the hub would do about workloads, without doing it",
		Long: `Say what the hub would do about workloads, without doing it.

The decision is made by the hub's own code, here. Members, policies and present placements are those of the hub, or, with
--members, those of files alone: then no cluster is asked. What files of -f hold goes over that, as if it were applied.
Policies are held to the rules of their definition; those of workloads only a server checks: kubectl apply --dry-run=server.

The exit code is 0 if every replica has a place, and 1 if not.`,
		Example: `  flotilla plan -f web.yaml
  flotilla plan -f web.yaml --members fleet.yaml -o json
  flotilla snapshot > fleet.yaml; flotilla plan --members fleet.yaml -f policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd) },
	}
	v.hub.AddFlags(command)
	v.output.AddFlag(command)
	command.Flags().StringArrayVarP(&v.files, "filename", "f", nil, "file with workloads, policies, members; a folder; or - for standard input")
	command.Flags().StringArrayVar(&v.members, "members", nil, "file with the fleet (MemberClusters, policies, a snapshot), in place of the hub")
	command.Flags().BoolVar(&v.runs, "hub-runs-workloads", true, "what flotilla-hub was started with: false on a hub without controllers for workloads of apps/v1 and batch/v1")
	return command
}

func (v *verb) run(cmd *cobra.Command) error {
	if err := v.output.Check(); err != nil {
		return err
	}
	if len(v.files)+len(v.members) == 0 {
		return console.Usagef("nothing to plan: name a file with -f, or a fleet with --members")
	}
	results, notes, err := v.plan(cmd.Context(), cmd.InOrStdin())
	for _, note := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
	}
	if err != nil {
		return err
	}
	if err := v.output.Print(cmd.OutOrStdout(), &Result{Workloads: results}, func(out io.Writer) error { return write(out, results) }); err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(slices.Clone(results), func(p explain.Planned) bool { return p.Complete })); n > 0 {
		return fmt.Errorf("%d of %d workloads would not be placed as they ask", n, len(results))
	}
	return nil
}

// Result is what plan prints.
type Result struct {
	Workloads []explain.Planned `json:"workloads"`
}

// plan returns the plans, and notes for the user.
func (v *verb) plan(ctx context.Context, in io.Reader) ([]explain.Planned, []string, error) {
	scheme, err := fleethub.Scheme()
	if err != nil {
		return nil, nil, err
	}
	namespace := "default"
	// Without a kubeconfig files can be planned all the same.
	if found, err := v.hub.Namespace(); err == nil {
		namespace = found
	}
	reader, err := snapshot.NewReader(scheme, namespace)
	if err != nil {
		return nil, nil, err
	}
	reader.Natives = placement.Natives(!v.runs)
	objects, notes, err := readFiles(reader, v.files, in)
	base, more, baseErr := v.base(ctx, snapshot.New(scheme), reader, objects, in)
	notes = append(notes, more...)
	if err := errors.Join(err, baseErr); err != nil {
		return nil, notes, err
	}
	asked := map[wire.Key]bool{}
	for _, object := range objects {
		if err := base.Apply(object, time.Now()); err != nil {
			return nil, notes, err
		}
		if key, ok := keyOf(object); ok {
			asked[key] = true
		}
	}
	completed, err := base.Complete()
	notes = append(notes, completed...)
	if err != nil {
		return nil, notes, err
	}
	told, err := policyNotes(ctx, base, placement.AllRules(reader.Natives), objects)
	notes = append(notes, told...)
	if err != nil {
		return nil, notes, err
	}
	results, err := Foresee(ctx, base)
	if len(asked) > 0 {
		// Beside what the files name, whatever changes by them.
		results = slices.DeleteFunc(results, func(p explain.Planned) bool {
			return !asked[wire.Key{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}] && len(p.Changes) == 0
		})
	}
	if err == nil && len(results) == 0 {
		err = errors.New("no workload is in the files, nor in the fleet; name a file with a CloneSet or a UnitedDeployment with -f")
	}
	return results, notes, err
}

// base returns the fleet: that of files, or that of the hub.
func (v *verb) base(ctx context.Context, empty *snapshot.Snapshot, reader *snapshot.Reader, objects []client.Object, in io.Reader) (*snapshot.Snapshot, []string, error) {
	if len(v.members) > 0 {
		fleet, notes, err := readFiles(reader, v.members, in)
		if err != nil {
			return nil, notes, err
		}
		return empty, notes, empty.Put(fleet...)
	}
	namespaces := map[string]bool{}
	only := ""
	for _, object := range objects {
		if object.GetNamespace() != "" {
			namespaces[object.GetNamespace()] = true
			only = object.GetNamespace()
		}
	}
	if len(namespaces) != 1 {
		only = ""
	}
	recorded, _, err := v.hub.Record(ctx, only)
	return recorded, nil, err
}

// policyNotes says of each policy of the files what would keep it from holding, and what it names that is not there.
func policyNotes(ctx context.Context, base *snapshot.Snapshot, rules map[string]placement.Rule, objects []client.Object) ([]string, error) {
	var notes []string
	for _, object := range objects {
		key := placement.PolicyKey{Kind: object.GetObjectKind().GroupVersionKind().Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		switch object.(type) {
		case *topology.FederationPolicy, *topology.ClusterFederationPolicy:
		default:
			continue
		}
		ready, err := placement.PolicyCondition(ctx, base, rules, key)
		switch {
		case err != nil:
			return notes, err
		case ready.Status == metav1.ConditionFalse:
			notes = append(notes, fmt.Sprintf("%s %s would not be Ready (%s): %s", key.Kind, key.Name, ready.Reason, ready.Message))
		case ready.Message != placement.PolicyHolds:
			notes = append(notes, fmt.Sprintf("%s %s: %s", key.Kind, key.Name, ready.Message))
		}
	}
	return notes, nil
}

// keyOf returns the name of a workload; false for other objects.
func keyOf(object client.Object) (wire.Key, bool) {
	gvk := object.GetObjectKind().GroupVersionKind()
	rule, ok := placement.Rules()[gvk.Kind]
	return wire.Key{Kind: gvk.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}, ok && rule.GVK == gvk
}

// Foresee returns the plan of every workload of a snapshot, in the order of kind, namespace and name. The snapshot is
// not changed any more.
func Foresee(ctx context.Context, s *snapshot.Snapshot) ([]explain.Planned, error) {
	if err := wire.Index(ctx, s); err != nil {
		return nil, err
	}
	// A fleet of files may have no hub yet, and then no reports.
	hubID, err := wire.HubID(ctx, s)
	if client.IgnoreNotFound(errors.Unwrap(err)) != nil {
		return nil, err
	}
	foresight := placement.NewForesight(s, hubID)
	var results []explain.Planned
	for _, object := range s.Objects() {
		key, ok := keyOf(object)
		if !ok {
			continue
		}
		outcome, err := foresight.Of(ctx, key)
		if err != nil {
			return nil, err
		}
		results = append(results, explain.Plan(key, &outcome))
	}
	return results, nil
}

// write writes the plans as text.
func write(out io.Writer, results []explain.Planned) error {
	for i := range results {
		p := &results[i]
		var text strings.Builder
		if i > 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "%s %s/%s: %s\n", p.Kind, p.Namespace, p.Name, headline(p))
		if len(p.Cells) > 0 {
			text.WriteString("CLUSTER\tZONE\tSUBSET\tNOW\tPLAN\tWHY\n")
		}
		for _, c := range p.Cells {
			why := c.Reason.Code + ": " + c.Why
			if c.Passed {
				why = "before: " + c.Why // its code would be taken for what holds now
			}
			fmt.Fprintf(&text, "%s\t%s\t%s\t%d\t%d\t%s\n", c.Cluster, dash(c.Zone), dash(c.Subset), c.Present, c.Replicas, why)
		}
		for _, u := range p.Unplaced {
			fmt.Fprintf(&text, "not placed\t-\t%s\t-\t%d\t%s: %s\n", dash(u.Subset), u.Replicas, u.Reason.Code, u.Why)
		}
		if p.Moved > 0 {
			fmt.Fprintf(&text, "%d replicas move: %s\n", p.Moved, strings.Join(p.Changes, ", "))
		}
		if err := console.Table(out, text.String()); err != nil {
			return err
		}
	}
	return nil
}

// headline says the result in one sentence.
func headline(p *explain.Planned) string {
	counts := fmt.Sprintf("%d replicas, %d placed", p.Replicas, p.Placed)
	switch {
	case p.Reason == "" && !p.Removed:
		return "the hub does not place it, because its namespace is not federated"
	case p.Removed && p.Message == "":
		return "what is placed is removed"
	case p.Removed:
		return "what is placed is removed: " + p.Message
	case !p.Decided:
		return "not placed anew (" + p.Reason + "): " + p.Message
	}
	return counts + ": " + p.Message
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
