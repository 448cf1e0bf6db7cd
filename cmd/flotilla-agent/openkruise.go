package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// openKruiseLease is the Lease of an OpenKruise manager, in the namespace and by the name that its chart gives it.
var openKruiseLease = types.NamespacedName{Namespace: "kruise-system", Name: "kruise-manager"}

const (
	// leaseOutdated is how old a renewal is whose holder has surely stopped. The clocks of two machines differ by less.
	leaseOutdated = 10 * time.Minute
	// leaseLook is how often a Lease is read that may still be renewed, leaseDuration for how long, if it does not say.
	leaseLook, leaseDuration = time.Second, 30 * time.Second
)

// alone returns an error if an OpenKruise manager runs in the member: both would act on the same pods. A Lease that was
// renewed lately is watched until it is renewed again, or for as long as it holds.
func (f *flags) alone(ctx context.Context, member *rest.Config, scheme *runtime.Scheme, log logr.Logger) error {
	if f.besideOpenKruise {
		return nil
	}
	c, err := client.New(member, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to the member at %s: %w", member.Host, err)
	}
	return noOpenKruise(ctx, c, clock.RealClock{}, log)
}

func noOpenKruise(ctx context.Context, c client.Reader, now clock.Clock, log logr.Logger) error {
	first, err := readLease(ctx, c)
	switch {
	case apierrors.IsForbidden(err):
		log.Info("whether an OpenKruise manager runs here is not known: the agent may not read its Lease",
			"lease", openKruiseLease)
		return nil
	case err != nil:
		return err
	case !mayRun(first, now.Now()):
		return nil
	}
	duration := leaseDuration
	if first.Spec.LeaseDurationSeconds != nil {
		duration = time.Duration(*first.Spec.LeaseDurationSeconds) * time.Second
	}
	log.Info("an OpenKruise manager was here lately; the agent waits for its Lease to end", "lease", openKruiseLease,
		"seconds", duration.Seconds())
	for end := now.Now().Add(duration); now.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-now.After(leaseLook):
		}
		again, err := readLease(ctx, c)
		switch {
		case err != nil:
			return err
		case !mayRun(again, now.Now()):
			return nil
		case !again.Spec.RenewTime.Equal(first.Spec.RenewTime):
			return fmt.Errorf("an OpenKruise manager runs in this cluster: %s renews Lease %s, and both would act on the "+
				"same pods; stop it first as docs/tasks/take-over-from-openkruise.md says, or start with --beside-openkruise",
				*again.Spec.HolderIdentity, openKruiseLease)
		}
	}
	return nil
}

// readLease returns the Lease of the manager, an empty one if there is none.
func readLease(ctx context.Context, c client.Reader) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := c.Get(ctx, openKruiseLease, lease); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read Lease %s, to know whether an OpenKruise manager runs: %w", openKruiseLease, err)
	}
	return lease, nil
}

// mayRun reports whether the holder of the Lease may run.
func mayRun(lease *coordinationv1.Lease, now time.Time) bool {
	spec := &lease.Spec
	return spec.HolderIdentity != nil && *spec.HolderIdentity != "" && spec.RenewTime != nil &&
		now.Sub(spec.RenewTime.Time) < leaseOutdated
}
