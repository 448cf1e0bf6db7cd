package get

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Workload is a workload of any kind, over all members. Numbers that a kind does not have are absent.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Desired is how many pods the workload asks for; of a job on how many nodes it runs, of a ResourceDistribution how
	// many namespaces get the copy.
	Desired *int32 `json:"desired,omitempty"`
	// Placed is how many replicas have a member.
	Placed *int32 `json:"placed,omitempty"`
	// Ready are ready, or succeeded; Updated have the newest template.
	Ready   *int32 `json:"ready,omitempty"`
	Updated *int32 `json:"updated,omitempty"`
	// Clusters is how many members have a part of it.
	Clusters int `json:"clusters"`
	// State is Ready, Pending, Progressing, Deleting, or NotReady or Stalled with the reason.
	State      string `json:"state"`
	AgeSeconds int64  `json:"ageSeconds"`
}

// workloadsVerb is what the flags of get workloads say.
type workloadsVerb struct {
	hub      console.Hub
	output   console.Output
	selector string
	watch    bool
	// Of the arguments: the namespace, empty for all; the workloads, nil for all; the parsed selector.
	namespace string
	keys      []wire.Key
	matching  labels.Selector
	clock     clock.PassiveClock
	// unreadable are the kinds that a look did not find, or that the user may not read.
	unreadable map[schema.GroupKind]bool
}

func newWorkloads() *cobra.Command {
	v := &workloadsVerb{clock: clock.RealClock{}}
	command := &cobra.Command{
		Use:     "workloads [KIND/NAME...]",
		Aliases: []string{"wl", "workload"},
		Short:   "Show the workloads of all kinds in one table",
		Long: `Show the workloads of all kinds in one table.

DESIRED is what the workload asks for and PLACED how much of it has a member. READY and UPDATED are what members
reported last. CLUSTERS is how many members have a part of it. Kinds without a namespace are left out if you may not
read them.`,
		Example:           "  flotilla get wl\n  flotilla get wl -A -w\n  flotilla get wl clone/api ud/web -n shop -o json",
		ValidArgsFunction: v.hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.read(args); err != nil {
				return err
			}
			if v.watch {
				return v.follow(cmd)
			}
			c, err := v.hub.Client()
			if err != nil {
				return err
			}
			found, err := v.gather(cmd.Context(), c)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), v.nothing())
				if v.output == "text" {
					return nil
				}
			}
			return v.print(cmd.OutOrStdout(), found)
		},
	}
	v.hub.AddFlags(command)
	v.hub.AddAllNamespaces(command)
	v.output.AddFlag(command)
	command.Flags().StringVarP(&v.selector, "selector", "l", "", "show the workloads with these labels")
	command.Flags().BoolVarP(&v.watch, "watch", "w", false, "show it again whenever it changes, until interrupted")
	return command
}

// follow shows the table again whenever it changes. What cannot be read is not watched: a watch would wait for it.
func (v *workloadsVerb) follow(cmd *cobra.Command) error {
	c, err := v.hub.Client()
	if err != nil {
		return err
	}
	if _, err := v.gather(cmd.Context(), c); err != nil {
		return err
	}
	return v.hub.Follow(cmd.Context(), cmd.OutOrStdout(), v.output, v.watched(), v.view)
}

// watched is what the table is made from, after it was read.
func (v *workloadsVerb) watched() console.Watched {
	w := console.Watched{Objects: []client.Object{&topology.WorkloadPlacement{}}, Namespace: v.namespace}
	for _, kind := range v.kinds() {
		w.Objects = append(w.Objects, kind.New())
		w.Unscoped = w.Unscoped || kind.ClusterScoped
	}
	return w
}

// kinds returns the kinds that the table has: those of the arguments, or all that can be read.
func (v *workloadsVerb) kinds() []kinds.Kind {
	var all []kinds.Kind
	for group, kind := range kinds.Workloads() {
		asked := slices.ContainsFunc(v.keys, func(key wire.Key) bool { return key.GroupKind() == group })
		if (asked || len(v.keys) == 0) && !v.unreadable[group] {
			all = append(all, kind)
		}
	}
	return all
}

// read checks the flags and the arguments.
func (v *workloadsVerb) read(args []string) (err error) {
	if err := v.output.Check(); err != nil {
		return err
	}
	if v.matching, err = labels.Parse(v.selector); err != nil {
		return console.Usagef("selector %q: %w", v.selector, err)
	}
	if v.namespace, err = v.hub.Namespace(); err != nil {
		return err
	}
	if len(args) > 0 && v.namespace == "" {
		return console.Usagef("a workload has one namespace; give -n instead of -A")
	}
	for _, arg := range args {
		key, err := console.Workload(arg, v.namespace)
		if err != nil {
			return err
		}
		v.keys = append(v.keys, key)
	}
	return nil
}

// nothing says that there are no workloads, and where else to look.
func (v *workloadsVerb) nothing() string {
	if v.namespace == "" {
		return "There are no workloads on the hub"
	}
	return "There are no workloads in namespace " + v.namespace + "; -n looks into another one, -A into all"
}

func (v *workloadsVerb) print(out io.Writer, found []Workload) error {
	return v.output.Print(out, found, func(out io.Writer) error {
		return console.Table(out, workloadsText(found, v.namespace == ""))
	})
}

// view returns the table as it is printed.
func (v *workloadsVerb) view(ctx context.Context, c client.Reader) (view console.View, err error) {
	found, err := v.gather(ctx, c)
	if err != nil {
		return view, err
	}
	if view.Text, err = v.text(found); err != nil {
		return view, err
	}
	for i := range found {
		found[i].AgeSeconds = 0
	}
	view.Facts, err = v.text(found)
	return view, err
}

func (v *workloadsVerb) text(found []Workload) (string, error) {
	if len(found) == 0 && v.output == "text" {
		return v.nothing() + "\n", nil
	}
	var text strings.Builder
	err := v.print(&text, found)
	return text.String(), err
}

// gather reads the workloads. A kind that the cluster does not have is left out. So is a kind without a namespace that
// the user may not read, unless an argument names it.
func (v *workloadsVerb) gather(ctx context.Context, c client.Reader) ([]Workload, error) {
	all := []Workload{}
	placed, err := v.placements(ctx, c)
	if err != nil {
		return nil, err
	}
	var copies []error
	for _, kind := range v.kinds() {
		list := kind.NewList()
		options := []client.ListOption{client.MatchingLabelsSelector{Selector: v.matching}}
		if !kind.ClusterScoped {
			options = append(options, client.InNamespace(v.namespace))
		}
		err := c.List(ctx, list, options...)
		if meta.IsNoMatchError(err) || v.mayMiss(&kind, err) {
			v.leaveOut(&kind)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the kind %s: %w", kind.GVK.Kind, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object, _ := item.(client.Object) // it is one
			key := wire.KeyFor(kind.GVK.GroupKind(), object)
			if len(v.keys) > 0 && !slices.Contains(v.keys, key) {
				return nil
			}
			if err := console.PlacedByAHub(object, key); err != nil {
				copies = append(copies, err)
			}
			w, err := workloadOf(&kind, object, placed[key], v.clock.Now())
			all = append(all, w)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(copies) > 0 && len(copies) == len(all) {
		return nil, copies[0] // the cluster is a member
	}
	if err := v.missing(ctx, c, all); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Workload) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// placements returns the placements of the namespace, and of the kinds without one. If the user may not read the
// latter, these kinds are left out.
func (v *workloadsVerb) placements(
	ctx context.Context, c client.Reader,
) (map[wire.Key]*topology.WorkloadPlacement, error) {
	placed := map[wire.Key]*topology.WorkloadPlacement{}
	read := func(namespace string) error {
		list := &topology.WorkloadPlacementList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list WorkloadPlacements: %w", console.NotAHub(err))
		}
		for i := range list.Items {
			placed[wire.KeyOfPlacement(&list.Items[i])] = &list.Items[i]
		}
		return nil
	}
	if err := read(v.namespace); err != nil || v.namespace == "" || v.namespace == topology.SystemNamespace {
		return placed, err
	}
	unscoped := slices.DeleteFunc(v.kinds(), func(k kinds.Kind) bool { return !k.ClusterScoped })
	if len(unscoped) == 0 {
		return placed, nil
	}
	err := read(topology.SystemNamespace)
	if !v.mayMiss(&unscoped[0], err) {
		return placed, err
	}
	for i := range unscoped {
		v.leaveOut(&unscoped[i])
	}
	return placed, nil
}

// mayMiss reports whether the table can do without a kind that the user may not read.
func (v *workloadsVerb) mayMiss(kind *kinds.Kind, err error) bool {
	return apierrors.IsForbidden(err) && kind.ClusterScoped && len(v.keys) == 0
}

func (v *workloadsVerb) leaveOut(kind *kinds.Kind) {
	if v.unreadable == nil {
		v.unreadable = map[schema.GroupKind]bool{}
	}
	v.unreadable[kind.GVK.GroupKind()] = true
}

// missing returns an error for the first workload of the arguments that was not found.
func (v *workloadsVerb) missing(ctx context.Context, c client.Reader, found []Workload) error {
	for _, key := range v.keys {
		if slices.ContainsFunc(found, func(w Workload) bool { return w.Kind == key.Kind && w.Name == key.Name }) {
			continue
		}
		if err := c.Get(ctx, key.Workload(), kinds.Workloads()[key.GroupKind()].New()); err == nil {
			return fmt.Errorf("%s does not have the labels %q: leave out -l, or correct it", key.Sentence(), v.selector)
		}
		return console.NotFound(ctx, c, key)
	}
	return nil
}

// workloadOf puts a row together. It is pure.
func workloadOf(
	kind *kinds.Kind, object client.Object, p *topology.WorkloadPlacement, now time.Time,
) (Workload, error) {
	w := Workload{
		Kind: kind.GVK.Kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		AgeSeconds: int64(now.Sub(object.GetCreationTimestamp().Time) / time.Second),
	}
	state, err := console.StateOf(object)
	if err != nil {
		return w, err
	}
	w.State = state.Short(object)
	w.count(object)
	if p == nil {
		return w, nil
	}
	clusters, replicas := map[string]bool{}, int32(0)
	for i := range p.Spec.Cells {
		clusters[p.Spec.Cells[i].Cluster] = true
		replicas += p.Spec.Cells[i].Replicas - p.Spec.Cells[i].Replaced
	}
	if w.Clusters = len(clusters); kind.Mode == kinds.Divide {
		w.Placed = &replicas
	}
	return w, nil
}

// count reads the numbers that the kind has.
func (w *Workload) count(object client.Object) {
	one := new(int32(1))
	switch o := object.(type) {
	case *apps.CloneSet:
		w.Desired = cmp.Or(o.Spec.Replicas, one)
		w.Ready, w.Updated = &o.Status.ReadyReplicas, &o.Status.UpdatedReplicas
	case *apps.StatefulSet:
		w.Desired = cmp.Or(o.Spec.Replicas, one)
		w.Ready, w.Updated = &o.Status.ReadyReplicas, &o.Status.UpdatedReplicas
	case *apps.UnitedDeployment:
		w.Desired = cmp.Or(o.Spec.Replicas, one)
		w.Ready, w.Updated = &o.Status.ReadyReplicas, &o.Status.UpdatedReplicas
	case *apps.DaemonSet:
		w.Desired, w.Ready, w.Updated = &o.Status.DesiredNumberScheduled, &o.Status.NumberReady,
			&o.Status.UpdatedNumberScheduled
	case *apps.BroadcastJob:
		w.Desired, w.Ready = &o.Status.Desired, &o.Status.Succeeded
	case *apps.ImagePullJob:
		w.Desired, w.Ready = &o.Status.Desired, &o.Status.Succeeded
	case *apps.ResourceDistribution:
		w.Desired, w.Ready = &o.Status.Desired, &o.Status.Succeeded
	case *apps.SidecarSet:
		w.Desired, w.Ready, w.Updated = &o.Status.MatchedPods, &o.Status.ReadyPods, &o.Status.UpdatedPods
	case *policy.PodUnavailableBudget:
		w.Desired, w.Ready = &o.Status.DesiredAvailable, &o.Status.CurrentAvailable
	}
}

// workloadsText writes the table, with the namespaces where it has several.
func workloadsText(found []Workload, namespaces bool) string {
	var text strings.Builder
	if namespaces {
		text.WriteString("NAMESPACE\t")
	}
	text.WriteString("KIND\tNAME\tDESIRED\tPLACED\tREADY\tUPDATED\tCLUSTERS\tSTATE\tAGE\n")
	for i := range found {
		w := &found[i]
		if namespaces {
			text.WriteString(dash(w.Namespace) + "\t")
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", w.Kind, w.Name, number(w.Desired), number(w.Placed),
			number(w.Ready), number(w.Updated), w.Clusters, w.State,
			duration.HumanDuration(time.Duration(w.AgeSeconds)*time.Second))
	}
	return text.String()
}

func number(n *int32) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
