package link

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// The hub fences a member, and moves the ordinals of its StatefulSets to others, when the member is unreachable and a
// person (or flotilla-capi) confirms that its machines are off. A member whose machines run again, and which has not
// read its new order yet, must not create pods of ordinals that it had before. The last order and the last report say
// nothing about that: both are older than the confirmation. What proves that the machines were never off is this
// process: it was in an open session, has run since then without a pause, and has seen a Ready node since then. As
// long as this holds, a hub that is down does not keep pods from being created again.

// UnconfirmedSince returns since when a hub may have moved the ordinals of a member object to another member; zero if
// the object still has them. sequence is that of the order that the object follows.
func (l *Link) UnconfirmedSince(kind schema.GroupKind, object types.NamespacedName, sequence int64) time.Time {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	return l.sessions.unconfirmedSince(topology.WorkloadKey(kind, object.Namespace, object.Name), sequence,
		l.config.Clock.Now())
}

// unconfirmedSince is UnconfirmedSince. The caller holds the lock.
func (s *sessions) unconfirmedSince(key string, sequence int64, now time.Time) time.Time {
	s.noteSuspension(now)
	follows := sequence >= s.ordered[key]
	switch {
	case s.fresh(now) && follows:
		return time.Time{}
	case s.session.phase != closed && elapsed(s.session.since, now) <= contactExpires:
		// The hub is back, and is about to say what it has decided. It is not waited for without end, because its API
		// server may run without its controllers.
		return s.session.since
	case !s.lostSince.IsZero():
		return s.lostSince
	case !follows:
		return s.session.since
	}
	return time.Time{}
}

// pauseTolerated is how long this process may stand still without counting as suspended: a session is looked at each
// second, or after a request to a hub that hangs. Nobody stops machines and confirms that in less time.
const pauseTolerated = writeTimeout + 5*time.Second

// noteSuspension records that this process was suspended, as with the machine that it runs on. The caller holds the
// lock.
func (s *sessions) noteSuspension(now time.Time) {
	if !s.looked.IsZero() && elapsed(s.looked, now) > pauseTolerated {
		s.lostSince, s.looked = now, now
	}
}

// noteNoNodes records that no node of the member is Ready. While the hub is in contact this means nothing.
func (s *sessions) noteNoNodes(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lostSince.IsZero() && !s.fresh(now) {
		s.lostSince = now
	}
}
