package contact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// lockTimeout ends one request for the Lease: half of the 10 s within which a leader must renew it.
	lockTimeout = 5 * time.Second
	// unwatched is how long a replica that does not lead may not have seen the Lease. In less than the 15 s that it lasts
	// nobody else can have taken it from one who does not renew it.
	unwatched = 15 * time.Second
)

// errUnwatched ends a replica that does not lead.
var errUnwatched = errors.New(
	"another hub began to lead while this one could not ask for its Lease, so what happened meanwhile is not known; the " +
		"hub ends, to begin anew with what stands there now",
)

// Lock is the Lease by which one of several hubs leads. Every replica asks for it every 2 s anyway, and by it notices
// that the API server was put back: what is read then is older than what was read or written before, whatever the
// numbers of versions do. From then on nothing is written to it, so that every other replica can notice too.
type Lock struct {
	resourcelock.Interface
	clock  clock.PassiveClock
	failed chan struct{}

	mu   sync.Mutex
	seen *resourcelock.LeaderElectionRecord // the newest one
	at   time.Time                          // of seen, by our clock
	err  error                              // why this replica is to end
}

// NewManager returns a manager whose election, if its options have one, goes by a Lease that notices. cfg is not
// changed.
func NewManager(cfg *rest.Config, options manager.Options, clk clock.PassiveClock) (manager.Manager, error) {
	if !options.LeaderElection {
		return manager.New(cfg, options)
	}
	lock, err := NewLock(cfg, options.LeaderElectionNamespace, options.LeaderElectionID, clk)
	if err != nil {
		return nil, err
	}
	options.LeaderElectionResourceLockInterface = lock
	mgr, err := manager.New(cfg, options)
	if err != nil {
		return nil, err
	}
	return mgr, mgr.Add(lock)
}

// NewLock returns the Lease of that name and namespace for one replica. cfg is not changed.
func NewLock(cfg *rest.Config, namespace, name string, clk clock.PassiveClock) (*Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election")
	cfg.Timeout = lockTimeout
	leases, err := coordinationv1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("create the client for Lease %s/%s: %w", namespace, name, err)
	}
	return newLock(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{
			Identity: host + "_" + string(uuid.NewUUID()),
		}, // a pod that is started again is another one
	}, clk), nil
}

func newLock(lease resourcelock.Interface, clk clock.PassiveClock) *Lock {
	return &Lock{Interface: lease, clock: clk, failed: make(chan struct{})}
}

// NeedLeaderElection is false: a replica that does not lead has caches too, and may lead next.
func (l *Lock) NeedLeaderElection() bool { return false }

// Start waits until ctx ends, or until this replica is to end: then it returns why.
func (l *Lock) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.failed:
		return l.failure()
	}
}

// Get reads the Lease and looks whether it went back.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.failure(); err != nil {
		return nil, nil, err
	}
	record, raw, err := l.Interface.Get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, err
	}
	if failure := l.look(record); failure != nil {
		return nil, nil, failure
	}
	return record, raw, err
}

// Create makes the Lease.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update writes the Lease over the one that was read or written last.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *Lock) write(record resourcelock.LeaderElectionRecord, send func() error) error {
	if err := l.failure(); err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.at = &record, l.clock.Now()
	return nil
}

func (l *Lock) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// look compares what was read, nil for no Lease, with what is known.
func (l *Lock) look(record *resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	switch {
	case l.err != nil:
		return l.err
	case l.seen == nil:
	case record == nil || older(record, l.seen):
		l.err = errRestored
	case record.HolderIdentity != l.seen.HolderIdentity && now.Sub(l.at) > unwatched:
		l.err = errUnwatched
	}
	if l.err != nil {
		close(l.failed)
		return l.err
	}
	if record != nil {
		seen := *record
		l.seen, l.at = &seen, now
	}
	return nil
}

// older tells whether record a was written before b. Each who takes the Lease from another counts it; one who holds it
// renews it. Where the clock of the one who leads is set back, the others take it for a restore, and are started again
// for nothing.
func older(a, b *resourcelock.LeaderElectionRecord) bool {
	if a.LeaderTransitions != b.LeaderTransitions {
		return a.LeaderTransitions < b.LeaderTransitions
	}
	// The server stores microseconds.
	return a.RenewTime.Truncate(time.Microsecond).Before(b.RenewTime.Truncate(time.Microsecond))
}
