package check

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func renewed(ago time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(now.Add(-ago))
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
}

func memberOf(name string, ready metav1.ConditionStatus, more ...metav1.Condition) topology.MemberCluster {
	m := topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topology.MemberClusterSpec{Accepted: true}}
	long := metav1.NewTime(now.Add(-time.Hour))
	m.Status.Conditions = append([]metav1.Condition{
		{Type: topology.MemberAccepted, Status: metav1.ConditionTrue},
		{Type: topology.MemberReady, Status: ready, Reason: "LeaseExpired", Message: name + " was not heard of",
			LastTransitionTime: long},
	}, more...)
	return m
}

// healthy are the facts of an installation where everything holds.
func healthy() *facts {
	return &facts{
		now: now, version: "v1.34.1", own: "v1.4.0",
		crds: []definition{{name: "clonesets.apps.kruise.io", served: true}},
		leases: map[string]*coordinationv1.Lease{"flotilla-hub": renewed(time.Second),
			"flotilla-approver": renewed(time.Second)},
		memberLeases: map[string]*coordinationv1.Lease{"east": renewed(9 * time.Second)},
		members:      []topology.MemberCluster{memberOf("east", metav1.ConditionTrue)},
		federated:    1, policies: map[string][]metav1.Condition{"FederationPolicy shop/all": nil},
		unread: map[string]error{},
	}
}

// found returns the lines of the checks that do not hold, as "outcome name: found".
func found(results []Result) []string {
	var lines []string
	for _, r := range results {
		if r.Outcome != passed {
			lines = append(lines, r.Outcome+" "+r.Name+": "+r.Found)
			if r.Hint == "" {
				lines = append(lines, "no hint")
			}
		}
	}
	return lines
}

func TestRunning(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(*facts)
		want   []string
	}{
		{"everything holds", func(*facts) {}, nil},
		{"Kubernetes is too old", func(f *facts) { f.version = "v1.29.3" },
			[]string{"error the API server answers and is 1.30 or newer: v1.29.3"}},
		{"a definition is not there", func(f *facts) { f.crds[0].served = false }, []string{
			"error the CustomResourceDefinitions are there, and as new as this program: not served: clonesets.apps.kruise.io",
		}},
		{"a definition is older", func(f *facts) { f.crds[0].lacks = "v1beta1.spec.paused" }, []string{
			"warning the CustomResourceDefinitions are there, and as new as this program: clonesets.apps.kruise.io has no " +
				"field v1beta1.spec.paused",
		}},
		{"nobody converts", func(f *facts) { f.conversion = "conversion webhook failed" },
			[]string{"warning objects of v1alpha1 are converted: conversion webhook failed"}},
		{"whether somebody converts cannot be asked", func(f *facts) { f.unread["conversion"] = errors.New("forbidden") },
			[]string{"skipped objects of v1alpha1 are converted: forbidden"}},
		{"the hub is down", func(f *facts) { f.leases["flotilla-hub"] = renewed(time.Hour) },
			[]string{"error a replica of flotilla-hub leads: its Lease is not renewed since 1h0m0s"}},
		{"the approver never ran", func(f *facts) { delete(f.leases, "flotilla-approver") },
			[]string{"warning a replica of flotilla-approver leads: it has no Lease"}},
		{"one pod of two is available", func(f *facts) {
			f.deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-hub"},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: appsv1.DeploymentStatus{AvailableReplicas: 1}}}
		}, []string{"warning the replicas of flotilla-hub are available: 1 of 2"}},
		{"there are no members", func(f *facts) { f.members = nil }, []string{"warning there are members: there are none"}},
		{"a member asks", func(f *facts) {
			f.members[0].Spec.Accepted = false
			f.asking = map[string]bool{"east": true}
		}, []string{"warning east takes part and is Ready: its agent asks to join"}},
		{"a member is not accepted, and who asks cannot be read", func(f *facts) {
			f.members[0].Spec.Accepted = false
			f.unread["requests"] = errors.New("forbidden")
		}, []string{"warning east takes part and is Ready: it is not accepted; whether its agent has asked cannot be read: " +
			"forbidden"}},
		{"Deployments cannot be read", func(f *facts) { f.unread["deployments"] = errors.New("forbidden") },
			[]string{"skipped the replicas of the programs are available: forbidden"}},
		{"a member was not heard of", func(f *facts) {
			f.members[0], f.memberLeases["east"] = memberOf("east", metav1.ConditionFalse), renewed(time.Hour)
		}, []string{"error east takes part and is Ready: east was not heard of"}},
		{"the hub does not see that a member is there", func(f *facts) {
			f.members[0] = memberOf("east",
				metav1.ConditionFalse)
		}, []string{
			"error east takes part and is Ready: its agent renews its Lease, and the hub has not seen it",
		}},
		{"the hub does not see that a member is gone", func(f *facts) { f.memberLeases["east"] = renewed(time.Hour) },
			[]string{
				"error east takes part and is Ready: its agent does not renew its Lease since 1h0m0s, and the hub still has it " +
					"for Ready",
			}},
		{"the hub has said nothing of a member", func(f *facts) { f.members[0].Status.Conditions = nil },
			[]string{"error east takes part and is Ready: it has no conditions"}},
		{"orphans", func(f *facts) {
			f.members[0] = memberOf("east", metav1.ConditionTrue,
				metav1.Condition{Type: topology.MemberOrphans, Status: metav1.ConditionTrue, Message: "2 objects"})
		}, []string{"warning east: Orphans: 2 objects"}},
		{"a clock is wrong", func(f *facts) {
			f.members[0] = memberOf("east", metav1.ConditionTrue,
				metav1.Condition{Type: topology.MemberClockInSync, Status: metav1.ConditionFalse, Message: "7m0s behind"})
			f.memberLeases["east"] = renewed(7 * time.Minute)
		}, []string{"warning east: ClockInSync: 7m0s behind"}},
		{"an agent of long ago", func(f *facts) { f.members[0].Status.AgentVersion = "v1.2.9" },
			[]string{"warning east runs an agent of the hub's time: its agent is v1.2.9, this program v1.4.0"}},
		{"an agent of the last version", func(f *facts) { f.members[0].Status.AgentVersion = "v1.3.9" }, nil},
		{"an agent of no release", func(f *facts) { f.members[0].Status.AgentVersion = "v0.0.0-gabc" }, nil},
		{"no policy", func(f *facts) { f.policies = nil },
			[]string{"warning there is a policy: 1 namespaces are federated, and nothing in them is placed"}},
		{"a policy does not hold, a workload stands still", func(f *facts) {
			f.policies["FederationPolicy shop/b"] = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse,
				Message: "no cluster", Reason: "NoCluster"}}
			f.stalled = map[string]string{"CloneSet shop/api": "InvalidTemplate: no containers"}
		}, []string{"warning FederationPolicy shop/b holds: no cluster",
			"warning CloneSet shop/api goes on: InvalidTemplate: no containers"}},
		{"workloads cannot be read", func(f *facts) { f.unread["workloads"] = errors.New("forbidden") },
			[]string{"skipped no workload stands still: forbidden"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := healthy()
			tc.change(f)
			if diff := cmp.Diff(tc.want, found(running(f))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInstalling(t *testing.T) {
	f := healthy()
	f.crds[0].served = false // it is about to be installed
	if got := found(installing(f)); got != nil {
		t.Errorf("found %v", got)
	}
	f.kruise, f.forbidden = true, []string{"create namespaces"}
	f.crds[0].lacks = "v1beta1.spec.paused"
	want := []string{"error you may create namespaces: the API server says no",
		"warning OpenKruise does not run here: its webhooks are there",
		"warning definitions of an earlier installation: clonesets.apps.kruise.io has no field v1beta1.spec.paused"}
	if diff := cmp.Diff(want, found(installing(f))); diff != "" {
		t.Error(diff)
	}
	f = healthy()
	f.unread["kruise"] = errors.New("forbidden")
	if diff := cmp.Diff([]string{"skipped OpenKruise does not run here: forbidden"}, found(installing(f))); diff != "" {
		t.Error(diff)
	}
}

func TestLacking(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		if got := lacking(crd, crd.DeepCopy()); got != "" {
			t.Errorf("%s lacks %s of itself", crd.GetName(), got)
		}
	}
	cloneSets := all[slices.IndexFunc(all, func(crd *unstructured.Unstructured) bool {
		return crd.GetName() == "clonesets.apps.kruise.io"
	})]
	old := cloneSets.DeepCopy()
	versions, _, _ := unstructured.NestedSlice(old.Object, "spec", "versions")
	first := versions[0].(map[string]any)
	unstructured.RemoveNestedField(first, "schema", "openAPIV3Schema", "properties", "spec", "properties",
		"minReadySeconds")
	if err := unstructured.SetNestedSlice(old.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if got, want := lacking(cloneSets, old), first["name"].(string)+".spec.minReadySeconds"; got != want {
		t.Errorf("it lacks %q, want %q", got, want)
	}
	_ = unstructured.SetNestedSlice(old.Object, versions[:1], "spec", "versions")
	if got := lacking(cloneSets, old); got == "" {
		t.Error("a version is missing, and that is not said")
	}
}

func TestWrite(t *testing.T) {
	var text strings.Builder
	err := write(&text, []Result{
		{Category: "kubernetes", Name: "it answers", Outcome: passed, Found: "v1.34.1"},
		{Category: "members", Name: "east is Ready", Outcome: failed, Found: "gone", Hint: "look"},
		{Category: "members", Name: "west is Ready", Outcome: warned},
	})
	want := "kubernetes\n+ it answers: v1.34.1\n\nmembers\nx east is Ready: gone\n    look\n! west is Ready\n\n3 " +
		"checks: 1 hold, 1 do not, 1 to look at, 0 not asked\n"
	if diff := cmp.Diff(want, text.String()); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
