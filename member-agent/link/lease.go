package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	applycoordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

const (
	// leaseDurationSeconds is after how long the hub calls a silent member NotReady.
	leaseDurationSeconds = int32(topology.LeaseDuration / time.Second)
	// leaseEvery is the time between two renewals: three may get lost before the hub gives up.
	leaseEvery = topology.LeaseDuration / 4
	// leaseRetry is the time to the next attempt after one that failed.
	leaseRetry = 2 * time.Second
	// leaseTimeout ends an attempt: a hub that hangs must not use up the time of the next attempts.
	leaseTimeout = 5 * time.Second
	// leaseJitter spreads the agents of a fleet, so that a restarted hub does not hear all of them at once.
	leaseJitter = 0.1
	// retryJitter spreads attempts that failed together because the hub was away.
	retryJitter = 0.5
)

// runLease renews the Lease while the hub means this cluster, the caches are synced and the member's own API server
// answers: a member that does not see its orders, or cannot carry them out, must not look healthy.
func (l *Link) runLease(ctx context.Context) {
	timer := l.config.Clock.NewTimer(leaseRetry)
	defer timer.Stop()
	away := false    // the member did not answer the last time
	renewed := false // the last attempt worked
	for {
		next := wait.Jitter(leaseRetry, retryJitter)
		if !l.synced(ctx) {
			l.probe(ctx)
		} else if l.MayExecute(ctx) && l.memberAnswers(ctx, &away) {
			sent := l.config.Clock.Now()
			err := l.renew(ctx, *l.clusterID.Load())
			switch {
			case err == nil:
				l.contact.worked()
				l.sessions.touched(sent)
				next = afterRenewal(renewed, rand.Float64())
			case ctx.Err() == nil:
				l.heardOf(err)
			}
			renewed = err == nil
		} else {
			renewed = false
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-l.pinned:
		case <-timer.C():
		}
	}
}

// afterRenewal returns the time to the next renewal. Agents that hear the hub again after an outage, or that start
// together, renew at the same moment, and the jitter takes many minutes to part them. So the second renewal in a row
// comes earlier, anywhere within the interval. random is from 0 to 1.
func afterRenewal(inRow bool, random float64) time.Duration {
	if !inRow {
		return leaseRetry + time.Duration(random*float64(leaseEvery-leaseRetry))
	}
	const least = leaseEvery * 19 / 20
	return least + time.Duration(random*leaseJitter*float64(least)) // 9.5 s to 10.45 s
}

// memberAnswers asks the member's API server for one small object. The caches cannot tell: they keep what they have
// while the server is away. Any answer will do but an error of the server itself.
func (l *Link) memberAnswers(ctx context.Context, away *bool) bool {
	asked, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	err := l.member.GetAPIReader().Get(asked, types.NamespacedName{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	var status apierrors.APIStatus
	answers := err == nil || errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
	switch {
	case ctx.Err() != nil:
	case !answers && !*away:
		l.config.Log.Info(
			"The member's API server does not answer; the Lease on the hub is not renewed until it does",
			"err",
			err.Error(),
		)
	case answers && *away:
		l.config.Log.Info("The member's API server answers again")
	}
	*away = !answers
	return answers
}

// renew writes the Lease with one request, two the first time.
func (l *Link) renew(ctx context.Context, clusterID string) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	now := metav1.NewMicroTime(l.config.Clock.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace(), Name: l.config.ClusterName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &clusterID,
			LeaseDurationSeconds: new(leaseDurationSeconds),
			RenewTime:            &now,
		},
	}
	err := l.write(ctx, lease)
	if apierrors.IsConflict(err) && l.lookBack(ctx, lease) == nil {
		err = l.write(ctx, lease)
	}
	if apierrors.IsNotFound(err) {
		if l.version != "" {
			l.end(errRestored)
		}
		// It is applied, not posted: an object that is posted has no name yet when the rights to it are looked up.
		spec := applycoordinationv1.LeaseSpec().
			WithHolderIdentity(clusterID).
			WithLeaseDurationSeconds(leaseDurationSeconds).
			WithRenewTime(now)
		err = l.client.Apply(
			ctx,
			applycoordinationv1.Lease(lease.Name, lease.Namespace).WithSpec(spec),
			client.FieldOwner(fieldManager),
		)
	}
	if err != nil {
		return fmt.Errorf("renew Lease %s/%s on the hub: %w", lease.Namespace, lease.Name, err)
	}
	return nil
}

// write writes the Lease as it was written last, with a new time: nobody else writes it.
func (l *Link) write(ctx context.Context, lease *coordinationv1.Lease) error {
	fields := map[string]any{"spec": lease.Spec}
	if l.version != "" {
		fields["metadata"] = map[string]any{"resourceVersion": l.version}
	}
	patch, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	stored := lease.DeepCopy()
	if err := l.client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(fieldManager)); err != nil {
		return err
	}
	l.version = stored.ResourceVersion
	return nil
}
