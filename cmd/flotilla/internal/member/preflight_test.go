package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/member-agent/link/credential"
)

func TestObstacles(t *testing.T) {
	member := func(name, pinned, told string) topology.MemberCluster {
		m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Spec.ClusterID, m.Status.ClusterID = pinned, told
		return m
	}
	for _, tc := range []struct {
		name   string
		change func(*surroundings)
		says   []string
	}{
		{"nothing is in the way", func(*surroundings) {}, nil},
		{"other members are not", func(s *surroundings) {
			s.members = []topology.MemberCluster{member("west", "id-west",
				"id-west")}
		}, nil},
		{"nor is the name, reserved by a token", func(s *surroundings) {
			s.members = []topology.MemberCluster{member("east",
				"", "")}
		}, nil},
		{"nor is the member itself", func(s *surroundings) {
			s.members = []topology.MemberCluster{member("east", "id-east",
				"id-east")}
		}, nil},
		{"the hub is too old", func(s *surroundings) { s.hubVersion = "v1.29.4" },
			[]string{"the hub runs Kubernetes v1.29.4", "1.30 or newer"}},
		{"the cluster is too old", func(s *surroundings) { s.memberVersion = "v1.27.0+k3s1" },
			[]string{"the cluster that joins runs Kubernetes v1.27.0+k3s1"}},
		{"it is the hub", func(s *surroundings) { s.memberID = s.hubID },
			[]string{"the hub cannot be its own member", "id-hub"}},
		{"the hub has no CRDs", func(s *surroundings) { s.noCRDs = true }, []string{"install Flotilla there"}},
		{"the name is taken", func(s *surroundings) { s.members = []topology.MemberCluster{member("east", "id-other", "")} },
			[]string{"the name east is taken by the cluster id-other", "flotilla leave east"}},
		{"the name is taken, not accepted yet", func(s *surroundings) {
			s.members = []topology.MemberCluster{member("east",
				"", "id-other")}
		}, []string{"the name east is taken"}},
		{"the cluster has another name", func(s *surroundings) {
			s.members = []topology.MemberCluster{member("osten",
				"id-east", "")}
		}, []string{"is the member osten already"}},
		{"the name goes", func(s *surroundings) {
			m := member("east", "id-east", "")
			m.DeletionTimestamp = new(metav1.Now())
			s.members = []topology.MemberCluster{m}
		}, []string{"is being deleted: wait"}},
		{"rights lack", func(s *surroundings) { s.forbidden = []string{"you may not create secrets"} },
			[]string{"you may not create secrets"}},
		{"all at once are told", func(s *surroundings) { s.memberID, s.noCRDs, s.hubVersion = s.hubID, true, "none" },
			[]string{"own member", "install Flotilla", "Kubernetes none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &surroundings{name: "east", hubVersion: "v1.36.3", memberVersion: "v1.30.0", hubID: "id-hub",
				memberID: "id-east"}
			tc.change(s)
			got := strings.Join(s.obstacles(), "\n")
			if (got == "") != (tc.says == nil) {
				t.Fatalf("it says %q", got)
			}
			for _, want := range tc.says {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"east": true, "e-1": true, "": false, "East": false, "-e": false, "a.b": false,
		strings.Repeat("x", 52): true, strings.Repeat("x", 53): false} {
		if err := checkName(name); (err == nil) != ok || err != nil && !errors.Is(err, console.ErrUsage) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

// TestMoved holds what a person is told who joins a cluster again whose agent runs: it reads name and address of the
// hub when it starts.
func TestMoved(t *testing.T) {
	now := credential.Join{Name: "east", UID: "2", Server: "https://hub.example.org:6443", CA: "ca", Token: "new"}
	for what, tc := range map[string]struct {
		before *credential.Join
		says   []string
	}{
		"the first join": {nil, nil},
		"only another token": {&credential.Join{Name: "east", UID: "1", Server: "https://hub.example.org:6443", CA: "ca",
			Token: "old"}, nil},
		"another address": {&credential.Join{Name: "east", Server: "https://10.0.0.1:6443", CA: "ca"},
			[]string{"the hub https://hub.example.org:6443, not https://10.0.0.1:6443",
				"rollout restart deployment/flotilla-agent"}},
		"another authority": {&credential.Join{Name: "east", Server: now.Server, CA: "old"},
			[]string{"another authority of the hub"}},
		"another name": {&credential.Join{Name: "osten", Server: now.Server, CA: "ca"},
			[]string{"the name east, not osten", "restart it"}},
	} {
		t.Run(what, func(t *testing.T) {
			got := (&surroundings{joined: tc.before}).moved(&now)
			if (got == "") != (tc.says == nil) {
				t.Errorf("it says %q", got)
			}
			for _, want := range tc.says {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}

// TestNext holds what join prints: the next commands with their values, and none to a member that takes part already.
func TestNext(t *testing.T) {
	o := &joinOptions{hubContext: "hub"}
	join := &credential.Join{Name: "east", Server: "https://hub.example.org:6443", Expires: time.Now()}
	ready := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	ready.Spec.Accepted, ready.Spec.KeyFingerprint = true, "sha256:1"
	ready.Status.Conditions = []metav1.Condition{{Type: topology.MemberReady, Status: metav1.ConditionTrue}}
	for _, tc := range []struct {
		found     *surroundings
		says, not string
	}{
		{&surroundings{name: "east"}, "flotilla accept east --fingerprint sha256:1 --wait --context hub",
			"takes part already"},
		{&surroundings{name: "east", members: []topology.MemberCluster{ready}},
			"east takes part already; its agent has a new token", "flotilla accept"},
	} {
		out := &strings.Builder{}
		if err := o.next(out, tc.found, join, "sha256:1"); err != nil || !strings.Contains(out.String(), tc.says) ||
			strings.Contains(out.String(), tc.not) {
			t.Errorf("it says %q (%v), want %q and not %q", out, err, tc.says, tc.not)
		}
	}
}
