package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	globalSectionName = "global"
	// globalMembers is how many members a workload is over; globalPods how many pods it has, as many as fit any size of test machine.
	globalMembers, globalPods = 3, 300
	// globalLimit is the maxUnavailable of both, over all members together.
	globalLimit = "10%"
)

// globalSection rolls a CloneSet out over three members with one limit for all of them, and another one of as many pods, with the same limit, in
// one of these clusters, one after the other.
func globalSection(ctx context.Context, b *bench) error {
	cfg := fleet.Config{Bin: b.bin, Audit: true, Progress: b.step}
	for i := range globalMembers {
		name := fmt.Sprintf("m%d", i)
		cfg.Members = append(cfg.Members, fleet.ClusterSpec{Name: name, Nodes: fleet.Nodes(name, "eu", []string{"a"}, 2)})
	}
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	b.step("the fleet is in " + f.Dir)
	b.pods = globalPods
	d := &delivery{bench: b, fleet: f, meters: meters{}, replicas: globalPods}
	if err = d.prepare(ctx); err == nil {
		err = d.global(ctx)
	}
	if err != nil {
		b.keepLogs(f)
	}
	if destroyErr := f.Destroy(); err == nil {
		err = destroyErr
	}
	return err
}

// global measures both, by turns.
func (d *delivery) global(ctx context.Context) error {
	one := &limited{rollout: rollout{bench: d.bench, connection: d.members[0], fleet: d.fleet}, name: "one"}
	all := &limited{rollout: rollout{bench: d.bench, connection: d.hub, fleet: d.fleet}, name: "all"}
	for _, l := range []*limited{one, all} {
		if err := l.create(ctx); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		phase string
		spec  map[string]any
	}{
		{phaseInPlace, imagePatch(image(2))},
		{"", policyPatch(appsv1beta1.ReCreatePodUpdatePolicy)},
		{phaseRecreate, imagePatch(image(3))},
	} {
		alone, err := one.roll(ctx, p.phase, p.spec)
		if err != nil {
			return err
		}
		stop := func() string { return "" }
		if d.verbose {
			stop = d.shoot(ctx, all.name)
		}
		began := time.Now()
		took, err := all.roll(ctx, p.phase, p.spec)
		seen := stop()
		if err != nil {
			return err
		}
		if p.phase == "" {
			continue
		}
		title := fmt.Sprintf("%s of %d pods over %d members, maxUnavailable %s", p.phase, globalPods, globalMembers, globalLimit)
		d.report.addWithFloor(globalSectionName, title, "s", took, "the same in one cluster", alone)
		if d.verbose {
			d.report.table(title+", what was seen", seen)
		}
		if err := d.writesOfRollout(title, began, took); err != nil {
			return err
		}
	}
	return nil
}

// writesOfRollout reports what hub and agents wrote to the hub in a rollout of so many seconds.
func (d *delivery) writesOfRollout(title string, began time.Time, took float64) error {
	end := began.Add(time.Duration(took * float64(time.Second)))
	events, err := audit.ReadFile(d.hub.cluster.AuditLog(), audit.Writes(), audit.Between(began, end), audit.ByPrograms(fleet.HubProgram, fleet.AgentProgram))
	if err != nil {
		return err
	}
	count := audit.Count(events)
	total := float64(count.Total(func(audit.Key) bool { return true }))
	d.report.add(globalSectionName, title+": hub writes", "", total)
	d.report.add(globalSectionName, title+": hub writes per member and second", "", total/globalMembers/took)
	d.report.table(title+", writes to the hub", count.String())
	return nil
}

// limited is a CloneSet with a limit, in one cluster or on the hub.
type limited struct {
	rollout
	name string
}

func (l *limited) create(ctx context.Context) error {
	l.say("%d pods of %s", globalPods, l.name)
	cs := cloneSetKind().build(namespace, l.name, globalPods, image(1)).(*appsv1beta1.CloneSet)
	cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString(globalLimit))
	if err := l.Create(ctx, cs); err != nil {
		return fmt.Errorf("create CloneSet %s: %w", l.name, err)
	}
	_, err := l.await(ctx, cloneSetKind(), l.name, "CloneSet "+l.name)
	return err
}

// roll changes the spec, and returns the seconds until the status said that all pods are of it and Ready.
func (l *limited) roll(ctx context.Context, phase string, spec map[string]any) (float64, error) {
	if phase != "" {
		l.say("%s of %s", phase, l.name)
	}
	patch, err := patchOf(spec)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := l.Patch(ctx, cloneSetKind().build(namespace, l.name, 0, ""), patch); err != nil {
		return 0, fmt.Errorf("patch CloneSet %s: %w", l.name, err)
	}
	ended, err := l.await(ctx, cloneSetKind(), l.name, "CloneSet "+l.name+", "+phase)
	return seconds(ended.Sub(began)), err
}
