package link

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/copies"
)

const (
	// contactExpires is after how long without contact the agent and its hub may think differently of what runs: then the
	// hub calls the member NotReady, too.
	contactExpires = topology.LeaseDuration
	// reportPatience is how long a session waits for the reports. One Work whose report
	// cannot be sent holds up nothing else.
	reportPatience = 15 * time.Second
	// sessionEvery is how often the session is looked at without an event.
	sessionEvery = time.Second
	// mostSession: a hub that says a larger number than anyone can have counted is not followed into an overflow.
	mostSession = int64(1) << 53
)

// phase is how far the present session is.
type phase int

const (
	// closed: the hub does not know what runs here. Only orders that were carried out before are kept up.
	closed phase = iota
	// reporting: the hub is heard, and every Work is being reported.
	reporting
	// announced: the session's number is written; the hub has not answered.
	announced
	// open: the hub has answered. New orders are carried out.
	open
)

// session is the present session with the hub.
type session struct {
	phase phase
	// number that was announced on the MemberCluster with this uid.
	number int64
	uid    types.UID
	// since is when the phase began.
	since time.Time
	// seen: the cache has shown the MemberCluster with our number.
	seen bool
	// round counts the sessions of this process.
	round int64
}

// observed is what the next phase of the session depends on.
type observed struct {
	now time.Time
	// contact is when the last request that the hub answered was sent, zero if none was.
	contact time.Time
	// member is the own MemberCluster, nil while the hub was not heard or does not mean this cluster.
	member *topology.MemberCluster
	// reported: every Work has been reported in this round.
	reported bool
}

// lost reports whether the hub was not heard lately.
func (f observed) lost() bool {
	return f.contact.IsZero() || elapsed(f.contact, f.now) > contactExpires
}

// next returns the session after one step. It is pure. The caller writes the number of an announced session to the hub
// before it stores the session.
func (s session) next(f observed) session {
	if f.member == nil || s.broken(f) {
		return s.to(closed, f.now)
	}
	switch s.phase {
	case closed:
		if !f.lost() {
			s = s.to(reporting, f.now)
			s.round++
		}
	case reporting:
		if f.reported || f.now.Sub(s.since) > reportPatience {
			s = s.to(announced, f.now)
			s.number, s.uid, s.seen = numberAfter(f.member), f.member.UID, false
		}
	case announced, open:
		s.seen = s.seen || f.member.Status.Session == s.number
		if s.phase == announced && s.seen && f.member.Spec.AcknowledgedSession == s.number {
			s = s.to(open, f.now)
		}
	}
	return s
}

// broken reports whether a session that began is over: the hub is not heard, the MemberCluster was created anew, or it
// does not have our number.
func (s session) broken(f observed) bool {
	return s.phase > closed && f.lost() || s.phase > reporting && (s.uid != f.member.UID || s.behind(f))
}

// behind reports whether the hub has forgotten our number: it was restored from a backup.
func (s session) behind(f observed) bool {
	if s.seen {
		return f.member.Status.Session != s.number
	}
	return f.now.Sub(s.since) > contactExpires
}

func (s session) to(p phase, now time.Time) session {
	if s.phase != p {
		s.phase, s.since = p, now
	}
	return s
}

// numberAfter returns a number that the hub has not seen yet.
func numberAfter(member *topology.MemberCluster) int64 {
	last := max(member.Status.Session, member.Spec.AcknowledgedSession, 0)
	if last >= mostSession {
		last = 0
	}
	for last++; last == member.Status.Session || last == member.Spec.AcknowledgedSession; {
		last++
	}
	return last
}

// sessions is the session with what other goroutines ask of it.
type sessions struct {
	mu      sync.Mutex
	session session
	contact time.Time
	// waiting are the Works whose report of this round is still to come.
	waiting map[types.NamespacedName]bool
	// ordered is the sequence of each Work's order when the session was answered, by the text of the annotation
	// topology.AnnotationWorkload.
	ordered map[string]int64
	// lostSince is since when the hub may have fenced this member without this process knowing (fenced.go); zero if not.
	lostSince time.Time
	// looked is when the session was looked at last.
	looked  time.Time
	changed chan struct{}
}

// elapsed is how much time passed, by whichever clock saw more: the monotonic one stands still while a machine
// is suspended, and the other one jumps.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// touched records that the hub answered a request that was sent at this time.
func (s *sessions) touched(sent time.Time) {
	s.mu.Lock()
	first := elapsed(s.contact, sent) > contactExpires
	if first && s.session.phase > reporting {
		s.session = s.session.to(closed, sent) // nobody looked in between
	}
	if sent.After(s.contact) {
		s.contact = sent
	}
	s.mu.Unlock()
	if first {
		wake(s.changed)
	}
}

// MayExecuteNew tells whether an order that was not carried out before may be: the hub has answered the present
// session, and was heard within the last 40 s of the agent's own clock.
func (l *Link) MayExecuteNew(ctx context.Context) bool {
	if s, _ := l.standing(ctx); s != pinned {
		return false
	}
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	return l.sessions.fresh(l.config.Clock.Now())
}

// fresh tells whether the session is answered and the hub was heard within the last 40 s. The caller holds the lock.
func (s *sessions) fresh(now time.Time) bool {
	return s.session.phase == open && elapsed(s.contact, now) <= contactExpires
}

// MayDisrupt tells whether a member object may disrupt pods as the order with this sequence permits: permission is lent
// for as long as the hub is heard. After a time without, the object first has to follow the order that stood on the hub
// when the session was answered: what an earlier one permitted may be lent to others.
func (l *Link) MayDisrupt(kind schema.GroupKind, object types.NamespacedName, sequence int64) bool {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	ordered := l.sessions.ordered[topology.WorkloadKey(kind, object.Namespace, object.Name)]
	return l.sessions.fresh(l.config.Clock.Now()) && sequence >= ordered
}

// Contact returns how long ago a request was sent that the hub answered, false if none was.
func (l *Link) Contact() (time.Duration, bool) {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	if l.sessions.contact.IsZero() {
		return 0, false
	}
	return elapsed(l.sessions.contact, l.config.Clock.Now()), true
}

// Round counts the sessions of this process: in each, every Work is reported anew.
func (l *Link) Round() int64 {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	return l.sessions.session.round
}

// Reported tells that the hub knows what stands for a Work.
func (l *Link) Reported(name types.NamespacedName) {
	l.sessions.mu.Lock()
	before := len(l.sessions.waiting)
	delete(l.sessions.waiting, name)
	last := before == 1 && len(l.sessions.waiting) == 0
	l.sessions.mu.Unlock()
	if last {
		wake(l.sessions.changed)
	}
}

// runSession carries on the session, and keeps in the member what the hub says of who we are.
func (l *Link) runSession(ctx context.Context) {
	timer := l.config.Clock.NewTimer(sessionEvery)
	defer timer.Stop()
	for {
		if err := l.lookAtSession(ctx); err != nil && ctx.Err() == nil {
			l.heardOf(err)
		}
		timer.Reset(wait.Jitter(sessionEvery, leaseJitter))
		select {
		case <-ctx.Done():
			return
		case <-l.sessions.changed:
		case <-timer.C():
		}
	}
}

// lookAtSession takes one step, with one write on the hub in each session, and one in
// the member when the standing changed.
func (l *Link) lookAtSession(ctx context.Context) error {
	standing, member := l.standing(ctx)
	l.keepStanding(ctx, standing)
	if standing != pinned || !l.synced(ctx) || !l.config.Copies.Loaded() {
		member = nil
	}
	works, err := l.worksOf(ctx, member)
	if err != nil {
		return err
	}
	before, after := l.sessions.advance(l.config.Clock.Now(), member, works)
	if after.phase == before.phase {
		return nil
	}
	switch after.phase {
	case reporting:
		l.wakeAll(ctx)
		wake(l.sessions.changed) // there may be nothing to report
	case announced:
		return l.announce(ctx, member, after)
	case open:
		if opened, err := l.open(ctx, after); err != nil || !opened {
			return err
		}
		l.config.Log.Info("The hub has answered the session; new orders are carried out", "session", after.number)
		l.wakeAll(ctx)
		l.ordersChanged(true)
	}
	return nil
}

// keepStanding records in the member what the hub says of this cluster, if the hub was heard.
func (l *Link) keepStanding(ctx context.Context, standing standing) {
	if !l.heard(ctx) || l.clusterID.Load() == nil || !l.config.Copies.Loaded() {
		return
	}
	next := copies.Standing{ClusterID: *l.clusterID.Load(), Pinned: standing == pinned}
	if err := l.config.Copies.KeepStanding(ctx, next); err != nil {
		l.config.Log.Info("Cannot record in the member what the hub says of this cluster; trying again", "err", err.Error())
	}
}

// advance returns the session before and after one step. It does not store a session that is to be announced or opened:
// these begin with what the caller writes or reads. works are those that a new round reports.
func (s *sessions) advance(
	now time.Time, member *topology.MemberCluster, works map[types.NamespacedName]bool,
) (before, after session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteSuspension(now)
	s.looked = now
	before = s.session
	after = before.next(observed{now: now, contact: s.contact, member: member, reported: len(s.waiting) == 0})
	if after.phase == before.phase || after.phase != announced && after.phase != open {
		s.session = after
	}
	if after.phase == reporting && before.phase != reporting {
		s.waiting = works
	}
	return before, after
}

// worksOf returns the Works that a round reports, none without a member.
func (l *Link) worksOf(ctx context.Context, member *topology.MemberCluster) (map[types.NamespacedName]bool, error) {
	names := map[types.NamespacedName]bool{}
	l.sessions.mu.Lock()
	phase := l.sessions.session.phase
	l.sessions.mu.Unlock()
	if member == nil || phase != closed {
		return names, nil
	}
	works, err := l.Works(ctx)
	if err != nil {
		return nil, err
	}
	for i := range works {
		names[client.ObjectKeyFromObject(&works[i])] = true
	}
	return names, nil
}

// announcement is the merge patch of a session's number. An agent of an earlier version writes the number alone.
func announcement(number int64) ([]byte, error) {
	return json.Marshal(map[string]any{"status": map[string]any{
		"session":      number,
		"orderFormats": topology.OrderFormats{Session: number, Names: []string{topology.OrderFormatBudget}},
	}})
}

// announce writes the session's number, and in the same write the formats of orders that this agent reads. The reports
// were written before, so a hub that sees the number can see them.
func (l *Link) announce(ctx context.Context, member *topology.MemberCluster, next session) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := announcement(next.number)
	if err != nil {
		return err
	}
	sent := l.config.Clock.Now()
	status := client.RawPatch(types.MergePatchType, patch)
	if err := l.client.Status().Patch(ctx, member, status, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("write session %d to MemberCluster %s: %w", next.number, l.config.ClusterName, err)
	}
	l.sessions.mu.Lock()
	l.sessions.session = next
	l.sessions.mu.Unlock()
	l.sessions.touched(sent)
	return nil
}

// open begins to carry out new orders, and to disrupt. What stands on the hub is read past the cache, which may be
// older than the hub's answer. It tells whether the session is open: contact can be lost meanwhile.
func (l *Link) open(ctx context.Context, next session) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	sent := l.config.Clock.Now()
	live, err := l.liveWorks(ctx)
	if err != nil {
		return false, err
	}
	ordered := make(map[string]int64, len(live))
	for i := range live {
		w := &live[i]
		if sequence, ok := topology.SequenceOf(w); ok {
			ordered[w.Annotations[topology.AnnotationWorkload]] = sequence
		}
	}
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	if l.sessions.session.phase != announced || elapsed(l.sessions.contact, sent) > contactExpires {
		return false, nil
	}
	l.sessions.session, l.sessions.ordered, l.sessions.lostSince = next, ordered, time.Time{}
	return true, nil
}

// liveWorks reads the metadata of the Works past the cache.
func (l *Link) liveWorks(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	live := &metav1.PartialObjectMetadataList{}
	live.SetGroupVersionKind(work.GroupVersion.WithKind("WorkList"))
	if err := l.client.List(ctx, live, client.InNamespace(l.Namespace())); err != nil {
		return nil, fmt.Errorf("list the Works in namespace %s of the hub: %w", l.Namespace(), err)
	}
	return live.Items, nil
}

// Rounds wakes a controller for every Work when a session begins.
func (l *Link) Rounds() source.Source {
	return source.Func(func(ctx context.Context, queue requestQueue) error {
		l.mu.Lock()
		l.queues = append(l.queues, queue)
		l.mu.Unlock()
		l.addAll(ctx, queue)
		return nil
	})
}

// enqueue puts a Work into a queue.
func enqueue(queue requestQueue, name types.NamespacedName) {
	queue.Add(reconcile.Request{NamespacedName: name})
}
