package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topologyv1alpha1 "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	deliverySectionName = "delivery"
	// direct is the namespace of members in which the bare client creates the same objects.
	direct = "bench-direct"
	// window is how long after the create the hub's writes for a workload are counted.
	window = 8 * time.Second
)

// delivery measures the way from an object on the hub to objects on members without kubelets.
type delivery struct {
	*bench
	fleet   *fleet.Fleet
	hub     *connection
	members []*connection
	meters  meters
	seen    *sightings
	// replicas of each workload: at least one for each member.
	replicas int
}

func deliverySection(ctx context.Context, b *bench) error {
	for _, members := range b.clusters {
		if err := deliveryTo(ctx, b, members); err != nil {
			return fmt.Errorf("with %d members: %w", members, err)
		}
	}
	return nil
}

func deliveryTo(ctx context.Context, b *bench, members int) error {
	cfg := fleet.Config{Bin: b.bin, Audit: true, Progress: b.step}
	for i := range members {
		cfg.Members = append(cfg.Members, fleet.ClusterSpec{Name: fmt.Sprintf("m%d", i), NoKubelets: true})
	}
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	b.step("the fleet is in " + f.Dir)
	d := &delivery{bench: b, fleet: f, meters: meters{}, seen: newSightings(), replicas: max(b.replicas, members)}
	err = d.run(ctx)
	if err != nil {
		b.keepLogs(f)
	}
	if destroyErr := f.Destroy(); err == nil {
		err = destroyErr
	}
	return err
}

func (d *delivery) run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	// The watches end with the measurements; an error of a watch ends the measurements.
	group, ctx := errgroup.WithContext(ctx)
	watchCtx, stop := context.WithCancel(ctx)
	for _, c := range append([]*connection{d.hub}, d.members...) {
		group.Go(func() error {
			err := c.follow(watchCtx, &appsv1beta1.CloneSetList{}, nil, d.look(c))
			if watchCtx.Err() != nil {
				return nil
			}
			return err
		})
	}
	group.Go(func() error {
		defer stop()
		return d.measure(ctx)
	})
	return group.Wait()
}

// prepare brings hub and agents up: members that are Ready, a federated namespace and a policy.
func (d *delivery) prepare(ctx context.Context) error {
	var err error
	for _, c := range d.fleet.Clusters() {
		if err := c.InstallCRDs(ctx, crds.FS); err != nil {
			return err
		}
	}
	if d.hub, err = connect(d.fleet.Hub()); err != nil {
		return err
	}
	if err := d.hub.createNamespace(ctx, namespace, map[string]string{topologyv1alpha1.LabelFederated: "true"}); err != nil {
		return err
	}
	pid, err := d.startHub(ctx, d.fleet)
	if err != nil {
		return err
	}
	d.meters[fleet.HubProgram] = []int{pid}
	for _, cluster := range d.fleet.Members() {
		if err := d.join(ctx, cluster); err != nil {
			return err
		}
	}
	for _, cluster := range d.fleet.Clusters() {
		pid, err := componentPid(cluster, "kube-apiserver")
		if err != nil {
			return err
		}
		who := "the members' API servers"
		if cluster == d.fleet.Hub() {
			who = "the hub's API server"
		}
		d.meters[who] = append(d.meters[who], pid)
	}
	policy := &topologyv1alpha1.FederationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"},
		Spec: topologyv1alpha1.FederationPolicySpec{
			Workloads: []topologyv1alpha1.WorkloadSelector{{Kind: "CloneSet"}},
		},
	}
	if err := d.hub.Create(ctx, policy); err != nil {
		return fmt.Errorf("create the policy: %w", err)
	}
	return d.fleet.WaitMembersReady(ctx, d.deadline)
}

// join makes a member known to the hub and starts its agent.
func (d *delivery) join(ctx context.Context, cluster *fleet.Cluster) error {
	member, err := connect(cluster)
	if err != nil {
		return err
	}
	d.members = append(d.members, member)
	for _, name := range []string{namespace, direct} {
		if err := member.createNamespace(ctx, name, nil); err != nil {
			return err
		}
	}
	if err := d.fleet.Accept(ctx, cluster.Name); err != nil {
		return err
	}
	pid, err := d.startAgent(ctx, d.fleet, cluster)
	if err != nil {
		return err
	}
	d.meters["the agents"] = append(d.meters["the agents"], pid)
	return nil
}

func (d *delivery) measure(ctx context.Context) error {
	direct, err := d.floor(ctx)
	if err != nil {
		return err
	}
	if err := d.oneByOne(ctx); err != nil {
		return err
	}
	if err := d.paced(ctx); err != nil {
		return err
	}
	if err := d.isolated(ctx); err != nil {
		return err
	}
	return d.manyAtOnce(ctx, direct)
}

// oneByOne puts single workloads through a hub that has nothing else to do.
func (d *delivery) oneByOne(ctx context.Context) error {
	title := fmt.Sprintf("1 workload × %d members", len(d.members))
	d.say("%s", title)
	names := []string{"single"}
	began := time.Now()
	if _, err := d.create(ctx, title, names); err != nil {
		return err
	}
	if err := d.writesUntil(ctx, title, began, began.Add(window), len(names)); err != nil {
		return err
	}
	began = time.Now()
	if err := d.update(ctx, title, names, image(2), nil); err != nil {
		return err
	}
	if err := d.writesUntil(ctx, title+", update", began, began.Add(window), len(names)); err != nil {
		return err
	}
	if err := d.remove(ctx, title, names); err != nil {
		return err
	}
	// Latency alone, of workloads that come one after the other.
	const rounds = 10
	var sums [2][]float64
	for i := range rounds {
		times, err := d.create(ctx, title, []string{fmt.Sprintf("single-%d", i)})
		if err != nil {
			return err
		}
		sums[0], sums[1] = append(sums[0], times.object...), append(sums[1], times.status...)
	}
	d.percentiles(title+", create → last member object", sums[0], nil)
	d.percentiles(title+", create → status on the hub has all replicas", sums[1], nil)
	var all []string
	for i := range rounds {
		all = append(all, fmt.Sprintf("single-%d", i))
	}
	return d.remove(ctx, title, all)
}

// manyAtOnce puts all workloads through at the same time.
func (d *delivery) manyAtOnce(ctx context.Context, direct floors) error {
	title := fmt.Sprintf("%d workloads × %d members", d.fan, len(d.members))
	d.say("%s", title)
	names := make([]string, d.fan)
	for i := range names {
		names[i] = fmt.Sprintf("web-%d", i)
	}
	before, err := d.meters.read()
	if err != nil {
		return err
	}
	storeProfile := d.profile(ctx, d.hub, title+", create")
	began := time.Now()
	times, err := d.create(ctx, title, names)
	if err != nil {
		return err
	}
	if err := storeProfile(); err != nil {
		return err
	}
	d.report.addWithFloor(deliverySectionName, title+", create: throughput", "workloads/s",
		float64(d.fan)/times.took, "bare client in the members", float64(d.fan)/direct.create.took)
	d.percentiles(title+", create → last member object", times.object, direct.create.object)
	d.percentiles(title+", create → status on the hub has all replicas", times.status, nil)
	if err := d.writesUntil(ctx, title, began, time.Now().Add(window), len(names)); err != nil {
		return err
	}
	if before, err = d.used(title+", create", before); err != nil {
		return err
	}
	began = time.Now()
	if err := d.update(ctx, title, names, image(2), direct.update.object); err != nil {
		return err
	}
	if err := d.writesUntil(ctx, title+", update", began, time.Now().Add(window), len(names)); err != nil {
		return err
	}
	if before, err = d.used(title+", update", before); err != nil {
		return err
	}
	if err := d.remove(ctx, title, names); err != nil {
		return err
	}
	_, err = d.used(title+", delete", before)
	return err
}

// used reports what the programs used since before, and returns the reading of now.
func (d *delivery) used(phase string, before reading) (reading, error) {
	after, err := d.meters.read()
	if err != nil {
		return nil, err
	}
	after.since(before, func(what, unit string, value float64) {
		d.report.addCell("delivery, resources", phase, what, unit, value)
	})
	return after, nil
}

// writesUntil waits until end, which belongs to what is measured, and reports the writes to the hub since began.
func (d *delivery) writesUntil(ctx context.Context, phase string, began, end time.Time, workloads int) error {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	filters := []audit.Filter{audit.Writes(), audit.Between(began, end)}
	if !d.verbose {
		filters = append(filters, audit.ByPrograms(fleet.HubProgram, fleet.AgentProgram))
	}
	events, err := audit.ReadFile(d.hub.cluster.AuditLog(), filters...)
	if err != nil {
		return err
	}
	all := audit.Count(events)
	ours := func(k audit.Key) bool { return k.Program == fleet.HubProgram || k.Program == fleet.AgentProgram }
	d.report.add(deliverySectionName, phase+": hub writes per workload", "", float64(all.Total(ours))/float64(workloads))
	d.report.add(deliverySectionName, phase+": of these conflicts (409)", "",
		float64(all.Total(func(k audit.Key) bool { return ours(k) && k.Code == 409 }))/float64(workloads))
	d.report.table(phase+", writes to the hub", all.String())
	return nil
}

// percentiles reports P50 and P99 of times in ms, or the one time that there is.
func (d *delivery) percentiles(title string, times, floor []float64) {
	if len(times) == 1 {
		d.report.add(deliverySectionName, title, "ms", times[0])
		return
	}
	for _, p := range []float64{50, 99} {
		name := fmt.Sprintf("%s, P%.0f", title, p)
		if floor == nil {
			d.report.add(deliverySectionName, name, "ms", percentile(times, p))
		} else {
			d.report.addWithFloor(deliverySectionName, name, "ms", percentile(times, p), "bare client in the members",
				percentile(floor, p))
		}
	}
}
