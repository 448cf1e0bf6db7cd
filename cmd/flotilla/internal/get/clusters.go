// Package get is the verb `flotilla get`: what the hub knows, put together from several objects.
package get

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/pods"
	"github.com/flotilla-dev/flotilla/hub/orphans"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "get",
		Short: "Show clusters, workloads, pods and events in one table each",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(newClusters(), newWorkloads(), pods.NewGetPods(), pods.NewGetEvents())
	return command
}

func newClusters() *cobra.Command {
	hub, output, watch := &console.Hub{}, console.Output(""), false
	command := &cobra.Command{
		Use:     "clusters [NAME...]",
		Aliases: []string{"cluster", "members"},
		Short:   "Show the members: health, room, and what runs in them",
		Long: `Show the members: health, room, and what runs in them.

CONTACT is how long ago the agent renewed its Lease, PODS is available/all of what the hub placed there, as the agent told it last, and CPU and
MEMORY are what pods request of what the nodes give. Below the table stands what is wrong, a line each.`,
		Example:           "  flotilla get clusters\n  flotilla get clusters -w\n  flotilla get clusters east west -o json",
		ValidArgsFunction: hub.CompleteMembers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if watch {
				return hub.Follow(cmd.Context(), cmd.OutOrStdout(), output,
					console.Watched{Objects: []client.Object{&topology.MemberCluster{}, &work.Work{}, &coordinationv1.Lease{}}},
					func(ctx context.Context, c client.Reader) (console.View, error) {
						return clustersView(ctx, c, args, output)
					})
			}
			c, err := hub.Client()
			if err != nil {
				return err
			}
			clusters, err := gather(cmd.Context(), c, args, clock.RealClock{}.Now())
			if err != nil {
				return err
			}
			if len(clusters) == 0 {
				if err := hub.NotTheHub(cmd.Context()); err != nil {
					return err
				}
			}
			return output.Print(cmd.OutOrStdout(), clusters, func(out io.Writer) error {
				if len(clusters) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "There are no members. Next: flotilla join NAME")
					return nil
				}
				return write(out, clusters)
			})
		},
	}
	hub.AddFlags(command)
	output.AddFlag(command)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "show it again whenever it changes, until interrupted")
	return command
}

// clustersView returns the members as they are printed.
func clustersView(
	ctx context.Context, c client.Reader, names []string, output console.Output,
) (view console.View, err error) {
	clusters, err := gather(ctx, c, names, clock.RealClock{}.Now())
	if err != nil {
		return view, err
	}
	if view.Text, err = clustersText(clusters, output); err != nil {
		return view, err
	}
	for i := range clusters {
		if clusters[i].ContactSeconds != nil {
			clusters[i].ContactSeconds = new(int64)
		}
	}
	view.Facts, err = clustersText(clusters, output)
	return view, err
}

func clustersText(clusters []Cluster, output console.Output) (string, error) {
	if len(clusters) == 0 && output == "text" {
		return "There are no members. Next: flotilla join NAME\n", nil
	}
	var text strings.Builder
	err := output.Print(&text, clusters, func(out io.Writer) error { return write(out, clusters) })
	return text.String(), err
}

// Cluster is a member, as the hub knows it.
type Cluster struct {
	Name string `json:"name"`
	// State is Ready, NotReady, NotAccepted, Refused, or Unknown where the hub has said nothing yet.
	State  string   `json:"state"`
	Region string   `json:"region,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	// Nodes are all nodes, ReadyNodes those that are ready and schedulable.
	Nodes      int32 `json:"nodes"`
	ReadyNodes int32 `json:"readyNodes"`
	// Requested and Allocatable are the sums over the zones.
	Requested   corev1.ResourceList `json:"requested,omitempty"`
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Objects is how many objects the hub has orders for, Pods and Available are of those that have pods.
	Objects   int   `json:"objects"`
	Pods      int32 `json:"pods"`
	Available int32 `json:"available"`
	// ContactSeconds is how long ago the agent renewed its Lease; absent for never.
	ContactSeconds *int64   `json:"contactSeconds,omitempty"`
	Kubernetes     string   `json:"kubernetes,omitempty"`
	Agent          string   `json:"agent,omitempty"`
	Taints         []string `json:"taints,omitempty"`
	// Troubles are sentences about what is wrong.
	Troubles []string `json:"troubles,omitempty"`
	// Orphaned is how many objects there carry the hub's label and have no order; Orphans are the first of them.
	Orphaned int32    `json:"orphaned,omitempty"`
	Orphans  []Orphan `json:"orphans,omitempty"`
}

// Orphan is an object of a member that carries the hub's label and has no order.
type Orphan struct {
	Object string `json:"object"`
	// Remedies are the commands that end that, with what each does.
	Remedies []string `json:"remedies,omitempty"`
}

// gather reads the members of the names, or all.
func gather(ctx context.Context, c client.Reader, only []string, now time.Time) ([]Cluster, error) {
	list := &topology.MemberClusterList{}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	var all []Cluster
	for i := range list.Items {
		m := &list.Items[i]
		if len(only) > 0 && !slices.Contains(only, m.Name) {
			continue
		}
		works, lease := &work.WorkList{}, &coordinationv1.Lease{}
		if err := c.List(ctx, works, client.InNamespace(wire.MemberNamespace(m.Name))); err != nil {
			return nil, fmt.Errorf("list Works of member %s: %w", m.Name, err)
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: wire.MemberNamespace(m.Name), Name: m.Name},
			lease); apierrors.IsNotFound(
			err,
		) {
			lease = nil
		} else if err != nil {
			return nil, fmt.Errorf("read the Lease of member %s: %w", m.Name, err)
		}
		all = append(all, clusterOf(m, works.Items, lease, now))
	}
	for _, name := range only {
		if !slices.ContainsFunc(all, func(c Cluster) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%s is no member of this hub: correct the name", name)
		}
	}
	slices.SortFunc(all, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// clusterOf puts a member together. It is pure.
func clusterOf(m *topology.MemberCluster, works []work.Work, lease *coordinationv1.Lease, now time.Time) Cluster {
	c := Cluster{
		Name: m.Name, State: StateOf(m), Region: m.Spec.Region, Requested: corev1.ResourceList{},
		Allocatable: corev1.ResourceList{},
		Kubernetes:  m.Status.KubernetesVersion, Agent: m.Status.AgentVersion,
	}
	if c.Region == "" {
		c.Region = m.Status.Region
	}
	for i := range m.Status.Zones {
		z := &m.Status.Zones[i]
		if z.Name != "" {
			c.Zones = append(c.Zones, z.Name)
		}
		c.Nodes, c.ReadyNodes = c.Nodes+z.Nodes, c.ReadyNodes+z.Ready
		add(c.Requested, z.Requested)
		add(c.Allocatable, z.Allocatable)
	}
	for i := range works {
		w := &works[i]
		if _, ours := wire.OwnerOf(w); !ours {
			continue
		}
		c.Objects++
		if w.Status.Report != nil {
			for _, use := range w.Status.Report.InUse {
				c.Pods, c.Available = c.Pods+use.Total, c.Available+use.Available
			}
		}
	}
	if lease != nil && lease.Spec.RenewTime != nil {
		c.ContactSeconds = new(int64(max(0, now.Sub(lease.Spec.RenewTime.Time)) / time.Second))
	}
	for i := range m.Spec.Taints {
		c.Taints = append(c.Taints, m.Spec.Taints[i].ToString())
	}
	for _, good := range []struct {
		condition string
		bad       metav1.ConditionStatus
	}{
		{topology.MemberAccepted, metav1.ConditionFalse},
		{topology.MemberReady, metav1.ConditionFalse},
		{topology.MemberIdentity, metav1.ConditionFalse},
		{topology.MemberPlausible, metav1.ConditionFalse},
		{topology.MemberSilent, metav1.ConditionTrue},
		{topology.MemberFailoverHeld, metav1.ConditionTrue},
		{topology.MemberOrphans, metav1.ConditionTrue},
		{topology.MemberClockInSync, metav1.ConditionFalse},
	} {
		if found := meta.FindStatusCondition(m.Status.Conditions, good.condition); found != nil && found.Status == good.bad {
			c.Troubles = append(c.Troubles, fmt.Sprintf("%s=%s, %s: %s", found.Type, found.Status, found.Reason, found.Message))
		}
	}
	for _, name := range m.Status.Orphans {
		orphan := Orphan{Object: name, Remedies: orphans.Commands(m.Name, name, m.Annotations[topology.AnnotationHubID])}
		c.Orphans = append(c.Orphans, orphan)
	}
	c.Orphaned = m.Status.Orphaned
	return c
}

func add(to, of corev1.ResourceList) {
	for name, quantity := range of {
		sum := to[name]
		sum.Add(quantity)
		to[name] = sum
	}
}

// StateOf returns Ready, NotReady, NotAccepted, Refused, Leaving, or Unknown where the hub has set no condition yet.
func StateOf(m *topology.MemberCluster) string {
	accepted := meta.FindStatusCondition(m.Status.Conditions, topology.MemberAccepted)
	ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	switch {
	case m.DeletionTimestamp != nil:
		return "Leaving"
	case !m.Spec.Accepted:
		return "NotAccepted"
	case accepted == nil || ready == nil:
		return "Unknown"
	case accepted.Status != metav1.ConditionTrue:
		return "Refused"
	case ready.Status != metav1.ConditionTrue:
		return "NotReady"
	}
	return "Ready"
}

// write writes the members as a table, and what is wrong below it.
func write(out io.Writer, clusters []Cluster) error {
	var table, troubles strings.Builder
	table.WriteString("NAME\tSTATE\tCONTACT\tREGION\tZONES\tNODES\tCPU\tMEMORY\tOBJECTS\tPODS\tKUBERNETES\tAGENT\n")
	for i := range clusters {
		c := &clusters[i]
		contact := "never"
		if c.ContactSeconds != nil {
			contact = duration.HumanDuration(time.Duration(*c.ContactSeconds) * time.Second)
		}
		fmt.Fprintf(
			&table,
			"%s\t%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\t%d\t%d/%d\t%s\t%s\n",
			c.Name,
			c.State,
			contact,
			dash(c.Region),
			dash(strings.Join(c.Zones, ",")),
			c.ReadyNodes,
			c.Nodes,
			share(c, corev1.ResourceCPU),
			share(c, corev1.ResourceMemory),
			c.Objects,
			c.Available,
			c.Pods,
			dash(c.Kubernetes),
			dash(c.Agent),
		)
		for _, taint := range c.Taints {
			fmt.Fprintf(&troubles, "%s has the taint %s\n", c.Name, taint)
		}
		for _, trouble := range c.Troubles {
			fmt.Fprintf(&troubles, "%s: %s\n", c.Name, trouble)
		}
		writeOrphans(&troubles, c)
	}
	if err := console.Table(out, table.String()); err != nil {
		return err
	}
	if troubles.Len() == 0 {
		return nil
	}
	if _, err := io.WriteString(out, "\n"+troubles.String()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// writeOrphans writes the commands for each orphan.
func writeOrphans(out *strings.Builder, c *Cluster) {
	for _, orphan := range c.Orphans {
		fmt.Fprintf(out, "%s: %s has no order\n", c.Name, orphan.Object)
		for _, remedy := range orphan.Remedies {
			fmt.Fprintf(out, "  %s\n", remedy)
		}
	}
	if more := int(c.Orphaned) - len(c.Orphans); more > 0 && len(c.Orphans) > 0 {
		fmt.Fprintf(out, "%s: %d more without an order\n", c.Name, more)
	}
}

// share is what is requested of what there is, as "12%"; a dash where nothing is known.
func share(c *Cluster, name corev1.ResourceName) string {
	asked, has := c.Requested[name], c.Allocatable[name]
	if has.Cmp(resource.Quantity{}) <= 0 {
		return "-"
	}
	const whole = 100
	return fmt.Sprintf("%.0f%%", asked.AsApproximateFloat64()/has.AsApproximateFloat64()*whole)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
