package tree

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// verb is what the flags say.
type verb struct {
	hub      console.Hub
	output   console.Output
	selector string
	watch    bool
	// Of the arguments: the namespace, empty for all; the workload, nil for all; the parsed selector.
	namespace string
	key       *wire.Key
	matching  labels.Selector
	// calm reads the workloads before the reports that their statuses sum, so that one at rest is shown at rest.
	calm bool
	// stored reads ControllerRevisions; nil reads none.
	stored client.Reader
	// known are the data of those that the last tree needed.
	known map[Stored][]byte
}

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	v := &verb{}
	command := &cobra.Command{
		Use:   "tree [KIND/NAME]",
		Short: "Show what of a workload runs where: zone, cluster, pods by state",
		Long: `Show what of a workload runs where: zone, cluster, pods by state.

Everything is read from the hub: the placement, and what the members reported last. Pods are counted, not listed.
Of a BroadcastJob, READY counts nodes whose pod has ended, and UPDATED those that have a pod. Of an AdvancedCronJob,
members that start jobs are counted.`,
		Example: `  flotilla tree
  flotilla tree ud/web -w
  flotilla tree -A -l app=web -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: v.hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.read(args); err != nil {
				return err
			}
			c, err := v.hub.Client()
			if err != nil {
				return err
			}
			v.stored = c
			if v.watch {
				return v.hub.Follow(cmd.Context(), cmd.OutOrStdout(), v.output,
					console.Watched{Objects: shown(), Namespace: v.namespace, Unscoped: true}, v.view)
			}
			tree, err := v.look(cmd.Context(), c)
			if err != nil {
				return console.NotAHub(err)
			}
			if len(tree.members) == 0 {
				if err := v.hub.NotTheHub(cmd.Context()); err != nil {
					return err
				}
				console.NoteNoMembers(cmd.ErrOrStderr())
			}
			return v.print(cmd.OutOrStdout(), tree)
		},
	}
	v.hub.AddFlags(command)
	v.hub.AddAllNamespaces(command)
	v.output.AddFlag(command)
	command.Flags().StringVarP(&v.selector, "selector", "l", "", "show the workloads with these labels")
	command.Flags().BoolVarP(&v.watch, "watch", "w", false, "show it again whenever it changes, until interrupted")
	return command
}

// shown are the kinds of objects that a tree is made from.
func shown() []client.Object {
	objects := []client.Object{&topology.WorkloadPlacement{}, &work.Work{}, &topology.MemberCluster{}}
	for _, rule := range kinds.Workloads() {
		objects = append(objects, rule.New())
	}
	return objects
}

// view returns the tree as it is printed.
func (v *verb) view(ctx context.Context, c client.Reader) (console.View, error) {
	tree, err := v.look(ctx, c)
	if err != nil {
		return console.View{}, err
	}
	var text strings.Builder
	err = v.print(&text, tree)
	return console.View{Text: text.String(), Facts: text.String()}, err
}

// read checks the flags and the arguments.
func (v *verb) read(args []string) (err error) {
	if err := v.output.Check(); err != nil {
		return err
	}
	if v.matching, err = labels.Parse(v.selector); err != nil {
		return console.Usagef("selector %q: %w", v.selector, err)
	}
	if v.namespace, err = v.hub.Namespace(); err != nil || len(args) == 0 {
		return err
	}
	if v.namespace == "" {
		return console.Usagef("a workload has one namespace; give -n instead of -A")
	}
	key, err := console.Workload(args[0], v.namespace)
	v.key = &key
	return err
}

func (v *verb) print(out io.Writer, tree *Tree) error {
	return v.output.Print(out, tree, func(out io.Writer) error {
		if len(tree.Workloads) == 0 {
			where, with, more := "in namespace "+v.namespace, "", "; -n looks into another one, -A into all"
			if v.namespace == "" {
				where, more = "on the hub", ""
			}
			if v.selector != "" {
				with = fmt.Sprintf(" with the labels %q", v.selector)
			}
			_, err := fmt.Fprintf(out, "there is no workload %s%s%s\n", where, with, more)
			return err
		}
		return Write(out, tree)
	})
}

// lists are the kinds that a tree is made from, beside the workloads.
type lists struct {
	placements topology.WorkloadPlacementList
	// unscoped are the placements of objects that have no namespace, where those of another namespace are asked for.
	unscoped topology.WorkloadPlacementList
	works    work.WorkList
	members  topology.MemberClusterList
}

// look reads the hub and makes the tree. All lists are asked for at once: the API server writes one while another is
// read here.
func (v *verb) look(ctx context.Context, from client.Reader) (*Tree, error) {
	var l lists
	var hubID string
	workloads, err := v.workloadsFirst(ctx, from)
	if err != nil {
		return nil, err
	}
	group, asked := errgroup.WithContext(ctx)
	type question struct {
		what string
		list client.ObjectList
		opts []client.ListOption
	}
	questions := []question{
		{"Works", &l.works, []client.ListOption{client.HasLabels{topology.LabelPlacement}}},
		{"WorkloadPlacements", &l.placements, []client.ListOption{client.InNamespace(v.namespace)}},
		{"MemberClusters", &l.members, nil},
	}
	if v.namespace != "" && v.namespace != topology.SystemNamespace {
		questions = append(questions, question{"WorkloadPlacements", &l.unscoped,
			[]client.ListOption{client.InNamespace(topology.SystemNamespace)}})
	}
	for _, read := range questions {
		group.Go(func() error {
			if err := from.List(asked, read.list, read.opts...); err != nil {
				return fmt.Errorf("read the %s of the hub: %w", read.what, err)
			}
			return nil
		})
	}
	group.Go(func() (err error) {
		hubID, err = store.HubID(asked, from)
		return err
	})
	group.Go(func() (err error) {
		if !v.calm {
			workloads, err = v.workloads(asked, from)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	facts := &Facts{
		Workloads:  workloads,
		Placements: append(l.placements.Items, l.unscoped.Items...),
		Works:      l.works.Items,
		Members:    l.members.Items,
		HubID:      hubID,
	}
	tree := Build(facts)
	if facts.Revisions = v.revisions(ctx, tree.Revisions()); len(facts.Revisions) > 0 {
		tree = Build(facts)
	}
	return tree, nil
}

// mostRevisions is how many ControllerRevisions are read for one tree: each is a request. The tree says where images
// are not read.
const mostRevisions = 20

// revisions returns the data of ControllerRevisions, and reads those that it has not read yet. One that does not
// exist, or that the user must not read, is nil: the tree then says only that pods have the previous revision.
func (v *verb) revisions(ctx context.Context, names []Stored) map[Stored][]byte {
	if v.stored == nil {
		return nil
	}
	found, reads := map[Stored][]byte{}, 0
	for _, name := range names {
		data, known := v.known[name]
		if !known && reads < mostRevisions {
			reads++
			data, known = name.Read(ctx, v.stored)
		}
		if known {
			found[name] = data
		}
	}
	v.known = found // what is no longer asked for is forgotten
	return found
}

// Read reads the data of a ControllerRevision, nil if there is none or the user must not read it. known is false where
// another attempt may have another result.
func (name Stored) Read(ctx context.Context, from client.Reader) (data []byte, known bool) {
	revision := &appsv1.ControllerRevision{}
	var err error
	if name.LeftFor != "" {
		list := &appsv1.ControllerRevisionList{}
		err = from.List(ctx, list, client.InNamespace(name.Namespace),
			client.MatchingLabels{topology.LabelWorkload: string(name.Workload)})
		revision = leftFor(list.Items, name.LeftFor)
	} else {
		err = from.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: name.Name}, revision)
	}
	return revision.Data.Raw, err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}

// leftFor returns the newest of the revisions that was left for the one with a hash, an empty one where there is none.
func leftFor(revisions []appsv1.ControllerRevision, hash string) *appsv1.ControllerRevision {
	newest := &appsv1.ControllerRevision{}
	for i := range revisions {
		r := &revisions[i]
		if r.Annotations[topology.AnnotationLeftFor] == hash && r.Revision > newest.Revision {
			newest = r
		}
	}
	return newest
}

// Read reads the hub and returns the tree of all workloads, and the members.
func Read(ctx context.Context, hub client.Reader) (*Tree, []topology.MemberCluster, error) {
	v := &verb{matching: labels.Everything(), stored: hub, calm: true}
	tree, err := v.look(ctx, hub)
	if err != nil {
		return nil, nil, err
	}
	return tree, tree.members, nil
}

// ReadOne reads the hub and returns the tree of one workload. It fails where there is no such workload.
func ReadOne(ctx context.Context, hub client.Reader, key wire.Key) (*Tree, error) {
	v := &verb{matching: labels.Everything(), stored: hub, namespace: key.Namespace, key: &key}
	return v.look(ctx, hub)
}

// workloadsFirst returns the workloads where they are read before all else, else none.
func (v *verb) workloadsFirst(ctx context.Context, from client.Reader) ([]client.Object, error) {
	if !v.calm {
		return nil, nil
	}
	return v.workloads(ctx, from)
}

// workloads returns what is asked for: one workload, or all that match the selector.
func (v *verb) workloads(ctx context.Context, from client.Reader) ([]client.Object, error) {
	lists := map[schema.GroupKind]client.ObjectList{}
	group, asked := errgroup.WithContext(ctx)
	for kind, rule := range kinds.Workloads() {
		if v.key != nil && v.key.GroupKind() != kind {
			continue
		}
		var list client.ObjectList = rule.NewList()
		lists[kind] = list
		group.Go(func() error {
			if err := from.List(asked, list, client.InNamespace(v.namespace),
				client.MatchingLabelsSelector{Selector: v.matching}); err != nil {
				return fmt.Errorf("read %s of the hub: %w", kind.Kind, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []client.Object
	for kind, rule := range kinds.Workloads() {
		if lists[kind] == nil {
			continue
		}
		err := meta.EachListItem(lists[kind], func(item runtime.Object) error {
			object := item.(client.Object)
			object.GetObjectKind().SetGroupVersionKind(rule.GVK)
			if v.key == nil || v.key.Name == object.GetName() {
				found = append(found, object)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %s of the hub: %w", kind.Kind, err)
		}
	}
	if v.key != nil && len(found) == 0 {
		if v.selector != "" {
			return nil, fmt.Errorf("there is no %s with the labels %q", v.key.Sentence(), v.selector)
		}
		return nil, console.NotFound(ctx, from, *v.key)
	}
	slices.SortFunc(found, func(a, b client.Object) int {
		text := func(o client.Object) string {
			return o.GetNamespace() + "/" + o.GetObjectKind().GroupVersionKind().Kind + "/" + o.GetName()
		}
		return strings.Compare(text(a), text(b))
	})
	return found, nil
}
