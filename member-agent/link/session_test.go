package link

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// look is one look at the hub, and what the session is after it.
type look struct {
	what     string
	at       time.Duration
	contact  time.Duration // before now; negative: none was ever
	member   *topology.MemberCluster
	reported bool
	want     phase
	number   int64
}

// opened is a session that begins and is answered.
func opened(member func(uid types.UID, session, acknowledged int64) *topology.MemberCluster) []look {
	return []look{
		{"begin", 0, 0, member("a", 0, 0), true, reporting, 0},
		{"announce", time.Second, 0, member("a", 0, 0), true, announced, 1},
		{"answer", 2 * time.Second, 0, member("a", 1, 1), true, open, 1},
	}
}

func TestNumberAfter(t *testing.T) {
	for _, tc := range []struct{ session, acknowledged, want int64 }{
		{0, 0, 1}, {4, 4, 5}, {2, 7, 8}, {-5, -5, 1}, {mostSession, 3, 1}, {1<<63 - 1, 1, 2}, {1, 1<<63 - 1, 2},
	} {
		m := &topology.MemberCluster{}
		m.Status.Session, m.Spec.AcknowledgedSession = tc.session, tc.acknowledged
		if got := numberAfter(m); got != tc.want {
			t.Errorf("after session %d and acknowledged %d comes %d, want %d", tc.session, tc.acknowledged, got, tc.want)
		}
	}
}

// TestSession tells what a session goes through, one look after the other.
func TestSession(t *testing.T) {
	start := time.Unix(1000, 0)
	member := func(uid types.UID, session, acknowledged int64) *topology.MemberCluster {
		m := &topology.MemberCluster{}
		m.UID, m.Status.Session, m.Spec.AcknowledgedSession = uid, session, acknowledged
		return m
	}
	none := -time.Second
	cases := []struct {
		name  string
		looks []look
	}{
		{"a start", []look{
			{"the hub was not heard", 0, none, nil, false, closed, 0},
			{"it means us, and no Lease was renewed yet", time.Second, none, member("a", 4, 4), false, closed, 0},
			{"the Lease was renewed", 2 * time.Second, 0, member("a", 4, 4), false, reporting, 0},
			{"not all is reported", 3 * time.Second, 0, member("a", 4, 4), false, reporting, 0},
			{"all is", 4 * time.Second, 0, member("a", 4, 4), true, announced, 5},
			{"the cache has not seen it", 5 * time.Second, 0, member("a", 4, 4), true, announced, 5},
			{"the hub has not answered", 6 * time.Second, 0, member("a", 5, 4), true, announced, 5},
			{"it has", 7 * time.Second, 0, member("a", 5, 5), true, open, 5},
			{"and stays", time.Minute, 10 * time.Second, member("a", 5, 5), true, open, 5},
		}},
		{"a report that cannot be sent holds nothing up for ever", []look{
			{"", 0, 0, member("a", 0, 0), false, reporting, 0},
			{"", reportPatience, 0, member("a", 0, 0), false, reporting, 0},
			{"", reportPatience + time.Second, 0, member("a", 0, 0), false, announced, 1},
		}},
		{"a loss of contact", append(opened(member),
			look{"40 s are not one", 60 * time.Second, contactExpires, member("a", 1, 1), true, open, 1},
			look{"more are", 61 * time.Second, contactExpires + time.Second, member("a", 1, 1), true, closed, 1},
			look{"still", 62 * time.Second, contactExpires + 2*time.Second, member("a", 1, 1), true, closed, 1},
			look{"the hub is back", 100 * time.Second, 0, member("a", 1, 1), true, reporting, 1},
			look{"and reported to", 101 * time.Second, 0, member("a", 1, 1), true, announced, 2},
			look{"an answer to the last session is none to this", 102 * time.Second, 0, member("a", 2, 1), true, announced, 2},
			look{"this is", 103 * time.Second, 0, member("a", 2, 2), true, open, 2},
		)},
		{"a hub that was restored from a backup has forgotten the number", append(opened(member),
			look{"", 10 * time.Second, 0, member("a", 0, 0), true, closed, 1},
			look{"", 11 * time.Second, 0, member("a", 0, 0), true, reporting, 1},
			look{"", 12 * time.Second, 0, member("a", 0, 0), true, announced, 1},
		)},
		{"a MemberCluster that was made anew", append(opened(member),
			look{"", 10 * time.Second, 0, member("b", 1, 1), true, closed, 1},
		)},
		{"the hub does not mean us any more", append(opened(member),
			look{"", 10 * time.Second, 0, nil, true, closed, 1},
		)},
		{"a number that never shows is written again", []look{
			{"", 0, 0, member("a", 0, 0), true, reporting, 0},
			{"", 1 * time.Second, 0, member("a", 0, 0), true, announced, 1},
			{"", 41 * time.Second, 0, member("a", 0, 0), true, announced, 1},
			{"", 42 * time.Second, 0, member("a", 0, 0), true, closed, 1},
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := session{}
			for i, l := range tc.looks {
				now := start.Add(l.at)
				f := observed{now: now, member: l.member, reported: l.reported}
				if l.contact >= 0 {
					f.contact = now.Add(-l.contact)
				}
				if s = s.next(f); s.phase != l.want || s.number != l.number {
					t.Fatalf("look %d (%s): phase %d, number %d, want %d and %d", i+1, l.what, s.phase, s.number, l.want, l.number)
				}
			}
		})
	}
}

// TestSessionsNameTheFormatsOfOrders announces sessions of agents of this version and of the version before in turns.
// The hub sends the new format in a session of this version alone.
func TestSessionsNameTheFormatsOfOrders(t *testing.T) {
	stored := []byte(`{}`)
	for _, step := range []struct {
		agent  string
		number int64
		reads  bool
	}{{"earlier", 1, false}, {"this", 2, true}, {"this", 3, true}, {"earlier", 4, false}, {"this", 5, true}} {
		patch, err := announcement(step.number)
		if step.agent == "earlier" {
			patch = fmt.Appendf(nil, `{"status":{"session":%d}}`, step.number)
		}
		if err == nil {
			stored, err = jsonpatch.MergePatch(stored, patch)
		}
		member := &topology.MemberCluster{}
		if err == nil {
			err = json.Unmarshal(stored, member)
		}
		if err != nil {
			t.Fatal(err)
		}
		if member.Status.Session != step.number || member.Status.Reads(topology.OrderFormatBudget) != step.reads {
			t.Errorf("session %d of the %s version: %s", step.number, step.agent, stored)
		}
	}
	if (&topology.MemberClusterStatus{Session: 5}).Reads(topology.OrderFormatBudget) {
		t.Error("a member that names no format, as one of Karmada, gets the new one")
	}
}
