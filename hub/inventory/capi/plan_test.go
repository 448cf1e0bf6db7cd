package capi

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// now is when tests are.
func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// eastern are the facts of a Cluster site/east, with members.
func eastern(annotations map[string]string, members ...topology.MemberCluster) *facts {
	return &facts{
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "east",
			Labels: map[string]string{topology.LabelJoin: "true"}, Annotations: annotations}},
		members: members, hubID: "hub-id", now: now(),
	}
}

// made returns a member that was made for the Cluster; "" for a person.
func made(name, of string, change ...func(*topology.MemberCluster)) topology.MemberCluster {
	m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-member"}}
	if of != "" {
		m.Annotations = map[string]string{topology.AnnotationClusterAPI: of}
	}
	for _, c := range change {
		c(&m)
	}
	return m
}

func pinned(id string) func(*topology.MemberCluster) {
	return func(m *topology.MemberCluster) {
		m.Spec.Accepted, m.Spec.ClusterID, m.Spec.KeyFingerprint = true, id, "sha256:1"
	}
}

func ready(status metav1.ConditionStatus) func(*topology.MemberCluster) {
	return func(m *topology.MemberCluster) {
		m.Status.Conditions = append(m.Status.Conditions,
			metav1.Condition{Type: topology.MemberReady, Status: status, LastTransitionTime: metav1.NewTime(now())})
	}
}

func TestNameObstacle(t *testing.T) {
	for _, test := range []struct {
		name   string
		f      *facts
		reason string
		says   []string
	}{
		{"free", eastern(nil), "", nil},
		{"its own", eastern(nil, made("east", "site/east")), "", nil},
		{"another member", eastern(nil, made("west", "")), "", nil},
		{"a person's", eastern(nil, made("east", "")), topology.ReasonNameTaken,
			[]string{"the member east was made by somebody else", "flotilla leave east"}},
		{"another Cluster's", eastern(nil, made("east", "lab/east")), topology.ReasonNameTaken,
			[]string{"the Cluster lab/east", topology.AnnotationMemberName}},
		{"being deleted", eastern(nil, made("east", "site/east",
			func(m *topology.MemberCluster) { m.DeletionTimestamp = new(metav1.NewTime(now())) })), topology.ReasonNameTaken,
			[]string{"is being deleted"}},
		{"a wish that is free", eastern(map[string]string{topology.AnnotationMemberName: "eu-1"}, made("east", "")), "", nil},
		{"a wish that is taken", eastern(map[string]string{topology.AnnotationMemberName: "eu-1"}, made("eu-1", "")),
			topology.ReasonNameTaken, []string{"the member eu-1"}},
		{"a wish that came later", eastern(map[string]string{topology.AnnotationMemberName: "eu-1",
			topology.AnnotationJoinedAs: "east"}, made("eu-1", ""), made("east", "site/east")), "", nil},
		{"somebody else was faster", eastern(map[string]string{topology.AnnotationJoinedAs: "east"}, made("east", "")),
			topology.ReasonNameTaken, []string{"the member east"}},
		{"somebody else was faster, and there is a wish",
			eastern(map[string]string{topology.AnnotationMemberName: "eu-1", topology.AnnotationJoinedAs: "east"},
				made("east", "")), "", nil},
		{"a wish that is no name", eastern(map[string]string{topology.AnnotationMemberName: "a.b"}),
			topology.ReasonNameInvalid, []string{`"a.b"`, "at most 52"}},
		{"a wish that is too long", eastern(map[string]string{topology.AnnotationMemberName: strings.Repeat("a", 53)}),
			topology.ReasonNameInvalid, []string{"aaa"}},
	} {
		t.Run(test.name, func(t *testing.T) { expect(t, test.f.nameObstacle(), test.reason, test.says) })
	}
}

// expect holds what a verdict says; an empty reason means that there is none.
func expect(t *testing.T, v *verdict, reason string, says []string) {
	t.Helper()
	if v == nil || reason == "" {
		if v != nil || reason != "" {
			t.Fatalf("it is %+v, want the reason %q", v, reason)
		}
		return
	}
	if v.reason != reason {
		t.Errorf("the reason is %s, want %s", v.reason, reason)
	}
	for _, want := range says {
		if !strings.Contains(v.message, want) {
			t.Errorf("%q does not say %q", v.message, want)
		}
	}
}

func TestIDObstacle(t *testing.T) {
	for _, test := range []struct {
		name   string
		f      *facts
		id     string
		reason string
		says   []string
	}{
		{"new", eastern(nil), "id", "", nil},
		{"as it is pinned", eastern(nil, made("east", "site/east", pinned("id"))), "id", "", nil},
		{"the hub", eastern(nil), "hub-id", topology.ReasonClusterRefused, []string{"the hub's own", topology.LabelJoin}},
		{"another member", eastern(nil, made("west", "", pinned("id"))), "id", topology.ReasonClusterRefused,
			[]string{"the member west already", "flotilla leave west"}},
		{"another member that was not accepted", eastern(nil,
			made("west", "", func(m *topology.MemberCluster) { m.Status.ClusterID = "id" })), "id",
			topology.ReasonClusterRefused, []string{"west"}},
		{"built anew", eastern(nil, made("east", "site/east", pinned("old"))), "id", topology.ReasonClusterRefused,
			[]string{"the cluster old", "leads to the cluster id", "flotilla leave east"}},
	} {
		t.Run(test.name, func(t *testing.T) { expect(t, test.f.idObstacle(test.id), test.reason, test.says) })
	}
}

func TestCarried(t *testing.T) {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		"team": "payments", "example.org/tier": "1", corev1.LabelTopologyRegion: "eu", topology.LabelJoin: "true",
		clusterv1.ClusterNameLabel: "east", "topology.cluster.x-k8s.io/owned": "", "app.kubernetes.io/managed-by": "Helm",
		"notkubernetes.io/a": "b",
	}}}
	want := map[string]string{"team": "payments", "example.org/tier": "1", corev1.LabelTopologyRegion: "eu",
		"notkubernetes.io/a": "b"}
	if diff := cmp.Diff(want, carried(c)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNeedsJoin(t *testing.T) {
	const server, ca = "https://hub", "authority"
	has := func(change func(*Sight)) *Sight {
		s := &Sight{Fingerprint: "sha256:1", Join: &Join{UID: "uid-of-member", Server: server, CA: ca,
			Expires: now().Add(-time.Hour)}}
		change(s)
		return s
	}
	isReady, isNot := made("east", "site/east", ready(metav1.ConditionTrue)),
		made("east", "site/east", ready(metav1.ConditionFalse))
	for _, test := range []struct {
		name   string
		sight  *Sight
		member topology.MemberCluster
		want   bool
	}{
		{"Ready with a token that is over", has(func(*Sight) {}), isReady, false},
		{"nothing there", has(func(s *Sight) { s.Join = nil }), isReady, true},
		{"no key", has(func(s *Sight) { s.Fingerprint = "" }), isReady, true},
		{"for an earlier member of the name", has(func(s *Sight) { s.Join.UID = "old" }), isReady, true},
		{"another address of the hub", has(func(s *Sight) { s.Join.Server = "https://old" }), isReady, true},
		{"another authority", has(func(s *Sight) { s.Join.CA = "" }), isReady, true},
		{"not heard of, with a token", has(func(s *Sight) { s.Join.Expires = now().Add(time.Second) }), isNot, false},
		{"not heard of, without", has(func(*Sight) {}), isNot, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := eastern(nil).needsJoin(test.sight, &test.member, server, ca); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

func TestMayPin(t *testing.T) {
	for _, test := range []struct {
		name        string
		member      topology.MemberCluster
		fingerprint string
		want        bool
	}{
		{"first", made("east", "site/east"), "sha256:1", true},
		{"the same", made("east", "site/east", pinned("id")), "sha256:1", false},
		{"a new key", made("east", "site/east", pinned("id")), "sha256:2", true},
		{"taken back by a person", made("east", "site/east", pinned("id"),
			func(m *topology.MemberCluster) { m.Spec.Accepted = false }), "sha256:2", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := mayPin(&test.member, test.fingerprint); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

func TestStanding(t *testing.T) {
	zoned := func(m *topology.MemberCluster) {
		m.Status.Zones = []topology.Zone{{Name: "a", Nodes: 2}, {Name: "b"}}
	}
	for _, test := range []struct {
		name    string
		domains []string
		wish    string
		member  topology.MemberCluster
		joined  bool
		reason  string
		says    []string
	}{
		{"Ready", []string{"a"}, "", made("east", "site/east", pinned("id"), ready(metav1.ConditionTrue), zoned), true,
			topology.ReasonMemberJoined, []string{"it is the member east, which is Ready"}},
		{"without nodes in some", []string{"c", "b", "a"}, "",
			made("east", "site/east", pinned("id"), ready(metav1.ConditionTrue), zoned), true, topology.ReasonMemberJoined,
			[]string{"no node is in the failure domains b, c"}},
		{"with another wish", nil, "eu-1", made("east", "site/east", pinned("id"), ready(metav1.ConditionTrue)), true,
			topology.ReasonMemberJoined, []string{"to name it eu-1"}},
		{"not heard of", nil, "", made("east", "site/east", pinned("id"), ready(metav1.ConditionFalse)), false,
			topology.ReasonAgentStarting, []string{"flotilla-agent"}},
		{"never heard of", nil, "", made("east", "site/east", pinned("id")), false, topology.ReasonAgentStarting, nil},
		{"taken back", nil, "", made("east", "site/east", ready(metav1.ConditionTrue)), false, topology.ReasonMemberDismissed,
			[]string{"accepted no longer"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := eastern(map[string]string{topology.AnnotationJoinedAs: "east", topology.AnnotationMemberName: test.wish})
			for _, domain := range test.domains {
				f.cluster.Status.FailureDomains = append(f.cluster.Status.FailureDomains, clusterv1.FailureDomain{Name: domain})
			}
			v := f.standing(&test.member)
			expect(t, v, test.reason, test.says)
			if v.joined != test.joined {
				t.Errorf("joined is %t", v.joined)
			}
		})
	}
}

// TestAfter holds that attempts on a Cluster with trouble become as rare as the trouble is old, and no rarer than once
// a minute.
func TestAfter(t *testing.T) {
	r := &Reconciler{}
	bad := told(topology.ReasonKubeconfigInvalid, "")
	f := eastern(nil)
	if got := r.after(f, bad); got != firstRetry {
		t.Errorf("the second attempt comes after %s", got)
	}
	for since, want := range map[time.Duration]time.Duration{0: firstRetry, 7 * time.Second: 7 * time.Second,
		40 * time.Second: 40 * time.Second, time.Hour: lastRetry} {
		f.cluster.Status.Conditions = []metav1.Condition{{Type: topology.ClusterJoined, Status: metav1.ConditionFalse,
			LastTransitionTime: metav1.NewTime(now().Add(-since))}}
		if got := r.after(f, bad); got != want {
			t.Errorf("after %s of trouble the next attempt comes in %s, want %s", since, got, want)
		}
	}
	if got := r.after(f, &verdict{joined: true, reason: topology.ReasonMemberJoined}); got != lookAfter {
		t.Errorf("a member that is well is looked at after %s", got)
	}
}

func TestTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{"45m": 45 * time.Minute, "0s": 0, "soon": time.Hour,
		"-1m": time.Hour} {
		got, remark := eastern(map[string]string{topology.AnnotationDrainTimeout: text}).timeout(time.Hour)
		if got != want || (remark != "") != (want == time.Hour) {
			t.Errorf("%q is %s with the remark %q, want %s", text, got, remark, want)
		}
	}
	if got, remark := eastern(nil).timeout(time.Hour); got != time.Hour || remark != "" {
		t.Errorf("nothing said is %s, %q", got, remark)
	}
}

func TestRemains(t *testing.T) {
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "api"}
	if got, want := (&remains{by: []kinds.Pods{{Key: key, Count: 3}}, pods: 3}).sentence(),
		"3 pods are left to move elsewhere (CloneSet shop/api: 3)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&remains{placements: 2}).sentence(); !strings.Contains(got, "2 workloads have replicas there") {
		t.Errorf("%q", got)
	}
}
