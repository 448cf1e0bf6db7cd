package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	// still is how long a fleet must look the same to be at rest: the hub decides by its cache, which comes after what is
	// read here.
	still = 500 * time.Millisecond
	// readyFor is how long a member must have been Ready; times of conditions are whole seconds.
	readyFor = 2 * time.Second
)

// ExpectFleetAtRest waits until the fleet is as it was when it started, whatever ran on it before: every program runs,
// every member is Ready, heard and answered, its nodes have their zones and take pods, the hub knows that, and no Work
// and no pod is left. Suites call it before each spec, so that none depends on those before it.
func (h *Harness) ExpectFleetAtRest(ctx context.Context) {
	var since time.Time
	eventually(ctx, "the fleet at rest", func(ctx context.Context) (string, error) {
		wrong, err := h.unrest(ctx)
		switch {
		case err != nil || wrong != "":
			since = time.Time{}
			return wrong, err
		case since.IsZero():
			since = time.Now()
		}
		if time.Since(since) < still {
			return "it came to rest a moment ago", nil
		}
		return "", nil
	})
}

// unrest says in what the fleet is not as it was when it started, "" if it is.
func (h *Harness) unrest(ctx context.Context) (string, error) {
	programs := []string{fleet.HubProgram}
	for _, name := range h.MemberNames() {
		programs = append(programs, fleet.AgentName(name))
	}
	for _, name := range programs {
		if !h.Fleet.Running(name) {
			return name + " does not run", nil
		}
	}
	for i := range h.specs {
		for _, look := range []func(context.Context, *fleet.ClusterSpec) (string, error){h.unrestOfMember, h.unrestOfNodes,
			h.unrestOfWorks} {
			if wrong, err := look(ctx, &h.specs[i]); err != nil || wrong != "" {
				return wrong, err
			}
		}
	}
	if pod := h.Pods.Any(); pod != nil {
		return "there is a pod: " + pod.String(), nil
	}
	return "", nil
}

// unrestOfMember looks at what the hub knows of a member.
func (h *Harness) unrestOfMember(ctx context.Context, spec *fleet.ClusterSpec) (string, error) {
	m := &topology.MemberCluster{}
	if err := h.Hub.Client.Get(ctx, client.ObjectKey{Name: spec.Name}, m); err != nil {
		return "", fmt.Errorf("get MemberCluster %s: %w", spec.Name, err)
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	zones, nodes := zonesOf(spec), fmt.Sprintf("%d/%[1]d", len(spec.Nodes))
	switch told := m.Status.Conditions; {
	case !meta.IsStatusConditionTrue(told, topology.MemberAccepted),
		!meta.IsStatusConditionTrue(told, topology.MemberReady):
		return fmt.Sprintf("MemberCluster %s is not Accepted and Ready: %+v", m.Name, told), nil
	case time.Since(ready.LastTransitionTime.Time) < readyFor:
		return fmt.Sprintf("MemberCluster %s became Ready at %s", m.Name, ready.LastTransitionTime), nil
	case meta.IsStatusConditionTrue(told, topology.MemberSilent),
		meta.IsStatusConditionTrue(told, topology.MemberFailoverHeld),
		meta.IsStatusConditionFalse(told, topology.MemberPlausible),
		meta.IsStatusConditionFalse(told, topology.MemberClockInSync):
		return fmt.Sprintf("MemberCluster %s is Silent, held, not plausible or has a wrong clock: %+v", m.Name, told), nil
	case m.Status.Session != m.Spec.AcknowledgedSession:
		return fmt.Sprintf("session %d of MemberCluster %s is not answered, %d is", m.Status.Session, m.Name,
			m.Spec.AcknowledgedSession), nil
	case len(m.Spec.Taints) > 0:
		return fmt.Sprintf("MemberCluster %s has the taints %v", m.Name, m.Spec.Taints), nil
	case m.Spec.Region != "" || m.Status.Region != spec.Nodes[0].Region:
		return fmt.Sprintf("MemberCluster %s is of the region %q, by its nodes %q", m.Name, m.Spec.Region,
			m.Status.Region), nil
	case m.Status.ZoneNames != zones || m.Status.Nodes != nodes:
		return fmt.Sprintf("the hub knows the zones %s of %s and %s of its nodes, not %s and %s", m.Status.ZoneNames, m.Name,
			m.Status.Nodes, zones, nodes), nil
	}
	return "", nil
}

func zonesOf(spec *fleet.ClusterSpec) string {
	names := map[string]bool{}
	for i := range spec.Nodes {
		names[spec.Nodes[i].Zone] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// unrestOfNodes looks at the nodes of a member.
func (h *Harness) unrestOfNodes(ctx context.Context, spec *fleet.ClusterSpec) (string, error) {
	list := &corev1.NodeList{}
	if err := h.Members[spec.Name].Client.List(ctx, list); err != nil {
		return "", fmt.Errorf("list nodes of %s: %w", spec.Name, err)
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	for i := range spec.Nodes {
		s := &spec.Nodes[i]
		switch n := nodes[s.Name]; {
		case n == nil:
			return fmt.Sprintf("node %s of %s is not there", s.Name, spec.Name), nil
		case n.Labels[corev1.LabelTopologyZone] != s.Zone, n.Spec.Unschedulable, len(n.Spec.Taints) != len(s.Taints):
			return fmt.Sprintf("node %s of %s lies in zone %q, unschedulable %t, taints %v", s.Name, spec.Name,
				n.Labels[corev1.LabelTopologyZone], n.Spec.Unschedulable, n.Spec.Taints), nil
		}
	}
	return "", nil
}

// unrestOfWorks looks at what the hub orders of a member.
func (h *Harness) unrestOfWorks(ctx context.Context, spec *fleet.ClusterSpec) (string, error) {
	works := &work.WorkList{}
	if err := h.Hub.Client.List(ctx, works, client.InNamespace(work.NamespacePrefix+spec.Name),
		client.Limit(1)); err != nil {
		return "", fmt.Errorf("list Works of %s: %w", spec.Name, err)
	}
	if len(works.Items) > 0 {
		return fmt.Sprintf("there is a Work: %s of %s", works.Items[0].Name, spec.Name), nil
	}
	return "", nil
}

// sessions returns the session of each member of the fleet that the hub knows.
func (h *Harness) sessions(ctx context.Context) (announced, answered map[string]int64, err error) {
	list := &topology.MemberClusterList{}
	if err := h.Hub.Client.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	announced, answered = map[string]int64{}, map[string]int64{}
	for i := range list.Items {
		m := &list.Items[i]
		announced[m.Name], answered[m.Name] = m.Status.Session, m.Spec.AcknowledgedSession
	}
	return announced, answered, nil
}

// waitSessions returns when the hub has answered a session of each member that comes after the given one. An agent
// begins one when it starts; what stands before that is of the one before.
func (h *Harness) waitSessions(ctx context.Context, after map[string]int64) error {
	open := ""
	err := wait.PollUntilContextTimeout(ctx, polling, Patience, true, func(ctx context.Context) (bool, error) {
		announced, answered, err := h.sessions(ctx)
		if err != nil {
			open = err.Error()
			return false, nil
		}
		for member, had := range after {
			if announced[member] <= had || answered[member] != announced[member] {
				open = fmt.Sprintf("%s has session %d, answered %d, and had %d", member, announced[member], answered[member], had)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the hub to answer sessions: %s: %w", open, err)
	}
	return nil
}
