package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// times are the milliseconds from the request for each workload until something was seen, and the seconds from the
// first request until it was seen of all.
type times struct {
	object, status []float64
	took           float64
}

// floors are what a bare client reaches that writes the members' objects itself.
type floors struct{ create, update times }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// inMembers returns the sights of each workload in every member: those of workload i stand at i*members ….
func (d *delivery) inMembers(namespace string, names []string, what string) []sight {
	var wanted []sight
	for _, name := range names {
		for _, member := range d.members {
			wanted = append(wanted, sight{member.cluster.Name, namespace, name, what})
		}
	}
	return wanted
}

func (d *delivery) onHub(names []string, what string) []sight {
	wanted := make([]sight, len(names))
	for i, name := range names {
		wanted[i] = sight{d.hub.cluster.Name, namespace, name, what}
	}
	return wanted
}

// wait returns, for each name, the milliseconds from its request until the last of its sights, and the time of the last
// of all. perName sights belong to each name.
func (d *delivery) wait(
	ctx context.Context,
	phase string,
	sent []time.Time,
	wanted []sight,
) ([]float64, time.Time, error) {
	ctx, cancel, explain := d.bound(ctx, phase)
	defer cancel()
	at, err := d.seen.await(ctx, wanted)
	if err := explain(err, func() string { return d.seen.missing(wanted) + d.programLogs(d.fleet) }); err != nil {
		return nil, time.Time{}, err
	}
	perName := len(wanted) / len(sent)
	took := make([]float64, len(sent))
	for i := range sent {
		took[i] = milliseconds(slices.MaxFunc(at[i*perName:(i+1)*perName], time.Time.Compare).Sub(sent[i]))
	}
	return took, slices.MaxFunc(at, time.Time.Compare), nil
}

// send calls do for each name as a bare client does, and returns when each call began.
func send(ctx context.Context, names []string, do func(ctx context.Context, name string) error) ([]time.Time, error) {
	sent := make([]time.Time, len(names))
	err := parallel(ctx, len(names), func(ctx context.Context, i int) error {
		sent[i] = time.Now()
		return do(ctx, names[i])
	})
	return sent, err
}

// create creates the workloads on the hub and waits for the members' objects and for the status.
func (d *delivery) create(ctx context.Context, phase string, names []string) (times, error) {
	build := cloneSetKind().build
	began := time.Now()
	sent, err := send(ctx, names, func(ctx context.Context, name string) error {
		if err := d.hub.Create(ctx, build(namespace, name, int32(d.replicas), image(1))); err != nil {
			return fmt.Errorf("create CloneSet %s on the hub: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return times{}, err
	}
	var t times
	var last time.Time
	if t.object, last, err = d.wait(ctx, phase+": member objects", sent,
		d.inMembers(namespace, names, sawObject)); err != nil {
		return times{}, err
	}
	t.took = seconds(last.Sub(began))
	t.status, _, err = d.wait(ctx, phase+": status on the hub", sent, d.onHub(names, sawStatus))
	return t, err
}

// update gives the workloads another image and reports how long that takes to the members and back.
func (d *delivery) update(ctx context.Context, phase string, names []string, image string, floor []float64) error {
	patch, err := patchOf(imagePatch(image))
	if err != nil {
		return err
	}
	sent, err := send(ctx, names, func(ctx context.Context, name string) error {
		if err := d.hub.Patch(ctx, cloneSetKind().build(namespace, name, 0, ""), patch); err != nil {
			return fmt.Errorf("patch CloneSet %s on the hub: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	took, _, err := d.wait(ctx, phase+": update in the members", sent, d.inMembers(namespace, names, sawImage(image)))
	if err != nil {
		return err
	}
	d.percentiles(phase+", new image → last member object", took, floor)
	took, _, err = d.wait(ctx, phase+": updated in the status on the hub", sent, d.onHub(names, sawUpdated(image)))
	if err != nil {
		return err
	}
	d.percentiles(phase+", new image → status on the hub says updated", took, nil)
	return nil
}

// remove deletes the workloads on the hub and waits until the members' objects are gone.
func (d *delivery) remove(ctx context.Context, phase string, names []string) error {
	sent, err := send(ctx, names, func(ctx context.Context, name string) error {
		if err := d.hub.Delete(ctx, cloneSetKind().build(namespace, name, 0, "")); err != nil {
			return fmt.Errorf("delete CloneSet %s on the hub: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	took, _, err := d.wait(ctx, phase+": delete in the members", sent, d.inMembers(namespace, names, sawGone))
	if err != nil {
		return err
	}
	d.percentiles(phase+", delete → last member object gone", took, nil)
	return nil
}

// floor lets a bare client create, update and delete the same objects in the members.
func (d *delivery) floor(ctx context.Context) (floors, error) {
	d.say("bare client, %d objects in each of %d members", d.fan, len(d.members))
	names := make([]string, d.fan)
	for i := range names {
		names[i] = fmt.Sprintf("direct-%d", i)
	}
	patch, err := patchOf(imagePatch(image(2)))
	if err != nil {
		return floors{}, err
	}
	build := cloneSetKind().build
	var f floors
	perMember := max(d.replicas/len(d.members), 1)
	if f.create, err = d.directly(ctx, names, sawObject, func(ctx context.Context, member *connection, name string) error {
		return member.Create(ctx, build(direct, name, int32(perMember), image(1)))
	}); err != nil {
		return floors{}, err
	}
	if f.update, err = d.directly(ctx, names, sawImage(image(2)),
		func(ctx context.Context, member *connection, name string) error {
			return member.Patch(ctx, build(direct, name, 0, ""), patch)
		}); err != nil {
		return floors{}, err
	}
	_, err = d.directly(ctx, names, sawGone, func(ctx context.Context, member *connection, name string) error {
		return member.Delete(ctx, build(direct, name, 0, ""), client.PropagationPolicy("Background"))
	})
	return f, err
}

// directly does something for each name in every member, with as many workers in all as a bare client has.
func (d *delivery) directly(
	ctx context.Context,
	names []string,
	what string,
	do func(ctx context.Context, member *connection, name string) error,
) (times, error) {
	// One task per object: the three objects of a workload are sent side by side, as a hub does.
	sent := make([]time.Time, len(names))
	began := time.Now()
	err := parallel(ctx, len(names)*len(d.members), func(ctx context.Context, i int) error {
		name, member := names[i/len(d.members)], d.members[i%len(d.members)]
		if i%len(d.members) == 0 {
			sent[i/len(d.members)] = time.Now()
		}
		if err := do(ctx, member, name); err != nil {
			return fmt.Errorf("CloneSet %s in %s: %w", name, member.cluster.Name, err)
		}
		return nil
	})
	if err != nil {
		return times{}, err
	}
	var t times
	var last time.Time
	t.object, last, err = d.wait(ctx, "bare client", sent, d.inMembers(direct, names, what))
	t.took = seconds(last.Sub(began))
	return t, err
}
