package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// manager is the Lease of an OpenKruise manager over time.
type manager struct {
	client.Reader
	clock *testingclock.FakeClock
	lease func(now time.Time) (*coordinationv1.LeaseSpec, error)
}

func (m manager) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	spec, err := m.lease(m.clock.Now())
	if lease, ok := object.(*coordinationv1.Lease); ok && err == nil {
		lease.Namespace, lease.Name, lease.Spec = key.Namespace, key.Name, *spec
	}
	return err
}

// TestNotBesideOpenKruise holds that the agent does not start while a manager renews its Lease, and starts otherwise.
func TestNotBesideOpenKruise(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	resource := schema.GroupResource{Resource: "leases"}
	held := func(holder string, renewed time.Time) *coordinationv1.LeaseSpec {
		return &coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: renewed},
			LeaseDurationSeconds: new(int32(15))}
	}
	for name, c := range map[string]struct {
		lease   func(time.Time) (*coordinationv1.LeaseSpec, error)
		refused string
		longest time.Duration
	}{
		"there is none": {lease: func(time.Time) (*coordinationv1.LeaseSpec, error) {
			return nil, apierrors.NewNotFound(resource, "kruise-manager")
		}},
		"it may not be read": {lease: func(time.Time) (*coordinationv1.LeaseSpec, error) {
			return nil, apierrors.NewForbidden(resource, "kruise-manager", nil)
		}},
		"the API server does not answer": {refused: "deadline exceeded", lease: func(time.Time) (*coordinationv1.LeaseSpec, error) {
			return nil, context.DeadlineExceeded
		}},
		"it runs": {refused: "kruise-1 renews Lease kruise-system/kruise-manager", longest: 3 * time.Second,
			lease: func(now time.Time) (*coordinationv1.LeaseSpec, error) {
				return held("kruise-1", now.Truncate(2*time.Second)), nil
			}},
		"it runs, and its clock is behind": {refused: "kruise-1 renews", longest: 3 * time.Second,
			lease: func(now time.Time) (*coordinationv1.LeaseSpec, error) {
				return held("kruise-1", now.Add(-5*time.Minute).Truncate(2*time.Second)), nil
			}},
		"it stopped a moment ago": {longest: 16 * time.Second, lease: func(time.Time) (*coordinationv1.LeaseSpec, error) {
			return held("kruise-1", start.Add(-time.Second)), nil
		}},
		"it stopped an hour ago": {lease: func(time.Time) (*coordinationv1.LeaseSpec, error) {
			return held("kruise-1", start.Add(-time.Hour)), nil
		}},
		"it gave the Lease back": {lease: func(now time.Time) (*coordinationv1.LeaseSpec, error) { return held("", now), nil }},
		"it gives the Lease back": {longest: 5 * time.Second, lease: func(now time.Time) (*coordinationv1.LeaseSpec, error) {
			if now.Sub(start) > 3*time.Second {
				return held("", now), nil
			}
			return held("kruise-1", start), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now := testingclock.NewFakeClock(start)
			ended := make(chan error, 1)
			go func() { ended <- noOpenKruise(t.Context(), manager{clock: now, lease: c.lease}, now, logr.Discard()) }()
			var err error
			for waits := true; waits; {
				select {
				case err = <-ended:
					waits = false
				default:
					if now.HasWaiters() {
						now.Step(leaseLook)
					}
				}
			}
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%v, want %q", err, c.refused)
			}
			if took := now.Now().Sub(start); took > c.longest {
				t.Errorf("it took %s, at most %s", took, c.longest)
			}
		})
	}
}
