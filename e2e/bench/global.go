package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	globalSectionName = "global"
	// globalMembers is how many members a workload is over; globalPods how many pods it has, as many as fit any size of
	// test machine.
	globalMembers, globalPods = 3, 300
	// globalLimit is the maxUnavailable of both, over all members together.
	globalLimit = "10%"
)

// globalSection rolls a CloneSet out over three members with one limit for all of them, another one of as many pods,
// with the same limit, in one of these clusters, and three of a third of the pods and of the limit, which is what the
// machine needs for three clusters in place of one; one after the other.
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

// global measures them by turns: one cluster, three that know nothing of each other, and three with one limit, for pods
// that start in no time, which a small test machine cannot keep up with, and for pods that take as long as a quick
// server does.
func (d *delivery) global(ctx context.Context) error {
	if err := d.globalOf(ctx, 0); err != nil {
		return err
	}
	return d.globalOf(ctx, 2*time.Second)
}

// globalOf measures the rollouts of pods that take that long to start.
func (d *delivery) globalOf(ctx context.Context, start time.Duration) error {
	in := func(c *connection) rollout { return rollout{bench: d.bench, connection: c, fleet: d.fleet} }
	suffix := ""
	if start > 0 {
		suffix = "-slow"
	}
	one := &limited{rollouts: []rollout{in(d.members[0])}, name: "one" + suffix, start: start}
	parts := &limited{name: "parts" + suffix, start: start}
	for _, m := range d.members {
		parts.rollouts = append(parts.rollouts, in(m))
	}
	all := &limited{rollouts: []rollout{in(d.hub)}, name: "all" + suffix, start: start}
	for _, l := range []*limited{one, parts, all} {
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
		apart, err := parts.roll(ctx, p.phase, p.spec)
		if err != nil {
			return err
		}
		film := func() string { return "" }
		if d.verbose {
			film = d.shoot(ctx, all.name)
		}
		took, err := all.roll(ctx, p.phase, p.spec)
		seen := film()
		if err != nil {
			return err
		}
		if p.phase == "" {
			continue
		}
		title := fmt.Sprintf(
			"%s of %d pods over %d members, maxUnavailable %s, pods that start in %s",
			p.phase,
			globalPods,
			globalMembers,
			globalLimit,
			start,
		)
		d.report.addWithFloor(globalSectionName, title, "s", took.seconds(), "the same in one cluster", alone.seconds())
		d.report.addWithFloor(
			globalSectionName,
			title,
			"s",
			took.seconds(),
			"a third in each of three clusters, without a hub",
			apart.seconds(),
		)
		if d.verbose {
			d.report.table(title+", what was seen", seen)
			if err := d.writesInMembers(title, alone, took); err != nil {
				return err
			}
		}
		if err := d.writesOfRollout(title, took); err != nil {
			return err
		}
	}
	return nil
}

// writesOfRollout reports what hub and agents wrote to the hub during a rollout.
func (d *delivery) writesOfRollout(title string, took span) error {
	events, err := audit.ReadFile(
		d.hub.cluster.AuditLog(),
		audit.Writes(),
		audit.Between(took.from, took.to),
		audit.ByPrograms(fleet.HubProgram, fleet.AgentProgram),
	)
	if err != nil {
		return err
	}
	count := audit.Count(events)
	total := float64(count.Total(func(audit.Key) bool { return true }))
	d.report.add(globalSectionName, title+": hub writes", "", total)
	d.report.add(globalSectionName, title+": hub writes per member and second", "", total/globalMembers/took.seconds())
	d.report.table(title+", writes to the hub", count.String())
	return nil
}

// span is a time from one moment to another.
type span struct{ from, to time.Time }

func (s span) seconds() float64 { return seconds(s.to.Sub(s.from)) }

// writesInMembers reports what was written in the members during the rollout in one of them, and during that in all.
func (d *delivery) writesInMembers(title string, inOne, inAll span) error {
	for _, during := range []struct {
		name    string
		span    span
		members []*connection
	}{
		{"the same in one cluster", inOne, d.members[:1]},
		{"writes to all members", inAll, d.members},
	} {
		var all []audit.Event
		for _, m := range during.members {
			events, err := audit.ReadFile(m.cluster.AuditLog(), audit.Writes(), audit.Between(during.span.from, during.span.to))
			if err != nil {
				return err
			}
			for i := range events {
				events[i].User = "" // each member has users of its own
			}
			all = append(all, events...)
		}
		d.report.table(title+", "+during.name, audit.Count(all).String())
	}
	return nil
}

// limited is a CloneSet with a limit, in one cluster or on the hub, or one of an equal part of the pods in each of
// several clusters.
type limited struct {
	rollouts []rollout
	name     string
	start    time.Duration // of a pod
}

func (l *limited) create(ctx context.Context) error {
	l.rollouts[0].say("%d pods of %s", globalPods, l.name)
	return parallel(ctx, len(l.rollouts), func(ctx context.Context, i int) error {
		r := &l.rollouts[i]
		cs := cloneSetKind().build(namespace, l.name, globalPods/int32(len(l.rollouts)), image(1)).(*appsv1beta1.CloneSet)
		cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString(globalLimit))
		cs.Spec.Template.Annotations = map[string]string{fleet.AnnotationStartFor: l.start.String()}
		if err := r.Create(ctx, cs); err != nil {
			return fmt.Errorf("create CloneSet %s in %s: %w", l.name, r.cluster.Name, err)
		}
		_, err := r.await(ctx, cloneSetKind(), l.name, "CloneSet "+l.name)
		return err
	})
}

// roll changes the spec, and returns the time from then on until the status said that all pods are of it and Ready.
func (l *limited) roll(ctx context.Context, phase string, spec map[string]any) (span, error) {
	if phase != "" {
		l.rollouts[0].say("%s of %s", phase, l.name)
	}
	patch, err := patchOf(spec)
	if err != nil {
		return span{}, err
	}
	began := time.Now()
	ended := make([]time.Time, len(l.rollouts))
	err = parallel(ctx, len(l.rollouts), func(ctx context.Context, i int) error {
		r := &l.rollouts[i]
		if err := r.Patch(ctx, cloneSetKind().build(namespace, l.name, 0, ""), patch); err != nil {
			return fmt.Errorf("patch CloneSet %s in %s: %w", l.name, r.cluster.Name, err)
		}
		var err error
		ended[i], err = r.await(ctx, cloneSetKind(), l.name, "CloneSet "+l.name+", "+phase)
		return err
	})
	if err != nil {
		return span{}, err
	}
	return span{began, slices.MaxFunc(ended, time.Time.Compare)}, nil
}
