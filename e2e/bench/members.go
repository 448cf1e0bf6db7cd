package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topologyv1alpha1 "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	workv1alpha1 "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	membersSectionName = "members, simulated"
	// perGroup is how many members share a policy: each workload is divided over one group.
	perGroup = 3
	// labelGroup of a member and of a workload.
	labelGroup = "bench/group"
	// steadyFor is how long a hub is watched for writes, and its CPU measured, once all is done: six renewals of each
	// Lease.
	steadyFor = time.Minute
	// renewEvery is how often an agent renews its Lease.
	renewEvery = 10 * time.Second
)

// simulation is a real hub whose members are played in this process: each Work is answered as an agent answers it.
type simulation struct {
	*bench
	fleet   *fleet.Fleet
	hub     *connection
	members int
	section string
	// answered counts reports; seen has the workloads whose status on the hub has all replicas.
	answered atomic.Int64
	seen     *sightings
	hubID    string
}

// membersSection measures what a hub costs by the number of its members: a hub of its own for each size.
func membersSection(ctx context.Context, b *bench) error {
	for _, members := range b.members {
		if err := simulate(ctx, b, members); err != nil {
			return fmt.Errorf("with %d members: %w", members, err)
		}
	}
	return nil
}

func simulate(ctx context.Context, b *bench, members int) error {
	f, err := fleet.Start(ctx, fleet.Config{Bin: b.bin, Audit: true, Progress: b.step})
	if err != nil {
		return err
	}
	b.step("the fleet is in " + f.Dir)
	s := &simulation{bench: b, fleet: f, members: members, section: membersSectionName, seen: newSightings()}
	if err = s.run(ctx); err != nil {
		b.keepLogs(f)
	}
	return errors.Join(err, f.Destroy())
}

func (s *simulation) run(ctx context.Context) error {
	s.say("%d simulated members, %d workloads on %d members each", s.members, s.fan, perGroup)
	var err error
	if err := s.fleet.Hub().InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	if s.hub, err = connect(s.fleet.Hub()); err != nil {
		return err
	}
	if _, err := s.startHub(ctx, s.fleet); err != nil {
		return err
	}
	if err := s.hub.createNamespace(ctx, namespace, map[string]string{topologyv1alpha1.LabelFederated: "true"}); err != nil {
		return err
	}
	system, err := s.hub.core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the hub's id: %w", err)
	}
	s.hubID = string(system.UID)
	if err := s.join(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	played, stop := context.WithCancel(ctx)
	until := func(run func(context.Context) error) func() error {
		return func() error {
			if err := run(played); played.Err() == nil {
				return err
			}
			return nil
		}
	}
	group.Go(until(s.renew))
	group.Go(until(s.answer))
	group.Go(until(func(ctx context.Context) error {
		return s.hub.follow(ctx, &appsv1beta1.CloneSetList{}, nil, s.look)
	}))
	group.Go(func() error {
		defer stop()
		return s.measure(ctx)
	})
	return group.Wait()
}

func (s *simulation) name(i int) string { return fmt.Sprintf("sim-%04d", i) }

func (s *simulation) groups() int { return max(s.members/perGroup, 1) }

// policies makes a policy for each group of members.
func (s *simulation) policies(ctx context.Context) error {
	for g := range s.groups() {
		text := fmt.Sprint(g)
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{labelGroup: text}}
		policy := &topologyv1alpha1.FederationPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group-" + text},
			Spec: topologyv1alpha1.FederationPolicySpec{
				Workloads: []topologyv1alpha1.WorkloadSelector{{Kind: "CloneSet", Selector: selector}},
				Clusters:  topologyv1alpha1.ClusterSelector{Selector: selector},
			},
		}
		if err := s.hub.Create(ctx, policy); err != nil {
			return fmt.Errorf("create policy %s: %w", policy.Name, err)
		}
	}
	return nil
}

// groupOf returns the label of the group of a member.
func (s *simulation) groupOf(i int) map[string]string {
	return map[string]string{labelGroup: fmt.Sprint(min(i/perGroup, s.groups()-1))}
}

// join makes the members known, accepted and with one zone, and a policy for each group.
func (s *simulation) join(ctx context.Context) error {
	if err := s.policies(ctx); err != nil {
		return err
	}
	return parallel(ctx, s.members, func(ctx context.Context, i int) error {
		member := &topologyv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: s.name(i), Labels: s.groupOf(i)},
			Spec:       topologyv1alpha1.MemberClusterSpec{Accepted: true},
		}
		if err := s.hub.Create(ctx, member); err != nil {
			return fmt.Errorf("create MemberCluster %s: %w", member.Name, err)
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{
			"clusterID": "id-of-" + member.Name, "zoneNames": "a", "nodes": "3/3",
			"zones": []topologyv1alpha1.Zone{{Name: "a", Nodes: 3, Ready: 3}},
		}})
		if err != nil {
			return err
		}
		if err := s.hub.Status().Patch(ctx, member, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("report the inventory of %s: %w", member.Name, err)
		}
		return nil
	})
}

// renew renews the Lease of each member every ten seconds, spread over them.
func (s *simulation) renew(ctx context.Context) error {
	ticker := time.NewTicker(renewEvery / time.Duration(s.members))
	defer ticker.Stop()
	var group errgroup.Group
	group.SetLimit(workers)
	for i := 0; ; i = (i + 1) % s.members {
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-ticker.C:
		}
		group.Go(func() error {
			name, now := s.name(i), metav1.NewMicroTime(time.Now())
			id := "id-of-" + name
			lease := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.NamespacePrefix + name, Name: name},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &id, RenewTime: &now},
			}
			patch, err := json.Marshal(map[string]any{"spec": lease.Spec})
			if err != nil {
				return err
			}
			// The namespace is made by the hub once it has seen the member; a Lease that cannot be renewed now is the next time.
			if err := s.hub.Patch(ctx, lease.DeepCopy(), client.RawPatch(types.MergePatchType,
				patch)); client.IgnoreNotFound(err) == nil && err != nil {
				_ = s.hub.Create(ctx, lease)
			}
			return nil
		})
	}
}

// answer watches all Works and answers each new order at once, as an agent whose pods are all available.
func (s *simulation) answer(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(workers)
	var mu sync.Mutex
	carriedOut := map[types.NamespacedName]string{}
	err := s.hub.follow(ctx, &workv1alpha1.WorkList{}, nil, func(object client.Object, gone bool) bool {
		w := object.(*workv1alpha1.Work)
		order := w.Annotations[topologyv1alpha1.AnnotationSequence] + fmt.Sprint("/", w.Generation)
		mu.Lock()
		known := carriedOut[client.ObjectKeyFromObject(w)] == order
		carriedOut[client.ObjectKeyFromObject(w)] = order
		mu.Unlock()
		if !known && !gone && w.DeletionTimestamp == nil {
			w = w.DeepCopy()
			group.Go(func() error { return s.reply(ctx, s.hub, w) })
		}
		return false
	})
	return errors.Join(err, group.Wait())
}

// reply writes what an agent writes once all pods of an order are available.
func (s *simulation) reply(ctx context.Context, hub client.Client, w *workv1alpha1.Work) error {
	set := &appsv1beta1.CloneSet{}
	if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, set); err != nil {
		return fmt.Errorf("read the manifest of Work %s: %w", w.Name, err)
	}
	n := *set.Spec.Replicas
	var sequence int64
	if _, err := fmt.Sscan(w.Annotations[topologyv1alpha1.AnnotationSequence], &sequence); err != nil {
		return fmt.Errorf("read the sequence of Work %s: %w", w.Name, err)
	}
	now := time.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []metav1.Condition{{
			Type: workv1alpha1.ConditionApplied, Status: metav1.ConditionTrue, ObservedGeneration: w.Generation,
			Reason: workv1alpha1.ReasonApplied, LastTransitionTime: metav1.NewTime(now),
		}},
		"manifestStatuses": []any{map[string]any{
			"identifier": workv1alpha1.ResourceIdentifier{
				Group:     appsv1beta1.GroupVersion.Group,
				Version:   appsv1beta1.GroupVersion.Version,
				Kind:      "CloneSet",
				Namespace: set.Namespace,
				Name:      set.Name,
			},
			"health": workv1alpha1.ResourceHealthy,
		}},
		"report": workv1alpha1.Report{
			HubID: s.hubID, Sequence: sequence, Epoch: 1, Counter: s.answered.Add(1), ObservedAt: metav1.NewMicroTime(now),
			InUse: []workv1alpha1.SubsetUse{
				{Desired: n, Total: n, Ready: n, Available: n, Updated: n, UpdatedReady: n, UpdatedAvailable: n},
			},
		},
	}})
	if err != nil {
		return err
	}
	if err := hub.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report on Work %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}

// look notes the workloads whose sum is complete.
func (s *simulation) look(object client.Object, gone bool) bool {
	if n := cloneSetKind().counts(object); !gone && n.settled() {
		s.seen.mark(sight{s.hub.cluster.Name, object.GetNamespace(), object.GetName(), sawStatus})
	}
	return false
}

func (s *simulation) measure(ctx context.Context) error {
	began := time.Now()
	if err := s.ready(ctx); err != nil {
		return err
	}
	row := fmt.Sprintf("%d members", s.members)
	if !s.treeOnly {
		s.figure(row, "all Ready", "s", time.Since(began).Seconds())
	}

	if err := s.workloads(ctx, row); err != nil || s.treeOnly {
		return err
	}
	if err := s.steady(ctx, row, "steady", time.Now()); err != nil {
		return err
	}

	if err := s.fleet.Kill(ctx, fleet.HubProgram); err != nil {
		return err
	}
	restarted := time.Now()
	if _, err := s.startHub(ctx, s.fleet); err != nil {
		return err
	}
	s.figure(row, "hub restarted until it is ready", "s", time.Since(restarted).Seconds())
	return s.steady(ctx, row, "after the restart", restarted)
}

// workloads makes the workloads, and waits until the hub has summed what their members report.
func (s *simulation) workloads(ctx context.Context, row string) error {
	began := time.Now()
	var wanted []sight
	for i := range s.fan {
		wanted = append(wanted, sight{s.hub.cluster.Name, namespace, fmt.Sprintf("web-%d", i), sawStatus})
	}
	err := parallel(ctx, s.fan, func(ctx context.Context, i int) error {
		set := cloneSetKind().build(namespace, wanted[i].name, int32(s.replicas), image(1))
		set.SetLabels(map[string]string{labelGroup: fmt.Sprint(i % s.groups())})
		if err := s.hub.Create(ctx, set); err != nil {
			return fmt.Errorf("create CloneSet %s on the hub: %w", set.GetName(), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	bounded, cancel, explain := s.bound(ctx, "sums of all workloads")
	_, err = s.seen.await(bounded, wanted)
	cancel()
	if err := explain(err, func() string { return s.seen.missing(wanted) + s.programLogs(s.fleet) }); err != nil {
		return err
	}
	if s.treeOnly {
		return s.tree(ctx)
	}
	s.figure(row, fmt.Sprintf("%d workloads summed", s.fan), "s", time.Since(began).Seconds())
	return nil
}

// ready waits until the hub takes all members for Ready.
func (s *simulation) ready(ctx context.Context) error {
	bounded, cancel, explain := s.bound(ctx, "members Ready")
	defer cancel()
	count := map[string]bool{}
	err := s.hub.follow(bounded, &topologyv1alpha1.MemberClusterList{}, nil, func(object client.Object, _ bool) bool {
		for _, c := range object.(*topologyv1alpha1.MemberCluster).Status.Conditions {
			if c.Type == topologyv1alpha1.MemberReady && c.Status == metav1.ConditionTrue {
				count[object.GetName()] = true
			}
		}
		return len(count) == s.members
	})
	return explain(err, func() string { return fmt.Sprintf("%d of %d Ready", len(count), s.members) })
}

// steady watches a hub that has nothing to do for a minute, and reports its CPU and memory, and its writes since began.
func (s *simulation) steady(ctx context.Context, row, when string, began time.Time) error {
	m := meters{fleet.HubProgram: {s.fleet.Pid(fleet.HubProgram)}}
	before, err := m.read()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(steadyFor):
	}
	after, err := m.read()
	if err != nil {
		return err
	}
	s.figure(row, when+": CPU in a minute", "s", after[fleet.HubProgram].cpu-before[fleet.HubProgram].cpu)
	s.figure(row, when+": RSS", "MiB", after[fleet.HubProgram].rss)
	events, err := audit.ReadFile(
		s.hub.cluster.AuditLog(),
		audit.Writes(),
		audit.Between(began, time.Now()),
		audit.ByPrograms(fleet.HubProgram),
	)
	if err != nil {
		return err
	}
	s.figure(row, when+": writes of the hub", "", float64(len(events)))
	if len(events) > 0 {
		s.report.table(fmt.Sprintf("%s, %s, writes of the hub", row, when), audit.Count(events).String())
	}
	return nil
}

// figure adds a figure of this size.
func (s *simulation) figure(row, what, unit string, value float64) {
	s.bench.report.addCell(s.section, row, what, unit, value)
}
