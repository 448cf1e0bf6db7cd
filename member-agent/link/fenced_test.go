package link

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

func TestUnconfirmedSince(t *testing.T) {
	const key = "StatefulSet/shop/db"
	start := time.Unix(100_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	// The session was opened 60 s ago by order 5, and the hub was in contact 50 s ago.
	cutOff := func() *sessions {
		return &sessions{session: session{phase: closed, since: at(40)}, contact: at(10), looked: at(60),
			ordered: map[string]int64{key: 5}}
	}
	for _, tc := range []struct {
		name     string
		change   func(*sessions)
		sequence int64
		want     time.Time
	}{
		{"in contact", func(s *sessions) { s.session.phase, s.contact = open, at(55) }, 5, time.Time{}},
		{"in contact, with an order that is not carried out yet",
			func(s *sessions) { s.session.phase, s.contact = open, at(55) }, 4, at(40)},
		{"out of contact", func(*sessions) {}, 5, time.Time{}},
		{"out of contact, with an older order", func(*sessions) {}, 4, at(40)},
		{"out of contact since the start of the agent", func(s *sessions) { s.ordered, s.lostSince = nil, at(3) }, 5, at(3)},
		{"out of contact, and no node was Ready", func(s *sessions) { s.noteNoNodes(at(58)) }, 5, at(58)},
		{"no node was Ready while the hub was in contact",
			func(s *sessions) { s.session.phase, s.contact = open, at(55); s.noteNoNodes(at(58)) }, 5, time.Time{}},
		{"the agent was suspended", func(s *sessions) { s.looked = at(44) }, 5, at(60)},
		{"the hub is back and has not answered",
			func(s *sessions) { s.session.phase, s.contact = announced, at(55) }, 5, at(40)},
		{"the hub's API server is back without its controllers",
			func(s *sessions) { s.session.phase, s.session.since, s.contact = announced, at(19), at(55) }, 5, time.Time{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := cutOff()
			tc.change(s)
			if got := s.unconfirmedSince(key, tc.sequence, at(60)); !got.Equal(tc.want) {
				t.Errorf("unconfirmed since %v, want %v", got, tc.want)
			}
		})
	}
}

// TestFencedMemberCreatesNoPodOfMovedOrdinals checks that no two members run one ordinal, over random interleavings of
// lost links, restarts, suspensions, stopped machines, lost pods, delayed writes and confirmations.
func TestFencedMemberCreatesNoPodOfMovedOrdinals(t *testing.T) {
	fenced, repaired := 0, 0
	for seed := range uint64(1000) {
		m := newFenceModel(seed)
		if err := m.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		fenced, repaired = fenced+m.fences, repaired+m.repairsCutOff
	}
	if fenced < 300 || repaired < 300 {
		t.Errorf("%d fences, %d pods created again without contact: the model tests little", fenced, repaired)
	}
}

// TestFenceModelNoticesMissingRules checks that each rule of the gate is needed.
func TestFenceModelNoticesMissingRules(t *testing.T) {
	for _, tc := range []struct {
		name   string
		seed   uint64 // the first that notices it, to be quick
		change func(*fenceModel)
	}{
		{"no gate", 0, func(m *fenceModel) { m.without.gate = true }},
		{"restarts count for nothing", 0, func(m *fenceModel) { m.without.restarts = true }},
		{"suspensions count for nothing", 0, func(m *fenceModel) { m.without.suspensions = true }},
		{"stopped nodes count for nothing", 13_242, func(m *fenceModel) { m.without.nodes = true }},
		{"any Ready pod counts as evidence", 5_644, func(m *fenceModel) { m.without.lag = true }},
		{"orders are written in any order", 11_667, func(m *fenceModel) { m.without.orderOfWrites = true }},
		{"sessions are answered at once", 0, func(m *fenceModel) { m.without.orderOfAnswers = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(20_000) {
				m := newFenceModel(tc.seed + seed)
				tc.change(m)
				if m.run() != nil {
					return
				}
			}
			t.Error("no interleaving breaks it")
		})
	}
}

// fenceModel is a hub with the members a, which is fenced, and b, which gets the ordinals of a. The member a has the
// real sessions and the real rule; all else is as small as it can be. One step is one second.
type fenceModel struct {
	random *rand.Rand
	now    time.Time
	story  []string

	// The hub.
	member    topology.MemberCluster
	lease     time.Time
	decided   []int32 // ordinals of a, as decided
	sequence  int64   // of the decision
	written   fenceOrder
	takenOver []int32 // ordinals of b, as decided
	b         []int32 // ordinals of b, whose pods exist
	writeA    time.Time
	writeB    time.Time
	hubUp     bool

	// The member a.
	link      bool
	machines  bool // its nodes run
	stopped   time.Time
	agent     *sessions
	suspended bool
	order     fenceOrder
	pods      map[int32]*corev1.Pod

	fences, repairsCutOff int
	without               struct {
		gate, restarts, suspensions, nodes, lag, orderOfWrites, orderOfAnswers bool
	}
}

type fenceOrder struct {
	sequence int64
	ordinals []int32
}

const fenceKey = "StatefulSet/shop/db"

func newFenceModel(seed uint64) *fenceModel {
	first := fenceOrder{sequence: 1, ordinals: []int32{0, 1, 2}}
	m := &fenceModel{
		random: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1_000_000, 0),
		decided: first.ordinals, sequence: 1, written: first, hubUp: true, link: true, machines: true, order: first,
		pods: map[int32]*corev1.Pod{},
	}
	m.member.UID, m.lease = types.UID("a"), m.now
	m.startAgent()
	return m
}

func (m *fenceModel) note(format string, args ...any) {
	if !testing.Verbose() {
		return
	}
	m.story = append(m.story, fmt.Sprintf("%d: ", m.now.Unix()-1_000_000)+fmt.Sprintf(format, args...))
}

func (m *fenceModel) run() error {
	for range 900 {
		m.now = m.now.Add(time.Second)
		m.disturb()
		if m.hubUp {
			m.hub()
		}
		if m.agent != nil && !m.suspended {
			m.session()
			m.control()
		}
		for _, ordinal := range m.b {
			if m.pods[ordinal] != nil {
				return fmt.Errorf("both members run ordinal %d: %v", ordinal, m.story[max(0, len(m.story)-25):])
			}
		}
	}
	return nil
}

// disturb lets something happen outside of Flotilla.
func (m *fenceModel) disturb() {
	chance := func(n int) bool { return m.random.IntN(n) == 0 }
	switch {
	case chance(60):
		m.link = !m.link
		m.note("link %t", m.link)
	case chance(150):
		m.hubUp = !m.hubUp
		m.note("hub %t", m.hubUp)
	case m.machines && chance(150):
		// All machines stop. The member's API server runs on, and what runs of the agent may run beside it. The node
		// controller removes the pods in time, before anyone confirms the loss.
		m.machines, m.stopped, m.pods = false, m.now, map[int32]*corev1.Pod{}
		switch m.random.IntN(3) {
		case 0:
			m.agent = nil
		case 1:
			m.suspended = true
		}
		m.note("machines off, agent %t, suspended %t", m.agent != nil, m.suspended)
	case !m.machines && chance(100):
		m.machines, m.suspended = true, false
		m.note("machines on")
		if m.agent == nil {
			m.startAgent()
		}
	case m.machines && chance(140):
		m.startAgent()
	case m.machines && len(m.pods) > 0 && chance(40):
		for ordinal := range m.pods {
			delete(m.pods, ordinal)
			m.note("pod %d is gone", ordinal)
			break
		}
	}
}

// startAgent starts the agent anew: all that it remembers is in the member's API server.
func (m *fenceModel) startAgent() {
	m.note("agent starts")
	m.agent = &sessions{changed: make(chan struct{}, 1), lostSince: m.now}
	if m.without.restarts {
		m.agent.lostSince = time.Time{}
	}
}

// hub renews what it knows of the member, decides, and writes orders with a delay.
func (m *fenceModel) hub() {
	silent := m.now.Sub(m.lease) > contactExpires
	stopped := !m.machines && m.now.Sub(m.stopped) > pauseTolerated && len(m.pods) == 0
	if silent && stopped && len(m.decided) > 0 && m.random.IntN(5) == 0 {
		m.note("fenced")
		m.fences++
		m.takenOver, m.decided = append(m.takenOver, m.decided...), nil
		m.sequence++
		m.writeA = m.now.Add(time.Duration(m.random.IntN(30)) * time.Second)
		m.writeB = m.now.Add(time.Duration(m.random.IntN(30)) * time.Second)
	}
	behind := m.written.sequence < m.sequence
	if behind && !m.now.Before(m.writeA) {
		m.note("order %d of a is written", m.sequence)
		m.written, behind = fenceOrder{m.sequence, m.decided}, false
	}
	if (!behind || m.without.orderOfWrites) && !m.now.Before(m.writeB) {
		m.b = m.takenOver
	}
	if !behind || m.without.orderOfAnswers {
		m.member.Spec.AcknowledgedSession = m.member.Status.Session
	}
	// A member that is back gets ordinals of its own in time.
	if !silent && len(m.decided) == 0 && len(m.b) == len(m.takenOver) && m.random.IntN(10) == 0 {
		m.decided = []int32{int32(1000 * m.sequence), int32(1000*m.sequence + 1)}
		m.sequence++
		m.writeA = m.now
	}
}

// session carries on the session, as runSession does.
func (m *fenceModel) session() {
	a := m.agent
	if m.without.suspensions {
		a.looked = m.now
	}
	if !m.machines && !m.without.nodes {
		a.noteNoNodes(m.now)
	}
	var member *topology.MemberCluster
	if !a.contact.IsZero() || m.link {
		member = &m.member
	}
	if m.link && m.random.IntN(5) == 0 {
		a.touched(m.now)
		m.lease = m.now
	}
	switch before, after := a.advance(m.now, member, nil); {
	case after.phase == before.phase:
	case after.phase == announced && m.link:
		m.member.Status.Session, a.session = after.number, after
	case after.phase == open && m.link:
		m.note("session %d is open", after.number)
		a.session, a.lostSince = after, time.Time{}
		a.ordered = map[string]int64{fenceKey: m.written.sequence}
		a.touched(m.now)
	}
	if a.session.phase == open && a.fresh(m.now) && m.link && m.random.IntN(3) == 0 {
		m.order = m.written
	}
}

// control brings the pods to the order, as the controller of StatefulSets does.
func (m *fenceModel) control() {
	for ordinal := range m.pods {
		if !slices.Contains(m.order.ordinals, ordinal) {
			delete(m.pods, ordinal)
		}
	}
	m.agent.mu.Lock()
	since := m.agent.unconfirmedSince(fenceKey, m.order.sequence, m.now)
	m.agent.mu.Unlock()
	if !since.IsZero() && !m.without.gate && !m.ranThroughout(since) {
		return
	}
	for _, ordinal := range m.order.ordinals {
		if m.pods[ordinal] == nil {
			m.note("pod %d is created", ordinal)
			if m.now.Sub(m.agent.contact) > contactExpires {
				m.repairsCutOff++
			}
			m.pods[ordinal] = &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(m.now)}}}}
		}
	}
}

func (m *fenceModel) ranThroughout(since time.Time) bool {
	pods := make([]*corev1.Pod, 0, len(m.pods))
	for _, pod := range m.pods {
		pods = append(pods, pod)
	}
	return podstate.RanThroughout(pods, since, m.now) || m.without.lag && len(pods) > 0
}
