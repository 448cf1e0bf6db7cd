package contact

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// lease is a Lease that a server stores.
type lease struct {
	resourcelock.Interface
	stored  *resourcelock.LeaderElectionRecord
	writes  int
	problem error
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.problem != nil {
		return nil, nil, l.problem
	}
	if l.stored == nil {
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "hub")
	}
	stored := *l.stored
	stored.RenewTime = metav1.NewTime(stored.RenewTime.Truncate(time.Microsecond))
	return &stored, nil, nil
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *lease) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.problem != nil {
		return l.problem
	}
	l.stored, l.writes = &record, l.writes+1
	return nil
}

// TestALockNoticesARestore holds that a replica ends, and writes nothing more, when the Lease is older than it was; and
// that it goes on through all that happens to a Lease otherwise.
func TestALockNoticesARestore(t *testing.T) {
	start := time.Unix(1000, 999) // a server cuts off the nanoseconds
	record := func(holder string, transitions int, after time.Duration) *resourcelock.LeaderElectionRecord {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: transitions,
			RenewTime: metav1.NewTime(start.Add(after))}
	}
	type step struct {
		after   time.Duration // by the clock of this replica
		write   *resourcelock.LeaderElectionRecord
		stored  *resourcelock.LeaderElectionRecord // by others
		problem error
		gone    bool
	}
	unreachable := errors.New("connection refused")
	for _, tc := range []struct {
		name  string
		steps []step
		want  error
	}{
		{"it leads and renews", []step{
			{}, {write: record("me", 0, 0)}, {write: record("me", 0, 2*time.Second)}, {},
		}, nil},
		{"an answer is lost, the write is not", []step{
			{write: record("me", 3, 0)}, {write: record("me", 3, 2*time.Second), problem: unreachable},
			{stored: record("me", 3, 2*time.Second)},
		}, nil},
		{"a write is lost", []step{
			{write: record("me", 3, 0)}, {write: record("me", 3, 2*time.Second), problem: unreachable}, {},
		}, nil},
		{"it leads, and the Lease is older", []step{
			{write: record("me", 3, 0)}, {write: record("me", 3, time.Hour)}, {stored: record("me", 3, time.Minute)},
		}, errRestored},
		{"it leads, and the Lease is of one who led before", []step{
			{write: record("me", 3, 0)}, {stored: record("other", 2, -time.Hour)},
		}, errRestored},
		{"it leads, and there is no Lease", []step{
			{write: record("me", 0, 0)}, {gone: true},
		}, errRestored},
		{"another one leads, renews and hands over", []step{
			{stored: record("other", 1, 0)}, {stored: record("other", 1, 2*time.Second)}, {stored: record("", 1, 3*time.Second)},
			{stored: record("third", 2, -time.Hour)},
		}, nil},
		{"another one leads, and the Lease is older", []step{
			{stored: record("other", 1, time.Hour)}, {stored: record("other", 1, time.Minute)},
		}, errRestored},
		{"a replica that cannot ask for a while", []step{
			{stored: record("other", 1, 0)}, {after: time.Hour, problem: unreachable}, {stored: record("other", 1, time.Hour)},
		}, nil},
		{"a replica that cannot ask while another takes the Lease", []step{
			{stored: record("other", 1, 0)}, {after: time.Minute, stored: record("third", 2, time.Minute)},
		}, errUnwatched},
		{"another takes the Lease before its eyes", []step{
			{stored: record("other", 1, 0)}, {after: 10 * time.Second, stored: record("third", 2, 10*time.Second)},
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, clk := &lease{}, clocktesting.NewFakePassiveClock(start)
			l := newLock(server, clk)
			var err error
			for _, s := range tc.steps {
				clk.SetTime(clk.Now().Add(s.after))
				if server.problem = s.problem; s.stored != nil || s.gone {
					server.stored = s.stored
				}
				if s.write != nil {
					err = l.Update(t.Context(), *s.write)
				} else {
					_, _, err = l.Get(t.Context())
				}
				if s.problem != nil && !errors.Is(err, s.problem) {
					t.Fatalf("%v, want %v", err, s.problem)
				}
			}
			if !errors.Is(l.failure(), tc.want) || tc.want != nil && !errors.Is(err, tc.want) {
				t.Fatalf("%v and %v, want %v", err, l.failure(), tc.want)
			}
			if tc.want == nil {
				return
			}
			if err := l.Start(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("the replica goes on: %v", err)
			}
			wrote := server.writes
			_, _, err = l.Get(t.Context())
			for _, err := range []error{err, l.Update(t.Context(), *record("me", 9, 0)),
				l.Create(t.Context(), *record("me", 9, 0))} {
				if !errors.Is(err, tc.want) {
					t.Errorf("after that: %v", err)
				}
			}
			if server.writes > wrote {
				t.Error("it wrote over what shows to others that the server was put back")
			}
		})
	}
}

func TestALockEndsWithItsManager(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLock(&lease{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	if err := l.Start(ctx); err != nil || l.NeedLeaderElection() {
		t.Errorf("%v", err)
	}
}
